/// The reread records of a partition: they were settled before, and Redis lost what they wrote. (R25)
///
/// A reread record restores what Redis lost: the token of a registration, the version of a start, the version or held
/// state of an update or end. The record has a second result only if its command is now sent, held or `failed`, or if
/// the command counts superseded commands.
///
/// Until all reread records are settled again, the metadata of commits names those at or above the settled offset
/// (``mergeRanges(with:from:)``). Otherwise another loss of Redis, or another owner of the partition, would make the
/// missing ones new records: a start would be sent twice.
///
/// The lane reads ahead until it has received all reread records (`ReadAhead.noteLag`). Otherwise an activity could get
/// several old states, one after the other, before the lane reads the newest one.
struct RereadOffsets {
    /// All records below this offset were settled before Redis lost data.
    let settledEndOffset: Int64
    /// Which records from `settledEndOffset` on were settled before Redis lost data: ranges of offsets, ascending and
    /// disjoint.
    private let settledRanges: [Range<Int64>]
    /// One above the highest offset of a reread record. Most records are at or above this offset, so that `contains`
    /// needs no search for them.
    private let rereadEndOffset: Int64
    /// All records of `settledRanges` below this offset are settled again.
    private var settledAgainEndOffset: Int64 = .min

    /// Makes the value for a partition without reread records.
    init() { self.init(settledEndOffset: .min, settledRanges: []) }

    init(settledEndOffset: Int64, settledRanges: [Range<Int64>]) {
        self.settledEndOffset = settledEndOffset
        self.settledRanges = settledRanges
        rereadEndOffset = settledRanges.last?.upperBound ?? settledEndOffset
    }

    /// Whether a record at `offset` or above may be reread.
    func mayContainOffsets(from offset: Int64) -> Bool { offset < rereadEndOffset }

    /// Whether all reread records at or above `settledEndOffset` are settled again. If so, the ledger alone says which
    /// records are settled.
    var areRangesSettledAgain: Bool { settledRanges.isEmpty || settledAgainEndOffset >= rereadEndOffset }

    /// Notes which reread records the lane has settled again. Continues at the first record that was not settled at the
    /// last call.
    mutating func noteSettledRecords(of ledger: borrowing PartitionLedger) {
        guard !areRangesSettledAgain else { return }
        for range in settledRanges where range.upperBound > settledAgainEndOffset {
            let offset = ledger.findUnsettledOffset(in: max(range.lowerBound, settledAgainEndOffset)..<range.upperBound)
            settledAgainEndOffset = offset ?? range.upperBound
            if offset != nil { return }
        }
    }

    /// Returns the union of `ranges` and of `settledRanges`, without the offsets below `firstOffset`.
    ///
    /// - Parameter ranges: ascending and disjoint, none below `firstOffset`.
    func mergeRanges(with ranges: [Range<Int64>], from firstOffset: Int64) -> [Range<Int64>] {
        let rereadRanges = settledRanges.filter { $0.upperBound > firstOffset }
            .map { max($0.lowerBound, firstOffset)..<$0.upperBound }
        var mergedRanges: [Range<Int64>] = []
        for range in (ranges + rereadRanges).sorted(by: { $0.lowerBound < $1.lowerBound }) {
            if let last = mergedRanges.last, last.upperBound >= range.lowerBound {
                mergedRanges[mergedRanges.count - 1] = last.lowerBound..<max(last.upperBound, range.upperBound)
            } else {
                mergedRanges.append(range)
            }
        }
        return mergedRanges
    }

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
