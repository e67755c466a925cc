/// Tracks which records of one assigned partition are settled, and so which offset may be committed. (R10)
///
/// Every offset below the committable offset is settled. From there on, the ledger has one bit for each offset up to
/// the newest one. An offset without a record (after compaction, or of a transaction marker) counts as settled as soon
/// as the lane receives a later offset.
///
/// The *span* of the ledger is the offsets for which it can have bits: `spanOffsetCount` offsets from the committable
/// one on. The span moves up with the committable offset. The lane takes no record above the span (`hasRoom(for:)`).
///
/// The bits are in rings, which grow with the number of these offsets, up to `spanOffsetCount` bits. Rings of the
/// full size would take hundreds of megabytes in a worker with thousands of partitions, and `MemoryBudget` does not
/// count them.
///
/// The metadata of a commit names the settled offsets above the committable one, as far as there is room
/// (`SettledOffsetsText`). The next owner's ledger reads them before the first record (`restoreSettledOffsets`).
package struct PartitionLedger: ~Copyable {
    package enum ReceiveResult {
        case accepted
        case alreadyReceived
        /// A previous owner of the partition has settled the record.
        case settledByPreviousOwner
    }

    /// The number of bits in a new ring. No ring has fewer.
    private static var ringOffsetCountMin: Int { 64 }
    /// Larger rings shrink to this size, 4 KiB, when all received records are settled. It is not smaller, so that a
    /// ring shrinks and grows again at most once for each 32,768 records.
    private static var shrunkRingOffsetCount: Int { 1 << 15 }

    /// The number of offsets in the span: a power of two. No ring has more bits than this.
    let spanOffsetCount: Int
    /// The number of bits in each ring: a power of two, because the lowest bits of an offset are its index in the ring.
    private var ringOffsetCount = Self.ringOffsetCountMin
    /// A ring with one bit for each offset from the committable one on; a set bit: the offset is settled.
    private var settledBits: UnsafeMutablePointer<UInt64>
    /// The offset at which a new owner must begin to read. Once the lane has received a record, this offset never
    /// falls. It may fall with the first record: if the topic's log was replaced, this record is below the committed
    /// offset.
    package private(set) var committableOffset: Int64
    /// One above the highest received offset; 0 before the first record.
    package private(set) var nextOffset: Int64
    /// A number that grows when the settled offsets change: with each record that is settled, or skipped because a
    /// previous owner settled it, and with each gap without records above the committable offset. While it is
    /// unchanged, the lane need not report the settled offsets again.
    package private(set) var progressRevision: UInt64 = 0
    private var hasReceivedRecord = false
    /// One above the highest offset that a previous owner settled, as the commit's metadata says; `.min`: it names
    /// none. Below this offset, a bit may be set although the lane has not received the record yet.
    private var restoredEndOffset: Int64 = .min
    /// A second ring: a set bit means that the offset is settled, but the commit's metadata must not name it
    /// (``RecordEnding/isLeftOutOfMetadata``). What the record at this offset brought is now only in this worker's
    /// memory: for example, the token of a command that a newer command has replaced. Nil until there is such an
    /// offset.
    ///
    /// It is a ring and not a list, because in a backlog whose commands bring tokens nearly all settled offsets are of
    /// this kind.
    private var leftOutOfMetadataBits: UnsafeMutablePointer<UInt64>?

    package init(spanOffsetCount: Int) {
        precondition(spanOffsetCount >= Self.ringOffsetCountMin && spanOffsetCount & (spanOffsetCount - 1) == 0)
        self.spanOffsetCount = spanOffsetCount
        settledBits = Self.allocateRing(Self.ringOffsetCountMin)
        committableOffset = 0
        nextOffset = 0
    }

    deinit {
        settledBits.deallocate()
        leftOutOfMetadataBits?.deallocate()
    }

    var ringBytes: Int { ringOffsetCount / 8 * (leftOutOfMetadataBits == nil ? 1 : 2) }

    /// The number of offsets from the committable one to the last received one. Before the first record it has no
    /// meaning, and may be negative.
    package var offsetCountAboveCommittable: Int64 { nextOffset - committableOffset }

    /// Whether the ledger can take the record at `offset` now. False only if `offset` is above the span.
    package func hasRoom(for offset: Int64) -> Bool {
        guard hasReceivedRecord, offset > committableOffset else { return true }
        // If all received offsets are settled, the ledger can move on to `offset`, however many offsets are missing
        // before it.
        if committableOffset == nextOffset { return true }
        return offset - committableOffset < Int64(spanOffsetCount)
    }

    /// Notes that the lane received the record at `offset`. Returns whether the lane must process the record. It must
    /// not if the lane has received the record before, or if a previous owner settled it.
    package mutating func receive(_ offset: Int64) -> ReceiveResult {
        if !hasReceivedRecord { startLedger(at: offset) }
        guard offset >= nextOffset else { return .alreadyReceived }
        precondition(hasRoom(for: offset))
        if committableOffset == nextOffset {
            clearRestoredBits(below: offset)
            committableOffset = offset
        } else {
            makeRoomInRings(below: offset + 1)
            var skippedOffset = nextOffset
            // Offsets without records count as settled. They may be the last reread offsets that were not settled
            // (`RereadOffsets`), so the lane must report them.
            if skippedOffset < offset { progressRevision &+= 1 }
            while skippedOffset < offset {
                setSettledBit(skippedOffset)
                skippedOffset += 1
            }
        }
        nextOffset = offset + 1
        guard offset < restoredEndOffset, isSettled(offset) else { return .accepted }
        progressRevision &+= 1
        advanceCommittableOffset()
        return .settledByPreviousOwner
    }

    /// Reads which records previous owners of the partition settled above its committed offset. Call this before the
    /// first record.
    ///
    /// - Parameters:
    ///   - metadata: the metadata of the commit. Malformed text, and text for another offset, is refused.
    ///   - logEndOffset: the offset that the next record written to the partition gets. Settled offsets from there on
    ///     have no record yet, and are ignored.
    /// - Returns: how many settled offsets below `logEndOffset` the metadata names; nil if the metadata was refused.
    package mutating func restoreSettledOffsets(
        at committedOffset: Int64,
        metadata: UnsafeRawBufferPointer,
        logEndOffset: Int64
    ) -> Int? {
        guard let ranges = SettledOffsetsText.decode(metadata, committedOffset: committedOffset) else { return nil }
        let rangesInLog = ranges.map { $0.clamped(to: committedOffset..<max(committedOffset, logEndOffset)) }
        restoreSettledOffsets(at: committedOffset, settled: rangesInLog)
        return rangesInLog.reduce(0) { $0 + $1.count }
    }

    /// Marks the offsets that previous owners of the partition settled. Call this before the first record.
    ///
    /// - Parameters:
    ///   - committedOffset: the group's committed offset, from which the lane reads the partition.
    ///   - ranges: ascending and disjoint, none below `committedOffset`. Offsets that are `spanOffsetCount` or more
    ///     above it are ignored, because the ledger has no bits for them: their records are processed again.
    package mutating func restoreSettledOffsets(at committedOffset: Int64, settled ranges: [Range<Int64>]) {
        precondition(!hasReceivedRecord)
        let span = committedOffset..<committedOffset + Int64(spanOffsetCount)
        committableOffset = committedOffset
        for range in ranges.map({ $0.clamped(to: span) }) where !range.isEmpty {
            makeRoomInRings(below: range.upperBound)
            for offset in range { setSettledBit(offset) }
            restoredEndOffset = range.upperBound
        }
    }

    /// The ranges of settled offsets that the commit's metadata may name, lowest first. The metadata has one of two
    /// forms (`SettledOffsetsText`). The list ends where neither form can name more.
    var settledRanges: [Range<Int64>] {
        var ranges: [Range<Int64>] = []
        let endOffset = max(nextOffset, restoredEndOffset)
        // The form with bits can name all offsets below `bitFormEndOffset`. The form with runs can name the first
        // `rangesMax` ranges.
        let bitFormEndOffset = committableOffset + SettledOffsetsText.bitsMax
        var offset = committableOffset
        while ranges.count < SettledOffsetsText.rangesMax || offset < bitFormEndOffset {
            let firstOffset = findFirstOffset(mayBeNamedInMetadata: true, from: offset, below: endOffset)
            guard firstOffset < endOffset else { break }
            offset = findFirstOffset(mayBeNamedInMetadata: false, from: firstOffset, below: endOffset)
            ranges.append(firstOffset..<offset)
        }
        return ranges
    }

    /// Returns the first offset in the range that is not settled, or that the lane has not received; nil if there is
    /// none.
    func findUnsettledOffset(in range: Range<Int64>) -> Int64? {
        var offset = max(range.lowerBound, committableOffset)
        while offset < range.upperBound {
            guard offset < nextOffset, isSettled(offset) else { return offset }
            offset += 1
        }
        return nil
    }

    /// Returns the first offset, from `first` on, that the metadata may name. If `mayBeNamed` is false, returns the
    /// first one that the metadata must not name. Returns `endOffset` if there is none below `endOffset`.
    private func findFirstOffset(mayBeNamedInMetadata mayBeNamed: Bool, from first: Int64, below endOffset: Int64)
        -> Int64
    {
        var offset = first
        while offset < endOffset {
            let bitIndex = Int(offset) & (ringOffsetCount - 1)
            let nameableBits = settledBits[bitIndex >> 6] & ~(leftOutOfMetadataBits?[bitIndex >> 6] ?? 0)
            let word = mayBeNamed ? nameableBits : ~nameableBits
            let remainingBits = word >> UInt64(bitIndex & 63)
            if remainingBits != 0 { return min(endOffset, offset + Int64(remainingBits.trailingZeroBitCount)) }
            offset += Int64(64 - bitIndex & 63)
        }
        return endOffset
    }

    /// Clears the bits below `bound` of restored offsets whose records the lane will not receive. In the ring, an
    /// offset that is `ringOffsetCount` higher has the same bit, and would otherwise seem to be settled.
    private func clearRestoredBits(below bound: Int64) {
        var offset = committableOffset
        while offset < min(bound, restoredEndOffset) {
            clearSettledBit(offset)
            offset += 1
        }
    }

    /// Starts the ledger at the first received offset or, if previous owners settled records above the committed
    /// offset, at the committed offset. If the first received offset is below the committed one, the topic's log was
    /// replaced: the restored bits are wrong, and are cleared.
    private mutating func startLedger(at offset: Int64) {
        hasReceivedRecord = true
        if restoredEndOffset > .min, offset < committableOffset {
            clearRestoredBits(below: .max)
            restoredEndOffset = .min
        }
        if restoredEndOffset == .min { committableOffset = offset }
        nextOffset = committableOffset
    }

    /// Notes that the record at `offset` is settled. Traps if it was settled before.
    ///
    /// - Parameter isLeftOutOfMetadata: whether the commit's metadata must not name the record, because what it brought
    ///   now exists only in this worker's memory (`RecordEnding.isLeftOutOfMetadata`). If false, the metadata may name
    ///   it: the next owner then skips it even if a record at a lower offset is unsettled.
    package mutating func settle(_ offset: Int64, isLeftOutOfMetadata: Bool = false) {
        precondition(offset >= committableOffset && offset < nextOffset, "a record outside of the span was settled")
        precondition(!isSettled(offset), "a record was settled twice")
        setSettledBit(offset)
        progressRevision &+= 1
        advanceCommittableOffset()
        if isLeftOutOfMetadata, offset > committableOffset { leaveOutOfMetadata(offset) }
    }

    /// Moves the committable offset up to the first offset that is not settled.
    private mutating func advanceCommittableOffset() {
        let previousOffset = committableOffset
        while committableOffset < nextOffset, isSettled(committableOffset) {
            clearSettledBit(committableOffset)
            committableOffset += 1
        }
        if let leftOutOfMetadataBits {
            for offset in previousOffset..<committableOffset {
                let bitIndex = Int(offset) & (ringOffsetCount - 1)
                leftOutOfMetadataBits[bitIndex >> 6] &= ~(1 << UInt64(bitIndex & 63))
            }
        }
        if ringOffsetCount > Self.shrunkRingOffsetCount { shrinkRingsIfAllSettled() }
    }

    private mutating func leaveOutOfMetadata(_ offset: Int64) {
        if leftOutOfMetadataBits == nil { leftOutOfMetadataBits = Self.allocateRing(ringOffsetCount) }
        let bitIndex = Int(offset) & (ringOffsetCount - 1)
        leftOutOfMetadataBits?[bitIndex >> 6] |= 1 << UInt64(bitIndex & 63)
    }

    private func isSettled(_ offset: Int64) -> Bool {
        let bitIndex = Int(offset) & (ringOffsetCount - 1)
        return settledBits[bitIndex >> 6] & (1 << UInt64(bitIndex & 63)) != 0
    }

    private func setSettledBit(_ offset: Int64) {
        let bitIndex = Int(offset) & (ringOffsetCount - 1)
        settledBits[bitIndex >> 6] |= 1 << UInt64(bitIndex & 63)
    }

    private func clearSettledBit(_ offset: Int64) {
        let bitIndex = Int(offset) & (ringOffsetCount - 1)
        settledBits[bitIndex >> 6] &= ~(1 << UInt64(bitIndex & 63))
    }

    // MARK: - Rings of bits

    private static func allocateRing(_ offsetCount: Int) -> UnsafeMutablePointer<UInt64> {
        let ring = UnsafeMutablePointer<UInt64>.allocate(capacity: offsetCount / 64)
        ring.initialize(repeating: 0, count: offsetCount / 64)
        return ring
    }

    /// Makes the rings large enough for all offsets from the committable one on that are below `endOffset`.
    @inline(__always)
    private mutating func makeRoomInRings(below endOffset: Int64) {
        if endOffset - committableOffset > Int64(ringOffsetCount) { growRings(toCover: endOffset - committableOffset) }
    }

    /// Grows the rings. Not inlined, because a ring rarely grows.
    @inline(never)
    private mutating func growRings(toCover offsetCount: Int64) {
        precondition(offsetCount <= Int64(spanOffsetCount), "an offset is beyond the span")
        var newOffsetCount = ringOffsetCount
        while Int64(newOffsetCount) < offsetCount { newOffsetCount *= 2 }
        settledBits = moveBits(of: settledBits, toRingOf: newOffsetCount)
        if let leftOutOfMetadataBits {
            self.leftOutOfMetadataBits = moveBits(of: leftOutOfMetadataBits, toRingOf: newOffsetCount)
        }
        ringOffsetCount = newOffsetCount
    }

    /// Copies the bits of a ring to their places in a larger one, and deallocates the ring. Returns the larger ring.
    private func moveBits(of ring: UnsafeMutablePointer<UInt64>, toRingOf newOffsetCount: Int)
        -> UnsafeMutablePointer<UInt64>
    {
        let newRing = Self.allocateRing(newOffsetCount)
        let endOffset = max(nextOffset, restoredEndOffset)
        var offset = committableOffset
        while offset < endOffset {
            let (bitIndex, newBitIndex) = (Int(offset) & (ringOffsetCount - 1), Int(offset) & (newOffsetCount - 1))
            newRing[newBitIndex >> 6] |= ring[bitIndex >> 6] & (1 << UInt64(bitIndex & 63))
            offset += 1
        }
        ring.deallocate()
        return newRing
    }

    /// Replaces large rings by small ones if all received records are settled: then no bit is set.
    private mutating func shrinkRingsIfAllSettled() {
        guard committableOffset == nextOffset, restoredEndOffset <= committableOffset else { return }
        settledBits.deallocate()
        leftOutOfMetadataBits?.deallocate()
        ringOffsetCount = Self.shrunkRingOffsetCount
        (settledBits, leftOutOfMetadataBits) = (Self.allocateRing(ringOffsetCount), nil)
    }
}
