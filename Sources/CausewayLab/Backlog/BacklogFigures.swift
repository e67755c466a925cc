import Numbers

/// The measurements of `BacklogRun`: what a worker needs for a backlog of commands and, for comparison, what it costs
/// only to read the backlog (a read run, `DiscardingTopicReader`). The median read run is the one with the median
/// duration.
struct BacklogFigures: Codable, Equatable, RunFigures {
    var commandCount: Int
    var activityCount: Int
    /// The number of commands by outcome. Each command counts once. A superseded command may have no result of its own;
    /// then the result of a newer command counts it.
    var outcomes: [DemoFigures.OutcomeCount]
    /// Pushes that APNs accepted, as the simulated APNs counts them.
    var pushCount: Int
    var phonesWithFinalScore: Int
    /// The median duration of the runs that only read the backlog (read runs). A run lasts from the assignment of the
    /// reader's partitions to the last record.
    var medianReadRunMilliseconds: Int64
    /// The durations of all runs that only read the backlog, shortest first.
    var readRunDurationsMilliseconds: [Int64]
    /// CPU time of the lab's process in the median read run, which only reads the backlog. The reader is a part of this
    /// process.
    var medianReadRunLabCPUMilliseconds: Int64
    /// CPU time of the broker in the median read run, which only reads the backlog.
    var medianReadRunBrokerCPUMilliseconds: Int64
    /// The time from the assignment of the worker's partitions until APNs accepted the last push.
    var untilLastPushMilliseconds: Int64
    /// The time from the assignment of the worker's partitions to the last result record.
    var untilLastResultMilliseconds: Int64
    /// Records that the worker wrote to the results topic.
    var resultRecordCount: Int
    /// The CPU time and memory of the worker from its start until all phones showed the final score.
    var worker: ProcessUsage
    /// CPU time of the broker from the start of the worker until all phones showed the final score.
    var brokerCPUMilliseconds: Int64

    /// The keys in the JSON. A key stays as it is when its property is renamed.
    private enum CodingKeys: String, CodingKey {
        case commandCount = "commands"
        case activityCount = "activities"
        case outcomes
        case pushCount = "pushes"
        case phonesWithFinalScore
        case medianReadRunMilliseconds = "readingMilliseconds"
        case readRunDurationsMilliseconds = "readingsMilliseconds"
        case medianReadRunLabCPUMilliseconds = "readingCPUMilliseconds"
        case medianReadRunBrokerCPUMilliseconds = "medianReadingBrokerCPUMilliseconds"
        case untilLastPushMilliseconds = "pushingMilliseconds"
        case untilLastResultMilliseconds = "resultsMilliseconds"
        case resultRecordCount = "resultRecords"
        case worker, brokerCPUMilliseconds
    }

    var hasSucceeded: Bool { pushCount == activityCount && phonesWithFinalScore == activityCount && areResultsComplete }

    private var areResultsComplete: Bool { outcomes.reduce(0) { $0 + $1.count } == commandCount }

    var report: String {
        let outcomes = outcomes.map { "\(Numeral.grouped($0.count)) \($0.outcome)" }.joined(separator: ", ")
        return """
            \(Numeral.grouped(commandCount)) commands for \(Numeral.grouped(activityCount)) activities: \(outcomes)
            \(Numeral.grouped(pushCount)) pushes; \(Numeral.grouped(phonesWithFinalScore)) phones show the final score
            reading the topic alone        \(seconds(medianReadRunMilliseconds)), the median of \(readRunDurationsText)
            to the last push's response    \(seconds(untilLastPushMilliseconds)), \
            \(ratioToReadRunText(untilLastPushMilliseconds)) times as long
            to the last command's result   \(seconds(untilLastResultMilliseconds)), \
            \(ratioToReadRunText(untilLastResultMilliseconds)) times as long
            records of results             \(Numeral.grouped(resultRecordCount))
            CPU of that reading            \(seconds(medianReadRunLabCPUMilliseconds)), of the broker meanwhile \
            \(seconds(medianReadRunBrokerCPUMilliseconds))
            CPU of the worker              \(seconds(worker.cpuMilliseconds)), of the broker meanwhile \
            \(seconds(brokerCPUMilliseconds))
            """
    }

    private var readRunDurationsText: String { readRunDurationsMilliseconds.map(seconds).joined(separator: ", ") }

    private func seconds(_ milliseconds: Int64) -> String { Numeral.seconds(milliseconds: milliseconds) }

    private func ratioToReadRunText(_ milliseconds: Int64) -> String {
        medianReadRunMilliseconds > 0
            ? Numeral.oneDecimal(Double(milliseconds) / Double(medianReadRunMilliseconds)) : "?"
    }
}
