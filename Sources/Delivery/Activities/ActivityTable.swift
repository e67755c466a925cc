/// Finds an activity's slot by the hash of its id: a table of indices with open addressing and linear probing, at most
/// half full.
///
/// The table has only hashes and indices. The caller owns the ids and compares them.
struct ActivityTable: ~Copyable {
    private struct Bucket: BitwiseCopyable {
        var hash: UInt64
        var index: ActivityIndex
    }

    private var buckets: UnsafeMutablePointer<Bucket>
    private var capacity: Int
    private(set) var count = 0

    init() {
        capacity = 4096
        buckets = .allocate(capacity: capacity)
        buckets.initialize(repeating: Self.emptyBucket, count: capacity)
    }

    deinit { buckets.deallocate() }

    func find(_ hash: UInt64, where isSame: (ActivityIndex) -> Bool) -> ActivityIndex? {
        var position = Int(truncatingIfNeeded: hash) & (capacity - 1)
        while buckets[position].index != .null {
            if buckets[position].hash == hash, isSame(buckets[position].index) { return buckets[position].index }
            position = (position + 1) & (capacity - 1)
        }
        return nil
    }

    mutating func insert(_ hash: UInt64, index: ActivityIndex) {
        if (count + 1) * 2 > capacity { grow() }
        insertUnchecked(Bucket(hash: hash, index: index))
        count += 1
    }

    /// Removes an entry. Later entries of the same probe sequence move back into the free bucket, so that the
    /// table needs no placeholders for removed entries.
    mutating func remove(_ hash: UInt64, index: ActivityIndex) {
        var freePosition = Int(truncatingIfNeeded: hash) & (capacity - 1)
        while buckets[freePosition].index != index {
            precondition(buckets[freePosition].index != .null, "the table does not hold the activity to remove")
            freePosition = (freePosition + 1) & (capacity - 1)
        }
        var position = freePosition
        while true {
            position = (position + 1) & (capacity - 1)
            guard buckets[position].index != .null else { break }
            let homePosition = Int(truncatingIfNeeded: buckets[position].hash) & (capacity - 1)
            let distanceFromHome = (position - homePosition) & (capacity - 1)
            let distanceFromFreePosition = (position - freePosition) & (capacity - 1)
            if distanceFromHome >= distanceFromFreePosition {
                buckets[freePosition] = buckets[position]
                freePosition = position
            }
        }
        buckets[freePosition] = Self.emptyBucket
        count -= 1
    }

    private func insertUnchecked(_ bucket: Bucket) {
        var position = Int(truncatingIfNeeded: bucket.hash) & (capacity - 1)
        while buckets[position].index != .null { position = (position + 1) & (capacity - 1) }
        buckets[position] = bucket
    }

    private mutating func grow() {
        let oldBuckets = buckets
        let oldCapacity = capacity
        capacity *= 2
        buckets = .allocate(capacity: capacity)
        buckets.initialize(repeating: Self.emptyBucket, count: capacity)
        for position in 0..<oldCapacity where oldBuckets[position].index != .null {
            insertUnchecked(oldBuckets[position])
        }
        oldBuckets.deallocate()
    }

    private static var emptyBucket: Bucket { Bucket(hash: 0, index: .null) }
}

/// Mixes an app's index and an activity's id into a hash for the table. If two hashes are equal, the ids themselves are
/// compared. So the quality of the hash affects speed only. The seed keeps producers from choosing ids that collide.
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
