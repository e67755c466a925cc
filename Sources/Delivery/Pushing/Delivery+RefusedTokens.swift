import LiveActivity

/// Retires tokens that APNs refused. Updates and ends, except the ends of lifetimes, are held for the next token.
extension Delivery {
    /// Retires a token that APNs refused. If APNs names a time from which the token is dead, and the token was
    /// registered then or later, APNs may not know the registration yet. Then the push is retried later instead.
    ///
    /// A refused update or end is held with its alert. A refused start is not held, because Redis has already allowed
    /// it once. The end of a lifetime is not held either: its activity has usually ended, and if it has not,
    /// `LifetimeKeeper` makes the end again. (R17, R35)
    mutating func handleRefusedToken(_ record: UInt32, of activity: UInt32, _ result: PushResult, now: Moment) {
        guard records[record].noteRefusedToken(result, now: now) else {
            return retry(record, of: activity, .retryLater, isPermitted: result.isRetryPermitted, now: now)
        }
        activities[activity].forgetServiceFaults()
        produce(.invalidation, record)
        if records[record].isStart || records[record].isLifetimeEnd {
            // For the end of a lifetime, the settlement in Redis says whether the activity has already shown this end.
            // If the worker crashes and the end is read again, the next owner needs this.
            let slot = records.address(of: record)
            let isShown = slot.pointee.isLifetimeEnd && wasEndedByEarlierAttempt(slot)
            return finishCurrentCommand(record, .unregistered, settlement: isShown ? .accepted : .notShown, now: now)
        }
        activities.enter(.retiring, activity)
        queueStoreCall(.retire, record)
    }

    /// Holds the command for the activity's next token. Called only when Redis has handled the call that retires the
    /// dead token and Kafka has acknowledged the invalidation, because both need the dead token in the record's slot.
    /// If Redis replies `retry` to `hold`, the next admission writes another token into the slot.
    mutating func holdForNextToken(_ record: UInt32) {
        let activity = activity(ofCurrent: record, in: .retiring)
        records[record].tokenRefusal = .none
        records[record].hasOwnToken = false
        hold(record, of: activity)
    }
}
