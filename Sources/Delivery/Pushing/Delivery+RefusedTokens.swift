import LiveActivity

/// Retires tokens that APNs refused. Updates and ends, except the ends of lifetimes, are held for the next token.
extension Delivery {
    /// Retires a token that APNs refused. If APNs names a time from which the token is dead, and the token was
    /// registered then or later, APNs may not know the registration yet. Then the push is retried later instead.
    ///
    /// A refused update or end is held with its alert. A refused start is not held, because Redis has already allowed
    /// it once. The end of a lifetime is not held either: its activity has usually ended, and if it has not,
    /// `LifetimeKeeper` makes the end again. (R17, R35)
    mutating func handleRefusedToken(
        _ record: RecordIndex,
        of activity: ActivityIndex,
        _ result: PushResult,
        now: Moment
    ) {
        guard records[record].noteRefusedToken(result, now: now) else {
            return retry(record, of: activity, .retryLater, isPermitted: result.isRetryPermitted, now: now)
        }
        activities[activity].resetServiceFaultCount()
        produce(.invalidation, record)
        if records[record].isStart || records[record].lifetime.isEnd {
            // An earlier attempt of this end may have ended the activity, although its response was lost. If so, settle
            // the end in Redis as shown. After a crash, the next owner reads the end again. Redis then replies that the
            // end was shown (`wasNotShown` is false), so the life leaves the timetable.
            let slot = records.address(of: record)
            let isShown = slot.pointee.lifetime.isEnd && wasEndedByEarlierAttempt(slot)
            return finishCurrentCommand(record, .unregistered, settlement: isShown ? .accepted : .notShown, now: now)
        }
        activities.enter(.retiringToken, activity)
        queueStoreCall(.retireToken, record)
    }

    /// Holds the command for the activity's next token. Called only when Redis has handled the call that retires the
    /// dead token and Kafka has acknowledged the invalidation, because both steps read the dead token from the record's
    /// slot. Afterwards the slot may get another token: if Redis replies `retry` to `hold`, the next admission writes
    /// it.
    mutating func holdForNextToken(_ record: RecordIndex) {
        let activity = activity(ofCurrent: record, in: .retiringToken)
        records[record].push.tokenRetirementRule = .none
        records[record].token.mustBeRegistered = false
        hold(record, of: activity)
    }
}
