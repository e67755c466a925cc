import Delivery

/// The places of a round (``RoundSlot``) in two queues of its app (``AppWork``). The send queue has the rounds that may
/// have something to send, the page queue those that need a page. The page queue is a ``LinkedList``.
struct RoundQueuePlaces: BitwiseCopyable {
    // The neighbours in the send queue; `.null`: there is none. No meaning while the round is not in the queue.
    var previousInSendQueue = RoundIndex.null
    var nextInSendQueue = RoundIndex.null
    /// The number of pushes that the shell has got from the round in its present turn.
    var consecutivePushCount: UInt16 = 0
    var isInSendQueue = false
    /// Whether the round joins the send queue at the front: its turn came, but its pages or its parked members were too
    /// old, and must be read again. From the end of the queue, they could be too old again at its next turn.
    var mustQueueAtFront = false
    /// Whether the round was put at the front of the send queue, and has not left the queue since.
    var isQueuedAtFront = false
    var isInPageQueue = false
}
