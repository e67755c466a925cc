import LiveActivity

/// A bucket as the scripts read it: the milliseconds in which the bucket gains a push (3 bytes), the pushes of a full
/// bucket (2), and how many of these pushes are reserved for alerts and ends (2).
enum StoredBucket {
    static let byteCount = 7
    /// An hour: the slowest bucket gains one push an hour.
    private static let intervalMillisecondsMax: Int64 = 3_600_000

    /// Writes a bucket. A number out of range is written as the nearer limit of its range.
    static func write(_ bucket: Policy.Bucket, to destination: UnsafeMutableRawPointer) {
        let pushes = clampedPushes(bucket)
        let reserved = min(max(0, bucket.reservedForAlerts), pushes)
        LittleEndian.write(UInt64(clampedIntervalMilliseconds(bucket)), bytes: 3, to: destination)
        LittleEndian.write(UInt64(pushes), bytes: 2, to: destination + 3)
        LittleEndian.write(UInt64(reserved), bytes: 2, to: destination + 5)
    }

    static func clampedPushes(_ bucket: Policy.Bucket) -> Int { min(max(1, bucket.pushes), Policy.Bucket.pushesMax) }

    static func clampedIntervalMilliseconds(_ bucket: Policy.Bucket) -> Int64 {
        min(max(1, intervalMillisecondsMax / max(1, Int64(bucket.refillPerHour))), intervalMillisecondsMax)
    }

    /// Returns how many pushes are left in a bucket that will be full at the given time.
    static func pushesLeft(_ bucket: Policy.Bucket, fullAtMilliseconds: UInt64, nowMilliseconds: UInt64) -> Int {
        // decision: pushes left
        let pushes = clampedPushes(bucket)
        guard fullAtMilliseconds > nowMilliseconds else { return pushes }
        let intervalMilliseconds = UInt64(clampedIntervalMilliseconds(bucket))
        let missingPushes = (fullAtMilliseconds - nowMilliseconds - 1) / intervalMilliseconds + 1
        return missingPushes < UInt64(pushes) ? pushes - Int(missingPushes) : 0
    }
}

/// A pace as the scripts read it.
///
/// The parts are, in this order:
/// - the spacing and the bucket;
/// - the spacing again and the bucket for frequent updates. So an admission reads the spacing and the bucket that it
///   needs in one step.
/// - the longest spacing that 429s may cause;
/// - the time without a 429 after which the spacing is doubled one time less.
///
/// Each time has three bytes, milliseconds.
enum StoredPace {
    static let byteCount = 26
    private static let timeByteCount = 3
    // Where the second and the third part begin, counted from 0.
    static let frequentPartByteOffset = timeByteCount + StoredBucket.byteCount
    static let throttledSpacingByteOffset = 2 * frequentPartByteOffset
    /// An hour, the longest time that a policy may have here. It fits into three bytes.
    private static let millisecondsMax: Int64 = 3_600_000

    /// Writes a pace. A number out of range is written as the nearer limit of its range.
    static func write(_ pace: Policy.Pace, to destination: UnsafeMutableRawPointer) {
        func writeTime(_ milliseconds: Int64, minimumMilliseconds: Int64, at position: Int) {
            let clampedMilliseconds = UInt64(min(max(minimumMilliseconds, milliseconds), millisecondsMax))
            LittleEndian.write(clampedMilliseconds, bytes: timeByteCount, to: destination + position)
        }
        writeTime(pace.spacingMilliseconds, minimumMilliseconds: 0, at: 0)
        StoredBucket.write(pace.budget, to: destination + timeByteCount)
        writeTime(pace.spacingMilliseconds, minimumMilliseconds: 0, at: frequentPartByteOffset)
        StoredBucket.write(pace.frequentBudget, to: destination + frequentPartByteOffset + timeByteCount)
        writeTime(pace.throttledSpacingMillisecondsMax, minimumMilliseconds: 0, at: throttledSpacingByteOffset)
        writeTime(
            pace.throttleRecoveryMilliseconds,
            minimumMilliseconds: 1,
            at: throttledSpacingByteOffset + timeByteCount
        )
    }
}
