import ActivityStore
import LiveActivity
import Reactor
import Redis

/// Makes calls for all activities with one store, as a lane does. Each iteration of the loop makes as many calls
/// as the store accepts, and sends them with one write.
final class AdmissionBenchmark: ActivityStoreHandler {
    let server: RedisServerProcess
    private let loop: EventLoop
    private var store: ActivityStore?
    private let activityCount: Int
    private let pace: Policy.Pace
    private var timestamp: Int64 = 1_760_000_000
    private var replyCount = 0
    private var sendCount = 0
    private var failure: RedisError?

    init(server: RedisServerProcess, activityCount: Int) throws {
        self.server = server
        self.activityCount = activityCount
        loop = try EventLoop()
        pace = Policy.Pace(
            spacingMilliseconds: 0,
            throttledSpacingMillisecondsMax: 60_000,
            throttleRecoveryMilliseconds: 60_000,
            budget: .init(pushes: 10_000, refillPerHour: 15, reservedForAlerts: 5),
            frequentBudget: .init(pushes: 10_000, refillPerHour: 200, reservedForAlerts: 50)
        )
    }

    /// Connects a new store to the server.
    ///
    /// - Parameter callsPerCommandMax: the maximum number of calls in one Redis command; in a cluster it is 1.
    func connect(over transport: RedisServerProcess.Transport, callsPerCommandMax: Int) throws {
        var configuration = try RedisConfiguration(url: RedisURL(server.url(transport)))
        configuration.callsPerCommandMax = callsPerCommandMax
        // Longer than a worker would wait, because the machine may be busy with other work.
        configuration.replyDeadlineMilliseconds = 120_000
        let store = ActivityStore(loop: loop, configuration: configuration, handler: self)
        self.store?.close()
        self.store = store
        store.connect()
        while !store.isReady && failure == nil { loop.runIteration(waitMilliseconds: 100) }
        if let failure { throw failure }
    }

    // MARK: - The calls

    func registerAll() throws {
        try perform(activityCount) { index in
            let registration = TokenRegistration(
                token: Crowd.token(index),
                environment: .production,
                registeredAtMilliseconds: 1_760_000_000_000
            )
            return .register(
                registration,
                allowsFrequentUpdates: true,
                shownVersion: nil,
                source: .record,
                audiences: nil
            )
        }
    }

    @discardableResult
    func sendAll(isHighPriority: Bool) throws -> Int {
        timestamp += 1
        return try sendEach(timestamp, isHighPriority: isHighPriority)
    }

    func supersedeAll() throws -> Int {
        try perform(activityCount) { _ in self.admission(self.timestamp - 1_000_000, isHighPriority: false) }
    }

    @discardableResult
    func settleAll() throws -> Int {
        try perform(activityCount) { _ in self.settlement(self.timestamp) }
    }

    func sendAndSettleAll() throws -> Int {
        timestamp += 1
        return try perform(activityCount * 2) { index in
            index % 2 == 0 ? self.admission(self.timestamp, isHighPriority: false) : self.settlement(self.timestamp)
        } identifier: {
            $0 / 2
        }
    }

    func memoryUsage() -> String {
        // All activities have the same size, so one random key is enough. A script chooses the key in Redis,
        // because keys are binary and redis-cli passes only text.
        let memoryScript = #"return redis.call("MEMORY", "USAGE", redis.call("RANDOMKEY"))"#
        return server.runClient("EVAL", memoryScript, "0").text.filter(\.isNumber)
    }

    private func sendEach(_ timestamp: Int64, isHighPriority: Bool) throws -> Int {
        sendCount = 0
        let calls = try perform(activityCount) { _ in self.admission(timestamp, isHighPriority: isHighPriority) }
        guard sendCount == calls else {
            throw RedisServerProcess.Failure(description: "\(sendCount) of \(calls) commands must be sent")
        }
        return calls
    }

    private func admission(_ timestamp: Int64, isHighPriority: Bool) -> StoreCall<[UInt8]>.Operation {
        .admit(
            StateAdmission(
                isEnd: false,
                version: Version(timestamp: timestamp, sequence: 0),
                digest: UInt64(timestamp),
                pace: pace,
                requestsHighPriority: isHighPriority,
                mayUseReserve: isHighPriority,
                mayReplaceHeldAlert: false,
                isTooOld: false,
                registration: nil
            )
        )
    }

    private func settlement(_ timestamp: Int64) -> StoreCall<[UInt8]>.Operation {
        .settle(
            version: Version(timestamp: timestamp, sequence: 0),
            .accepted,
            digest: UInt64(timestamp),
            retirement: nil
        )
    }

    /// Makes the calls, and returns when all of them have a reply.
    @discardableResult
    private func perform(
        _ calls: Int,
        _ operation: (Int) -> StoreCall<[UInt8]>.Operation,
        identifier: (Int) -> Int = { $0 }
    ) throws -> Int {
        guard let store else { return 0 }
        var issuedCount = 0
        replyCount = 0
        while replyCount < calls {
            var isFull = false
            while issuedCount < calls && !isFull {
                let subject = Self.subject(identifier(issuedCount))
                let call = StoreCall(tag: 0, subject: subject, operation: operation(issuedCount))
                let issueResult = call.withBorrowedBytes { store.issue($0) }
                switch issueResult {
                case .issued: issuedCount += 1
                case .full: isFull = true
                case .notReady, .replicasMissing, .outOfBounds:
                    throw RedisServerProcess.Failure(
                        description: "a call cannot be made: \(failure?.reason ?? "\(issueResult)")"
                    )
                }
            }
            loop.runIteration(waitMilliseconds: 100)
            if let failure { throw failure }
        }
        return calls
    }

    private static func subject(_ index: Int) -> StoreSubject<[UInt8]> {
        StoreSubject(app: Crowd.app, kind: .activity, identifier: Crowd.identifier(index))
    }

    // MARK: - Replies of Redis

    func redisReady() {}
    func redisDisconnected(_ reason: RedisError) { failure = reason }
    func redisWarned(_ warning: RedisWarning) {}
    func storeReplied(tag: UInt64, _ reply: StoreReply<UnsafeRawBufferPointer>) {
        replyCount += 1
        if reply.verdict == .send { sendCount += 1 }
    }
    func storeCallFailed(tag: UInt64, script: StoreScript, error: RedisError) { failure = failure ?? error }
}
