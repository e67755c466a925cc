import ActivityStore
import ArgumentParser
import CausewayCommandLine
import CausewayConfiguration
import Kafka
import LiveActivity
import Redis

/// `causeway replay send`.
struct ReplaySendCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "send",
        abstract: "Have the workers send what activities do not show. Without --execute, say what that is.",
        discussion: """
            Of each activity and each audience the newest command of the range is written to the commands topic once more, with the same key, \
            value and time and a header, replayed, that names the record: if it is newer than what Redis knows, or is \
            the newest and expired or failed without having been shown; if it is not too old; and if its token is \
            known. That of an audience is written if Redis does not know it. The workers admit it as any other, so nothing is sent twice. Alerts ring as those of any other \
            command: not when they are older than the policy's alertSeconds. Starts are left out, since nobody knows of \
            a start that Redis has forgotten whether it was sent.

            Interrupted, it may simply be run again: what was sent is known by then.

            Examples:
              causeway replay send -c causeway.yaml --from 2h
              causeway replay send -c causeway.yaml --from 2h --rate 200 --execute
              causeway replay send -c causeway.yaml --topic causeway.dead-letters --from 1d --execute
            """
    )

    @OptionGroup var options: ReplayOptions

    @Option(help: ArgumentHelp("Commands a second, above 0.", valueName: "number"))
    var rate: Double = 500

    @Flag(help: "Send starts as well that are not too old and of which Redis knows nothing.")
    var starts = false

    @Flag(help: "Do it.")
    var execute = false

    func validate() throws {
        guard rate > 0, rate.isFinite else { throw ValidationError("--rate must be above 0") }
        _ = try options.range()
    }

    func run() throws {
        var run = try ReplayRun(name: "send", options: options)
        var sending: ReplaySending?
        let failure = try ReplayRun.failure(run.configuration) {
            try run.read(try options.range())
            let (line, isInterrupted) = (run, !run.rest.isEmpty)
            if execute, !isInterrupted {
                sending = try ReplaySending(run.configuration, redis: run.redis, topic: run.topic, rate: rate)
            }
            let takesStarts = starts
            try run.decide(takesStarts: takesStarts) { decision, tally, progress in
                var decision = decision
                if decision.verdict.reason.isSent, sending != nil {
                    guard let verdict = try sending?.send(decision, until: { line.interruption.pending != nil }) else {
                        return false
                    }
                    decision.verdict = verdict
                    progress.show("sending", Int64(sending?.tally.sent ?? 0), of: Int64(line.table.entries.count))
                }
                tally.count(decision.verdict, app: decision.app)
                line.printLine(decision)
                return true
            }
        }
        sending?.finish(isHurried: failure != nil || run.interruption.pending != nil)
        if let failure {
            run.say(failure)
            // Without a sending there is nothing to count: nothing was done.
            guard sending != nil else { throw ExitCode.failure }
        }
        let members = sending.map { ["sent": $0.json] } ?? [:]
        run.printReport(members, isSent: sending != nil)
        if let sending, !options.json { StandardStreams.printOutput(sending.line) }
        run.sayWhatIsMissing()
        try end(run, sending)
    }

    private func end(_ run: ReplayRun, _ sending: ReplaySending?) throws {
        guard let sending else {
            let note =
                execute || run.interruption.pending != nil
                ? "nothing was sent; the same command begins again" : "nothing was sent: --execute sends it"
            run.say(note)
            guard run.isComplete else { throw ExitCode.failure }
            return
        }
        if let reason = sending.tally.reason { run.say("Kafka: \(reason)") }
        if let (count, reason) = sending.leftOpen {
            run.say(
                "\(reason): \(count) commands that were not sent are under way in Redis until a newer state comes"
            )
        }
        let isStopped = sending.isStopped || run.isInterrupted
        if isStopped { run.say("stopped while sending; the same command goes on with what was not sent") }
        guard run.isComplete, !isStopped, sending.tally.failed == 0 else { throw ExitCode.failure }
    }
}
