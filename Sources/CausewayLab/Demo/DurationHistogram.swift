/// Counts durations in whole milliseconds. Each millisecond up to one minute has its own bucket, so a percentile below
/// one minute is exact. The last bucket counts all longer durations.
struct DurationHistogram {
    static let millisecondsMax = 60_000

    private var bucketCounts = [Int32](repeating: 0, count: millisecondsMax + 1)
    private(set) var count = 0
    /// The longest duration, exact even beyond the last bucket.
    private(set) var longestMilliseconds: Int64 = 0

    mutating func add(milliseconds: Int64) {
        // Usually both times of a duration come from one machine's clock, rounded to milliseconds. So a negative
        // duration is only a rounding error, and counts as 0.
        let clampedMilliseconds = max(0, milliseconds)
        bucketCounts[Int(min(clampedMilliseconds, Int64(Self.millisecondsMax)))] += 1
        count += 1
        longestMilliseconds = max(longestMilliseconds, clampedMilliseconds)
    }

    /// Returns a histogram of the durations that were added after `earlier`, an older copy of this histogram.
    /// Exception: the ``longestMilliseconds`` of the result is the longest of all durations.
    func subtracting(_ earlier: DurationHistogram) -> DurationHistogram {
        var recent = self
        for (bucket, count) in earlier.bucketCounts.enumerated() where count > 0 {
            recent.bucketCounts[bucket] -= count
        }
        recent.count -= earlier.count
        return recent
    }

    /// Returns a percentile: for `percent` 99, the shortest duration that 99 of 100 durations do not exceed. A duration
    /// above one minute counts as one minute. Nil without durations.
    ///
    /// - Parameter percent: 1 to 100.
    func percentileMilliseconds(_ percent: Int) -> Int64? {
        precondition((1...100).contains(percent), "a percentage")
        guard count > 0 else { return nil }
        let rank = (count * percent + 99) / 100
        var cumulativeCount = 0
        for (milliseconds, number) in bucketCounts.enumerated() {
            cumulativeCount += Int(number)
            if cumulativeCount >= rank { return min(Int64(milliseconds), longestMilliseconds) }
        }
        return longestMilliseconds
    }
}
