import Kafka

/// Limits the bytes of records that were dealt to a lane and that the lane has not taken. A ring limits only
/// the number of its entries, and one record may be large.
///
/// The ring's own count tells how many entries the lane has taken. The Kafka thread reads this count only
/// when the bytes seem to exceed the limit. A more frequent read would slow down the lane, which writes the
/// count.
struct InboxBytes {
    /// Bytes that librdkafka needs for a record beside its key and value.
    private static let recordOverheadBytes = Int(MemoryBudget.recordOverheadBytes)

    private let bytesMax: Int
    /// The bytes of each entry in the ring, the oldest at `first`. The array is as long as the ring.
    private var sizes: [UInt32]
    private var first = 0
    private var count = 0
    private var bytes = 0

    init(bytesMax: Int, capacity: Int) {
        self.bytesMax = bytesMax
        sizes = Array(repeating: 0, count: capacity)
    }

    static func bytes(of message: borrowing Message) -> Int {
        recordOverheadBytes + (message.value?.count ?? 0) + (message.key?.count ?? 0)
    }

    /// Whether a record of this size may be dealt. A record may always be dealt to an empty inbox.
    ///
    /// - Parameter left: the number of entries that the lane has not taken.
    mutating func hasRoom(for size: Int, left: @autoclosure () -> Int) -> Bool {
        if bytes + size <= bytesMax, count < sizes.count { return true }
        removeTakenEntries(left: left())
        return (bytes + size <= bytesMax && count < sizes.count) || count == 0
    }

    mutating func append(_ size: Int) {
        sizes[(first + count) % sizes.count] = UInt32(clamping: size)
        count += 1
        bytes += Int(UInt32(clamping: size))
    }

    /// Whether the inbox uses at most half of its bytes, so that more records may be fetched for the lane.
    mutating func isUpToHalf(left: Int) -> Bool {
        removeTakenEntries(left: left)
        return bytes <= bytesMax / 2
    }

    private mutating func removeTakenEntries(left: Int) {
        while count > left {
            bytes -= Int(sizes[first])
            first = (first + 1) % sizes.count
            count -= 1
        }
    }
}
