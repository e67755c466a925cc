/// Maps open streams to the slots of their pushes: a hash table with open addressing, at most half full.
///
/// The hash spreads a client's streams, which are consecutive odd numbers. Without a hash, their
/// entries would be side by side, and each removal would scan all of them.
struct StreamTable: ~Copyable {
    private struct Entry {
        /// 0 if the entry is free.
        var streamIdentifier: Int32
        var slotIndex: Int32
    }

    private let entries: UnsafeMutablePointer<Entry>
    private let indexMask: Int
    private let hashShiftBits: UInt32

    /// - Parameter capacity: the maximum number of streams that are open at one time.
    init(capacity: Int) {
        precondition(capacity > 0 && capacity <= 1 << 20)
        var size = 16
        while size < 2 * capacity { size *= 2 }
        indexMask = size - 1
        hashShiftBits = UInt32(32 - size.trailingZeroBitCount)
        entries = .allocate(capacity: size)
        entries.initialize(repeating: Entry(streamIdentifier: 0, slotIndex: 0), count: size)
    }

    deinit {
        entries.deallocate()
    }

    /// Returns the slot of a stream; -1 if the stream is not open.
    func slotIndex(of streamIdentifier: Int32) -> Int32 {
        var index = homeIndex(streamIdentifier)
        while entries[index].streamIdentifier != 0 {
            if entries[index].streamIdentifier == streamIdentifier { return entries[index].slotIndex }
            index = (index + 1) & indexMask
        }
        return -1
    }

    func insert(_ streamIdentifier: Int32, slotIndex: Int32) {
        var index = homeIndex(streamIdentifier)
        while entries[index].streamIdentifier != 0 { index = (index + 1) & indexMask }
        entries[index] = Entry(streamIdentifier: streamIdentifier, slotIndex: slotIndex)
    }

    /// Removes a stream, and closes the gap so that look-ups still find the entries behind the gap.
    func remove(_ streamIdentifier: Int32) {
        var gap = homeIndex(streamIdentifier)
        while entries[gap].streamIdentifier != streamIdentifier {
            precondition(entries[gap].streamIdentifier != 0, "a stream that is not open is closed")
            gap = (gap + 1) & indexMask
        }
        var index = (gap + 1) & indexMask
        while entries[index].streamIdentifier != 0 {
            // Move the entry to the gap if a look-up finds the entry there. A look-up begins at the entry's home, the
            // index that its hash gives. So an entry must stay if its home lies between the gap and the entry.
            let homeIndex = homeIndex(entries[index].streamIdentifier)
            if (index - homeIndex) & indexMask >= (index - gap) & indexMask {
                entries[gap] = entries[index]
                gap = index
            }
            index = (index + 1) & indexMask
        }
        entries[gap].streamIdentifier = 0
    }

    /// The index at which a look-up of the stream begins.
    private func homeIndex(_ streamIdentifier: Int32) -> Int {
        // This factor, nearly 2^32 divided by the golden ratio, puts consecutive streams far apart in the table.
        Int(truncatingIfNeeded: (UInt32(bitPattern: streamIdentifier >> 1) &* 0x9E37_79B1) >> hashShiftBits)
    }
}
