import ActivityStore
import LiveActivity
import Reactor
import Redis

/// The stores of activities and audiences, for a thread that waits for each reply. They make the same calls as a lane,
/// on an event loop of their own.
final class BlockingStore {
    /// How long `perform` waits while no call succeeds, because Redis is down or refuses calls for a temporary reason.
    /// Then `perform` fails.
    static let silenceMillisecondsMax: Int64 = 30_000
    /// Replaces ``silenceMillisecondsMax`` after the user has asked to stop.
    static let cancelledSilenceMillisecondsMax: Int64 = 1_000
    static let iterationWaitMillisecondsMax: Int32 = 100
    /// The pause before a failed call is made again.
    static let retryPauseMilliseconds: Int64 = 200
    private static let warningsMax = 16

    private let loop: EventLoop
    private let configuration: RedisConfiguration
    private let activityCalls: BlockingCalls<StoreCall<[UInt8]>, StoreReply<[UInt8]>>
    private let audienceCalls: BlockingCalls<AudienceCall<[UInt8]>, AudienceReply<[UInt8]>>
    private var activityStore: ActivityStore?
    /// The store of audiences; nil before the first call about an audience, and after `close`.
    private var audienceStore: AudienceStore?
    private var isClosed = false
    /// What the servers warned of, each warning once, at most `warningsMax`. Kept after `close`.
    private(set) var warnings: [RedisWarning] = []

    init(configuration: RedisConfiguration) throws {
        loop = try EventLoop()
        self.configuration = configuration
        activityCalls = BlockingCalls(loop: loop)
        audienceCalls = BlockingCalls(loop: loop)
        let store = ActivityStore(loop: loop, configuration: configuration, handler: self)
        activityStore = store
        store.connect()
    }

    func close() {
        isClosed = true
        activityStore?.close()
        audienceStore?.close()
        (activityStore, audienceStore) = (nil, nil)
    }

    /// Makes the calls, and waits until each has its reply. Repeats calls that fail. No two calls may concern the same
    /// activity or device, because Redis may carry them out in any order.
    ///
    /// - Parameter isCancelled: called repeatedly while waiting. After it has returned true, the method gives up if no
    ///   call succeeds for ``cancelledSilenceMillisecondsMax``.
    /// - Throws: an error in each of these cases. Redis may have carried out any of the calls.
    ///   - No call has succeeded for ``silenceMillisecondsMax``, or for the shorter time that applies after
    ///     `isCancelled` has returned true.
    ///   - Redis refused a call for good.
    ///   - A call exceeds Redis' limits.
    ///   - The store is closed.
    func perform(
        _ calls: [StoreCall<[UInt8]>],
        until isCancelled: () -> Bool = { false }
    ) throws(RedisError) -> [StoreReply<[UInt8]>] {
        try activityCalls.perform(calls, until: isCancelled) { [self] call, tag in
            var call = call
            call.tag = tag
            return activityStore.map { store in call.withBorrowedBytes { store.issue($0) } }
        }
    }

    /// Makes the calls for audiences. Redis may carry them out in any order. So two calls may concern the same
    /// audience's hash in Redis (its commands and ranges), or the same member of an audience, only if their order does
    /// not matter.
    ///
    /// If a call makes a page too long, the store shortens or splits the page afterwards. This method waits until the
    /// store has done so, but at most for ``cancelledSilenceMillisecondsMax``.
    func perform(
        _ calls: [AudienceCall<[UInt8]>],
        until isCancelled: () -> Bool = { false }
    ) throws(RedisError) -> [AudienceReply<[UInt8]>] {
        guard !calls.isEmpty else { return [] }
        connectAudienceStore()
        let replies = try audienceCalls.perform(calls, until: isCancelled) { [self] call, tag in
            var call = call
            call.tag = tag
            return audienceStore.map { store in call.withBorrowedBytes { store.issue($0) } }
        }
        let endMilliseconds = loop.nowMilliseconds + Self.cancelledSilenceMillisecondsMax
        while audienceStore.map({ $0.outstandingCallCount > 0 }) ?? false, loop.nowMilliseconds < endMilliseconds {
            loop.runIteration(waitMilliseconds: Self.iterationWaitMillisecondsMax)
        }
        return replies
    }

    private func connectAudienceStore() {
        guard audienceStore == nil, !isClosed else { return }
        let store = AudienceStore(loop: loop, configuration: configuration, handler: self)
        audienceStore = store
        store.connect()
    }
}

extension BlockingStore: ActivityStoreHandler {
    func storeReplied(tag: UInt64, _ reply: StoreReply<UnsafeRawBufferPointer>) {
        activityCalls.noteReply(tag: tag, reply.map { Array($0) })
    }

    func storeCallFailed(tag: UInt64, script: StoreScript, error: RedisError) {
        activityCalls.noteFailure(tag: tag, error)
    }
    func redisReady() {}
    func redisDisconnected(_ reason: RedisError) { activityCalls.noteConnectionLoss(reason) }
    func redisWarned(_ warning: RedisWarning) {
        // Skip a known warning: each server of a cluster warns, and warns again after a lost connection.
        if !warnings.contains(warning), warnings.count < Self.warningsMax { warnings.append(warning) }
    }
}

extension BlockingStore: AudienceStoreHandler {
    func audienceStoreReplied(tag: UInt64, _ reply: AudienceReply<UnsafeRawBufferPointer>) {
        audienceCalls.noteReply(tag: tag, reply.map { Array($0) })
    }

    func audienceCallFailed(tag: UInt64, error: RedisError) { audienceCalls.noteFailure(tag: tag, error) }
    func audienceStoreReady() {}
    func audienceStoreDisconnected(_ reason: RedisError) { audienceCalls.noteConnectionLoss(reason) }
}
