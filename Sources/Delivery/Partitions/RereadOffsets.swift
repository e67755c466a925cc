/// The records of a partition that were settled before and are read again because Redis lost data. (R25)
struct RereadOffsets {
    let settledBelow: Int64
    /// The ranges of settled offsets from `settledBelow` on, ascending and disjoint.
    private let rangesAbove: [Range<Int64>]
    private let end: Int64

    /// Makes the value for a partition whose settled records are not read again.
    init() { self.init(below: .min, above: []) }

    init(below: Int64, above: [Range<Int64>]) {
        settledBelow = below
        rangesAbove = above
        end = above.last?.upperBound ?? below
    }

    func contains(_ offset: Int64) -> Bool {
        guard offset < end else { return false }
        if offset < settledBelow { return true }
        // Binary search for the first range that ends above the offset.
        var (first, last) = (0, rangesAbove.count)
        while first < last {
            let middle = (first + last) / 2
            if rangesAbove[middle].upperBound <= offset { first = middle + 1 } else { last = middle }
        }
        return first < rangesAbove.count && rangesAbove[first].contains(offset)
    }
}
