/// What was seen in one minute.
struct OutageMinute {
    var number: Int
    /// The afflicted app's host was away from its first to its last moment.
    var isAway: Bool
    /// Of the healthy app: from a command's record to APNs' answer.
    var freshness = Histogram()
    /// Pushes that APNs accepted of the afflicted app.
    var afflictedPushes = 0
    var commands = 0
    /// The longest that a record was seen to wait for its commit.
    var commitMilliseconds: Int64 = 0
    /// Of all partitions, at its end.
    var recordsBehind: Int64 = 0
    /// Of the worker, at its end.
    var residentBytes: Int64 = 0
    /// Of the worker, in this minute.
    var cpuMilliseconds: Int64 = 0

    static let header =
        "minute\thost\tcommands\thealthy\tp50 ms\tp99 ms\tmax ms\tafflicted\tcommit ms\tbehind\tresident MiB\tCPU s"

    /// A line of a table.
    var text: String {
        let figures: [Int64] = [
            Int64(commands), Int64(freshness.count), freshness.percentile(50) ?? 0, freshness.percentile(99) ?? 0,
            freshness.maximumMilliseconds, Int64(afflictedPushes), commitMilliseconds, recordsBehind,
        ]
        let resident = String(tenths: residentBytes * 10 / 1_048_576)
        let cpu = String(tenths: cpuMilliseconds / 100)
        return ([String(number), isAway ? "away" : "there"] + figures.map { String($0) } + [resident, cpu])
            .joined(separator: "\t")
    }
}

extension String {
    fileprivate init(tenths: Int64) { self = "\(tenths / 10).\(tenths % 10)" }
}
