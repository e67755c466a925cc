import Delivery

/// The places of a round (``RoundSlot``) in two queues of its app (``AppWork``). The send queue has the rounds that may
/// have something to send, the page queue those that need a page.
struct RoundQueuePlaces: BitwiseCopyable {
    var isInSendQueue = false
    /// The next round in the send queue; `.null`: there is none, or this round is not in the queue.
    var nextInSendQueue = RoundIndex.null
    /// Whether the round is put at the front of the send queue, not at the end. True if its turn came, but its pages
    /// were too old and must be read again. At the end of the queue, the new pages could become too old as well.
    var mustQueueAtFront = false
    /// The number of pushes that the shell has got from the round since the round was put into the send queue.
    var consecutivePushCount: UInt16 = 0
    var isInPageQueue = false
    /// The next round in the page queue; `.null`: there is none, or this round is not in the queue.
    var nextInPageQueue = RoundIndex.null
}
