/// Finds an activity's slot by the hash of its id. The table has only hashes and indices. The caller owns the ids and
/// compares them.
///
/// It is a hash table with open addressing and linear probing, at most half full.
struct ActivityTable: ~Copyable {
    private struct Cell: BitwiseCopyable {
        var hash: UInt64
        var index: ActivityIndex
    }

    private var cells: UnsafeMutablePointer<Cell>
    private var capacity: Int
    private(set) var count = 0

    init() {
        capacity = 4096
        cells = .allocate(capacity: capacity)
        cells.initialize(repeating: Self.emptyCell, count: capacity)
    }

    deinit { cells.deallocate() }

    func find(_ hash: UInt64, where isSame: (ActivityIndex) -> Bool) -> ActivityIndex? {
        var position = Int(truncatingIfNeeded: hash) & (capacity - 1)
        while cells[position].index != .null {
            if cells[position].hash == hash, isSame(cells[position].index) { return cells[position].index }
            position = (position + 1) & (capacity - 1)
        }
        return nil
    }

    mutating func insert(_ hash: UInt64, index: ActivityIndex) {
        if (count + 1) * 2 > capacity { grow() }
        insertUnchecked(Cell(hash: hash, index: index))
        count += 1
    }

    /// Empties the activity's cell. Later cells of the same probe sequence move back to fill the gap, so that the table
    /// needs no placeholders for removed activities.
    mutating func remove(_ hash: UInt64, index: ActivityIndex) {
        var gapPosition = Int(truncatingIfNeeded: hash) & (capacity - 1)
        while cells[gapPosition].index != index {
            precondition(cells[gapPosition].index != .null, "the table does not hold the activity to remove")
            gapPosition = (gapPosition + 1) & (capacity - 1)
        }
        var position = gapPosition
        while true {
            position = (position + 1) & (capacity - 1)
            guard cells[position].index != .null else { break }
            let homePosition = Int(truncatingIfNeeded: cells[position].hash) & (capacity - 1)
            let distanceFromHome = (position - homePosition) & (capacity - 1)
            let distanceFromGap = (position - gapPosition) & (capacity - 1)
            if distanceFromHome >= distanceFromGap {
                cells[gapPosition] = cells[position]
                gapPosition = position
            }
        }
        cells[gapPosition] = Self.emptyCell
        count -= 1
    }

    private func insertUnchecked(_ cell: Cell) {
        var position = Int(truncatingIfNeeded: cell.hash) & (capacity - 1)
        while cells[position].index != .null { position = (position + 1) & (capacity - 1) }
        cells[position] = cell
    }

    private mutating func grow() {
        let oldCells = cells
        let oldCapacity = capacity
        capacity *= 2
        cells = .allocate(capacity: capacity)
        cells.initialize(repeating: Self.emptyCell, count: capacity)
        for position in 0..<oldCapacity where oldCells[position].index != .null {
            insertUnchecked(oldCells[position])
        }
        oldCells.deallocate()
    }

    private static var emptyCell: Cell { Cell(hash: 0, index: .null) }
}

/// Returns the hash of an activity's id and its app's index. The quality of the hash affects only speed, because ids
/// with equal hashes are compared. The seed keeps producers from choosing ids with equal hashes.
func activityHash(seed: UInt64, appIndex: UInt16, identifier: UnsafeRawBufferPointer) -> UInt64 {
    var hash = seed ^ (UInt64(appIndex) &* 0x9E37_79B9_7F4A_7C15)
    var position = 0
    while position + 8 <= identifier.count {
        hash = mixBits(hash ^ identifier.loadUnaligned(fromByteOffset: position, as: UInt64.self))
        position += 8
    }
    var lastWord = UInt64(truncatingIfNeeded: identifier.count) << 56
    var shift: UInt64 = 0
    while position < identifier.count {
        lastWord |= UInt64(identifier[position]) << shift
        shift += 8
        position += 1
    }
    return mixBits(hash ^ lastWord)
}

private func mixBits(_ value: UInt64) -> UInt64 {
    let product = value.multipliedFullWidth(by: 0xD6E8_FEB8_6659_FD93)
    return product.high ^ product.low
}
