import Reactor
import Redis

/// Makes calls on all activities over one connection, as a lane does: as many in a turn as are to be made and fit, which leave
/// with one write.
final class Course: RedisHandler {
    let server: RedisServerProcess
    private let loop: EventLoop
    private var connection: RedisConnection?
    private let activities: Int
    private let pace: PaceArguments
    private var timestamp: UInt64 = 1_760_000_000
    private var answered = 0
    private var sends = 0
    private var failure: RedisError?

    private static let app = Array("com.example.match".utf8)

    init(server: RedisServerProcess, activities: Int) throws {
        self.server = server
        self.activities = activities
        loop = try EventLoop()
        pace = PaceArguments(
            PaceNumbers(
                spacingMilliseconds: 0,
                throttledSpacingMaxMilliseconds: 60_000,
                throttleRecoveryMilliseconds: 60_000,
                budget: BucketNumbers(intervalMilliseconds: 240_000, pushes: 10_000, reserved: 5),
                frequentBudget: BucketNumbers(intervalMilliseconds: 18_000, pushes: 10_000, reserved: 50)
            )
        )
    }

    /// - Parameter admissionsPerCommandMax: 1 is how it is in a cluster.
    func connect(over transport: RedisServerProcess.Transport, admissionsPerCommandMax: Int) throws {
        var configuration = try RedisConfiguration(url: RedisURL(server.url(transport)))
        configuration.admissionsPerCommandMax = admissionsPerCommandMax
        // The machine may be busy with other work for longer than a worker would wait.
        configuration.responseDeadlineMilliseconds = 120_000
        let connection = RedisConnection(loop: loop, configuration: configuration, handler: self)
        self.connection?.close()
        self.connection = connection
        connection.connect()
        while !connection.isReady && failure == nil { loop.turn(waitMilliseconds: 100) }
        if let failure { throw failure }
    }

    // MARK: - The calls

    func registerAll() throws {
        try perform(activities) { connection, index, key in
            let token = Self.token(index)
            return token.withUnsafeBytes { token in
                let registration = TokenRegistration(
                    token: token,
                    environment: .production,
                    registeredAtMilliseconds: 1_760_000_000_000
                )
                return connection.register(
                    key: key,
                    scope: .activity,
                    registration: registration,
                    frequentUpdates: true,
                    shows: nil,
                    tag: 0
                )
            }
        }
    }

    @discardableResult
    func sendAll(high: Bool) throws -> Int {
        timestamp += 1
        return try sendEach(timestamp, high: high)
    }

    func supersedeAll() throws -> Int {
        try perform(activities) { connection, _, key in
            self.admit(connection, key, self.timestamp - 1_000_000, high: false)
        }
    }

    @discardableResult
    func settleAll() throws -> Int {
        try perform(activities) { connection, _, key in self.settle(connection, key, self.timestamp) }
    }

    func sendAndSettleAll() throws -> Int {
        timestamp += 1
        return try perform(activities * 2) { connection, index, key in
            index % 2 == 0
                ? self.admit(connection, key, self.timestamp, high: false)
                : self.settle(connection, key, self.timestamp)
        } identifier: {
            $0 / 2
        }
    }

    func memoryUsage() -> String {
        // They are all alike, and their names are no text.
        let anyone = #"return redis.call("MEMORY", "USAGE", redis.call("RANDOMKEY"))"#
        return server.ask("EVAL", anyone, "0").text.filter(\.isNumber)
    }

    private func sendEach(_ timestamp: UInt64, high: Bool) throws -> Int {
        sends = 0
        let calls = try perform(activities) { connection, _, key in self.admit(connection, key, timestamp, high: high) }
        guard sends == calls else {
            throw RedisServerProcess.Failure(description: "\(sends) of \(calls) were to be sent")
        }
        return calls
    }

    private func admit(_ connection: RedisConnection, _ key: HashKey, _ timestamp: UInt64, high: Bool) -> CallIssue {
        guard let version = ScriptVersion(timestampSeconds: timestamp, sequence: 0) else { return .outOfBounds }
        return connection.admitCommand(
            key: key,
            event: .update,
            version: version,
            digest: timestamp,
            pace: pace,
            request: PushRequest(isHigh: high, mayUseReserve: high, carriesAlert: false),
            registration: nil,
            tag: 0
        )
    }

    private func settle(_ connection: RedisConnection, _ key: HashKey, _ timestamp: UInt64) -> CallIssue {
        connection.settle(
            key: key,
            scope: .activity,
            version: ScriptVersion(timestampSeconds: timestamp, sequence: 0),
            outcome: .accepted,
            digest: timestamp,
            retirement: nil,
            pace: nil,
            tag: 0
        )
    }

    /// Makes calls until all are answered.
    @discardableResult
    private func perform(
        _ calls: Int,
        _ call: (RedisConnection, Int, HashKey) -> CallIssue,
        identifier: (Int) -> Int = { $0 }
    ) throws -> Int {
        guard let connection else { return 0 }
        var issued = 0
        answered = 0
        while answered < calls {
            var isFull = false
            while issued < calls && !isFull {
                let issue = Self.withKey(identifier(issued)) { call(connection, issued, $0) }
                switch issue {
                case .issued: issued += 1
                case .full: isFull = true
                case .notReady, .outOfBounds:
                    throw RedisServerProcess.Failure(
                        description: "a call cannot be made: \(failure?.reason ?? "\(issue)")"
                    )
                }
            }
            loop.turn(waitMilliseconds: 100)
            if let failure { throw failure }
        }
        return calls
    }

    // MARK: - Names and tokens

    private static func withKey<Result>(_ index: Int, _ body: (HashKey) -> Result) -> Result {
        let identifier = identifier(index)
        return app.withUnsafeBytes { app in
            identifier.withUnsafeBytes { body(HashKey(app: app, kind: .activity, identifier: $0)) }
        }
    }

    /// As long as a UUID.
    private static func identifier(_ index: Int) -> [UInt8] {
        Array("0c6ef1f2-8f5e-4d0d-9e0c-\(String(index + 0x1000_0000_0000, radix: 16).suffix(12))".utf8)
    }

    /// 160 hexadecimal digits, of which no two are alike.
    private static func token(_ index: Int) -> [UInt8] {
        var state = UInt64(index) &+ 1
        var digits: [UInt8] = []
        while digits.count < 160 {
            state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
            digits += String((state >> 32) | 1 << 32, radix: 16).suffix(8).utf8
        }
        return digits
    }

    // MARK: - From Redis

    func redisReady() {}
    func redisLost(_ reason: RedisError) { failure = reason }
    func redisWarns(_ warning: RedisWarning) {}
    func admitted(tag: UInt64, reply: AdmitReply) {
        answered += 1
        if reply.verdict == .send { sends += 1 }
    }
    func settled(tag: UInt64, tokenRetired: Bool) { answered += 1 }
    func failed(tag: UInt64, script: ScriptKind, error: RedisError) { failure = failure ?? error }
}
