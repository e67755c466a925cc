import ActivityStore
import CausewayCommandLine
import LiveActivity
import Reactor
import Redis

/// The activity store for a thread that waits for each reply: the calls are a lane's own, on a loop of their own.
final class BlockingStore: ActivityStoreHandler {
    /// How long Redis may be away, or refuse for a reason that passes.
    private static let patienceMilliseconds: Int64 = 30_000
    private static let turnMilliseconds: Int32 = 100
    /// Between two attempts at a call that was refused.
    private static let pauseMilliseconds: Int64 = 200

    private let loop: EventLoop
    private var store: ActivityStore?
    private var replies: [StoreReply<[UInt8]>?] = []
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

    func perform(_ call: StoreCall<[UInt8]>) throws(RedisError) -> StoreReply<[UInt8]> { try perform([call])[0] }

    /// Makes the calls, each until it is answered; there must be no two on one subject, since their order is not kept.
    func perform(_ calls: [StoreCall<[UInt8]>]) throws(RedisError) -> [StoreReply<[UInt8]>] {
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
            if loop.nowMilliseconds - progressAt > Self.patienceMilliseconds { throw lastFailure }
        }
        return replies.compactMap(\.self)
    }

    private func issue(_ calls: [StoreCall<[UInt8]>]) throws(RedisError) {
        guard let store else { throw RedisError(.closed) }
        guard loop.nowMilliseconds >= pauseEndMilliseconds else { return }
        while let index = waiting.last {
            var call = calls[index]
            call.tag = UInt64(index)
            switch call.withBorrowedBytes({ store.issue($0) }) {
            case .issued:
                waiting.removeLast()
                outstanding += 1
            case .notReady, .full: return
            case .outOfBounds: throw RedisError(.unknown, "a record does not fit Redis' limits")
            }
        }
    }

    // MARK: - From Redis

    func replied(tag: UInt64, _ reply: StoreReply<UnsafeRawBufferPointer>) {
        guard replies.indices.contains(Int(tag)) else { return }
        outstanding -= 1
        replies[Int(tag)] = reply.map { Array($0) }
    }

    func failed(tag: UInt64, script: StoreScript, error: RedisError) {
        guard replies.indices.contains(Int(tag)) else { return }
        outstanding -= 1
        lastFailure = error
        if error.storeFailure == .refused { refusal = error }
        waiting.append(Int(tag))
        pauseEndMilliseconds = loop.nowMilliseconds + Self.pauseMilliseconds
    }

    func redisReady() {}
    func redisLost(_ reason: RedisError) { lastFailure = reason }
    func redisWarns(_ warning: RedisWarning) {}
}
