import LiveActivity

/// Decides what a finished command says about the life of its activity (R34, R35). The command's outcome decides
/// (`OutcomeEffects`), and in some cases also other facts of its record.
extension Delivery {
    /// Whether the outcome of a producer's command, or of a restart, shows that the activity began, lives or has ended.
    func showsLifeOrEnd(_ slot: UnsafePointer<RecordSlot>, _ outcome: Outcome, restartsActivity: Bool) -> Bool {
        let effects = outcome.effects
        return switch slot.pointee.event {
        // A restart that Redis has not decided about is a duplicate of another record of this restart in the lane. The
        // other record shows life when it is sent.
        case .start:
            effects.contains(.startShowsLife)
                && (!slot.pointee.lifetime.isRestart || slot.pointee.times.admittedAtWallMilliseconds != nil)
        // A restart shows the newest state. So if the policy restarts activities, an update to an activity that has
        // ended is reported too (`updatedAfterEnd`).
        case .update: effects.contains(.updateShowsLife) || restartsActivity && mayHaveComeAfterEnd(slot, outcome)
        case .end:
            effects.contains(.endShowsEnd)
                || slot.pointee.times.admittedAtWallMilliseconds != nil && effects.contains(.admittedEndShowsEnd)
        }
    }

    /// Whether an update with this outcome came after the activity's end, or perhaps did. An update with an alert waits
    /// for a carrier while an end is not settled, so its outcome may be `superseded` instead of `ended`.
    func mayHaveComeAfterEnd(_ slot: UnsafePointer<RecordSlot>, _ outcome: Outcome) -> Bool {
        outcome.effects.contains(.activityHadEnded)
            || outcome.effects.contains(.alertMayBeUnsent) && slot.pointee.lifetime.mayHaveComeAfterEnd
    }

    /// Whether this lifetime command is reported to the timetable after its result. Without the report, the timetable
    /// keeps the life, and the keeper produces the command again.
    func mustReportAfterResult(_ slot: UnsafePointer<RecordSlot>) -> Bool {
        guard slot.pointee.lifetime.isEnd else { return true }
        let effects = slot.pointee.ending.outcome.effects
        if effects.contains(.endsLifeIfAttemptedBefore) { return wasEndedByEarlierAttempt(slot) }
        // Redis replies `duplicate` if a worker settled this version and died before the record settled. If APNs had
        // refused that worker's push, the version was settled as `notShown`, and the reply says so
        // (`isUnshownDuplicate`). The phone then still has the activity, so the life stays.
        if effects.contains(.endsLife) { return !slot.pointee.lifetime.isUnshownDuplicate }
        return effects.contains(.activityHadEnded) || effects.contains(.givesUpLifetimeEnd)
    }

    /// Whether the record is a restart that the keeper must not make again: the start has expired, was refused or is
    /// invalid, or Redis holds the start until a token registers.
    func mustNotRepeatRestart(_ slot: UnsafePointer<RecordSlot>) -> Bool {
        slot.pointee.lifetime.isRestart && !slot.pointee.isReread
            && slot.pointee.ending.outcome.effects.contains(.givesUpRestart)
    }

    /// Whether an earlier attempt of this end probably ended the activity, and the response to that attempt was lost.
    /// True only if APNs has said (410) since when the token is dead, and this time is not before the command's
    /// timestamp. If the user had dismissed the activity before, the token would have died before. (Apple, "Handling
    /// notification responses from APNs")
    func wasEndedByEarlierAttempt(_ slot: UnsafePointer<RecordSlot>) -> Bool {
        guard case .unlessRegisteredSince(let invalidAtWallMilliseconds) = slot.pointee.push.tokenRetirementRule else {
            return false
        }
        return invalidAtWallMilliseconds >= slot.pointee.version.timestamp * 1_000
    }

    /// Returns the event that the end of a lifetime, or the restart after it, reports to the timetable.
    func lifetimeEvent(ofLifetimeCommand slot: UnsafePointer<RecordSlot>, now: Moment) -> LifetimeEvent {
        guard let beganAtWallMilliseconds = lifetimeCommandIdentifier(of: slot)?.beganAtMilliseconds else {
            return .endedOrUnlimited
        }
        if slot.pointee.lifetime.isRestart {
            // The id of a restart command names the time at which the new life begins, and Redis finds the timetable's
            // entry by this time. So report this time, and not the time of APNs' response.
            let lifetimeMilliseconds = policies.lifetimeMilliseconds(slot.pointee.policyIndex)
            return mustNotRepeatRestart(slot)
                ? .lifeFinished(beganAtMilliseconds: beganAtWallMilliseconds, restartAtMilliseconds: 0)
                : .began(atMilliseconds: beganAtWallMilliseconds, lifetimeMilliseconds: lifetimeMilliseconds)
        }
        let effects = slot.pointee.ending.outcome.effects
        if effects.contains(.activityHadEnded) {
            return .otherEndAdmitted(beganAtMilliseconds: beganAtWallMilliseconds)
        }
        var restartAtWallMilliseconds: Int64 = 0
        // The time stays 0 (no restart) if the activity was a member of audiences: the timetable keeps no states that
        // came through an audience, so the new life would show an older state.
        if effects.contains(.endsLife) || effects.contains(.endsLifeIfAttemptedBefore),
            !slot.pointee.lifetime.hasLeftAudiences
        {
            // Redis supersedes a start that is not newer than the end, and versions count in seconds. So the restart is
            // at least one second after the end.
            restartAtWallMilliseconds = max(now.wallMilliseconds, (slot.pointee.version.timestamp + 1) * 1_000)
        }
        return .lifeFinished(
            beganAtMilliseconds: beganAtWallMilliseconds,
            restartAtMilliseconds: restartAtWallMilliseconds
        )
    }

    /// Returns the life that a lifetime command ends or starts again; nil if the producer made the command.
    func lifetimeCommandIdentifier(of slot: UnsafePointer<RecordSlot>) -> LifetimeCommandIdentifier? {
        LifetimeCommandIdentifier(slot.pointee.bytes(slot.pointee.texts.commandIdentifier))
    }
}
