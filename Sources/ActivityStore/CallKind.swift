import LiveActivity

/// What a reply belongs to, as far as it has to be known to read the reply.
enum CallKind: UInt8, BitwiseCopyable {
    case update, end, start, hold, register, unregister, address, reopen, confirm, settle

    /// An update or an end, which may be granted by the activity's value alone.
    var isCommand: Bool { self == .update || self == .end }

    /// What the call writes is known to Redis alone once it is answered: tokens, and what is held for them. Not an admission, with which most
    /// calls come: the token that a command brings comes again with the next.
    var asksForReplicas: Bool {
        switch self {
        case .register, .unregister, .hold: true
        default: false
        }
    }

    /// For a log. The settlement of an activity runs in the script `admit`, with the admissions of its batch.
    var script: StoreScript { self == .settle ? .settle : .admit }

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
    private static let none = VerdictSet()

    /// What the script can answer to a call of this kind: anything else shows that replies and calls are out of step.
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
        }
    }
}
