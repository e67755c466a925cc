/// Finds an activity's slot by the hash of its id: a hash table with open addressing and linear probing, at most half
/// full. It stores only hashes and indices. The caller owns the ids and compares them.
struct ActivityHashTable: ~Copyable {
    /// One place of the hash table; an empty place has the index `.null`.
    private struct Entry: BitwiseCopyable {
        var hash: UInt64
        var index: ActivityIndex
    }

    private var entries: UnsafeMutablePointer<Entry>
    private var capacity: Int
    private(set) var count = 0

    init() {
        capacity = 4096
        entries = .allocate(capacity: capacity)
        entries.initialize(repeating: Self.emptyEntry, count: capacity)
    }

    deinit { entries.deallocate() }

    /// Returns the activity that has this hash and for which `isSame` is true; nil if there is none.
    func find(_ hash: UInt64, where isSame: (ActivityIndex) -> Bool) -> ActivityIndex? {
        var position = Int(truncatingIfNeeded: hash) & (capacity - 1)
        while entries[position].index != .null {
            if entries[position].hash == hash, isSame(entries[position].index) { return entries[position].index }
            position = (position + 1) & (capacity - 1)
        }
        return nil
    }

    /// Adds an activity that is not in the table yet. Doubles the table first if it would be more than half full.
    mutating func insert(_ hash: UInt64, index: ActivityIndex) {
        if (count + 1) * 2 > capacity { grow() }
        insertAtFirstEmptyPlace(Entry(hash: hash, index: index))
        count += 1
    }

    /// Removes the activity. Later entries of the same probe sequence move back to fill the gap, so that the table
    /// needs no placeholders for removed activities.
    mutating func remove(_ hash: UInt64, index: ActivityIndex) {
        var gapPosition = Int(truncatingIfNeeded: hash) & (capacity - 1)
        while entries[gapPosition].index != index {
            precondition(entries[gapPosition].index != .null, "the table does not hold the activity to remove")
            gapPosition = (gapPosition + 1) & (capacity - 1)
        }
        var position = gapPosition
        while true {
            position = (position + 1) & (capacity - 1)
            guard entries[position].index != .null else { break }
            let homePosition = Int(truncatingIfNeeded: entries[position].hash) & (capacity - 1)
            let distanceFromHome = (position - homePosition) & (capacity - 1)
            let distanceFromGap = (position - gapPosition) & (capacity - 1)
            if distanceFromHome >= distanceFromGap {
                entries[gapPosition] = entries[position]
                gapPosition = position
            }
        }
        entries[gapPosition] = Self.emptyEntry
        count -= 1
    }

    /// Stores an entry in the first empty place, searched from the place that the entry's hash names. The table must
    /// have an empty place.
    private func insertAtFirstEmptyPlace(_ entry: Entry) {
        var position = Int(truncatingIfNeeded: entry.hash) & (capacity - 1)
        while entries[position].index != .null { position = (position + 1) & (capacity - 1) }
        entries[position] = entry
    }

    private mutating func grow() {
        let oldEntries = entries
        let oldCapacity = capacity
        capacity *= 2
        entries = .allocate(capacity: capacity)
        entries.initialize(repeating: Self.emptyEntry, count: capacity)
        for position in 0..<oldCapacity where oldEntries[position].index != .null {
            insertAtFirstEmptyPlace(oldEntries[position])
        }
        oldEntries.deallocate()
    }

    private static var emptyEntry: Entry { Entry(hash: 0, index: .null) }
}

/// Returns the hash of an activity's id and its app's index. The seed keeps producers from choosing ids with equal
/// hashes. A poor hash would cost only time, because ids with equal hashes are compared.
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
