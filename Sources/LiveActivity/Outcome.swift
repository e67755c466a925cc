/// What became of a command, as its result record says.
public enum Outcome: UInt8, CaseIterable, Sendable, BitwiseCopyable {
    /// APNs responded with 200. This does not promise that the device shows the state.
    case accepted
    /// The state differs only in its timestamp from what the activity, or the audience, shows.
    case unchanged
    /// This version has been settled already, or another record with this version is in progress.
    case duplicate
    /// The command is not needed any more, for one of these reasons:
    /// - A newer version replaced this one before APNs accepted it.
    /// - It is an end, and a newer start has begun the activity again (R13).
    /// - It is a start, and its activity already lives without it.
    /// - It is a lifetime command (R35) that is no longer needed, for example because the producer has ended the
    ///   activity.
    case superseded
    /// There is no token, or APNs reports that the update token is dead. Redis keeps the newest state, or the
    /// start, until a token registers.
    case held
    /// The activity, or the audience, has ended.
    case ended
    /// The command is too late, for one of these reasons:
    /// - Its expiration passed before it was sent.
    /// - It is a start or a command to an audience, and became too old (R20).
    /// - It is too old for any phone to show its activity, and Redis does not know the activity.
    /// - It is too old for any phone to show its activity, and has no expiration of its own.
    /// - It is the end of a lifetime, and Redis has no token.
    /// - It restarts an activity, and the policy does not restart activities any more.
    case expired
    /// The record is wrong, or it names something wrong, such as an app that is not configured.
    case invalid
    /// The token is dead, and the command is a start, the end of a lifetime, or a push to a member: such a command is
    /// not held.
    case unregistered
    /// The command cannot be sent for a reason that no retry removes, most often because APNs or Redis refused it. The
    /// result has the reason.
    case failed
    /// A start may have been sent, and its response is not known. It is not sent again, because a second push could
    /// begin a second activity. (R16)
    case unknown

    /// Each outcome's properties. The switch has no `default`, so that the compiler reports an outcome without
    /// properties.
    private var definition: (name: StaticString, isFinal: Bool, isError: Bool) {
        switch self {
        case .accepted: (name: "accepted", isFinal: true, isError: false)
        case .unchanged: (name: "unchanged", isFinal: true, isError: false)
        case .duplicate: (name: "duplicate", isFinal: true, isError: false)
        case .superseded: (name: "superseded", isFinal: true, isError: false)
        case .held: (name: "held", isFinal: false, isError: false)
        case .ended: (name: "ended", isFinal: true, isError: false)
        case .expired: (name: "expired", isFinal: true, isError: false)
        case .invalid: (name: "invalid", isFinal: true, isError: true)
        case .unregistered: (name: "unregistered", isFinal: true, isError: true)
        case .failed: (name: "failed", isFinal: true, isError: true)
        case .unknown: (name: "unknown", isFinal: true, isError: true)
        }
    }

    /// The name in result records.
    public var name: StaticString { definition.name }

    /// Whether this outcome is the last one of its command. After `held`, another outcome may follow.
    public var isFinal: Bool { definition.isFinal }

    /// Whether something went wrong, so that a trace of the command shows an error.
    public var isError: Bool { definition.isError }
}
