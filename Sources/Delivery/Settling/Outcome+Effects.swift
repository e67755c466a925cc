import LiveActivity

/// What the core does because of an outcome. No switch here has a `default`, so that the compiler asks for the effect
/// of a new outcome.
extension Outcome {
    /// Whether the command's record is also written to the dead letters.
    var needsDeadLetter: Bool {
        switch self {
        case .invalid: true
        case .accepted, .unchanged, .duplicate, .superseded, .held, .ended, .expired, .unregistered, .failed, .unknown:
            false
        }
    }

    /// Whether a reread record needs no second result if this is its outcome now. It was neither sent nor held this
    /// time, so its first result stays valid. But if it counts superseded commands, it always gets a result. (R25)
    var needsNoResultIfReread: Bool {
        switch self {
        case .superseded, .duplicate, .unchanged, .ended, .expired, .invalid: true
        case .accepted, .held, .failed, .unregistered, .unknown: false
        }
    }

    /// Whether Redis keeps the command until a token registers. After any other outcome, a held start leaves the key of
    /// its device.
    var keepsCommandInRedis: Bool {
        switch self {
        case .held: true
        case .accepted, .unchanged, .duplicate, .superseded, .ended, .expired, .invalid, .unregistered, .failed,
            .unknown:
            false
        }
    }

    /// Whether a newer command replaced this one before APNs accepted it. Its alert may then still be unsent.
    var mayLeaveUnsentAlert: Bool {
        switch self {
        case .superseded: true
        case .accepted, .unchanged, .duplicate, .held, .ended, .expired, .invalid, .unregistered, .failed, .unknown:
            false
        }
    }

    /// Whether the outcome of an update shows that its activity had ended before.
    var showsEndedActivity: Bool {
        switch self {
        case .ended: true
        case .accepted, .unchanged, .duplicate, .superseded, .held, .expired, .invalid, .unregistered, .failed,
            .unknown:
            false
        }
    }

    /// Whether Redis may still hold commands for the token that the command brought. Redis returns them only when the
    /// token is registered again.
    func mayLeaveCommandsHeld(isStart: Bool) -> Bool {
        switch self {
        case .superseded, .duplicate, .ended, .expired: true
        // Redis may hold starts of other activities for the token of the start's device.
        case .accepted, .unchanged, .failed, .unknown: isStart
        // There is no usable token: it is missing (`held`) or dead (`unregistered`), or the record is wrong
        // (`invalid`).
        case .held, .invalid, .unregistered: false
        }
    }
}
