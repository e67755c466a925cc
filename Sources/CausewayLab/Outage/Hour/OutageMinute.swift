/// The measurements of one minute of the run. The table has a line for each minute.
struct OutageMinute {
    var number: Int
    /// Whether the affected app's host was unreachable in the middle of the minute. The outage begins and ends near the
    /// end of a minute, so the middle decides.
    var isHostUnreachable: Bool
    /// The freshness of the healthy app's pushes: the times from a command's record until APNs accepted the push.
    var freshness = DurationHistogram()
    /// Accepted pushes of the affected app, whose APNs host is unreachable during the outage.
    var acceptedAffectedAppPushCount = 0
    var commandCount = 0
    /// The longest wait of a record for its commit.
    var longestCommitWaitMilliseconds: Int64 = 0
    /// How many records of the commands topic were uncommitted at the minute's last measurement.
    var uncommittedRecordCount: Int64 = 0
    /// The worker's resident memory at the end of the minute.
    var residentBytes: Int64 = 0
    /// The worker's CPU time in this minute.
    var cpuMilliseconds: Int64 = 0

    static let tableHeader =
        "minute\thost\tcommands\thealthy\tp50 ms\tp99 ms\tmax ms\taffected\tcommit ms\tbehind\tresident MiB\tCPU s"

    var tableLine: String {
        let figures: [Int64] = [
            Int64(commandCount), Int64(freshness.count), freshness.percentileMilliseconds(50) ?? 0,
            freshness.percentileMilliseconds(99) ?? 0,
            freshness.longestMilliseconds, Int64(acceptedAffectedAppPushCount), longestCommitWaitMilliseconds,
            uncommittedRecordCount,
        ]
        let residentMebibytesText = String(tenths: residentBytes * 10 / 1_048_576)
        let cpuSecondsText = String(tenths: cpuMilliseconds / 100)
        let hostText = isHostUnreachable ? "away" : "there"
        let columns =
            [String(number), hostText] + figures.map { String($0) } + [residentMebibytesText, cpuSecondsText]
        return columns.joined(separator: "\t")
    }
}

extension String {
    fileprivate init(tenths: Int64) { self = "\(tenths / 10).\(tenths % 10)" }
}
