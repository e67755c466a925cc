/// The decision of the activity store.
public enum StoreVerdict: UInt8, Sendable, CaseIterable {
    // The most frequent verdicts come first: replies are compared with the verdicts in this order.

    /// Send the command with the reply's timestamp; an update or end to the reply's token.
    case send
    /// Ask again after ``StoreReply/waitMilliseconds``.
    case wait
    /// There is no token: hold the command.
    case noToken
    /// The command is held, since this call or since an earlier one.
    case held
    /// A token has registered in the meantime: admit the command again instead of holding it. Or the version
    /// was reopened.
    case retry
    /// This version has been settled.
    case duplicate
    /// A newer version was admitted.
    case superseded
    /// The activity has ended.
    case ended
    /// The activity shows this state already.
    case unchanged
    /// Another record of this start got `send` and is not settled. Do not send this record's start.
    case unknown
    /// The token is registered. ``StoreReply/heldCommand`` has the command that waited for the token, if
    /// there was one.
    case registered
    /// A newer registration is known.
    case stale
    case unregistered
    /// The push-to-start token of a device.
    case address
    /// The command carries an alert, and a newer version is admitted but not settled. That version can carry
    /// the alert.
    case overtaken
    /// The held command has an alert (``StoreReply/heldCommand``), and this command has none: add the held
    /// alert and admit the command again. Nothing was changed.
    case alertHeld
    /// APNs has already accepted the command's alert or a newer one: admit the command again without its
    /// alert. Nothing was changed.
    case alertAlreadyAccepted
    /// The activity began more than eight hours ago, so the system has ended it. Only an end can still be
    /// sent.
    case tooOld
    /// The command is old, and Redis does not know its activity.
    case expired
    /// For a start: it is not held, because the token has the maximum number of held starts. For a
    /// registration: register again later, because too many audiences still have to learn that the member
    /// left, or the reply has no room for the held command.
    case full
    /// Some audiences may not know that the activity has left them (``StoreReply/leaves``). Tell them,
    /// confirm, and admit the command again. Nothing was changed.
    case leaves
    /// A settlement, a limit or a refund was recorded.
    case settled
}

/// A reply of the activity store. `Bytes` is the same as in ``StoreCall``; borrowed bytes are valid during
/// the call that brings the reply.
@frozen
public struct StoreReply<Bytes> {
    public var verdict: StoreVerdict
    /// With ``StoreVerdict/wait``: how long, at least 1.
    public var waitMilliseconds: Int64 = 0
    /// With ``StoreVerdict/send``: the timestamp to send, UNIX seconds.
    public var timestamp: Int64 = 0
    /// With ``StoreVerdict/send`` for an update or end, and ``StoreVerdict/address``: the token as it was
    /// registered.
    public var registration: TokenRegistration<Bytes>?
    /// With ``StoreVerdict/address``: identifies the draw on the device's budget, for a refund.
    public var draw: Int64 = 0
    /// With ``StoreVerdict/send`` for an update or end: 5 or 10. Otherwise 0.
    public var priority: UInt8 = 0
    /// With ``StoreVerdict/send``: the command asked for 10 and is sent at 5, because the budget had no push
    /// left.
    public var isDemoted = false
    /// With ``StoreVerdict/send`` for an update or end: the pushes of priority 10 that the budget has after
    /// this push, including the reserve. Otherwise -1.
    public var budgetLeft = -1
    /// With ``StoreVerdict/registered``, if a command waited for the token, and with
    /// ``StoreVerdict/alertHeld``: the command record that was held.
    public var heldCommand: Bytes?
    /// With ``StoreVerdict/settled``: the call had a retirement, and it retired the current token.
    public var retiredToken = false
    /// With ``StoreVerdict/registered``: the subject was a member of each audience that the registration
    /// names. It has another token now, or the registration came again.
    public var wasMember = false
    /// With ``StoreVerdict/duplicate`` for an end: this version was settled, and the activity did not show
    /// it.
    public var wasNotShown = false
    /// With `leaves`, `settled`, `registered`, `stale` and `unregistered`: the audiences that may not know
    /// that the subject has left them (``AudienceDepartures``). Tell them, then call
    /// ``StoreCall/Operation/confirmLeaves(atMilliseconds:)``.
    public var leaves: Bytes?

    @inlinable
    public init(_ verdict: StoreVerdict) { self.verdict = verdict }
}

extension StoreReply: Equatable where Bytes: Equatable {}
extension StoreReply: Sendable where Bytes: Sendable {}

/// The kind of error that left a call without a reply.
public enum StoreFailure: Sendable {
    /// There was no answer, or the subject is on another server. The same call may succeed at once, on this
    /// connection or the next.
    case unanswered
    /// The server refused the call for a temporary reason. The next call is likely to fail too.
    case busy
    /// The server answered with an error that may not be the call's own. The call is repeated after a pause,
    /// and other calls continue.
    case unexplained
    /// The call is refused, and a repetition does not help.
    case refused
}
