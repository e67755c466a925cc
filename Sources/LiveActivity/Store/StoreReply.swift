/// What the activity store decided.
public enum StoreVerdict: UInt8, Sendable, CaseIterable {
    // The most frequent come first: replies are compared with the verdicts in this order.

    /// Send the command, with the reply's timestamp; an update or an end to the reply's token.
    case send
    /// Not before ``StoreReply/waitMilliseconds`` from now; then ask again.
    case wait
    /// There is no token: hold the command.
    case noToken
    /// The command is held now, or was held already.
    case held
    /// A token has registered meanwhile: admit the command again instead of holding it. Or the version was reopened.
    case retry
    /// This version has been settled.
    case duplicate
    /// A newer version was admitted.
    case superseded
    /// The activity has ended.
    case ended
    /// The activity shows this state already.
    case unchanged
    /// Another record of this start was given `send` and is not settled; this one is not to be sent.
    case unknown
    /// The registration counts; with ``StoreReply/heldCommand`` if a command was waiting for the token.
    case registered
    /// A newer registration is known.
    case stale
    case unregistered
    /// The push-to-start token of a device.
    case address
    /// The command carries an alert and is older than the newest, which is not settled: the newest can carry the alert.
    case overtaken
    /// An alert is held (``StoreReply/heldCommand``), and the command has none: take the alert in and admit again. Nothing was changed.
    case alertHeld
    /// APNs has accepted the alert that the command carries for an older one, or a newer alert: admit again without it. Nothing was changed.
    case alertAnswered
    /// The activity began more than eight hours ago: the system has ended it, and takes nothing but its end.
    case tooOld
    /// The command is old, and nothing is known of its activity.
    case expired
    /// As many starts as the limit allows are held for the token: this one is not. Or too many audiences that were left have yet to know of
    /// it: the registration is to be made again later.
    case full
    /// Audiences that the activity has left (``StoreReply/leaves``) may not know of it. Confirm, then admit again. Nothing was changed.
    case leaves
    /// A settlement, a limit or a refund was recorded.
    case settled
}

/// A reply of the activity store. `Bytes` as in ``StoreCall``; borrowed bytes are valid during the call that brings the reply.
@frozen
public struct StoreReply<Bytes> {
    public var verdict: StoreVerdict
    /// With ``StoreVerdict/wait``: how long, at least 1.
    public var waitMilliseconds: Int64 = 0
    /// With ``StoreVerdict/send``: the timestamp to be sent, UNIX seconds.
    public var timestamp: Int64 = 0
    /// With ``StoreVerdict/send`` of an update or an end, and ``StoreVerdict/address``: the token as it was registered.
    public var registration: TokenRegistration<Bytes>?
    /// With ``StoreVerdict/address``: identifies the draw on the device's budget, for a refund.
    public var draw: Int64 = 0
    /// With ``StoreVerdict/send`` of an update or an end: 5 or 10. Else 0.
    public var priority: UInt8 = 0
    /// With ``StoreVerdict/send``: 10 was asked for, and the budget had none left.
    public var isDemoted = false
    /// With ``StoreVerdict/send`` of an update or an end: pushes of priority 10 that the budget has after this one, the reserve
    /// included. Else -1.
    public var budgetLeft = -1
    /// With ``StoreVerdict/registered``, if a command was waiting for the token, and with ``StoreVerdict/alertHeld``: the command
    /// record as it was held.
    public var heldCommand: Bytes?
    /// With ``StoreVerdict/settled``: the call had a retirement, and its token was the one that counted.
    public var retiredToken = false
    /// With ``StoreVerdict/registered``: each audience that the registration names had the subject as a member before. It has moved to the
    /// token that is registered, or the registration came again.
    public var wasMember = false
    /// The audiences that the subject has left and that may not know of it (``AudienceLeaves``): with `leaves`, `settled`, `registered`,
    /// `stale` and `unregistered`. They are to be told, and that is to be confirmed.
    public var leaves: Bytes?

    @inlinable
    public init(_ verdict: StoreVerdict) { self.verdict = verdict }
}

extension StoreReply: Equatable where Bytes: Equatable {}
extension StoreReply: Sendable where Bytes: Sendable {}

/// Why a call has no reply, as far as the caller has to know.
public enum StoreFailure: Sendable {
    /// No answer, or the subject is elsewhere: the same call may succeed at once, on this connection or the next.
    case unanswered
    /// The server answered, and refuses for a reason that passes: the next call is likely to fail too.
    case busy
    /// The server answered with an error that is not proven to be the call's own: it is repeated after a pause, and others are not held up.
    case unexplained
    /// The call is refused, and a repetition does not help.
    case refused
}
