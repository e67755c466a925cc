import LiveActivity

/// Superseded commands without a result of their own (`kafka.supersededResults`). The command that replaces such a command counts
/// it. If that command is itself replaced, it passes the count on. Its result reports the count.
///
/// The older command's offset may be settled at once, because nobody needs to read that command again. The newer command was
/// received and is not settled, so it holds back the commit of its own partition. If this process dies, the next owner reads the
/// newer command again, which could only supersede the older one once more. The newer command ends in one of three ways:
/// - It is settled. Then the older version is past.
/// - It is dropped with its partition. Then it is read again.
/// - It is counted itself. Then a command of a still higher version counts both.
///
/// The same holds for alerts: a command with an alert is counted only if an alert of a higher version replaces its alert, and not
/// if the current command's alert does (simulation `pace`, seeds 12038 and 73417). If the process dies, or the partition is
/// revoked, only the count is lost.
extension Delivery {
    /// Ends a command that a newer one replaces without carrying its alert. Either it gets a result, or the newer command counts
    /// it.
    /// - Returns: false if the older command's slot is freed.
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
