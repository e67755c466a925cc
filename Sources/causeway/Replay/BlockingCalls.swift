import ActivityStore
import LiveActivity
import Reactor
import Redis

/// Makes Redis calls on an event loop. Blocks the thread until all replies have come.
final class BlockingCalls<Call, Reply> {
    private let loop: EventLoop
    private var replies: [Reply?] = []
    /// The number of the present batch of calls, which is in the upper half of each call's tag. A late reply to an
    /// earlier batch has another number, and is ignored.
    private var batchNumber: UInt64 = 0
    /// The indices of the calls that ``perform(_:until:issue:)`` must still make.
    private var waitingIndices: [Int] = []
    private var inFlightCallCount = 0
    /// After a call has failed, no call is made before this time.
    private var pauseEndMilliseconds: Int64 = 0
    /// The reason of the latest failed call or lost connection; nil if no call has failed and no connection was lost.
    private var lastFailure: RedisError?
    private var refusal: RedisError?

    init(loop: EventLoop) { self.loop = loop }

    /// Makes the calls, and waits until each has its reply. Repeats calls that fail.
    ///
    /// - Parameters:
    ///   - isCancelled: called repeatedly while waiting. After it has returned true, the method gives up if no call
    ///     succeeds for ``BlockingStore/cancelledSilenceMillisecondsMax``.
    ///   - issue: makes a call with a tag; returns nil if the store is closed.
    /// - Throws: an error in each of these cases. Redis may have carried out any of the calls.
    ///   - No call has succeeded for ``BlockingStore/silenceMillisecondsMax``, or for the shorter time that applies
    ///     after `isCancelled` has returned true.
    ///   - Redis refused a call for good.
    ///   - A call exceeds Redis' limits.
    ///   - The store is closed.
    func perform(
        _ calls: [Call],
        until isCancelled: () -> Bool,
        issue: (Call, _ tag: UInt64) -> IssueResult?
    ) throws(RedisError) -> [Reply] {
        batchNumber += 1
        replies = [Reply?](repeating: nil, count: calls.count)
        waitingIndices = Array(calls.indices.reversed())
        (inFlightCallCount, refusal) = (0, nil)
        loop.refreshClock()
        var lastProgressAtMilliseconds = loop.nowMilliseconds
        while inFlightCallCount > 0 || !waitingIndices.isEmpty {
            let outstandingCountBefore = inFlightCallCount + waitingIndices.count
            try issueWaitingCalls(calls, issue)
            loop.runIteration(waitMilliseconds: BlockingStore.iterationWaitMillisecondsMax)
            if let refusal { throw refusal }
            if inFlightCallCount + waitingIndices.count < outstandingCountBefore {
                lastProgressAtMilliseconds = loop.nowMilliseconds
            }
            let silenceMillisecondsMax =
                isCancelled() ? BlockingStore.cancelledSilenceMillisecondsMax : BlockingStore.silenceMillisecondsMax
            if loop.nowMilliseconds - lastProgressAtMilliseconds > silenceMillisecondsMax {
                throw lastFailure ?? RedisError(.stream)
            }
        }
        return replies.compactMap(\.self)
    }

    /// Makes waiting calls until the store takes no more. After a failed call, makes none until the pause ends.
    private func issueWaitingCalls(
        _ calls: [Call],
        _ issue: (Call, _ tag: UInt64) -> IssueResult?
    ) throws(RedisError) {
        guard loop.nowMilliseconds >= pauseEndMilliseconds else { return }
        while let index = waitingIndices.last {
            switch issue(calls[index], batchNumber << 32 | UInt64(index)) {
            case .issued:
                waitingIndices.removeLast()
                inFlightCallCount += 1
            case .notReady, .full, .replicasMissing: return
            case .outOfBounds: throw RedisError(.unknown, "a record exceeds Redis' limits")
            case nil: throw RedisError(.closed)
            }
        }
    }

    private func callIndex(of tag: UInt64) -> Int? {
        let index = Int(tag & 0xFFFF_FFFF)
        return tag >> 32 == batchNumber && replies.indices.contains(index) ? index : nil
    }

    // MARK: - From Redis

    /// Takes the reply to a call. Ignores a reply to an earlier batch.
    func noteReply(tag: UInt64, _ reply: Reply) {
        guard let index = callIndex(of: tag) else { return }
        inFlightCallCount -= 1
        replies[index] = reply
    }

    /// Lets a failed call be made again after a pause. If Redis refused the call for good, ``perform(_:until:issue:)``
    /// throws. Ignores a call of an earlier batch.
    func noteFailure(tag: UInt64, _ error: RedisError) {
        guard let index = callIndex(of: tag) else { return }
        inFlightCallCount -= 1
        lastFailure = error
        if error.storeFailure == .refused { refusal = error }
        waitingIndices.append(index)
        pauseEndMilliseconds = loop.nowMilliseconds + BlockingStore.retryPauseMilliseconds
    }

    func noteConnectionLoss(_ reason: RedisError) { lastFailure = reason }
}
