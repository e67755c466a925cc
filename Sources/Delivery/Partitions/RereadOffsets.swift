/// The reread records of a partition: they were settled before, and Redis lost what they wrote. (R25)
///
/// A reread record restores what Redis lost: the token of a registration, the version of a start, the version or held
/// state of an update or end. The record has a second result only if its command is now sent, held or `failed`, or if
/// the command counts superseded commands.
///
/// The lane reads ahead until it has received all reread records (`ReadAhead.noteLag`). Otherwise an activity could get
/// several old states, one after the other, before the lane reads the newest one.
struct RereadOffsets {
    /// All records below this offset were settled before.
    let settledEndOffset: Int64
    /// The ranges of settled offsets from `settledEndOffset` on, ascending and disjoint.
    private let settledRanges: [Range<Int64>]
    /// One above the highest offset of a reread record. Most records are at or above it, so that `contains` needs no
    /// search.
    private let rereadEndOffset: Int64

    /// Makes the value for a partition without reread records.
    init() { self.init(settledEndOffset: .min, settledRanges: []) }

    init(settledEndOffset: Int64, settledRanges: [Range<Int64>]) {
        self.settledEndOffset = settledEndOffset
        self.settledRanges = settledRanges
        rereadEndOffset = settledRanges.last?.upperBound ?? settledEndOffset
    }

    /// Whether a record at `offset` or above may be reread.
    func mayContainOffsets(from offset: Int64) -> Bool { offset < rereadEndOffset }

    /// Whether the record at `offset` is reread.
    func contains(_ offset: Int64) -> Bool {
        guard offset < rereadEndOffset else { return false }
        if offset < settledEndOffset { return true }
        // Binary search for the first range that ends above the offset.
        var (low, high) = (0, settledRanges.count)
        while low < high {
            let middle = (low + high) / 2
            if settledRanges[middle].upperBound <= offset { low = middle + 1 } else { high = middle }
        }
        return low < settledRanges.count && settledRanges[low].contains(offset)
    }
}
