import LiveActivity

/// Superseded commands without a result of their own (`kafka.supersededResults`). The command that replaces
/// such a command counts it. A command that is itself replaced passes its count on. The count is reported in
/// the last command's result.
///
/// The older command's offset may be settled at once, because nobody needs to read that command again. The
/// newer command was received and is not settled, so the commit of its own partition cannot pass it. If this
/// process dies, the next owner reads the newer command again, and that command would supersede the older one
/// again. The newer command ends in one of three ways:
/// - It is settled. Then the older version can no longer be sent.
/// - It is dropped with its partition. Then it is read again.
/// - It is counted itself. Then a command with a still higher version counts both.
///
/// Alerts have the same rule: a command with an alert is counted only if an alert of a higher version
/// replaces its alert. An alert of the current command does not count as a replacement (simulation `pace`,
/// seeds 12038 and 73417: a superseded command with an alert had no result). If the process dies or the
/// partition is revoked, only the count is lost.
extension Delivery {
    /// Ends a command that a newer one replaces without carrying its alert. Either it gets a result, or the
    /// newer command counts it.
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
