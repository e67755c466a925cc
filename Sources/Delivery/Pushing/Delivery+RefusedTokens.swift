import LiveActivity

/// Retires tokens that APNs refused. Updates and ends, except the ends of lifetimes, are held for the next token.
extension Delivery {
    /// Retires a token that APNs refused. But if the token was registered at or after the time from which APNs calls it
    /// dead, APNs may not know the registration yet. Then the push is retried later instead.
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
        guard records[record].noteRefusedToken(result, now: now) else {
            return retry(record, of: activity, .retryLater, isPermitted: result.isRetryPermitted, now: now)
        }
        activities[activity].resetServiceFaultCount()
        produce(.invalidation, record)
        if records[record].isStart || records[record].lifetime.isEnd {
            // An earlier attempt of this end, whose response was lost, may have ended the activity. Then settle the end
            // as `accepted`: if the next owner reads the end again after a crash, Redis replies that the phone has
            // shown it, and the life leaves the timetable. With `notShown`, the life would stay there.
            let slot = records.address(of: record)
            let isShown = slot.pointee.lifetime.isEnd && wasEndedByEarlierAttempt(slot)
            return finishCurrentCommand(record, .unregistered, settlement: isShown ? .accepted : .notShown, now: now)
        }
        activities.enter(.retiringToken, activity)
        queueStoreCall(.retireToken, record)
    }

    /// Holds the command for the activity's next token. Called only when Redis has replied to the call `retireToken`,
    /// or refused it, and Kafka has acknowledged the invalidation. Both steps read the dead token from the record's
    /// slot. Only now may the slot get another token: if Redis replies `retry` to the call `hold`, the command is
    /// admitted again, with a token that has registered meanwhile.
    mutating func holdForNextToken(_ record: RecordIndex) {
        let activity = activityOfCurrentCommand(record, in: .retiringToken)
        records[record].push.tokenRetirementRule = .none
        records[record].token.mustBeRegistered = false
        hold(record, of: activity)
    }
}
