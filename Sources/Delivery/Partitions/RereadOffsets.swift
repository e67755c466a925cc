/// The records of a partition that were settled before and are read again because Redis lost data. (R25)
struct RereadOffsets {
    let settledEndOffset: Int64
    /// The ranges of settled offsets from `settledEndOffset` on, ascending and disjoint.
    private let settledRanges: [Range<Int64>]
    /// One above the highest offset that was settled before. Most records are not below it, so `contains` seldom
    /// searches.
    private let lastRangeEndOffset: Int64

    /// Makes the value for a partition whose settled records are not read again.
    init() { self.init(below: .min, above: []) }

    init(below: Int64, above: [Range<Int64>]) {
        settledEndOffset = below
        settledRanges = above
        lastRangeEndOffset = above.last?.upperBound ?? below
    }

    func contains(_ offset: Int64) -> Bool {
        guard offset < lastRangeEndOffset else { return false }
        if offset < settledEndOffset { return true }
        // Binary search for the first range that ends above the offset.
        var (first, last) = (0, settledRanges.count)
        while first < last {
            let middle = (first + last) / 2
            if settledRanges[middle].upperBound <= offset { first = middle + 1 } else { last = middle }
        }
        return first < settledRanges.count && settledRanges[first].contains(offset)
    }
}
