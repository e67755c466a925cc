import Kafka

/// The bytes of records that were dealt to a lane and that the lane has not taken. A ring limits only the number of its entries, and a
/// record may be large.
///
/// The ring's count tells which entries the lane has taken. It is read only when the bytes seem to be too many.
struct InboxBytes {
    /// Bytes that librdkafka needs for a record beside its key and value.
    private static let recordOverheadBytes = Int(MemoryBudget.recordOverheadBytes)

    private let bytesMax: Int
    /// Sizes of the entries, the oldest at `first`, with as many places as the ring has.
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

    /// Whether a record of this size may be dealt. If no other entry is left, it always may.
    ///
    /// - Parameter left: the number of entries that the lane has not taken.
    mutating func hasRoom(for size: Int, left: @autoclosure () -> Int) -> Bool {
        if bytes + size <= bytesMax, count < sizes.count { return true }
        dropTaken(left: left())
        return (bytes + size <= bytesMax && count < sizes.count) || count == 0
    }

    mutating func append(_ size: Int) {
        sizes[(first + count) % sizes.count] = UInt32(clamping: size)
        count += 1
        bytes += Int(UInt32(clamping: size))
    }

    /// Whether the lane has taken enough that more may be fetched for it.
    mutating func isUpToHalf(left: Int) -> Bool {
        dropTaken(left: left)
        return bytes <= bytesMax / 2
    }

    private mutating func dropTaken(left: Int) {
        while count > left {
            bytes -= Int(sizes[first])
            first = (first + 1) % sizes.count
            count -= 1
        }
    }
}
