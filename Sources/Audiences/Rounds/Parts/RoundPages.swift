import Delivery

/// The pages of members that a round has read or requested.
struct RoundPages: BitwiseCopyable {
    // The ends of the list of pages, which has the order of their positions; `.null`: the list is empty.
    var first = PageIndex.null
    var last = PageIndex.null
    /// The page whose members have their turn now; `.null`: none.
    var current = PageIndex.null
    var count: UInt16 = 0
    /// The bytes of the largest page that the round has read; nil: it has read none yet.
    var largestBytes: Int?

    /// The bytes that the round's next page is expected to occupy. Members are spread evenly over segments,
    /// so the pages of one round have similar lengths; those of a small audience differ by a few members.
    var expectedBytes: Int {
        guard let largestBytes else { return PageSlot.expectedBytesMax }
        return min(PageSlot.expectedBytesMax, largestBytes + largestBytes / 2 + 1_024)
    }
}
