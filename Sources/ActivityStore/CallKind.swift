import LiveActivity

/// The kind of a call. It decides how the call's reply is read.
enum CallKind: UInt8, BitwiseCopyable {
    case update, end, start, hold, register, unregister, lookUpToken, reopen, confirm, settle, life

    /// Whether this is an update or an end. If Redis allows the sending exactly as asked, the reply is the
    /// activity's stored value without a verdict.
    var isCommand: Bool { self == .update || self == .end }

    /// Whether the reply waits until replicas have acknowledged the write. After such a reply the record is
    /// settled, so Kafka will not bring the token or the held command again. Admissions do not wait: the next
    /// command brings its token again, and waiting would delay every turn.
    var asksForReplicas: Bool {
        switch self {
        case .register, .unregister, .hold: true
        default: false
        }
    }

    /// The script of the call, as logs name it. Activities are settled by the script `admit`, together with
    /// the admissions of the same batch.
    var script: StoreScript {
        switch self {
        case .settle: .settle
        case .life: .lifetime
        default: .admit
        }
    }

    private static let ofUpdate = VerdictSet(
        .send,
        .wait,
        .noToken,
        .held,
        .duplicate,
        .superseded,
        .ended,
        .unchanged,
        .overtaken,
        .alertHeld,
        .alertAlreadyAccepted,
        .tooOld,
        .expired,
        .departures
    )
    private static let ofEnd = VerdictSet(
        .send,
        .wait,
        .noToken,
        .held,
        .duplicate,
        .ended,
        .alertHeld,
        .alertAlreadyAccepted,
        .expired,
        .departures
    )
    private static let ofStart = VerdictSet(.send, .duplicate, .superseded, .unknown)
    private static let ofHold = VerdictSet(.held, .superseded, .duplicate, .retry, .full)
    private static let ofRegister = VerdictSet(.registered, .stale, .full)
    private static let ofConfirm = VerdictSet(.settled)
    private static let ofUnregister = VerdictSet(.unregistered, .stale)
    private static let ofTokenLookup = VerdictSet(.tokenFound, .noToken, .wait)
    private static let ofReopen = VerdictSet(.retry, .duplicate, .superseded)
    private static let ofLife = VerdictSet(.settled, .retry, .superseded)
    private static let none = VerdictSet()

    /// The verdicts that the script can give to a call of this kind. After any other verdict the connection
    /// is closed, because the reply belongs to another call.
    var verdicts: VerdictSet {
        switch self {
        case .update: Self.ofUpdate
        case .end: Self.ofEnd
        case .start: Self.ofStart
        case .hold: Self.ofHold
        case .register: Self.ofRegister
        case .unregister: Self.ofUnregister
        case .lookUpToken: Self.ofTokenLookup
        case .reopen: Self.ofReopen
        case .confirm: Self.ofConfirm
        case .settle: Self.none
        case .life: Self.ofLife
        }
    }
}
