import ArgumentParser
import CausewayCommandLine

/// `causeway replay`: reads a range of a topic again.
struct ReplayCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "replay",
        abstract: "Read a range of the commands topic again: report what would be sent, send it, or fill Redis.",
        discussion: """
            report shows what a worker would do with the newest command of each activity and audience in the range, and \
            changes nothing. send has the workers send those that activities do not show and that are not too old. \
            rebuild fills Redis from registrations and commands, and sends nothing. send and rebuild only report, unless \
            you add --execute.

            A range is a period by the records' own times (--from, --to), or offsets (--offsets). No group is joined and \
            nothing is committed. Records that the workers' group has not committed yet are left to the workers.

            Examples:
              causeway replay report -c causeway.yaml --from 2h
              causeway replay send -c causeway.yaml --from 2h --rate 200 --execute
              causeway replay report -c causeway.yaml --topic causeway.dead-letters --from 1d --verbose
              causeway replay rebuild -c causeway.yaml --execute

            Ctrl-C stops it cleanly within seconds; a second Ctrl-C stops it at once.

            Exit codes: 0 the whole range is done; 1 it is not; 64 the command line is wrong; 78 the \
            configuration is wrong.
            """,
        subcommands: [ReplayReportCommand.self, ReplaySendCommand.self, ReplayRebuildCommand.self]
    )
}

/// `causeway replay report`: says what a worker would do with the commands of the range, and changes nothing.
struct ReplayReportCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "report",
        abstract: "Report what would be sent and why. Reads only.",
        discussion: """
            Counts the commands of the range by what a worker would do with them now. Only the newest command of each \
            activity and audience counts. --verbose prints a line for it, and for each invalid record. Nothing is written \
            to Redis or to Kafka. A Redis user needs ~{* and +get +hgetall +time; a Kafka user needs to read the topic and \
            to describe the workers' group.

            Examples:
              causeway replay report -c causeway.yaml --from 2026-07-19T15:00:00Z --to 2026-07-19T16:00:00Z
              causeway replay report -c causeway.yaml --offsets 0:1200-1800 --offsets 1:900- --verbose
            """
    )

    @OptionGroup var options: ReplayOptions

    @Flag(help: "Report for starts, too, whether they would be sent.")
    var starts = false

    func validate() throws { _ = try options.range() }

    func run() throws {
        var run = try ReplayRun(name: "report", options: options)
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
