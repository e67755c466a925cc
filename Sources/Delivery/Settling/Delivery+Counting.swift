import LiveActivity

/// Superseded commands without a result of their own (`kafka.supersededResults`). The command that replaces such a command counts it,
/// passes the count on when it is itself replaced, and reports the count in its result.
///
/// The older command's offset may be settled at once, since nobody needs to read that command again. The newer one was received and is
/// not settled, so it holds back the commit of its own partition. If this process dies, the next owner reads the newer one again, which
/// could only supersede the older one once more. The newer one ends in one of three ways: settled, then the older version is past;
/// dropped with its partition, then it is read again; counted itself, then a command of a still higher version counts both. The same
/// holds for alerts: a command with an alert is counted only if an alert of a higher version replaces it, not if the current command's
/// alert does. If the process dies, only the count is lost.
extension Delivery {
    /// Ends a command that a newer one replaces without carrying its alert: with a result, or counted by the newer one.
    /// - Returns: false if its slot is freed.
    mutating func endSuperseded(_ older: UInt32, by newer: UInt32, _ outcome: Outcome) -> Bool {
        guard outcome == .superseded, supersededCounting.isOn(isBacklogKnown: readAhead.isBacklogKnown),
            records[older].mayBeCounted,
            !records[older].hasAlert || records[records.alertSource(of: newer)].hasOwnAlert
        else {
            finish(older, outcome)
            return true
        }
        records[newer].superseded.add(commandWith: records[older].superseded)
        replaceRider(of: older, by: newer)
        return finishCounted(older)
    }

    private mutating func finishCounted(_ record: UInt32) -> Bool {
        precondition(records[record].settlement == nil)
        records.finish(record, .superseded)
        count(.superseded)
        countWithoutResult(of: record)
        guard records[record].trace.count == 0 else {
            produce(.trace, record)
            return true
        }
        acknowledged(record)
        return false
    }
}
