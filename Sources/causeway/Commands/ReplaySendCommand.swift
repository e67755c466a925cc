import ActivityStore
import ArgumentParser
import CausewayCommandLine
import CausewayConfiguration
import Kafka
import LiveActivity
import Redis

/// `causeway replay send`: writes the newest commands of the range to the commands topic again: those that their
/// activities do not show, and those to audiences that Redis does not know. Without `--execute`, only reports them.
struct ReplaySendCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "send",
        abstract: "Have the workers send what activities do not show. Without --execute, only report it.",
        discussion: """
            Writes the newest command of each activity and each audience in the range to the commands topic again, with \
            the same key, value and time, and a header, replayed, that names the original record.

            A command to an activity is written if it is newer than what Redis knows, or if it is the newest and expired \
            or failed without having been shown. It must not be too old, and its token must be known. A command to an \
            audience is written if Redis does not know it. The workers admit these commands like any other, so nothing is \
            sent twice. Alerts older than the policy's alertSeconds do not ring. Starts are left out: if Redis has \
            forgotten a start, nobody knows whether it was sent.

            After an interruption, run it again: Redis then knows what was sent.

            Examples:
              causeway replay send -c causeway.yaml --from 2h
              causeway replay send -c causeway.yaml --from 2h --rate 200 --execute
              causeway replay send -c causeway.yaml --topic causeway.dead-letters --from 1d --execute
            """
    )

    @OptionGroup var options: ReplayOptions

    @Option(help: ArgumentHelp("Commands a second, above 0.", valueName: "number"))
    var rate: Double = 500

    @Flag(help: "Also send starts that are not too old and that Redis does not know.")
    var starts = false

    @Flag(help: "Send the commands.")
    var execute = false

    func validate() throws {
        guard rate > 0, rate.isFinite else { throw ValidationError("--rate must be above 0") }
        _ = try options.range()
    }

    func run() throws {
        var run = try ReplayRun(name: "send", options: options)
        var sending: ReplaySending?
        let failure = try ReplayRun.captureFailure(run.configuration) {
            try run.read(try options.range())
            let (runCopy, isInterrupted) = (run, !run.unreadParts.isEmpty)
            if execute, !isInterrupted {
                sending = try ReplaySending(run.configuration, redis: run.redis, topic: run.topic, rate: rate)
            }
            let includesStarts = starts
            try run.decide(includesStarts: includesStarts) { decision, tally, progress in
                var decision = decision
                if decision.verdict.reason.isSent, sending != nil {
                    guard let verdict = try sending?.send(decision, until: { runCopy.interruption.pending != nil })
                    else {
                        return false
                    }
                    decision.verdict = verdict
                    progress.show("sending", Int64(sending?.tally.sent ?? 0), of: Int64(runCopy.table.entries.count))
                }
                tally.count(decision.verdict, appIndex: decision.appIndex)
                runCopy.printLine(decision)
                return true
            }
        }
        sending?.finish(isStoppingAtOnce: failure != nil || run.interruption.pending != nil)
        if let failure {
            run.report(failure)
            // The replay has sent nothing, so print no report.
            guard sending != nil else { throw ExitCode.failure }
        }
        let members = sending.map { ["sent": $0.json] } ?? [:]
        run.printReport(members, isSent: sending != nil)
        if let sending, !options.json { StandardStreams.printOutput(sending.line) }
        run.reportIncomplete()
        try finish(run, sending)
    }

    private func finish(_ run: ReplayRun, _ sending: ReplaySending?) throws {
        guard let sending else {
            let message =
                execute || run.interruption.pending != nil
                ? "nothing was sent; run the same command again" : "nothing was sent; add --execute to send it"
            run.report(message)
            guard run.isComplete else { throw ExitCode.failure }
            return
        }
        if let reason = sending.tally.reason { run.report("Kafka: \(reason)") }
        if let (count, reason) = sending.restorationFailure {
            run.report(
                "\(reason): Redis takes \(count) unsent commands for under way, until their activities get newer states"
            )
        }
        let isStopped = sending.isStopped || run.isInterrupted
        if isStopped { run.report("stopped while sending; run the same command again to send the rest") }
        guard run.isComplete, !isStopped, sending.tally.failed == 0 else { throw ExitCode.failure }
    }
}
