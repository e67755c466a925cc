import LiveActivity
import Reactor
import Testbed

@testable import ActivityStore
@testable import Redis

/// Calls its store as a lane does: queues calls, sends each to the server of its key, and repeats calls that
/// failed temporarily.
final class TopologyCaller {
    enum Event: Equatable {
        case ready
        case lost(RedisError.Code)
        case warning(RedisWarning)
    }

    /// The start of an activity, or the registration of its token. If a server permits a second start with another
    /// claim, it has lost the first start.
    struct PendingCall {
        var activity: Int
        var claim: UInt64
        /// Whether the call registers a token instead of starting the activity. A registration asks for replicas.
        var isRegistration = false
        /// If not nil, the call only asks whether the activity's life that began at this time continues.
        var lifeBeganAtMilliseconds: Int64?
    }

    let loop: EventLoop
    let client: ActivityStore
    private(set) var events: [Event] = []
    private(set) var lossReasons: [String] = []
    /// The last verdict that a store's reply brought for each activity.
    private(set) var verdicts: [Int: StoreVerdict] = [:]
    private(set) var replyCount = 0
    /// The numbers of failures by code: of those after which the call is repeated, and of all others.
    private(set) var repeatedFailureCounts: [RedisError.Code: Int] = [:]
    private(set) var refusedFailureCounts: [RedisError.Code: Int] = [:]
    private var pendingCalls: [PendingCall] = []
    private var queueHead = 0
    private var callsInFlight: [UInt64: PendingCall] = [:]
    private var nextTag: UInt64 = 0
    /// Passes events to the caller. The client's reference to its handler is weak, so the caller retains this
    /// object.
    private final class Relay: ActivityStoreHandler {
        weak var caller: TopologyCaller?
        func redisReady() { caller?.redisReady() }
        func redisDisconnected(_ reason: RedisError) { caller?.redisDisconnected(reason) }
        func redisWarned(_ warning: RedisWarning) { caller?.redisWarned(warning) }
        func storeReplied(tag: UInt64, _ reply: StoreReply<UnsafeRawBufferPointer>) {
            caller?.handleReply(tag: tag, reply.verdict)
        }
        func storeCallFailed(tag: UInt64, script: StoreScript, error: RedisError) {
            caller?.handleFailure(tag: tag, error: error)
        }
    }
    private let relay = Relay()

    /// - Parameter loop: a loop to share with the test's own servers; nil makes a new one.
    init(_ configuration: RedisConfiguration, loop: EventLoop? = nil) throws {
        self.loop = try loop ?? EventLoop()
        client = ActivityStore(loop: self.loop, configuration: configuration, handler: relay)
        relay.caller = self
        client.connect()
    }

    deinit {
        client.close()
    }

    /// The number of calls that wait to be issued, or for their replies.
    var waitingCallCount: Int { pendingCalls.count - queueHead + callsInFlight.count }

    func enqueue(_ activities: some Sequence<Int>, claim: UInt64, isRegistration: Bool = false) {
        pendingCalls += activities.map { PendingCall(activity: $0, claim: claim, isRegistration: isRegistration) }
    }

    func enqueueLifetimeCheck(_ activity: Int, beganAtMilliseconds: Int64) {
        pendingCalls.append(PendingCall(activity: activity, claim: 0, lifeBeganAtMilliseconds: beganAtMilliseconds))
    }

    func reset() {
        verdicts = [:]
        replyCount = 0
        repeatedFailureCounts = [:]
        events = []
        lossReasons = []
    }

    /// Runs the loop once, after sending as many calls as possible.
    func step(waitMilliseconds: Int32 = 20) {
        prepareIteration()
        loop.runIteration(waitMilliseconds: waitMilliseconds)
    }

    private func prepareIteration() {
        // The test may have been busy for seconds. With an old clock, a new call would miss its deadline at
        // once.
        loop.refreshClock()
        issueAll()
    }

    /// Runs the loop until the condition holds. Returns false if it does not hold in time.
    func runLoop(limitMilliseconds: Int64 = EventLoop.eventWaitMillisecondsMax, until condition: () -> Bool) -> Bool {
        loop.run(withinMilliseconds: limitMilliseconds, waitMilliseconds: 20, step: prepareIteration, until: condition)
    }

    func awaitAllReplies() -> Bool { runLoop { waitingCallCount == 0 } }

    /// Makes a call. Returns whether all calls get their replies in time.
    func callAndAwaitReplies(_ activity: Int = 999_999) -> Bool {
        enqueue([activity], claim: 1)
        return awaitAllReplies()
    }

    static func withKey<Value>(of activity: Int, _ body: (UnsafeRawBufferPointer) -> Value) -> Value {
        Array(StoreModel.key(of: subject(activity)).utf8).withUnsafeBytes(body)
    }

    private static func subject(_ activity: Int) -> StoreSubject<[UInt8]> {
        StoreSubject(app: Array("app".utf8), kind: .activity, identifier: Array("activity-\(activity)".utf8))
    }

    private static let token = TokenRegistration<[UInt8]>(
        token: [1, 2, 3],
        environment: .sandbox,
        registeredAtMilliseconds: 1_700_000_000_000
    )

    private func issueAll() {
        // Tries each queued call once, until a connection is full. A call whose server is unreachable or lacks replicas
        // goes to the end of the queue.
        for _ in 0..<(pendingCalls.count - queueHead) {
            let call = pendingCalls[queueHead]
            switch issue(call) {
            case .issued:
                callsInFlight[nextTag] = call
                nextTag += 1
            case .notReady, .replicasMissing:
                pendingCalls.append(call)
            case .full, .outOfBounds:
                return
            }
            queueHead += 1
        }
        if queueHead > 65_536 {
            pendingCalls.removeFirst(queueHead)
            queueHead = 0
        }
    }

    private func issue(_ call: PendingCall) -> IssueResult {
        let operation: StoreCall<[UInt8]>.Operation =
            if let beganAtMilliseconds = call.lifeBeganAtMilliseconds {
                .checkLifetime(
                    beganAtMilliseconds: beganAtMilliseconds,
                    stateVersion: nil,
                    claimDelayMilliseconds: 60_000
                )
            } else if call.isRegistration {
                .register(Self.token, allowsFrequentUpdates: nil, shownVersion: nil, source: .record, audiences: nil)
            } else {
                .admitStart(version: Version(timestamp: 1_700_000_000, sequence: 0), claim: call.claim)
            }
        let call = StoreCall(tag: nextTag, subject: Self.subject(call.activity), operation: operation)
        return call.withBorrowedBytes { client.issue($0) }
    }

    private func redisReady() { events.append(.ready) }

    private func redisDisconnected(_ reason: RedisError) {
        events.append(.lost(reason.code))
        lossReasons.append(reason.reason)
    }

    private func redisWarned(_ warning: RedisWarning) { events.append(.warning(warning)) }

    private func handleReply(tag: UInt64, _ verdict: StoreVerdict) {
        guard let call = callsInFlight.removeValue(forKey: tag) else {
            preconditionFailure("a call that ended twice")
        }
        verdicts[call.activity] = verdict
        replyCount += 1
    }

    private func handleFailure(tag: UInt64, error: RedisError) {
        guard let call = callsInFlight.removeValue(forKey: tag) else {
            preconditionFailure("a call that ended twice")
        }
        if error.isRetriable {
            repeatedFailureCounts[error.code, default: 0] += 1
            pendingCalls.append(call)
        } else {
            refusedFailureCounts[error.code, default: 0] += 1
        }
    }
}
