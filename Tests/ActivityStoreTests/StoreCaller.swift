import LiveActivity
import Reactor
import Testbed
import Testing

@testable import ActivityStore
@testable import Redis

/// Calls the store as a lane does, and records all replies.
final class StoreCaller: ActivityStoreHandler {
    enum Event: Equatable {
        case ready
        case lost(RedisError.Code)
        case warning(RedisWarning)
        case replicas(RedisReplicaStatus)
        case replied(UInt64, OwnedReply)
        case failed(UInt64, StoreScript, RedisError.Code)

        static func admitted(_ tag: UInt64, _ reply: OwnedReply) -> Event { .replied(tag, reply) }
        static func settled(_ tag: UInt64, hasRetiredToken: Bool) -> Event {
            var reply = OwnedReply(.settled)
            reply.hasRetiredToken = hasRetiredToken
            return .replied(tag, reply)
        }
    }

    let loop: EventLoop
    private let configuration: RedisConfiguration
    private(set) lazy var store = ActivityStore(loop: loop, configuration: configuration, handler: self)
    var events: [Event] = []
    /// Runs after each event is recorded.
    var onEvent: (Event) -> Void = { _ in }
    /// The texts of the errors of lost connections and of failed calls.
    var errorTexts: [String] = []
    /// For each reply of Redis, the number of calls to which it belongs.
    var callCountsPerReply: [Int] = []
    var roundTripMicrosecondsMax: Int64 = 0
    private let server: AnyObject?

    /// - Parameters:
    ///   - loop: a loop to share with the test's own server; nil makes another loop.
    ///   - server: a server to retain for as long as the caller.
    init(_ configuration: RedisConfiguration, loop: EventLoop? = nil, server: AnyObject? = nil) throws {
        self.loop = try loop ?? EventLoop()
        self.server = server
        self.configuration = configuration
        store.connect()
    }

    /// Connects with a deadline of a minute, because a test's server may be slow on a busy machine.
    convenience init(_ url: String) throws {
        var configuration = RedisConfiguration(url: try RedisURL(url))
        configuration.connectTimeoutMilliseconds = 60_000
        configuration.replyDeadlineMilliseconds = 60_000
        try self.init(configuration)
    }

    /// Runs the loop until the condition holds. Returns false if it does not hold in time.
    func runLoop(limitMilliseconds: Int64 = EventLoop.eventWaitMillisecondsMax, until condition: () -> Bool) -> Bool {
        loop.run(withinMilliseconds: limitMilliseconds, until: condition)
    }

    /// Issues a call as soon as the connection has room for it. While the server is slow, the connection may be full.
    func issueWhenPossible(_ call: (ActivityStore) -> IssueResult) -> Bool {
        var issueResult = IssueResult.full
        _ = runLoop {
            issueResult = call(store)
            return issueResult != .full
        }
        return issueResult == .issued
    }

    func runLoopUntilReady() -> Bool { runLoop { store.isReady } }

    /// Returns the connection, which must be ready.
    func connection() throws -> RedisConnection {
        try #require(Array("{app}".utf8).withUnsafeBytes { store.redis.connection(for: $0) })
    }

    func redisReady() { note(.ready) }
    func redisDisconnected(_ reason: RedisError) {
        errorTexts.append("\(reason)")
        note(.lost(reason.code))
    }
    func redisReplied(callCount: Int, roundTripMicroseconds: Int64) {
        callCountsPerReply.append(callCount)
        roundTripMicrosecondsMax = max(roundTripMicrosecondsMax, roundTripMicroseconds)
    }
    func redisReportedReplicas(_ replicas: RedisReplicaStatus) { note(.replicas(replicas)) }
    func redisWarned(_ warning: RedisWarning) { note(.warning(warning)) }
    func storeCallFailed(tag: UInt64, script: StoreScript, error: RedisError) {
        errorTexts.append("\(error)")
        note(.failed(tag, script, error.code))
    }
    func storeReplied(tag: UInt64, _ reply: StoreReply<UnsafeRawBufferPointer>) {
        note(.replied(tag, reply.map { Array($0) }))
    }

    private func note(_ event: Event) {
        events.append(event)
        onEvent(event)
    }
}

typealias OwnedReply = StoreReply<[UInt8]>
typealias OwnedToken = TokenRegistration<[UInt8]>
typealias Operation = StoreCall<[UInt8]>.Operation

extension ActivityStore {
    func issue(_ operation: Operation, key: TestKey, tag: UInt64) -> IssueResult {
        key.call(operation, tag: tag).withBorrowedBytes { issue($0) }
    }
}

/// What the tests vary in an admission: the priority, the reserve, the alerts, and whether the command is too old, is
/// read again, may end a newer life, or is the end of a lifetime.
struct AdmissionOptions {
    var requestsHighPriority: Bool
    var mayUseReserve: Bool
    var hasAlert: Bool
    var carriedAlertVersion: Version?
    var isTooOld = false
    var isReread = false
    var endsNewerLife = false
    var isLifetimeEnd = false
}

/// Short forms of operations for tests. An operation with an attributes type is about a device.
extension Operation {
    static func start(version: Version, claim: UInt64) -> Self { .admitStart(version: version, claim: claim) }

    static func command(
        event: Event,
        version: Version,
        digest: UInt64,
        pace: Policy.Pace,
        options: AdmissionOptions,
        registration: OwnedToken?
    ) -> Self {
        .admit(
            StateAdmission(
                isEnd: event == .end,
                version: version,
                digest: digest,
                pace: pace,
                requestsHighPriority: options.requestsHighPriority,
                mayUseReserve: options.mayUseReserve,
                mayReplaceHeldAlert: options.hasAlert,
                carriedAlertVersion: options.carriedAlertVersion,
                isTooOld: options.isTooOld,
                isReread: options.isReread,
                endsNewerLife: options.endsNewerLife,
                isLifetimeEnd: options.isLifetimeEnd,
                registration: registration
            )
        )
    }

    static func hold(
        attributesType: String?,
        activity: String = "match",
        version: Version,
        command: [UInt8],
        hasAlert: Bool = false
    ) -> Self {
        guard let attributesType else { return .hold(version: version, command: command, hasAlert: hasAlert) }
        return .holdStart(heldStart(attributesType, activity, version), command: command)
    }

    static func register(
        attributesType: String?,
        registration: OwnedToken,
        allowsFrequentUpdates: Bool? = false,
        shownVersion: Version?,
        after: HeldStart<[UInt8]>? = nil,
        source: RegistrationSource = .record,
        audiences: [UInt8]? = nil
    ) -> Self {
        guard let attributesType else {
            return .register(
                registration,
                allowsFrequentUpdates: allowsFrequentUpdates,
                shownVersion: shownVersion,
                source: source,
                audiences: audiences
            )
        }
        return .registerDevice(
            attributesType: Array(attributesType.utf8),
            registration,
            after.map { .nextHeldStart(after: $0) } ?? .registerToken(audiences: audiences),
            isFromCommand: source == .command
        )
    }

    static func takeStartToken(
        attributesType: String,
        startBudget: Policy.Bucket = Policy.Pace.spaced(0).budget,
        registration: OwnedToken?
    ) -> Self {
        .takeStartToken(
            attributesType: Array(attributesType.utf8),
            startBudget: startBudget,
            registration: registration
        )
    }

    static func settlement(
        attributesType: String? = nil,
        activity: String = "match",
        version: Version,
        outcome: Settlement,
        digest: UInt64,
        retirement: TokenRetirement<[UInt8]>? = nil,
        alert: Version? = nil
    ) -> Self {
        guard let attributesType else {
            return .settle(version: version, outcome, digest: digest, retirement: retirement, alert: alert)
        }
        return .settleStart(heldStart(attributesType, activity, version), outcome, retirement: retirement)
    }

    static func heldStart(_ attributesType: String, _ activity: String, _ version: Version) -> HeldStart<[UInt8]> {
        HeldStart(attributesType: Array(attributesType.utf8), activity: Array(activity.utf8), version: version)
    }

    /// Makes the admission of a command of priority 5 without an alert, with the given spacing.
    static func command(
        event: Event,
        version: Version,
        digest: UInt64,
        spacingMilliseconds: Int64,
        registration: OwnedToken?
    ) -> Self {
        .command(
            event: event,
            version: version,
            digest: digest,
            pace: .spaced(spacingMilliseconds),
            options: AdmissionOptions(requestsHighPriority: false, mayUseReserve: false, hasAlert: false),
            registration: registration
        )
    }
}

extension RegistrationSource {
    /// A record that was written at this time, and is read again.
    static func readAgain(at milliseconds: Int64) -> Self {
        .reread(alertsReleasedUntilMilliseconds: milliseconds, writtenAtMilliseconds: milliseconds)
    }
}

extension Policy.Pace {
    /// A pace with this spacing, and with budgets of 15 pushes and of 200 frequent pushes.
    static func spaced(_ milliseconds: Int64) -> Self {
        let budget = Policy.Bucket.filling(intervalMilliseconds: 240_000, pushes: 15, reserved: 5)
        return Policy.Pace(
            spacingMilliseconds: milliseconds,
            throttledSpacingMillisecondsMax: 60_000,
            throttleRecoveryMilliseconds: 60_000,
            budget: budget,
            frequentBudget: .filling(intervalMilliseconds: 18_000, pushes: 200, reserved: 50)
        )
    }
}

extension Policy.Bucket {
    /// A budget that gains one push in each interval.
    static func filling(intervalMilliseconds: Int64, pushes: Int, reserved: Int) -> Self {
        Self(pushes: pushes, refillPerHour: Int(3_600_000 / intervalMilliseconds), reservedForAlerts: reserved)
    }
}

/// An activity or a device of the app `app`.
struct TestKey: Hashable {
    var kind: StoreSubjectKind
    var identifier: String

    static func activity(_ identifier: String) -> TestKey { TestKey(kind: .activity, identifier: identifier) }
    static func device(_ identifier: String) -> TestKey { TestKey(kind: .device, identifier: identifier) }

    var subject: StoreSubject<[UInt8]> {
        StoreSubject(app: Array("app".utf8), kind: kind, identifier: Array(identifier.utf8))
    }

    /// The name of the key in the server and in the model.
    var text: String { StoreModel.key(of: subject) }

    func call(_ operation: Operation, tag: UInt64) -> StoreCall<[UInt8]> {
        StoreCall(tag: tag, subject: subject, operation: operation)
    }
}

extension Version {
    static func at(_ timestamp: some BinaryInteger, _ sequence: UInt64 = 0) -> Version {
        Version(timestamp: Int64(timestamp), sequence: sequence)
    }
}
