import LiveActivity

/// Superseded commands without a result of their own (`kafka.supersededResults`): the one that takes the place of such a command
/// counts it, hands the count on when it is itself replaced, and says it in its result.
///
/// Why its offset may be settled at once, before anything of the newer command is: nobody needs to read it again. The newer one was
/// received, is not settled, and so holds back the commit of its own partition at its own offset, wherever that is: above (a backlog),
/// below (the older version was written later) or in another partition (the record key is not checked). Whatever becomes of this process,
/// the newer one is read again by whoever is next, and could only supersede the older once more. The newer one can end in three
/// ways: settled, then this version is past; given up with its partition, then it is read again; counted itself, then the same holds of
/// the one that counts it, whose version is higher still. An alert goes the same way: it is counted only where one of a higher version
/// is in its place, and not where one that is under way already makes it needless. Without a result there is thus nothing to wait for, and
/// with the process only the count is lost.
extension Delivery {
    /// Ends a command whose place a newer one takes, and which has no alert that goes on.
    ///
    /// - Returns: false if it is gone.
    mutating func giveWay(_ older: UInt32, to newer: UInt32, _ outcome: Outcome) -> Bool {
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
        precondition(records[record].settlement == .none)
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
