/// The records of a partition that were read when the core had no room for them. Their offsets stay unsettled. When an
/// app has room, the partition is read again from the first passed-over record of the app. (R30)
///
/// Each record takes one bit. The bits cover as many offsets as the span of the partition's ledger (`PartitionLedger`),
/// and are allocated when the first record is passed over.
struct PassedOverRecords: ~Copyable {
    struct LowestRecord {
        var appIndex: UInt16
        var offset: Int64
        /// When the record's command was admitted, UNIX milliseconds; for the app's ``RoundGauges``.
        var admittedAtWallMilliseconds: Int64
    }

    private let spanOffsetCount: Int
    private var bits: UnsafeMutablePointer<UInt64>?
    private(set) var count = 0
    /// Each app's passed-over record with the lowest offset. An app has no entry if none of its records was passed
    /// over, or if the partition is being read again and the reading will still reach the app's records
    /// (``noteRewind(to:)``).
    ///
    /// While an app has an entry, the core also passes over later records of the app, so that these stay in order.
    /// Exception: records for ranges that already have a round (``RoundSlot``).
    private(set) var lowestRecordOfEachApp: [LowestRecord] = []
    /// The first offset that was too far ahead for the partition's ledger; nil: there is none. Until the partition is
    /// read again, the core takes no record at this offset or above it.
    private(set) var firstOffsetBeyondLedger: Int64?
    /// While the partition is being read again: the offset that is expected next. Otherwise `.max`.
    private(set) var expectedOffset = Int64.max

    init(spanOffsetCount: Int) { self.spanOffsetCount = spanOffsetCount }

    deinit { bits?.deallocate() }

    /// Whether the record at this offset was passed over.
    ///
    /// - Parameter offset: must be in the ledger's span, which ``FanoutPartition/hasPassedOver(_:)`` checks. For an
    ///   offset outside the span, the bit of another offset would be read.
    func contains(_ offset: Int64) -> Bool {
        guard count > 0, let bits else { return false }
        let bitIndex = Int(offset) & (spanOffsetCount - 1)
        return bits[bitIndex >> 6] & (1 << UInt64(bitIndex & 63)) != 0
    }

    /// Returns the offset of the app's entry in ``lowestRecordOfEachApp``; nil if there is none.
    func lowestOffset(of appIndex: UInt16) -> Int64? {
        lowestRecordOfEachApp.first { $0.appIndex == appIndex }?.offset
    }

    /// Returns the offset from which the partition should be read again: the lowest of the entries whose app has room.
    /// Nil if there is none.
    ///
    /// While the partition is being read again, only records below ``expectedOffset`` count. Later records will come
    /// anyway, and a jump to one of them would skip the records before it.
    func lowestOffset(where hasRoom: (UInt16) -> Bool) -> Int64? {
        lowestRecordOfEachApp.filter { $0.offset < expectedOffset && hasRoom($0.appIndex) }.map(\.offset).min()
    }

    /// Notes that a record of this app was passed over. The offset must be in the ledger's span.
    mutating func insert(_ offset: Int64, of appIndex: UInt16, admittedAtWallMilliseconds: Int64) {
        let record = LowestRecord(
            appIndex: appIndex,
            offset: offset,
            admittedAtWallMilliseconds: admittedAtWallMilliseconds
        )
        if let index = lowestRecordOfEachApp.firstIndex(where: { $0.appIndex == appIndex }) {
            if offset < lowestRecordOfEachApp[index].offset { lowestRecordOfEachApp[index] = record }
        } else {
            lowestRecordOfEachApp.append(record)
        }
        guard !contains(offset) else { return }
        if bits == nil {
            let words = UnsafeMutablePointer<UInt64>.allocate(capacity: spanOffsetCount / 64)
            words.initialize(repeating: 0, count: spanOffsetCount / 64)
            bits = words
        }
        let bitIndex = Int(offset) & (spanOffsetCount - 1)
        bits?[bitIndex >> 6] |= 1 << UInt64(bitIndex & 63)
        count += 1
    }

    /// Removes a record, because the core has taken it or the log no longer has it. If the record was the app's entry
    /// in ``lowestRecordOfEachApp``, the app then has no entry: the partition is being read again, so the app's later
    /// records will come too.
    ///
    /// - Parameter offset: must be in the ledger's span. For an offset outside the span, another record would be
    ///   removed.
    mutating func remove(_ offset: Int64) {
        guard contains(offset) else { return }
        lowestRecordOfEachApp.removeAll { $0.offset == offset }
        let bitIndex = Int(offset) & (spanOffsetCount - 1)
        bits?[bitIndex >> 6] &= ~(1 << UInt64(bitIndex & 63))
        count -= 1
    }

    /// Notes that the record at this offset was too far ahead for the partition's ledger.
    mutating func noteOffsetBeyondLedger(_ offset: Int64) {
        firstOffsetBeyondLedger = min(firstOffsetBeyondLedger ?? .max, offset)
    }

    /// Notes that the partition is being read again from this offset.
    mutating func noteRewind(to offset: Int64) {
        lowestRecordOfEachApp.removeAll { $0.offset >= offset }
        if let firstOffsetBeyondLedger, firstOffsetBeyondLedger >= offset { self.firstOffsetBeyondLedger = nil }
        expectedOffset = offset
    }

    /// Notes that the record at `offset` was read. While the partition is being read again, returns the offsets
    /// directly before `offset` that did not come: the log has deleted their records. Otherwise returns an empty range.
    ///
    /// - Parameter endOffset: one above the highest offset that this lane has received. At this offset, the second
    ///   reading ends.
    mutating func noteReadAndFindDeleted(_ offset: Int64, receivedBelow endOffset: Int64) -> Range<Int64> {
        guard expectedOffset < .max else { return offset..<offset }
        let skippedOffsets = min(expectedOffset, offset)..<offset
        expectedOffset = offset + 1 < endOffset ? offset + 1 : .max
        return skippedOffsets
    }
}
