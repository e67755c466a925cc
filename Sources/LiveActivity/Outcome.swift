/// What became of a command, as its result record says.
public enum Outcome: UInt8, CaseIterable, Sendable, BitwiseCopyable {
    /// APNs responded with 200. This does not promise that the device shows the state.
    case accepted
    /// The state differs only in its timestamp from what the activity, or the audience, shows.
    case unchanged
    /// This version has been settled already, or another record with this version is in progress.
    case duplicate
    /// A newer version replaced this version before APNs accepted this version. An end is also `superseded` if a newer
    /// start has begun the activity again (R13). A command that Causeway itself makes when a lifetime is over is
    /// `superseded` if it is not needed any more, for example because the producer has ended the activity meanwhile
    /// (R35).
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
    /// - It is the end of a lifetime, and Redis has no token.
    /// - It restarts an activity, and the policy does not restart activities any more.
    case expired
    /// The record is wrong, or it names something wrong, such as an app that is not configured.
    case invalid
    /// The token of a start, of a lifetime's end or of an audience's member is dead.
    case unregistered
    /// The command cannot be sent for a reason that no retry removes, most often because APNs or Redis refused it. The
    /// result has the reason.
    case failed
    /// A start may have been sent, and its response is not known. It is not sent again, because a second push could
    /// begin a second activity. (R16)
    case unknown

    /// The name in result records.
    public var name: StaticString {
        switch self {
        case .accepted: "accepted"
        case .unchanged: "unchanged"
        case .duplicate: "duplicate"
        case .superseded: "superseded"
        case .held: "held"
        case .ended: "ended"
        case .expired: "expired"
        case .invalid: "invalid"
        case .unregistered: "unregistered"
        case .failed: "failed"
        case .unknown: "unknown"
        }
    }

    /// Whether the command gets no other outcome later.
    public var isFinal: Bool {
        switch self {
        case .held: false
        case .accepted, .unchanged, .duplicate, .superseded, .ended, .expired, .invalid, .unregistered, .failed,
            .unknown:
            true
        }
    }

    /// Whether something went wrong, so that a trace of the command shows an error.
    public var isError: Bool {
        switch self {
        case .failed, .unregistered, .unknown, .invalid: true
        case .accepted, .unchanged, .duplicate, .superseded, .held, .ended, .expired: false
        }
    }
}
