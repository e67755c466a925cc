import LiveActivity

/// The kind of a call, which decides how the call's reply is read.
enum StoreCallKind: UInt8, BitwiseCopyable {
    case update, end, start, recordStart, hold, register, unregister, takeStartToken, reopen, confirmDepartures, settle,
        lifetime

    /// Whether the call admits an update or an end. Redis may then reply with the activity's stored value instead of a
    /// verdict. Such a reply means: send the command with the timestamp and the priority that the command asks for.
    var isStateAdmission: Bool { self == .update || self == .end }

    /// Whether Redis' reply waits until replicas have the write (``RedisConfiguration/requiredReplicaCount``). After
    /// this reply, the core may settle the record, so Kafka never brings the token or the held command again.
    ///
    /// The replies to all other calls do not wait, because that would delay every command. So a failover may lose what
    /// they wrote (K12).
    var needsReplicas: Bool {
        switch self {
        case .register, .unregister, .hold: true
        default: false
        }
    }

    /// The script to name in logs if the call fails. It is `settle` for every settlement, although `admit` performs
    /// those of activities.
    var loggedScript: StoreScript {
        switch self {
        case .settle: .settle
        case .lifetime: .lifetime
        default: .admit
        }
    }

    // Only a start can get `unknown`. An end never gets `unchanged`, `activityOver` or `alertAwaitsCarrier`.
    private static let verdictsOfUpdate = VerdictSet { AdmissionVerdict($0) != nil && $0 != .unknown }
    private static let verdictsOfEnd = VerdictSet {
        AdmissionVerdict($0) != nil && ![.unknown, .unchanged, .alertAwaitsCarrier, .activityOver].contains($0)
    }
    private static let verdictsOfStart = VerdictSet(.send, .duplicate, .superseded, .unknown)
    private static let verdictsOfRecordStart = VerdictSet(.settled)
    private static let verdictsOfHold = VerdictSet { HoldVerdict($0) != nil }
    private static let verdictsOfRegister = VerdictSet(.registered, .stale, .full)
    private static let verdictsOfConfirmDepartures = VerdictSet(.settled)
    private static let verdictsOfUnregister = VerdictSet(.unregistered, .stale)
    private static let verdictsOfTakeStartToken = VerdictSet { StartTokenVerdict($0) != nil }
    private static let verdictsOfReopen = VerdictSet(.retry, .duplicate, .superseded)
    private static let verdictsOfLifetime = VerdictSet(.settled, .retry, .superseded)
    private static let noVerdicts = VerdictSet()

    /// The verdicts that a call of this kind can get. A reply with any other verdict must belong to another call, so
    /// the session then closes the connection. Empty for `settle`, whose reply has a 0 or 1 instead of a verdict.
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
