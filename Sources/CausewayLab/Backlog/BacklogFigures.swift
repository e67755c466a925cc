import Numbers

struct BacklogFigures: Codable, Equatable, RunFigures {
    var commands: Int
    var activities: Int
    /// The number of commands by outcome. Each command counts once: a superseded command without a result of its own is
    /// counted in the result of a newer command.
    var outcomes: [DemoFigures.OutcomeCount]
    /// Pushes that APNs accepted, as the simulated APNs counts them.
    var pushes: Int
    var phonesWithFinalScore: Int
    /// The median of the times in which a client of the lab (`DiscardingTopicReader`) read the whole backlog. It reads
    /// the backlog several times. Each time counts from the assignment of the client's partitions to the last record.
    var medianReadingMilliseconds: Int64
    /// The times of all of the lab's readings of the backlog, shortest first.
    var readingDurationsMilliseconds: [Int64]
    /// CPU time of the lab's process during the median reading. The client that reads runs in this process.
    var labCPUDuringMedianReadingMilliseconds: Int64
    /// CPU time of the broker during the median reading.
    var brokerCPUDuringMedianReadingMilliseconds: Int64
    /// The time from the assignment of the worker's partitions until APNs accepted the last push.
    var pushingMilliseconds: Int64
    /// The time from the assignment of the worker's partitions to the last result record.
    var resultsMilliseconds: Int64
    /// Records that the worker wrote to the results topic.
    var resultRecords: Int
    /// The CPU time and memory of the worker from its start until all phones showed the final score.
    var worker: ProcessUsage
    /// CPU time of the broker from the start of the worker until all phones showed the final score.
    var brokerCPUMilliseconds: Int64

    /// The keys of the JSON. A key stays the same when its property gets a clearer name.
    private enum CodingKeys: String, CodingKey {
        case commands, activities, outcomes, pushes, phonesWithFinalScore
        case medianReadingMilliseconds = "readingMilliseconds"
        case readingDurationsMilliseconds = "readingsMilliseconds"
        case labCPUDuringMedianReadingMilliseconds = "readingCPUMilliseconds"
        case brokerCPUDuringMedianReadingMilliseconds = "medianReadingBrokerCPUMilliseconds"
        case pushingMilliseconds, resultsMilliseconds, resultRecords, worker, brokerCPUMilliseconds
    }

    var hasSucceeded: Bool { pushes == activities && phonesWithFinalScore == activities && areResultsComplete }

    private var areResultsComplete: Bool { outcomes.reduce(0) { $0 + $1.count } == commands }

    var text: String {
        let outcomes = outcomes.map { "\(Numeral.grouped($0.count)) \($0.outcome)" }.joined(separator: ", ")
        return """
            \(Numeral.grouped(commands)) commands for \(Numeral.grouped(activities)) activities: \(outcomes)
            \(Numeral.grouped(pushes)) pushes; \(Numeral.grouped(phonesWithFinalScore)) phones show the final score
            reading the topic alone        \(seconds(medianReadingMilliseconds)), the median of \(readingDurationsText)
            to the last push's response    \(seconds(pushingMilliseconds)), \(ratioToReadingText(pushingMilliseconds)) times as long
            to the last command's result   \(seconds(resultsMilliseconds)), \(ratioToReadingText(resultsMilliseconds)) times as long
            records of results             \(Numeral.grouped(resultRecords))
            CPU of that reading            \(seconds(labCPUDuringMedianReadingMilliseconds)), of the broker meanwhile \(seconds(brokerCPUDuringMedianReadingMilliseconds))
            CPU of the worker              \(seconds(worker.cpuMilliseconds)), of the broker meanwhile \(seconds(brokerCPUMilliseconds))
            """
    }

    private var readingDurationsText: String { readingDurationsMilliseconds.map(seconds).joined(separator: ", ") }

    private func seconds(_ milliseconds: Int64) -> String { Numeral.seconds(milliseconds: milliseconds) }

    private func ratioToReadingText(_ milliseconds: Int64) -> String {
        medianReadingMilliseconds > 0
            ? Numeral.oneDecimal(Double(milliseconds) / Double(medianReadingMilliseconds)) : "?"
    }
}
