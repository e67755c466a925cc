import Kafka

/// Limits the bytes of the records in a lane's inbox, because the inbox, a ring, limits only the number of its entries,
/// and one record may be large.
///
/// The ring counts the entries that the lane has not taken. The lane changes this count all the time, and each read by
/// another thread slows down the lane. So the Kafka thread reads the count only if the inbox seems to be full.
struct InboxByteLimiter {
    private static let recordOverheadBytes = Int(MemoryBudget.recordOverheadBytes)

    private let bytesMax: Int
    /// The bytes of each entry in the ring, the oldest at `firstIndex`. The array is as long as the ring.
    private var entryByteCounts: [UInt32]
    private var firstIndex = 0
    private var entryCount = 0
    private var totalBytes = 0

    init(bytesMax: Int, capacity: Int) {
        self.bytesMax = bytesMax
        entryByteCounts = Array(repeating: 0, count: capacity)
    }

    static func computeRecordByteCount(of message: borrowing Message) -> Int {
        recordOverheadBytes + (message.value?.count ?? 0) + (message.key?.count ?? 0)
    }

    /// Makes room for a record of this size: if the inbox seems to be full, forgets the entries that the lane has
    /// taken. An empty inbox accepts a record of any size, because a record above the limit would never reach its lane
    /// otherwise.
    ///
    /// - Parameter untakenEntryCount: the number of entries that the lane has not taken.
    /// - Returns: whether the record may be dealt.
    mutating func makeRoom(for recordByteCount: Int, untakenEntryCount: @autoclosure () -> Int) -> Bool {
        if totalBytes + recordByteCount <= bytesMax, entryCount < entryByteCounts.count { return true }
        removeTakenEntries(untakenEntryCount: untakenEntryCount())
        return (totalBytes + recordByteCount <= bytesMax && entryCount < entryByteCounts.count) || entryCount == 0
    }

    mutating func append(_ recordByteCount: Int) {
        entryByteCounts[(firstIndex + entryCount) % entryByteCounts.count] = UInt32(clamping: recordByteCount)
        entryCount += 1
        totalBytes += Int(UInt32(clamping: recordByteCount))
    }

    /// Whether the inbox uses at most half of its bytes, so that more records may be fetched for the lane. Entries that
    /// the lane has taken count until they are removed (``removeTakenEntries(untakenEntryCount:)``).
    var isAtMostHalfFull: Bool { totalBytes <= bytesMax / 2 }

    mutating func removeTakenEntries(untakenEntryCount: Int) {
        while entryCount > untakenEntryCount {
            totalBytes -= Int(entryByteCounts[firstIndex])
            firstIndex = (firstIndex + 1) % entryByteCounts.count
            entryCount -= 1
        }
    }
}
