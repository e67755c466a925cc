import Reactor
import ScriptModel

@testable import Redis

/// What a lane is to a connection: issues calls and writes down all that comes.
final class Lane: RedisHandler {
    enum Event: Equatable {
        case ready
        case lost(RedisError.Code)
        case warning(RedisWarning)
        case admitted(UInt64, ModelReply)
        case settled(UInt64, Bool)
        case failed(UInt64, ScriptKind, RedisError.Code)
    }

    let loop: EventLoop
    private let configuration: RedisConfiguration
    private(set) lazy var connection = RedisConnection(loop: loop, configuration: configuration, handler: self)
    var events: [Event] = []
    /// Called after each event was written down.
    var onEvent: (Event) -> Void = { _ in }
    var reasons: [String] = []
    /// How many calls each reply was for.
    var answered: [Int] = []
    var roundTripMicrosecondsMost: Int64 = 0
    private let server: AnyObject?

    /// - Parameters:
    ///   - loop: to share with a server of the test's own.
    ///   - server: kept alive for as long as the lane.
    init(_ configuration: RedisConfiguration, loop: EventLoop? = nil, server: AnyObject? = nil) throws {
        self.loop = try loop ?? EventLoop()
        self.server = server
        self.configuration = configuration
        connection.connect()
    }

    /// Without a deadline that counts: a server of the test's own may have to wait for a busy machine longer than a worker would wait.
    convenience init(_ url: String) throws {
        var configuration = RedisConfiguration(url: try RedisURL(url))
        configuration.connectTimeoutMilliseconds = 60_000
        configuration.responseDeadlineMilliseconds = 60_000
        try self.init(configuration)
    }

    /// Turns the loop until the condition holds. False if it does not within the limit.
    func turn(limitMilliseconds: Int64 = 300_000, until condition: () -> Bool) -> Bool {
        loop.refreshClock()
        let end = loop.nowMilliseconds + limitMilliseconds
        while !condition() {
            if loop.nowMilliseconds >= end { return false }
            loop.turn(waitMilliseconds: 20)
        }
        return true
    }

    /// Makes a call as soon as there is room for it: a slow server leaves the connection `full` now and then.
    func issues(_ call: (RedisConnection) -> CallIssue) -> Bool {
        var issue = CallIssue.full
        _ = turn {
            issue = call(connection)
            return issue != .full
        }
        return issue == .issued
    }

    func turnUntilReady() -> Bool { turn { connection.isReady } }

    func redisReady() { record(.ready) }
    func redisLost(_ reason: RedisError) {
        reasons.append("\(reason)")
        record(.lost(reason.code))
    }
    func answered(calls: Int, roundTripMicroseconds: Int64) {
        answered.append(calls)
        roundTripMicrosecondsMost = max(roundTripMicrosecondsMost, roundTripMicroseconds)
    }
    func redisWarns(_ warning: RedisWarning) { record(.warning(warning)) }
    func settled(tag: UInt64, tokenRetired: Bool) { record(.settled(tag, tokenRetired)) }
    func failed(tag: UInt64, script: ScriptKind, error: RedisError) {
        reasons.append("\(error)")
        record(.failed(tag, script, error.code))
    }
    func admitted(tag: UInt64, reply: AdmitReply) { record(.admitted(tag, ModelReply(reply))) }

    private func record(_ event: Event) {
        events.append(event)
        onEvent(event)
    }
}

extension ModelReply {
    init(_ reply: AdmitReply) {
        self.init(reply.verdict)
        waitMilliseconds = reply.waitMilliseconds
        draw = reply.draw
        timestampSeconds = reply.timestampSeconds
        if reply.token.count > 0 {
            token = ModelToken(
                token: Array(reply.token),
                environment: reply.environment,
                registeredAtMilliseconds: reply.registeredAtMilliseconds
            )
        }
        if reply.verdict == .send && reply.token.count > 0 {
            priority = reply.priority
            isDemoted = reply.isDemoted
            budgetLeft = reply.budgetLeft
        }
        if let held = reply.held { self.held = .init(version: held.version, command: Array(held.command)) }
    }
}

// MARK: - The model's calls on a connection

extension RedisConnection {
    /// Issues a model's call. `key` is `activity:…` or `device:…` in the app `app`.
    func issue(_ call: AdmitCall, key: TestKey, tag: UInt64) -> CallIssue {
        key.withHashKey { key in
            switch call {
            case .start(let version, let claim):
                admitStart(key: key, version: version, claim: claim, tag: tag)
            case .command(let event, let version, let digest, let pace, let request, let registration):
                withRegistration(registration) {
                    admitCommand(
                        key: key,
                        event: event,
                        version: version,
                        digest: digest,
                        pace: PaceArguments(pace),
                        request: request,
                        registration: $0,
                        tag: tag
                    )
                }
            case .hold(let type, let activity, let version, let command, let carriesAlert):
                withScope(type, startOf: activity) { scope in
                    command.withUnsafeBytes {
                        hold(
                            key: key,
                            scope: scope,
                            version: version,
                            command: $0,
                            carriesAlert: carriesAlert,
                            tag: tag
                        )
                    }
                }
            case .register(let type, let registration, let frequentUpdates, let shows, let after):
                withScope(type) { scope in
                    registration.token.withUnsafeBytes { token in
                        withHeldStart(after) {
                            register(
                                key: key,
                                scope: scope,
                                registration: TokenRegistration(
                                    token: token,
                                    environment: registration.environment,
                                    registeredAtMilliseconds: registration.registeredAtMilliseconds
                                ),
                                frequentUpdates: frequentUpdates,
                                shows: shows,
                                after: $0,
                                tag: tag
                            )
                        }
                    }
                }
            case .unregister(let type, let at):
                withScope(type) { unregister(key: key, scope: $0, atMilliseconds: at, tag: tag) }
            case .unregisterAll(let at):
                unregister(key: key, scope: .allAttributesTypes, atMilliseconds: at, tag: tag)
            case .address(let type, let startBudget, let registration):
                Array(type.utf8)
                    .withUnsafeBytes { type in
                        withRegistration(registration) {
                            address(
                                key: key,
                                attributesType: type,
                                startBudget: startBudget,
                                registration: $0,
                                tag: tag
                            )
                        }
                    }
            }
        }
    }

    func issue(_ call: SettleCall, key: TestKey, tag: UInt64) -> CallIssue {
        key.withHashKey { key in
            withScope(call.attributesType, startOf: call.activity) { scope in
                guard let retirement = call.retirement else {
                    return settle(
                        key: key,
                        scope: scope,
                        version: call.version,
                        outcome: call.outcome,
                        digest: call.digest,
                        retirement: nil,
                        pace: call.pace.map { PaceArguments($0) },
                        tag: tag
                    )
                }
                return retirement.token.withUnsafeBytes {
                    settle(
                        key: key,
                        scope: scope,
                        version: call.version,
                        outcome: call.outcome,
                        digest: call.digest,
                        retirement: TokenRetirement(
                            token: $0,
                            environment: retirement.environment,
                            invalidAtMilliseconds: retirement.invalidAtMilliseconds
                        ),
                        pace: call.pace.map { PaceArguments($0) },
                        tag: tag
                    )
                }
            }
        }
    }
}

extension AdmitCall {
    /// A command of priority 5, without an alert, by a pace that is nothing but a spacing.
    static func command(
        event: CommandEvent,
        version: ScriptVersion,
        digest: UInt64,
        spacingMilliseconds: Int64,
        registration: ModelToken?
    ) -> Self {
        .command(
            event: event,
            version: version,
            digest: digest,
            pace: .spaced(spacingMilliseconds),
            request: PushRequest(isHigh: false, mayUseReserve: false, carriesAlert: false),
            registration: registration
        )
    }

    static func hold(attributesType: String?, version: ScriptVersion, command: [UInt8]) -> Self {
        .hold(attributesType: attributesType, version: version, command: command, carriesAlert: false)
    }

    static func register(attributesType: String?, registration: ModelToken, shows: ScriptVersion?) -> Self {
        .register(attributesType: attributesType, registration: registration, frequentUpdates: false, shows: shows)
    }

    static func address(attributesType: String, registration: ModelToken?) -> Self {
        .address(attributesType: attributesType, startBudget: PaceNumbers.spaced(0).budget, registration: registration)
    }
}

extension PaceNumbers {
    static func spaced(_ milliseconds: Int64) -> Self {
        let budget = BucketNumbers(intervalMilliseconds: 240_000, pushes: 15, reserved: 5)
        return PaceNumbers(
            spacingMilliseconds: milliseconds,
            throttledSpacingMaxMilliseconds: 60_000,
            throttleRecoveryMilliseconds: 60_000,
            budget: budget,
            frequentBudget: BucketNumbers(intervalMilliseconds: 18_000, pushes: 200, reserved: 50)
        )
    }
}

struct TestKey: Hashable {
    var kind: HashKey.Kind
    var identifier: String

    static func activity(_ identifier: String) -> TestKey { TestKey(kind: .activity, identifier: identifier) }
    static func device(_ identifier: String) -> TestKey { TestKey(kind: .device, identifier: identifier) }

    /// As the server names it, and the model.
    var text: String { "{app\(kind == .activity ? "=" : "/")\(identifier)}" }

    func withHashKey<Value>(_ body: (HashKey) -> Value) -> Value {
        Array("app".utf8)
            .withUnsafeBytes { app in
                Array(identifier.utf8).withUnsafeBytes { body(HashKey(app: app, kind: kind, identifier: $0)) }
            }
    }
}

private func withScope<Value>(_ attributesType: String?, _ body: (RegistrationScope) -> Value) -> Value {
    guard let attributesType else { return body(.activity) }
    return Array(attributesType.utf8).withUnsafeBytes { body(.attributesType($0)) }
}

private func withHeldStart<Value>(_ place: HeldStartPlace?, _ body: (HeldStart?) -> Value) -> Value {
    guard let place else { return body(nil) }
    return Array(place.activity.utf8).withUnsafeBytes { body(HeldStart(version: place.version, activity: $0)) }
}

/// Of a device: its start of an activity.
private func withScope<Value>(
    _ attributesType: String?,
    startOf activity: String,
    _ body: (RegistrationScope) -> Value
) -> Value {
    guard let attributesType else { return body(.activity) }
    return Array(attributesType.utf8)
        .withUnsafeBytes { type in
            Array(activity.utf8).withUnsafeBytes { body(.start(attributesType: type, activity: $0)) }
        }
}

private func withRegistration<Value>(_ registration: ModelToken?, _ body: (TokenRegistration?) -> Value) -> Value {
    guard let registration else { return body(nil) }
    return registration.token.withUnsafeBytes {
        body(
            TokenRegistration(
                token: $0,
                environment: registration.environment,
                registeredAtMilliseconds: registration.registeredAtMilliseconds
            )
        )
    }
}

extension ScriptVersion {
    /// A version of a test's own making.
    static func at(_ timestampSeconds: UInt64, _ sequence: UInt64 = 0) -> ScriptVersion {
        guard let version = ScriptVersion(timestampSeconds: timestampSeconds, sequence: sequence) else {
            preconditionFailure("more than ten digits")
        }
        return version
    }
}
