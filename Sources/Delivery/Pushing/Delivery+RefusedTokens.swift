import LiveActivity

/// Retires tokens that APNs refused. Updates and ends, except the ends of lifetimes, are held for the next token.
extension Delivery {
    /// Retires a token that APNs refused. But if the token was registered at or after the time from which APNs calls it
    /// dead, perhaps APNs does not know this registration yet. Then the token stays, and the push is retried later.
    ///
    /// A refused update or end is held with its alert. A refused start is not held, because Redis has already allowed
    /// it once. The end of a lifetime is not held either: its activity has usually ended, and otherwise
    /// `LifetimeKeeper` makes the end again. (R17, R35)
    mutating func handleRefusedToken(
        _ record: RecordIndex,
        of activity: ActivityIndex,
        _ result: PushResult,
        now: Moment
    ) {
        guard records[record].planTokenRetirement(result, now: now) else {
            return retry(record, of: activity, .retryLater, isPermitted: result.isRetryPermitted, now: now)
        }
        activities[activity].resetServiceFaultCount()
        queueOutgoingRecord(.invalidation, record)
        if records[record].isStart || records[record].lifetime.isEnd {
            // If an earlier attempt probably ended the activity, and its response was lost, settle the end as
            // `accepted`. Suppose that the worker then dies, and the next owner reads the end again: Redis replies that
            // the phone has shown it, and the life leaves the timetable. With `notShown`, the life would stay there.
            let slot = records.address(of: record)
            let isShown = slot.pointee.lifetime.isEnd && wasEndedByEarlierAttempt(slot)
            return finishCurrentCommand(record, .unregistered, settlement: isShown ? .accepted : .notShown, now: now)
        }
        activities.enter(.retiringToken, activity)
        queueStoreCall(.retireToken, record)
    }

    /// Holds the command until the activity's next token registers. Called only when the call `retireToken` has ended
    /// and Kafka has acknowledged the invalidation: both read the dead token from the record's slot, and now the slot
    /// may get another token. It gets one if a token has registered meanwhile: Redis then replies `retry` to the call
    /// `hold`, and the command is admitted again.
    mutating func holdForNextToken(_ record: RecordIndex) {
        let activity = activityOfCurrentCommand(record, in: .retiringToken)
        records[record].push.tokenRetirementRule = .none
        records[record].token.mustBeRegistered = false
        hold(record, of: activity)
    }
}
