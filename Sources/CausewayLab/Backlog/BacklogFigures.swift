import Numbers

/// What a backlog came to.
struct BacklogFigures: Codable, Equatable, RunFigures {
    var commands: Int
    var activities: Int
    /// Commands by the outcome of their result, or of the count that they stand in.
    var outcomes: [DemoFigures.OutcomeCount]
    /// Accepted by APNs, as its service counts them.
    var pushes: Int
    var phonesWithFinalScore: Int
    /// From the assignment to the last record, by a client that does nothing with them: the median of several times.
    var readingMilliseconds: Int64
    /// All of them, the shortest first.
    var readingsMilliseconds: [Int64]
    /// What the median took of CPU, all threads of the client together.
    var readingCPUMilliseconds: Int64
    /// What it took of the broker's CPU.
    var readingBrokerCPUMilliseconds: Int64
    /// From the worker's assignment to APNs' last answer.
    var pushingMilliseconds: Int64
    /// From the same to the last result's record.
    var resultsMilliseconds: Int64
    /// Records that the worker wrote to the results topic.
    var resultRecords: Int
    /// Of the worker, from its start.
    var worker: ProcessUsage
    /// Of the broker meanwhile.
    var brokerCPUMilliseconds: Int64

    var isGood: Bool { pushes == activities && phonesWithFinalScore == activities && resultsAreComplete }

    private var resultsAreComplete: Bool { outcomes.reduce(0) { $0 + $1.count } == commands }

    var text: String {
        let outcomes = outcomes.map { "\(Numeral.grouped($0.count)) \($0.outcome)" }.joined(separator: ", ")
        return """
            \(Numeral.grouped(commands)) commands for \(Numeral.grouped(activities)) activities: \(outcomes)
            \(Numeral.grouped(pushes)) pushes; \(Numeral.grouped(phonesWithFinalScore)) phones show the final score
            reading the topic alone        \(seconds(readingMilliseconds)), the median of \(readings)
            to the last push's answer      \(seconds(pushingMilliseconds)), \(times(pushingMilliseconds)) times as long
            to the last command's result   \(seconds(resultsMilliseconds)), \(times(resultsMilliseconds)) times as long
            records of results             \(Numeral.grouped(resultRecords))
            CPU of that reading            \(seconds(readingCPUMilliseconds)), of the broker meanwhile \(seconds(readingBrokerCPUMilliseconds))
            CPU of the worker              \(seconds(worker.cpuMilliseconds)), of the broker meanwhile \(seconds(brokerCPUMilliseconds))
            """
    }

    private var readings: String { readingsMilliseconds.map(seconds).joined(separator: ", ") }

    private func seconds(_ milliseconds: Int64) -> String { Numeral.seconds(milliseconds: milliseconds) }

    private func times(_ milliseconds: Int64) -> String {
        readingMilliseconds > 0 ? Numeral.oneDecimal(Double(milliseconds) / Double(readingMilliseconds)) : "?"
    }
}
