import Numbers

/// What the progress display shows of a demo, and the error of a demo that waits too long for a step or makes no
/// further progress.
extension Demo {
    func makeProgress(_ reader: ResultsReader, _ rates: RateMeter, elapsedMilliseconds: Int64) -> DemoProgress {
        DemoProgress(
            elapsedMilliseconds: elapsedMilliseconds,
            durationMilliseconds: Int64(options.seasonSeconds) * 1_000,
            totalCommandCount: feed.totalCommandCount,
            resultCount: reader.tally.commandCount,
            commandsPerSecond: rates.commandsPerSecond,
            pushesPerSecond: rates.pushesPerSecond,
            finishedMatchCount: feed.finishedMatchCount,
            matchCount: feed.matches.count,
            latestEventText: feed.latestEventText
        )
    }

    func makeStallError(_ text: String, _ reader: ResultsReader, _ commandProducer: CommandProducer) -> LabError {
        let tally = reader.tally
        let outcomes = DemoFigures.OutcomeCount.all(of: tally).map { "\(Numeral.grouped($0.count)) \($0.outcome)" }
        return LabError(
            """
            \(text). Of \(Numeral.grouped(feed.commandCount)) commands \(Numeral.grouped(tally.commandCount)) have a \
            result (\(outcomes.joined(separator: ", "))), \(Numeral.grouped(commandProducer.undeliveredRecordCount)) \
            did not reach the broker; the worker's log ends with
            """,
            logTail: TextFile.readLastLines(of: deployment.path("worker.log"), ChildProcess.logTailLineCount)
        )
    }
}
