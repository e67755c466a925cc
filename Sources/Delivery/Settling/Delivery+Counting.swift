import LiveActivity

/// Superseded commands without a result of their own (`kafka.supersededResults`): the one that takes the place of such a command
/// counts it, passes the count on when it is itself replaced, and reports it in its result.
///
/// Why the older one's offset may be settled at once, before the newer command is: nobody needs to read it again. The newer one was
/// received and is not settled, so it holds back the commit of its own partition at its own offset, wherever that is: above (a backlog),
/// below (the older version was written later) or in another partition (the record key is not checked). If this process dies, the next
/// owner reads the newer one again, and it could only supersede the older one once more. The newer one can end in three ways: settled,
/// then this version is past; dropped with its partition, then it is read again; counted itself, then the same is true of the command
/// that counts it, whose version is higher still. The same holds for alerts: a command with an alert is counted only where an alert of a
/// higher version replaces it, not where the current command's alert does. So without a result there is nothing to wait for, and if the
/// process dies only the count is lost.
extension Delivery {
    /// Ends a command that a newer one replaces without carrying its alert: with a result, or counted by the newer one.
    ///
    /// - Returns: false if its slot is freed.
    mutating func endSuperseded(_ older: UInt32, by newer: UInt32, _ outcome: Outcome) -> Bool {
        guard outcome == .superseded, supersededCounting.isOn(isBacklogKnown: readAhead.isBacklogKnown),
            records.address(of: older).pointee.mayBeCounted, isAlert(of: older, replacedBy: newer)
        else {
            finish(older, outcome)
            return true
        }
        records[newer].superseded.add(commandWith: records[older].superseded)
        replaceRider(of: older, by: newer)
        return finishCounted(older)
    }

    /// Whether the newer command's alert, or the one that it carries, is certainly newer, if the older one has any.
    private func isAlert(of older: UInt32, replacedBy newer: UInt32) -> Bool {
        guard records[older].hasAlert else { return true }
        let rider = records[newer].rider
        return records.address(of: rider == .max ? newer : rider).pointee.hasOwnAlert
    }

    private mutating func finishCounted(_ record: UInt32) -> Bool {
        precondition(records[record].settlement == nil)
        records.enter(.finished, record)
        records[record].outcome = .superseded
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
