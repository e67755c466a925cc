import LiveActivity

/// Retires tokens that APNs refused. Updates and ends, except the ends of lifetimes, are held for the next token.
///
/// Redis retires a token only when Kafka has the token's invalidation. If Redis retired the token before, a crash could
/// lose the invalidation: the next owner would find no token in Redis, so APNs would not refuse the token again. (R17)
extension Delivery {
    /// Begins to retire a token that APNs refused. Exception: if APNs says since when the token is dead, and the token
    /// was registered at that time or later, the push is retried later: perhaps APNs does not know this registration
    /// yet. (R17)
    ///
    /// What follows for the refused command:
    /// - An update or end is held, with its alert.
    /// - A start is not held, because Redis has already allowed it once.
    /// - The end of a lifetime is not held. Its activity has usually ended. Otherwise `LifetimeKeeper` makes the end
    ///   again. (R35)
    ///
    /// Until Kafka has the invalidation, the command stays the current one. So the activity's next command does not get
    /// the dead token.
    mutating func retireTokenOrRetry(
        _ record: RecordIndex,
        of activity: ActivityIndex,
        _ result: PushResult,
        now: Moment
    ) {
        guard records[record].planTokenRetirement(result, now: now) else {
            return retry(record, of: activity, .retryLater, isRetryPermitted: result.isRetryPermitted, now: now)
        }
        activities[activity].resetServiceFailureCount()
        activities.enter(activity, .retiringToken)
        queueOutgoingRecord(.invalidation, record)
    }

    /// Continues with a command whose token APNs refused: Kafka has acknowledged the token's invalidation, or has
    /// refused it permanently. Redis now retires the token. A start or the end of a lifetime is finished as
    /// `unregistered`, and the call that settles it also retires the token.
    mutating func continueAfterInvalidation(_ record: RecordIndex, now: Moment) {
        _ = activityOfCurrentCommand(record, in: .retiringToken)
        if records[record].isStart || records[record].lifetime.isEnd {
            // Only count the acknowledgement: `Delivery.acknowledge(_:)` would also hold the command for the next
            // token.
            records[record].ending.acknowledge()
            // If an earlier attempt probably ended the activity, settle the end as `accepted`. If the next owner reads
            // this end again after a crash, Redis then replies that the phone has shown the end, and the life leaves
            // the timetable. After `notShown`, `LifetimeKeeper` would make the end again.
            let slot = records.address(of: record)
            let isShown = slot.pointee.lifetime.isEnd && wasEndedByEarlierAttempt(slot)
            return finishAndEndTurn(record, .unregistered, settlement: isShown ? .accepted : .notShown, now: now)
        }
        // Queue the call first. Otherwise the acknowledgement below could be the last one, and `acknowledge` would hold
        // the command before Redis has retired the token.
        queueStoreCall(.retireToken, record)
        acknowledge(record)
    }

    /// Holds the command until the activity's next token registers. If a token has registered meanwhile, Redis replies
    /// `retry` to the call `hold`, and the command is admitted again.
    ///
    /// The record's slot may get this next token. So call this only when Kafka has the invalidation and the call
    /// `retireToken` has ended: both read the dead token from the slot.
    mutating func holdForNextToken(_ record: RecordIndex) {
        let activity = activityOfCurrentCommand(record, in: .retiringToken)
        records[record].push.tokenRetirementRule = .none
        records[record].token.mustBeRegistered = false
        hold(record, of: activity)
    }
}
