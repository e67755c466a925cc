import LiveActivity

/// What the outcome of a command says about the life of its activity (R34, R35). No switch here has a `default`, so
/// that the compiler asks for the effect of a new outcome.
extension Delivery {
    /// Whether an outcome shows that an activity began, lives or has ended. `duplicate` usually shows this too: a
    /// worker may have settled the record in Redis, and may have died before it reported to the timetable.
    func showsLifeOrEnd(_ slot: UnsafePointer<RecordSlot>, _ outcome: Outcome, restartsActivity: Bool) -> Bool {
        let event = slot.pointee.event
        return switch outcome {
        case .accepted: true
        // An end without a reply to its admission is a duplicate of another record in the lane. It reports nothing:
        // only the other record learns from Redis whether the end belongs to the newest life, and reports the end.
        case .duplicate: event != .end || slot.pointee.times.admittedAtWallMilliseconds != nil
        case .unchanged: event == .update
        case .unknown: event == .start
        case .held: event == .end
        case .ended: event == .end || event == .update && restartsActivity
        case .superseded, .expired, .invalid, .unregistered, .failed: false
        }
    }

    /// Whether this lifetime command is reported to the timetable after its result. Without the report, the timetable
    /// keeps the life, and the keeper produces the command again.
    func mustReportAfterResult(_ slot: UnsafePointer<RecordSlot>) -> Bool {
        guard slot.pointee.lifetime.isEnd else { return true }
        return switch slot.pointee.ending.outcome {
        case .accepted, .ended, .failed, .expired: true
        // Redis replies `duplicate` if a worker settled this version and died before the record settled. If APNs had
        // refused that worker's push, the version was settled as `notShown`, and the reply says so
        // (`isUnshownDuplicate`). The phone then still has the activity, so the life stays.
        case .duplicate: !slot.pointee.lifetime.isUnshownDuplicate
        case .unregistered: wasEndedByEarlierAttempt(slot)
        case .unchanged, .superseded, .held, .invalid, .unknown: false
        }
    }

    /// Whether the record is a restart that the keeper must not make again: the start has expired, was refused or is
    /// invalid, or Redis holds the start until a token registers.
    func mustNotRepeatRestart(_ slot: UnsafePointer<RecordSlot>) -> Bool {
        guard slot.pointee.lifetime.isRestart, !slot.pointee.isReread else { return false }
        return switch slot.pointee.ending.outcome {
        case .failed, .expired, .held, .unregistered, .invalid: true
        case .accepted, .unchanged, .duplicate, .superseded, .ended, .unknown: false
        }
    }

    /// Whether an earlier attempt of this command probably ended the activity, and the response to that attempt was
    /// lost. True if the token died when the command had already been made: if the user had dismissed the activity
    /// before, the 410 would name an earlier time. (Apple, "Handling notification responses from APNs")
    func wasEndedByEarlierAttempt(_ slot: UnsafePointer<RecordSlot>) -> Bool {
        guard case .unlessRegisteredSince(let milliseconds) = slot.pointee.push.tokenRetirementRule else {
            return false
        }
        return milliseconds >= slot.pointee.version.timestamp * 1_000
    }

    /// Returns the event that the end of a lifetime, or the restart after it, reports to the timetable.
    func lifetimeEvent(ofLifetimeCommand slot: UnsafePointer<RecordSlot>, now: Moment) -> LifetimeEvent {
        guard let beganAtWallMilliseconds = lifetimeCommandIdentifier(of: slot)?.beganAtMilliseconds else {
            return .endedOrUnlimited
        }
        if slot.pointee.lifetime.isRestart {
            // The command id of the restart has the time at which the new life begins. Redis finds the timetable's
            // entry by this time. So report this time, and not the time of APNs' response.
            let lifetimeMilliseconds = policies.lifetimeMilliseconds(slot.pointee.policyIndex)
            return mustNotRepeatRestart(slot)
                ? .lifeFinished(beganAtMilliseconds: beganAtWallMilliseconds, restartAtMilliseconds: 0)
                : .began(atMilliseconds: beganAtWallMilliseconds, lifetimeMilliseconds: lifetimeMilliseconds)
        }
        var restartAtWallMilliseconds: Int64 = 0
        switch slot.pointee.ending.outcome {
        case .ended: return .otherEndAdmitted(beganAtMilliseconds: beganAtWallMilliseconds)
        case .accepted, .duplicate, .unregistered:
            // An activity that was a member of audiences is not started again. The timetable keeps no states that came
            // through an audience, so the new life would show an older state.
            guard !slot.pointee.lifetime.hasLeftAudiences else { break }
            // Redis supersedes a start that is not newer than the end, and versions count in seconds. So the restart is
            // at least one second after the end.
            restartAtWallMilliseconds = max(now.wallMilliseconds, (slot.pointee.version.timestamp + 1) * 1_000)
        case .unchanged, .superseded, .held, .expired, .invalid, .failed, .unknown: break
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
