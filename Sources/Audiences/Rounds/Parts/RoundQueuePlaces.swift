import Delivery

/// The places of a round in two queues of its app: the queue of rounds that may have something to send, and the queue
/// of rounds that need a page. See ``AppQueues``.
struct RoundQueuePlaces: BitwiseCopyable {
    /// Whether the round is in the queue of rounds that may have something to send.
    var isQueued = false
    /// The next round in the queue of rounds that may have something to send; `.null`: there is none, or this round is
    /// not in the queue.
    var next = RoundIndex.null
    /// Whether the round is put at the front of its app's queue, not at the end. True if its turn came, but its pages
    /// were too old and must be read again. At the end of the queue, the new pages could become too old as well.
    var mustQueueAtFront = false
    /// The number of pushes that the shell has got from the round since the round was put into the queue.
    var consecutivePushCount: UInt16 = 0
    /// Whether the round is in the queue of rounds that need a page.
    var awaitsPage = false
    /// The next round in the queue of rounds that need a page; `.null`: there is none, or this round is not in the
    /// queue.
    var nextAwaitingPage = RoundIndex.null
}
