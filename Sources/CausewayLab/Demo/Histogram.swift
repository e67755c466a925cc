/// Durations in whole milliseconds, counted one by one up to a minute and together beyond.
struct Histogram {
    static let millisecondsMax = 60_000

    private var counts = [Int32](repeating: 0, count: millisecondsMax + 1)
    private(set) var count = 0
    /// Exact, also beyond the last bucket.
    private(set) var maximumMilliseconds: Int64 = 0

    mutating func add(milliseconds: Int64) {
        // Clocks of two processes on one machine are the same; a negative duration is rounding.
        let value = max(0, milliseconds)
        counts[Int(min(value, Int64(Self.millisecondsMax)))] += 1
        count += 1
        maximumMilliseconds = max(maximumMilliseconds, value)
    }

    /// The smallest duration that `percent` of all do not exceed; nil of nothing.
    func percentile(_ percent: Int) -> Int64? {
        precondition((1...100).contains(percent), "a percentage")
        guard count > 0 else { return nil }
        let rank = (count * percent + 99) / 100
        var seen = 0
        for (milliseconds, number) in counts.enumerated() {
            seen += Int(number)
            if seen >= rank { return min(Int64(milliseconds), maximumMilliseconds) }
        }
        return maximumMilliseconds
    }
}
