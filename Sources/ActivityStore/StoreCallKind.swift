import LiveActivity

/// The kind of a call. It decides how the call's reply is read.
enum StoreCallKind: UInt8, BitwiseCopyable {
    case update, end, start, recordStart, hold, register, unregister, takeStartToken, reopen, confirmDepartures, settle,
        lifetime

    /// Whether the call admits an update or an end. The reply to such a call may be the activity's stored value instead
    /// of a verdict. The value means: send the command with the timestamp and the priority that it asked for.
    var isStateAdmission: Bool { self == .update || self == .end }

    /// Whether the reply waits until replicas have acknowledged the write
    /// (``RedisConfiguration/requiredReplicaCount``). After the reply to such a call, the core may settle the record.
    /// Kafka then never brings the token or the held command again, so Redis must not lose them.
    ///
    /// Admissions do not wait for replicas, because this would delay every command. So a token that came with a command
    /// may be lost, but the next command brings the token again.
    var needsReplicas: Bool {
        switch self {
        case .register, .unregister, .hold: true
        default: false
        }
    }

    /// The script to name in logs if the call fails. For every settlement it is `settle`, although the script `admit`
    /// performs the settlements of activities.
    var loggedScript: StoreScript {
        switch self {
        case .settle: .settle
        case .lifetime: .lifetime
        default: .admit
        }
    }

    private static let verdictsOfUpdate = VerdictSet(
        .send,
        .wait,
        .noToken,
        .held,
        .duplicate,
        .superseded,
        .ended,
        .unchanged,
        .alertAwaitsCarrier,
        .alertHeld,
        .alertAlreadyAccepted,
        .activityOver,
        .expired,
        .departures
    )
    private static let verdictsOfEnd = VerdictSet(
        .send,
        .wait,
        .noToken,
        .held,
        .duplicate,
        .superseded,
        .ended,
        .alertHeld,
        .alertAlreadyAccepted,
        .expired,
        .departures
    )
    private static let verdictsOfStart = VerdictSet(.send, .duplicate, .superseded, .unknown)
    private static let verdictsOfRecordStart = VerdictSet(.settled)
    private static let verdictsOfHold = VerdictSet(.held, .superseded, .duplicate, .retry, .full)
    private static let verdictsOfRegister = VerdictSet(.registered, .stale, .full)
    private static let verdictsOfConfirmDepartures = VerdictSet(.settled)
    private static let verdictsOfUnregister = VerdictSet(.unregistered, .stale)
    private static let verdictsOfTakeStartToken = VerdictSet(.tokenFound, .noToken, .wait)
    private static let verdictsOfReopen = VerdictSet(.retry, .duplicate, .superseded)
    private static let verdictsOfLifetime = VerdictSet(.settled, .retry, .superseded)
    private static let noVerdicts = VerdictSet()

    /// The verdicts that a call of this kind can get. After any other verdict the session closes the connection,
    /// because the reply must belong to another call. Empty for `settle`, whose reply has a 0 or 1 instead of a
    /// verdict.
    var verdicts: VerdictSet {
        switch self {
        case .update: Self.verdictsOfUpdate
        case .end: Self.verdictsOfEnd
        case .start: Self.verdictsOfStart
        case .recordStart: Self.verdictsOfRecordStart
        case .hold: Self.verdictsOfHold
        case .register: Self.verdictsOfRegister
        case .unregister: Self.verdictsOfUnregister
        case .takeStartToken: Self.verdictsOfTakeStartToken
        case .reopen: Self.verdictsOfReopen
        case .confirmDepartures: Self.verdictsOfConfirmDepartures
        case .settle: Self.noVerdicts
        case .lifetime: Self.verdictsOfLifetime
        }
    }
}
