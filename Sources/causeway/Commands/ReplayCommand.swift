import ArgumentParser
import CausewayCommandLine

/// `causeway replay`: reads a range of a topic again.
struct ReplayCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "replay",
        abstract: "Read a range of the commands topic again: report what would be sent, send it, or fill Redis.",
        discussion: """
            report shows what a worker would do with the newest command of each activity and audience in the range, \
            and changes nothing. send lets the workers send the commands that activities do not show and that are not \
            too old. rebuild fills Redis from registrations and commands, and sends nothing. Without --execute, send \
            and rebuild only report what they would do.

            A range is a period of time (--from, --to), compared with the records' own times, or a range of offsets \
            (--offsets). The commands join no group and commit no offset. They leave records that the workers' group \
            has not committed yet to the workers.

            Examples:
              causeway replay report -c causeway.yaml --from 2h
              causeway replay send -c causeway.yaml --from 2h --rate 200 --execute
              causeway replay report -c causeway.yaml --topic causeway.dead-letters --from 1d --verbose
              causeway replay rebuild -c causeway.yaml --execute

            Ctrl-C stops the command gracefully within seconds; a second Ctrl-C stops it at once.

            Exit codes: 0 the whole range was processed; 1 a part was not; 64 the command line is wrong; 78 the \
            configuration is wrong.
            """,
        subcommands: [ReplayReportCommand.self, ReplaySendCommand.self, ReplayRebuildCommand.self]
    )
}

/// `causeway replay report`: says what a worker would do with the commands in the chosen range of a topic, and changes
/// nothing.
struct ReplayReportCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "report",
        abstract: "Report what would be sent and why. Read-only.",
        discussion: """
            This command counts the commands of the range by what a worker would do with them now. Only the newest \
            command of each activity and audience can be sent. --verbose prints a line for each of them, and for each \
            invalid record. The command writes nothing to Redis or Kafka. A Redis user needs ~{* and +get +hgetall \
            +time; a Kafka user needs Read on the topic and Describe on the workers' group.

            Examples:
              causeway replay report -c causeway.yaml --from 2026-07-19T15:00:00Z --to 2026-07-19T16:00:00Z
              causeway replay report -c causeway.yaml --offsets 0:1200-1800 --offsets 1:900- --verbose
            """
    )

    @OptionGroup var options: ReplayOptions

    @Flag(help: "Also report which starts would be sent.")
    var starts = false

    func validate() throws { _ = try options.range() }

    func run() throws {
        var run = try ReplayRun(subcommand: "report", options: options)
        let failure = try ReplayRun.captureFailure(run.configuration) {
            try run.read(try options.range())
            let (runCopy, includesStarts) = (run, starts)
            try run.decide(includesStarts: includesStarts) { decision, tally, _ in
                tally.count(decision.verdict, appIndex: decision.appIndex)
                runCopy.printLine(decision, isSent: false)
                return true
            }
        }
        if let failure {
            run.report(failure)
            throw ExitCode.failure
        }
        run.printReport()
        run.reportIncomplete()
        guard run.isComplete else { throw ExitCode.failure }
    }
}
