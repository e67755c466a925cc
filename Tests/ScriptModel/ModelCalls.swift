import Redis

/// A token with what is known of it.
public struct ModelToken: Hashable, Sendable {
    public var token: [UInt8]
    public var environment: TokenEnvironment
    public var registeredAtMilliseconds: Int64

    public init(token: [UInt8], environment: TokenEnvironment, registeredAtMilliseconds: Int64) {
        self.token = token
        self.environment = environment
        self.registeredAtMilliseconds = registeredAtMilliseconds
    }
}

/// A call of the script `admit`, as `RedisConnection` offers it. `attributesType` is nil on an activity's hash.
public enum AdmitCall: Hashable, Sendable {
    case start(version: ScriptVersion, claim: UInt64)
    case command(
        event: CommandEvent,
        version: ScriptVersion,
        digest: UInt64,
        pace: PaceNumbers,
        request: PushRequest,
        registration: ModelToken?
    )
    /// The activity of a start; on an activity's hash of no account.
    case hold(
        attributesType: String?,
        activity: String = "match",
        version: ScriptVersion,
        command: [UInt8],
        carriesAlert: Bool
    )
    case register(
        attributesType: String?,
        registration: ModelToken,
        frequentUpdates: Bool?,
        shows: ScriptVersion?,
        after: HeldStartPlace? = nil
    )
    case unregister(attributesType: String?, atMilliseconds: Int64)
    case unregisterAll(atMilliseconds: Int64)
    case address(attributesType: String, startBudget: BucketNumbers, registration: ModelToken?)
}

/// The start that was given out last for a device's token.
public struct HeldStartPlace: Hashable, Sendable {
    public var activity: String
    public var version: ScriptVersion

    public init(activity: String, version: ScriptVersion) {
        self.activity = activity
        self.version = version
    }
}

/// A call of the script `settle`.
public struct SettleCall: Hashable, Sendable {
    public struct Retirement: Hashable, Sendable {
        public var token: [UInt8]
        public var environment: TokenEnvironment
        public var invalidAtMilliseconds: Int64?

        public init(token: [UInt8], environment: TokenEnvironment, invalidAtMilliseconds: Int64?) {
            self.token = token
            self.environment = environment
            self.invalidAtMilliseconds = invalidAtMilliseconds
        }
    }

    public var attributesType: String?
    /// Of a start, on a device's hash.
    public var activity: String
    /// Nil: only a token is retired.
    public var version: ScriptVersion?
    public var outcome: SettledOutcome
    public var digest: UInt64
    public var retirement: Retirement?
    /// Needed with ``SettledOutcome/limited``.
    public var pace: PaceNumbers?

    public init(
        attributesType: String? = nil,
        activity: String = "match",
        version: ScriptVersion?,
        outcome: SettledOutcome,
        digest: UInt64,
        retirement: Retirement? = nil,
        pace: PaceNumbers? = nil
    ) {
        self.attributesType = attributesType
        self.activity = activity
        self.version = version
        self.outcome = outcome
        self.digest = digest
        self.retirement = retirement
        self.pace = pace
    }
}

/// The reply to an `admit` call, with the fields that go with its verdict.
public struct ModelReply: Hashable, Sendable {
    public struct Held: Hashable, Sendable {
        public var version: ScriptVersion
        public var command: [UInt8]

        public init(version: ScriptVersion, command: [UInt8]) {
            self.version = version
            self.command = command
        }
    }

    public var verdict: Verdict
    public var waitMilliseconds: Int64 = 0
    public var timestampSeconds: UInt64 = 0
    public var token: ModelToken?
    /// 5 or 10; 0 where the verdict is not a send of an update or an end.
    public var priority: UInt8 = 0
    public var isDemoted = false
    public var budgetLeft = 0
    public var held: Held?
    public var draw: Int64 = 0

    public init(_ verdict: Verdict) { self.verdict = verdict }
}
