import LiveActivity

/// A policy's bucket as the scripts read it:
/// - the milliseconds in which the bucket gains a push (3 bytes);
/// - the pushes of a full bucket (2);
/// - how many of these pushes are reserved for alerts and ends (2).
enum StoredBucket {
    static let byteCount = 7
    /// The longest time in which a bucket gains a push: an hour, because the configuration allows no slower refill.
    private static let intervalMillisecondsMax: Int64 = 3_600_000

    /// Writes a bucket. A number outside its range is written as the nearest limit of the range.
    static func write(_ bucket: Policy.Bucket, to destination: UnsafeMutableRawPointer) {
        let pushCount = clampedPushCount(bucket)
        let reservedCount = min(max(0, bucket.reservedForAlerts), pushCount)
        LittleEndian.write(UInt64(clampedRefillIntervalMilliseconds(bucket)), byteCount: 3, to: destination)
        LittleEndian.write(UInt64(pushCount), byteCount: 2, to: destination + 3)
        LittleEndian.write(UInt64(reservedCount), byteCount: 2, to: destination + 5)
    }

    /// The number of bytes of `Policy.Bucket.longestFillSeconds`. It follows the bucket of starts of a device, and is
    /// the last part of a pace.
    static let longestFillByteCount = 4

    static func writeLongestFillSeconds(_ seconds: Int, to destination: UnsafeMutableRawPointer) {
        LittleEndian.write(UInt64(UInt32(clamping: seconds)), byteCount: longestFillByteCount, to: destination)
    }

    static func clampedPushCount(_ bucket: Policy.Bucket) -> Int { min(max(1, bucket.pushes), Policy.Bucket.pushesMax) }

    static func clampedRefillIntervalMilliseconds(_ bucket: Policy.Bucket) -> Int64 {
        min(max(1, intervalMillisecondsMax / max(1, Int64(bucket.refillPerHour))), intervalMillisecondsMax)
    }

    /// Returns how many pushes are left now in a bucket that will be full at `fullAtMilliseconds`.
    static func pushesLeft(_ bucket: Policy.Bucket, fullAtMilliseconds: UInt64, nowMilliseconds: UInt64) -> Int {
        // The scripts decide the same: search for `decision: pushes left`.
        let pushCount = clampedPushCount(bucket)
        guard fullAtMilliseconds > nowMilliseconds else { return pushCount }
        let intervalMilliseconds = UInt64(clampedRefillIntervalMilliseconds(bucket))
        let missingPushCount = (fullAtMilliseconds - nowMilliseconds - 1) / intervalMilliseconds + 1
        return missingPushCount < UInt64(pushCount) ? pushCount - Int(missingPushCount) : 0
    }
}

/// A pace as the scripts read it. Its times are milliseconds, three bytes each. Only the last part is in seconds.
///
/// The parts are, in this order:
/// - the spacing and the bucket ``Policy/budget`` (10 bytes);
/// - the spacing again and the bucket ``Policy/frequentBudget`` (10), so that an admission reads spacing and bucket in
///   one step;
/// - the longest spacing that 429s may cause (3);
/// - the time without a 429 that undoes one doubling of the spacing (3);
/// - the longest time in which a bucket of any policy fills, in seconds (4).
enum StoredPace {
    static let byteCount = longestFillByteOffset + StoredBucket.longestFillByteCount
    private static let timeByteCount = 3
    // Where the second, the third and the last part begin, counted from 0.
    static let frequentBudgetPartByteOffset = timeByteCount + StoredBucket.byteCount
    static let longestSpacingByteOffset = 2 * frequentBudgetPartByteOffset
    static let longestFillByteOffset = longestSpacingByteOffset + 2 * timeByteCount
    /// The longest time that a policy may set for a spacing or a recovery: an hour. It fits into three bytes.
    private static let millisecondsMax: Int64 = 3_600_000

    /// Writes a pace. A number outside its range is written as the nearest limit of the range.
    static func write(_ pace: Policy.Pace, to destination: UnsafeMutableRawPointer) {
        func writeTime(_ milliseconds: Int64, millisecondsMin: Int64, at position: Int) {
            let clampedMilliseconds = UInt64(min(max(millisecondsMin, milliseconds), millisecondsMax))
            LittleEndian.write(clampedMilliseconds, byteCount: timeByteCount, to: destination + position)
        }
        writeTime(pace.spacingMilliseconds, millisecondsMin: 0, at: 0)
        StoredBucket.write(pace.budget, to: destination + timeByteCount)
        writeTime(pace.spacingMilliseconds, millisecondsMin: 0, at: frequentBudgetPartByteOffset)
        StoredBucket.write(pace.frequentBudget, to: destination + frequentBudgetPartByteOffset + timeByteCount)
        writeTime(pace.throttledSpacingMillisecondsMax, millisecondsMin: 0, at: longestSpacingByteOffset)
        writeTime(
            pace.throttleRecoveryMilliseconds,
            millisecondsMin: 1,
            at: longestSpacingByteOffset + timeByteCount
        )
        StoredBucket.writeLongestFillSeconds(pace.longestFillSeconds, to: destination + longestFillByteOffset)
    }
}
