import LiveActivity

/// The kind of a call, as far as its reply depends on it.
enum CallKind: UInt8, BitwiseCopyable {
    case update, end, start, hold, register, unregister, address, reopen, confirm, settle, life

    /// Whether this is an update or an end, which the activity's value alone may grant.
    var isCommand: Bool { self == .update || self == .end }

    /// Whether the reply waits until replicas have acknowledged the write. Once such a call is answered, only Redis knows what it
    /// wrote: tokens, and what is held for them. An admission does not ask, because its token comes again with the next command,
    /// and each turn would have to wait for the replicas.
    var asksForReplicas: Bool {
        switch self {
        case .register, .unregister, .hold: true
        default: false
        }
    }

    /// The script, for a log. An activity's settlement runs in the script `admit`, together with the admissions of its batch.
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
        .alertAnswered,
        .tooOld,
        .expired,
        .leaves
    )
    private static let ofEnd = VerdictSet(
        .send,
        .wait,
        .noToken,
        .held,
        .duplicate,
        .ended,
        .alertHeld,
        .alertAnswered,
        .expired,
        .leaves
    )
    private static let ofStart = VerdictSet(.send, .duplicate, .superseded, .unknown)
    private static let ofHold = VerdictSet(.held, .superseded, .duplicate, .retry, .full)
    private static let ofRegister = VerdictSet(.registered, .stale, .full)
    private static let ofConfirm = VerdictSet(.settled)
    private static let ofUnregister = VerdictSet(.unregistered, .stale)
    private static let ofAddress = VerdictSet(.address, .noToken, .wait)
    private static let ofReopen = VerdictSet(.retry, .duplicate, .superseded)
    private static let ofLife = VerdictSet(.settled, .retry, .superseded)
    private static let none = VerdictSet()

    /// The verdicts that the script can give to a call of this kind. Any other verdict shows that replies and calls are out of
    /// step.
    var verdicts: VerdictSet {
        switch self {
        case .update: Self.ofUpdate
        case .end: Self.ofEnd
        case .start: Self.ofStart
        case .hold: Self.ofHold
        case .register: Self.ofRegister
        case .unregister: Self.ofUnregister
        case .address: Self.ofAddress
        case .reopen: Self.ofReopen
        case .confirm: Self.ofConfirm
        case .settle: Self.none
        case .life: Self.ofLife
        }
    }
}
