import ActivityStore
import LiveActivity
import Reactor
import Redis
import RedisTestbed
import Testbed
import Testing

/// Admits commands to audiences with the script `audience`, as a lane does.
final class AudienceAdmitter: AudienceStoreHandler {
    enum Command: CaseIterable { case start, end }

    private let loop: EventLoop
    private let configuration: RedisConfiguration
    private lazy var store = AudienceStore(loop: loop, configuration: configuration, handler: self)
    private var verdict: AudienceVerdict?
    private var failure: RedisError?
    private var commandCount: UInt64 = 0

    init(_ server: RedisServer) throws {
        loop = try EventLoop()
        configuration = RedisConfiguration(url: try RedisURL(server.unixURL))
        store.connect()
    }

    deinit { store.close() }

    /// Admits a command that is newer than all earlier ones.
    func admit(_ command: Command, app: String, audience: String) throws {
        commandCount += 1
        let budget = Policy.Bucket(pushes: 1, refillPerHour: 1, reservedForAlerts: 0)
        let admission = AudienceAdmission(
            version: Version(timestamp: 1_790_000_000, sequence: commandCount),
            digest: commandCount,
            pace: Policy.Pace(
                spacingMilliseconds: 0,
                throttledSpacingMillisecondsMax: 0,
                throttleRecoveryMilliseconds: 60_000,
                budget: budget,
                frequentBudget: budget
            ),
            isEnd: command == .end,
            isStart: command == .start,
            requestsHighPriority: false,
            mayUseReserve: false,
            rangeCount: 1,
            body: Array("{}".utf8),
            expirationSeconds: 0
        )
        let call = AudienceCall(
            tag: commandCount,
            app: Array(app.utf8),
            audience: Array(audience.utf8).withUnsafeBytes { AudienceDigest(of: $0) },
            operation: .admit(admission)
        )
        (verdict, failure) = (nil, nil)
        try #require(loop.run { store.isReady })
        try #require(call.withBorrowedBytes { store.issue($0) } == .issued)
        try #require(loop.run { verdict != nil || failure != nil })
        try #require(verdict == .send, "\(String(describing: failure))")
    }

    func audienceStoreReplied(tag: UInt64, _ reply: AudienceReply<UnsafeRawBufferPointer>) { verdict = reply.verdict }
    func audienceCallFailed(tag: UInt64, error: RedisError) { failure = error }
    func audienceStoreReady() {}
    func audienceStoreDisconnected(_ reason: RedisError) {}
}
