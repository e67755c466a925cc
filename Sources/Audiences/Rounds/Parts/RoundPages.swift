import Delivery

/// The pages of members that a round (``RoundSlot``) has read or requested.
struct RoundPages: BitwiseCopyable {
    /// The round's list of pages, in the order of positions.
    var list = LinkedList<PageSlot>()
    /// The first page in the list; `.null`: the list is empty.
    var first: PageIndex { list.first }
    /// The page whose members have their turn now; `.null`: none. It moves when the next member is sought
    /// (``Audiences/moveToNextMember(of:endPosition:)``).
    var current = PageIndex.null
    var count: UInt16 = 0
    /// The bytes of the largest page that the round has read; nil: it has read none yet.
    @CompactOptional var largestPageBytes: Int64?

    /// The bytes that the round's next page will probably need: one and a half times the bytes of the largest page so
    /// far, plus 1 KiB, but at most ``PageSlot/expectedBytesMax``. Before the first page has been read, this maximum.
    /// The pages of one round have similar lengths, because members are spread evenly over segments.
    var nextPageExpectedBytes: Int {
        guard let largestPageBytes else { return PageSlot.expectedBytesMax }
        return min(PageSlot.expectedBytesMax, Int(largestPageBytes + largestPageBytes / 2 + 1_024))
    }
}
