/// Which records of one assigned partition are settled, and so which offset may be committed (design §9).
///
/// The base is the committable offset: everything below it is settled. Above it stands one bit a record. Offsets that never arrive
/// (compaction, transaction markers) owe no action and count as settled as soon as a later one arrives.
struct PartitionLedger: ~Copyable {
    enum Reception { case accepted, alreadySeen }

    /// Bits of the window; a power of two. A record whose offset lies further above the base than this must wait.
    let windowOffsets: Int
    private let settledBits: UnsafeMutablePointer<UInt64>
    /// The next offset to read after a restart. Never falls.
    private(set) var committableOffset: Int64
    /// One above the highest offset that was received.
    private(set) var nextOffset: Int64
    private var isStarted = false

    init(windowOffsets: Int) {
        precondition(windowOffsets >= 64 && windowOffsets & (windowOffsets - 1) == 0)
        self.windowOffsets = windowOffsets
        settledBits = .allocate(capacity: windowOffsets / 64)
        settledBits.initialize(repeating: 0, count: windowOffsets / 64)
        committableOffset = 0
        nextOffset = 0
    }

    deinit { settledBits.deallocate() }

    /// Offsets from the first that is not settled to the last that was received.
    var span: Int64 { nextOffset - committableOffset }

    /// Whether `offset` fits the window now.
    func hasRoom(for offset: Int64) -> Bool {
        guard isStarted, offset > committableOffset else { return true }
        // All between is settled already, so a gap of any size is passed over when it is received.
        if committableOffset == nextOffset { return true }
        return offset - committableOffset < Int64(windowOffsets)
    }

    /// Notes that the record at `offset` has arrived and is not settled.
    /// A second delivery of an offset that is known is told apart: it must not be counted twice.
    mutating func receive(_ offset: Int64) -> Reception {
        if !isStarted {
            isStarted = true
            committableOffset = offset
            nextOffset = offset + 1
            return .accepted
        }
        guard offset >= nextOffset else { return .alreadySeen }
        precondition(hasRoom(for: offset))
        if committableOffset == nextOffset {
            committableOffset = offset
        } else {
            var gap = nextOffset
            while gap < offset {
                setSettled(gap)
                gap += 1
            }
        }
        nextOffset = offset + 1
        return .accepted
    }

    /// Notes that the record at `offset` is settled; each exactly once.
    mutating func settle(_ offset: Int64) {
        precondition(offset >= committableOffset && offset < nextOffset, "a record outside of the window was settled")
        precondition(!isSettled(offset), "a record was settled twice")
        setSettled(offset)
        while committableOffset < nextOffset, isSettled(committableOffset) {
            clearSettled(committableOffset)
            committableOffset += 1
        }
    }

    private func isSettled(_ offset: Int64) -> Bool {
        let position = Int(offset) & (windowOffsets - 1)
        return settledBits[position >> 6] & (1 << UInt64(position & 63)) != 0
    }

    private func setSettled(_ offset: Int64) {
        let position = Int(offset) & (windowOffsets - 1)
        settledBits[position >> 6] |= 1 << UInt64(position & 63)
    }

    private func clearSettled(_ offset: Int64) {
        let position = Int(offset) & (windowOffsets - 1)
        settledBits[position >> 6] &= ~(1 << UInt64(position & 63))
    }
}
