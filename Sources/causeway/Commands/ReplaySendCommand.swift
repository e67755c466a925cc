import ActivityStore
import ArgumentParser
import CausewayCommandLine
import CausewayConfiguration
import Kafka
import LiveActivity
import Redis

/// `causeway replay send`: writes the newest commands of a ``ReplayRange`` to the commands topic again. It leaves out
/// commands that Redis knows. Exception: a command to an activity that expired or failed is sent again, because no
/// phone showed it. Without `--execute`, it only reports what it would write.
struct ReplaySendCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "send",
        abstract: "Let the workers send commands that activities do not show. Without --execute, only report them.",
        discussion: """
            This command writes the newest command of each activity and each audience in the range to the commands \
            topic again, with the same key, value and time. The header replayed names the original record.

            A command to an activity is written if it is newer than what Redis knows, or if it is the newest and \
            expired or failed without having been shown. It must not be too old, and its token must be known. A \
            command to an audience is written if Redis does not know it. The workers process these commands like all \
            others, so nothing is sent twice. Alerts older than the policy's alertSeconds are removed. Starts are \
            skipped unless you add --starts: if Redis does not know a start, nobody knows whether it was sent.

            After an interruption, run the command again: Redis knows what was sent.

            Examples:
              causeway replay send -c causeway.yaml --from 2h
              causeway replay send -c causeway.yaml --from 2h --rate 200 --execute
              causeway replay send -c causeway.yaml --topic causeway.dead-letters --from 1d --execute
            """
    )

    @OptionGroup var options: ReplayOptions

    @Option(help: ArgumentHelp("Commands per second, above 0.", valueName: "number"))
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
        var run = try ReplayRun(subcommand: "send", options: options)
        var sender: ReplaySender?
        let failure = try ReplayRun.captureFailure(run.configuration) {
            try run.read(try options.range())
            let runCopy = run
            if execute, !run.hasUnreadPart {
                sender = try ReplaySender(
                    run.configuration,
                    redis: run.redis,
                    topic: run.topic,
                    commandsPerSecond: rate
                )
            }
            let includesStarts = starts
            try run.decide(includesStarts: includesStarts) { decision, tally, progress in
                var decision = decision
                if decision.verdict.reason.leadsToSending, sender != nil {
                    guard let verdict = try sender?.send(decision, until: { runCopy.interruption.pendingSignal != nil })
                    else {
                        return false
                    }
                    decision.verdict = verdict
                    progress.show(
                        "sending",
                        Int64(sender?.tally.attemptedCount ?? 0),
                        of: Int64(runCopy.table.entries.count)
                    )
                }
                tally.count(decision.verdict, appIndex: decision.appIndex)
                runCopy.printLine(decision, isSent: sender != nil)
                return true
            }
        }
        sender?.finish(isStoppingAtOnce: failure != nil || run.interruption.pendingSignal != nil)
        run.reportWarnings(sender?.redisWarnings ?? [])
        if let failure {
            run.report(failure)
            // Without a sender, the replay has sent nothing, so print no report.
            guard sender != nil else { throw ExitCode.failure }
        }
        let members = sender.map { ["sent": $0.json] } ?? [:]
        run.printReport(members, isSent: sender != nil)
        if let sender, !options.json { StandardStreams.printOutput(sender.summaryLine) }
        run.reportIncomplete()
        try reportCompletion(of: run, sender)
    }

    private func reportCompletion(of run: ReplayRun, _ sender: ReplaySender?) throws {
        guard let sender else {
            let message =
                execute || run.interruption.pendingSignal != nil
                ? "nothing was sent; run the same command again" : "nothing was sent; add --execute to send it"
            run.report(message)
            guard run.isComplete else { throw ExitCode.failure }
            return
        }
        if let reason = sender.tally.failureReason { run.report("Kafka: \(reason)") }
        if let (count, reason) = sender.settlementFailure {
            run.report(
                """
                \(reason): \(count) unsent commands stay marked as being sent in Redis, until their activities get \
                newer states
                """
            )
        }
        let isStopped = sender.isStopped || run.isInterrupted
        if isStopped { run.report("stopped while sending; run the same command again to send the rest") }
        guard run.isComplete, !isStopped, sender.tally.failedCount == 0 else { throw ExitCode.failure }
    }
}
