import ActivityStore
import CausewayCommandLine
import LiveActivity
import Reactor
import Redis

/// The activity store for a thread that waits for each reply: the calls are a lane's own, on a loop of their own.
final class BlockingStore: ActivityStoreHandler {
    /// How long Redis may be away, or refuse for a reason that passes.
    static let patienceMilliseconds: Int64 = 30_000
    /// The same for someone who wants to end.
    static let lastPatienceMilliseconds: Int64 = 1_000
    private static let turnMilliseconds: Int32 = 100
    /// Between two attempts at a call that was refused.
    private static let pauseMilliseconds: Int64 = 200

    private let loop: EventLoop
    private var store: ActivityStore?
    private var replies: [StoreReply<[UInt8]>?] = []
    /// Which calls these are, in the upper half of a tag: of calls that were given up a reply may still come.
    private var round: UInt64 = 0
    /// Of ``perform(_:)``'s calls, those that are to be made.
    private var waiting: [Int] = []
    private var outstanding = 0
    /// Nothing is called before, since a call was refused.
    private var pauseEndMilliseconds: Int64 = 0
    private var lastFailure = RedisError(.stream)
    private var refusal: RedisError?

    init(configuration: RedisConfiguration) throws {
        loop = try EventLoop()
        let store = ActivityStore(loop: loop, configuration: configuration, handler: self)
        self.store = store
        store.connect()
    }

    func close() {
        store?.close()
        store = nil
    }

    /// Makes the calls, each until it is answered; there must be no two on one subject, since their order is not kept.
    ///
    /// - Parameter isOver: asked while they wait; then they wait for ``lastPatienceMilliseconds`` only.
    /// - Throws: if none was answered for ``patienceMilliseconds``, or one was refused for good. Any of them may have been made.
    func perform(
        _ calls: [StoreCall<[UInt8]>],
        until isOver: () -> Bool = { false }
    ) throws(RedisError) -> [StoreReply<[UInt8]>] {
        round += 1
        replies = [StoreReply<[UInt8]>?](repeating: nil, count: calls.count)
        waiting = Array(calls.indices.reversed())
        (outstanding, refusal) = (0, nil)
        loop.refreshClock()
        var progressAt = loop.nowMilliseconds
        while outstanding > 0 || !waiting.isEmpty {
            let before = outstanding + waiting.count
            try issue(calls)
            loop.turn(waitMilliseconds: Self.turnMilliseconds)
            if let refusal { throw refusal }
            if outstanding + waiting.count < before { progressAt = loop.nowMilliseconds }
            let patience = isOver() ? Self.lastPatienceMilliseconds : Self.patienceMilliseconds
            if loop.nowMilliseconds - progressAt > patience { throw lastFailure }
        }
        return replies.compactMap(\.self)
    }

    private func issue(_ calls: [StoreCall<[UInt8]>]) throws(RedisError) {
        guard let store else { throw RedisError(.closed) }
        guard loop.nowMilliseconds >= pauseEndMilliseconds else { return }
        while let index = waiting.last {
            var call = calls[index]
            call.tag = round << 32 | UInt64(index)
            switch call.withBorrowedBytes({ store.issue($0) }) {
            case .issued:
                waiting.removeLast()
                outstanding += 1
            case .notReady, .full, .awaitsReplicas: return
            case .outOfBounds: throw RedisError(.unknown, "a record does not fit Redis' limits")
            }
        }
    }

    private func index(of tag: UInt64) -> Int? {
        let index = Int(tag & 0xFFFF_FFFF)
        return tag >> 32 == round && replies.indices.contains(index) ? index : nil
    }

    // MARK: - From Redis

    func replied(tag: UInt64, _ reply: StoreReply<UnsafeRawBufferPointer>) {
        guard let index = index(of: tag) else { return }
        outstanding -= 1
        replies[index] = reply.map { Array($0) }
    }

    func failed(tag: UInt64, script: StoreScript, error: RedisError) {
        guard let index = index(of: tag) else { return }
        outstanding -= 1
        lastFailure = error
        if error.storeFailure == .refused { refusal = error }
        waiting.append(index)
        pauseEndMilliseconds = loop.nowMilliseconds + Self.pauseMilliseconds
    }

    func redisReady() {}
    func redisLost(_ reason: RedisError) { lastFailure = reason }
    func redisWarns(_ warning: RedisWarning) {}
}
