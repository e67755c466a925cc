import LiveActivity

/// A policy's bucket as the scripts read it:
/// - the milliseconds in which the bucket gains a push (3 bytes);
/// - the pushes of a full bucket (2);
/// - how many of these pushes are reserved for alerts and ends (2).
enum StoredBucket {
    static let byteCount = 7
    /// An hour: the slowest bucket gains one push an hour.
    private static let intervalMillisecondsMax: Int64 = 3_600_000

    /// Writes a bucket. A number outside its range is written as the nearest limit of the range.
    static func write(_ bucket: Policy.Bucket, to destination: UnsafeMutableRawPointer) {
        let pushCount = clampedPushCount(bucket)
        let reservedCount = min(max(0, bucket.reservedForAlerts), pushCount)
        LittleEndian.write(UInt64(clampedRefillIntervalMilliseconds(bucket)), byteCount: 3, to: destination)
        LittleEndian.write(UInt64(pushCount), byteCount: 2, to: destination + 3)
        LittleEndian.write(UInt64(reservedCount), byteCount: 2, to: destination + 5)
    }

    static func clampedPushCount(_ bucket: Policy.Bucket) -> Int { min(max(1, bucket.pushes), Policy.Bucket.pushesMax) }

    static func clampedRefillIntervalMilliseconds(_ bucket: Policy.Bucket) -> Int64 {
        min(max(1, intervalMillisecondsMax / max(1, Int64(bucket.refillPerHour))), intervalMillisecondsMax)
    }

    /// Returns how many pushes are left in a bucket that will be full at the given time.
    static func pushesLeft(_ bucket: Policy.Bucket, fullAtMilliseconds: UInt64, nowMilliseconds: UInt64) -> Int {
        // The scripts decide the same: find the places with `git grep 'decision: pushes left'`.
        let pushCount = clampedPushCount(bucket)
        guard fullAtMilliseconds > nowMilliseconds else { return pushCount }
        let intervalMilliseconds = UInt64(clampedRefillIntervalMilliseconds(bucket))
        let missingPushCount = (fullAtMilliseconds - nowMilliseconds - 1) / intervalMilliseconds + 1
        return missingPushCount < UInt64(pushCount) ? pushCount - Int(missingPushCount) : 0
    }
}

/// A pace as the scripts read it. Its times are milliseconds, three bytes each.
///
/// The parts are, in this order:
/// - the spacing and the bucket ``Policy/budget`` (10 bytes);
/// - the spacing again and the bucket ``Policy/frequentBudget`` (10), so that an admission reads spacing and bucket in
///   one step;
/// - the longest spacing that 429s may cause (3);
/// - the time without a 429 that undoes one doubling of the spacing (3).
enum StoredPace {
    static let byteCount = 26
    private static let bytesPerTime = 3
    // Where the second and the third part begin, counted from 0.
    static let frequentBudgetPartByteOffset = bytesPerTime + StoredBucket.byteCount
    static let longestSpacingByteOffset = 2 * frequentBudgetPartByteOffset
    /// An hour: the longest time that a policy may set here. It fits into three bytes.
    private static let millisecondsMax: Int64 = 3_600_000

    /// Writes a pace. A number outside its range is written as the nearest limit of the range.
    static func write(_ pace: Policy.Pace, to destination: UnsafeMutableRawPointer) {
        func writeTime(_ milliseconds: Int64, millisecondsMin: Int64, at position: Int) {
            let clampedMilliseconds = UInt64(min(max(millisecondsMin, milliseconds), millisecondsMax))
            LittleEndian.write(clampedMilliseconds, byteCount: bytesPerTime, to: destination + position)
        }
        writeTime(pace.spacingMilliseconds, millisecondsMin: 0, at: 0)
        StoredBucket.write(pace.budget, to: destination + bytesPerTime)
        writeTime(pace.spacingMilliseconds, millisecondsMin: 0, at: frequentBudgetPartByteOffset)
        StoredBucket.write(pace.frequentBudget, to: destination + frequentBudgetPartByteOffset + bytesPerTime)
        writeTime(pace.throttledSpacingMillisecondsMax, millisecondsMin: 0, at: longestSpacingByteOffset)
        writeTime(
            pace.throttleRecoveryMilliseconds,
            millisecondsMin: 1,
            at: longestSpacingByteOffset + bytesPerTime
        )
    }
}
