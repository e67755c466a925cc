import LiveActivity

/// Retires tokens that APNs refused. Updates and ends, except the ends of lifetimes, are held for the next token.
extension Delivery {
    /// Retires a token that APNs refused. The exception: the token was registered at or after the time from which APNs
    /// calls it dead. Perhaps APNs does not know this registration yet, so the push is retried later.
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
            // Perhaps an earlier attempt ended the activity, and its response was lost. Then settle the end as
            // `accepted`: if the worker dies and the next owner reads the end again, Redis replies that the phone has
            // shown it, and the life leaves the timetable. With `notShown`, the life would stay there.
            let slot = records.address(of: record)
            let isShown = slot.pointee.lifetime.isEnd && wasEndedByEarlierAttempt(slot)
            return finishCurrentCommand(record, .unregistered, settlement: isShown ? .accepted : .notShown, now: now)
        }
        activities.enter(.retiringToken, activity)
        queueStoreCall(.retireToken, record)
    }

    /// Holds the command for the activity's next token. Called after the call `retireToken` has ended, and after Kafka
    /// has acknowledged the invalidation, because both read the dead token from the record's slot. Afterwards the slot
    /// may get another token: if Redis replies `retry` to the call `hold`, the command is admitted again with a token
    /// that has registered meanwhile.
    mutating func holdForNextToken(_ record: RecordIndex) {
        let activity = activityOfCurrentCommand(record, in: .retiringToken)
        records[record].push.tokenRetirementRule = .none
        records[record].token.mustBeRegistered = false
        hold(record, of: activity)
    }
}
