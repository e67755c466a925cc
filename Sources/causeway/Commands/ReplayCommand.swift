import ArgumentParser
import CausewayCommandLine

/// `causeway replay`: a range of a topic once more.
struct ReplayCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "replay",
        abstract: "Read a range of the commands topic once more: say what would be sent, send it, or fill Redis.",
        discussion: """
            report says what a worker would make of the newest command of each activity and audience in the range, and touches nothing. send has \
            the workers send those that the activities do not show and that are not too old. rebuild fills Redis \
            from registrations and commands, and sends nothing. send and rebuild say what they would do, and do it \
            only with --execute.

            A range is a time, by the records' own (--from, --to), or offsets (--offsets). No group is joined and \
            nothing is committed. What the workers' group has not committed yet is theirs and left alone.

            Examples:
              causeway replay report -c causeway.yaml --from 2h
              causeway replay send -c causeway.yaml --from 2h --rate 200 --execute
              causeway replay report -c causeway.yaml --topic causeway.dead-letters --from 1d --verbose
              causeway replay rebuild -c causeway.yaml --execute

            Ctrl-C ends it in order, within seconds; a second one at once.

            Exit codes: 0 all of the range was read, and done; 1 it was not; 64 the command line is wrong; 78 the \
            configuration is wrong.
            """,
        subcommands: [ReplayReportCommand.self, ReplaySendCommand.self, ReplayRebuildCommand.self]
    )
}

/// `causeway replay report`.
struct ReplayReportCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "report",
        abstract: "Say what would be sent and why. Reads only.",
        discussion: """
            Counts the commands of the range by what a worker would make of them now. Of each activity and audience only the newest \
            command counts; --verbose prints a line for it, and for each invalid record. Nothing is written, to Redis or to Kafka. A Redis user needs \
            ~{* and +get +hgetall +time; a Kafka user needs to read the topic and to describe the workers' group.

            Examples:
              causeway replay report -c causeway.yaml --from 2026-07-19T15:00:00Z --to 2026-07-19T16:00:00Z
              causeway replay report -c causeway.yaml --offsets 0:1200-1800 --offsets 1:900- --verbose
            """
    )

    @OptionGroup var options: ReplayOptions

    @Flag(help: "Say of starts, too, whether they would be sent.")
    var starts = false

    func validate() throws { _ = try options.range() }

    func run() throws {
        var run = try ReplayRun(name: "report", options: options)
        let failure = try ReplayRun.failure(run.configuration) {
            try run.read(try options.range())
            let (line, takesStarts) = (run, starts)
            try run.decide(takesStarts: takesStarts) { decision, tally, _ in
                tally.count(decision.verdict, app: decision.app)
                line.printLine(decision)
                return true
            }
        }
        if let failure {
            run.say(failure)
            throw ExitCode.failure
        }
        run.printReport()
        run.sayWhatIsMissing()
        guard run.isComplete else { throw ExitCode.failure }
    }
}
