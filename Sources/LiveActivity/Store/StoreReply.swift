/// The decision of the activity store. Each kind of call can get only some of the verdicts. For three kinds there is a
/// type with only these: ``AdmissionVerdict``, ``StartTokenVerdict`` and ``HoldVerdict``.
public enum StoreVerdict: UInt8, Sendable, CaseIterable {
    // The most common verdicts come first, because replies are compared with the verdicts in this order.

    /// Send the command with the reply's timestamp. An update or end goes to the reply's token.
    case send
    /// Make the call again after ``StoreReply/waitMilliseconds``.
    case wait
    /// There is no token. The caller holds the command. But the end of a lifetime is not held: it becomes `expired`.
    case noToken
    /// The command is held, since this call or since an earlier one.
    case held
    /// The meaning depends on the call:
    /// - A hold: a token has registered after an admission or `takeStartToken` had found no token. Repeat the admission
    ///   or `takeStartToken`.
    /// - ``StoreCall/Operation/reopen(version:)``: the version can be admitted again.
    /// - A check of a lifetime: the timetable still has the life.
    case retry
    /// This version has been settled, or a start that is under way has the same version.
    case duplicate
    /// The meaning depends on the call:
    /// - A check of a lifetime: the timetable no longer has the life, or keeps a newer state.
    /// - An admission of a start: a newer version exists; or the activity has a token or has ended already, so that the
    ///   start must not begin it again.
    /// - Any other call: this version is not the newest any more.
    case superseded
    /// Redis has admitted an end of the activity. Only a start opens the activity again.
    case ended
    /// The activity shows this state already.
    case unchanged
    /// Another record of this start got `send`, and is not settled: a worker may have sent the start for the other
    /// record. So the start must not be sent for this record. (R16)
    case unknown
    /// The token is registered. ``StoreReply/heldCommand`` has the command that waited for the token, if there was one.
    case registered
    /// Redis changed nothing, for one of these reasons:
    /// - It has a newer registration or unregistration, or has retired the token since the registration.
    /// - The call repeats a registration, and Redis has another registration or an unregistration with the same time.
    /// - The token came with a command, and is the last token that Redis retired.
    case stale
    /// The activity or device has no token left that was registered at the call's time or earlier.
    case unregistered
    /// The device has a push-to-start token (``StoreReply/registration``), and its budget allows the start.
    case tokenFound
    /// Redis knows a newer version, which is not settled yet, so that the newer command can still carry this command's
    /// alert.
    case alertAwaitsCarrier
    /// The held command (``StoreReply/heldCommand``) has an alert, and this command has none. Add the held alert, and
    /// admit the command again. Redis has changed nothing, except that it may have registered the token that came with
    /// the command.
    case alertHeld
    /// APNs has already accepted the command's alert or a newer one. Admit the command again without its alert. Redis
    /// has changed nothing, except that it may have registered the token that came with the command.
    case alertAlreadyAccepted
    /// As far as Redis knows, the activity began more than eight hours ago: Apple's system has ended it. Only an end
    /// can still be sent.
    case activityOver
    /// The command is too old, and Redis knows no version of its activity.
    case expired
    /// There is no room. The meaning depends on the call:
    /// - A hold of a start: the start is not held, because the maximum number of starts already waits for the token.
    /// - A registration whose reply has ``StoreReply/departures``: the member has too many unconfirmed departures, and
    ///   Redis changed nothing. Confirm the departures, and register again.
    /// - Any other registration: the reply has no room for the held command, and Redis changed nothing. Register again
    ///   later.
    case full
    /// The admission changed nothing, because the activity has left audiences (``StoreReply/departures``), and perhaps
    /// some of them have no entry about the departure yet. Write the entries, confirm them, and admit the command
    /// again.
    case departures
    /// Redis has processed the call: a settlement, a retirement, a 429, a refund, a confirmation or an event of a
    /// lifetime. A call that no longer applies had no effect.
    case settled

    /// The word with which the script's reply begins.
    @inlinable
    public var scriptWord: StaticString {
        switch self {
        case .send: "send"
        case .wait: "wait"
        case .noToken: "noToken"
        case .held: "held"
        case .retry: "retry"
        case .duplicate: "duplicate"
        case .superseded: "superseded"
        case .ended: "ended"
        case .unchanged: "unchanged"
        case .unknown: "unknown"
        case .registered: "registered"
        case .stale: "stale"
        case .unregistered: "unregistered"
        case .tokenFound: "tokenFound"
        case .alertAwaitsCarrier: "alertAwaitsCarrier"
        case .alertHeld: "alertHeld"
        case .alertAlreadyAccepted: "alertAlreadyAccepted"
        case .activityOver: "activityOver"
        case .expired: "expired"
        case .full: "full"
        case .settled: "settled"
        case .departures: "departures"
        }
    }
}

/// The verdicts on an update, an end or a start. Each has the meaning of the ``StoreVerdict`` with its name.
public enum AdmissionVerdict: Sendable {
    case send, wait, noToken, held, duplicate, superseded, ended, unchanged, unknown
    case alertAwaitsCarrier, alertHeld, alertAlreadyAccepted, activityOver, expired, departures

    /// Nil for a verdict that no admission can get.
    @inlinable
    public init?(_ verdict: StoreVerdict) {
        switch verdict {
        case .send: self = .send
        case .wait: self = .wait
        case .noToken: self = .noToken
        case .held: self = .held
        case .duplicate: self = .duplicate
        case .superseded: self = .superseded
        case .ended: self = .ended
        case .unchanged: self = .unchanged
        case .unknown: self = .unknown
        case .alertAwaitsCarrier: self = .alertAwaitsCarrier
        case .alertHeld: self = .alertHeld
        case .alertAlreadyAccepted: self = .alertAlreadyAccepted
        case .activityOver: self = .activityOver
        case .expired: self = .expired
        case .departures: self = .departures
        case .retry, .registered, .stale, .unregistered, .tokenFound, .full, .settled: return nil
        }
    }
}

/// The verdicts on a request for a start's token. Each has the meaning of the ``StoreVerdict`` with its name.
public enum StartTokenVerdict: Sendable {
    case tokenFound, wait, noToken

    /// Nil for a verdict that no such request can get.
    @inlinable
    public init?(_ verdict: StoreVerdict) {
        switch verdict {
        case .tokenFound: self = .tokenFound
        case .wait: self = .wait
        case .noToken: self = .noToken
        default: return nil
        }
    }
}

/// The verdicts on a hold. Each has the meaning of the ``StoreVerdict`` with its name.
public enum HoldVerdict: Sendable {
    case held, superseded, duplicate, retry, full

    /// Nil for a verdict that no hold can get.
    @inlinable
    public init?(_ verdict: StoreVerdict) {
        switch verdict {
        case .held: self = .held
        case .superseded: self = .superseded
        case .duplicate: self = .duplicate
        case .retry: self = .retry
        case .full: self = .full
        default: return nil
        }
    }
}

/// A reply of the activity store. `Bytes` is explained at ``StoreCall``. Borrowed bytes are valid only until the
/// function that gets the reply returns.
@frozen
public struct StoreReply<Bytes> {
    public var verdict: StoreVerdict
    /// With ``StoreVerdict/wait``: how many milliseconds to wait, at least 1.
    public var waitMilliseconds: Int64 = 0
    /// With ``StoreVerdict/send``: the timestamp to send, UNIX seconds.
    public var timestamp: Int64 = 0
    /// With ``StoreVerdict/send`` for an update or end, and ``StoreVerdict/tokenFound``: the token as it was
    /// registered.
    public var registration: TokenRegistration<Bytes>?
    /// With ``StoreVerdict/tokenFound``: identifies the draw on the device's budget, for a refund.
    public var drawIdentifier: Int64 = 0
    /// With ``StoreVerdict/send`` for an update or end: the priority of the push, 5 or 10. Otherwise 0.
    public var priority: UInt8 = 0
    /// With ``StoreVerdict/send``: whether the command asked for priority 10 and is sent at 5, because the budget was
    /// empty, or had only the reserve for alerts and ends left.
    public var isDemoted = false
    /// With ``StoreVerdict/send`` for an update or end: the pushes of priority 10 that the budget has after this push,
    /// including the reserve. Otherwise -1.
    public var budgetLeft = -1
    /// The record of the held command. Set with ``StoreVerdict/alertHeld``, and with ``StoreVerdict/registered`` if a
    /// command waited for the token.
    public var heldCommand: Bytes?
    /// With ``StoreVerdict/alertHeld``: when the activity's token was registered, or its last one was unregistered,
    /// UNIX milliseconds; 0: never. A reread command needs this time to find out whether the held alert has rung
    /// already.
    public var registeredAtMilliseconds: Int64 = 0
    /// With ``StoreVerdict/settled``: whether the call retired the token that the activity or device had.
    public var hasRetiredToken = false
    /// With ``StoreVerdict/registered``: whether the member was already in all audiences that the registration names. A
    /// worker then writes only the member's present token into them (``MembershipChangeKind/updated``). False if there
    /// are none.
    public var wasMemberOfAllAudiences = false
    /// With ``StoreVerdict/duplicate`` for an end: whether this version was settled as ``Settlement/notShown``, so that
    /// the phone still has the activity. If this is the end of a lifetime, Causeway then makes another end.
    public var isUnshownDuplicate = false
    /// With `departures`, `settled`, `registered`, `stale`, `unregistered` and `full`: the audiences that the activity
    /// or device has left, and that perhaps have no entry about the departure yet (``AudienceDepartures``). Write the
    /// entries, then call ``StoreCall/Operation/confirmDepartures(atMilliseconds:)``.
    public var departures: Bytes?

    @inlinable
    public init(_ verdict: StoreVerdict) { self.verdict = verdict }
}

extension StoreReply: Equatable where Bytes: Equatable {}
extension StoreReply: Sendable where Bytes: Sendable {}

/// Why a call has no usable reply. The failure tells the caller whether and when to repeat the call.
public enum StoreFailure: Sendable {
    /// No usable reply came, another server of the cluster has the key, or the server has lost the script. The same
    /// call may succeed at once, on this connection or another.
    case retriableAtOnce
    /// The server refused the call for a reason that is likely to affect most other calls too. The caller's queue of
    /// calls pauses.
    case serverRefusesMostCalls
    /// The server replied with an error that may concern only this call, or others too. The caller repeats the call
    /// after a pause. Other calls continue.
    case retriableAfterPause
    /// The call is refused, and repeating it would not help.
    case refused
}
