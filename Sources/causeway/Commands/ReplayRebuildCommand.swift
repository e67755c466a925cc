import ArgumentParser
import CausewayCommandLine
import CausewayConfiguration
import Kafka
import LiveActivity
import Redis

import enum CausewayRecords.JSONValue

/// `causeway replay rebuild`: reads the topics, and writes to Redis the data that Redis has lost. Without `--execute`,
/// only reports what it would write.
struct ReplayRebuildCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "rebuild",
        abstract:
            "Fill Redis from registrations and commands, and send nothing. Without --execute, only report.",
        discussion: """
            This command reads all registrations, and writes those of the last 12 hours (push-to-start tokens: 90 \
            days) to Redis. Activities and devices become members of the audiences that their registrations name.

            Of the commands in the range (default: the last 12 hours), it writes the newest of each activity and each \
            audience to Redis, as if it had been sent with its alert. So workers send nothing older afterwards, and \
            its alert is not sent again. If the activity has no token, Redis holds the command without its alert until \
            a token is registered. What the activity shows stays unknown, so the next state is sent even if it is the \
            same. The command skips starts, and commands that the workers' group has not committed in the commands \
            topic, the deferred topic or the fan-out topic.

            Running workers do the same automatically when they notice that Redis was emptied. Use this command to \
            fill Redis before the workers start, for example after a migration. With --registrations, the workers may \
            run. Use that for registrations that were invalid because the configuration lacked their app.

            Examples:
              causeway replay rebuild -c causeway.yaml
              causeway replay rebuild -c causeway.yaml --execute
              causeway replay rebuild -c causeway.yaml --app com.example.match --from 4h --rate 2000 --execute
              causeway replay rebuild -c causeway.yaml --registrations --execute
            """
    )

    @OptionGroup var options: ReplayOptions

    @Option(
        help: ArgumentHelp("Redis keys per second, above 0. Default: as fast as Redis allows.", valueName: "number")
    )
    var rate: Double?

    @Flag(help: "Write all registrations and no commands.")
    var registrations = false

    @Flag(help: "Write to Redis.")
    var execute = false

    /// How far back the replay begins if the user names no beginning. Older commands are not needed, because an
    /// activity is visible for at most 12 hours.
    private static let defaultFrom = "12h"

    func validate() throws {
        guard rate.map({ $0 > 0 && $0.isFinite }) ?? true else { throw ValidationError("--rate must be above 0") }
        guard !options.verbose else { throw ValidationError("--verbose: rebuild prints counts only") }
        let hasRangeOptions =
            options.from != nil || options.to != nil || !options.offsets.isEmpty || options.topic != nil
        guard !registrations || !hasRangeOptions else {
            throw ValidationError("--registrations reads no commands: remove --from, --to, --offsets and --topic")
        }
        _ = try options.range(defaultFrom: Self.defaultFrom)
    }

    func run() throws {
        var run = try ReplayRun(subcommand: "rebuild", options: options)
        var rebuilder: ReplayRebuilder?
        let failure = try ReplayRun.captureFailure(run.configuration) {
            let interruption = run.interruption
            let isCancelled = { interruption.pendingSignal != nil }
            let queries = try RedisQueries(configuration: run.redis, isCancelled: isCancelled)
            let store = execute ? try BlockingStore(configuration: run.redis) : nil
            defer {
                store?.close()
                queries.close()
            }
            var newRebuilder = ReplayRebuilder(
                scope: run.scope,
                queries: queries,
                store: store,
                callsPerSecond: rate,
                isCancelled: isCancelled
            )
            defer { rebuilder = newRebuilder }
            try rebuild(&run, &newRebuilder)
        }
        run.progress.erase()
        run.reportWarnings(rebuilder?.store?.warnings ?? [])
        let isInterrupted = run.interruption.pendingSignal != nil
        if let failure, !isInterrupted { run.report(failure) }
        // After a failure, print a report only if the rebuild may have changed Redis.
        guard let rebuilder, failure == nil || (execute && rebuilder.tally.hasCounts) else { throw ExitCode.failure }
        if options.json {
            run.printReport(["rebuilt": rebuilder.tally.json, "isDone": .boolean(execute)])
        } else {
            if !registrations { run.printReport() }
            for line in rebuilder.tally.lines(isDone: execute) { StandardStreams.printOutput(line) }
        }
        run.reportIncomplete()
        if !execute { run.report("nothing was written; add --execute to write it") }
        let isStopped = isInterrupted || failure != nil
        if isStopped { run.report("stopped; run the same command again to continue") }
        guard run.isComplete, !isStopped else { throw ExitCode.failure }
    }

    /// Restores the tokens, and then the newest commands of the range. In the other order, Redis would find no token
    /// for a command, and hold the command instead of recording it as sent.
    ///
    /// Without `--execute`, the range is read before the registrations. Then only the registrations of the activities
    /// in the range need to be remembered.
    private func rebuild(_ run: inout ReplayRun, _ rebuilder: inout ReplayRebuilder) throws {
        let range = registrations ? nil : try options.range(defaultFrom: Self.defaultFrom)
        if let range, !execute {
            try run.read(range)
            rebuilder.trackTokens(of: run.table.entries.keys)
        }
        guard !run.hasUnreadPart else { return }
        try run.readRegistrations { message in
            try rebuilder.collectRegistration(
                message.value,
                key: message.key,
                recordTimestampMilliseconds: message.timestampMilliseconds
            )
        }
        try rebuilder.flush()
        guard !run.isInterrupted, let range else { return }
        if execute { try run.read(range) }
        // If only a part of the user's range was read, write no command, because the unread part may have a newer one.
        guard !run.hasUnreadPart else { return }
        try run.readWaitingCommands()
        guard !run.isInterrupted else { return }
        let entries = Array(run.table.entries)
        for start in stride(from: 0, to: entries.count, by: ReplayRebuilder.writesPerBatchMax) {
            guard run.interruption.pendingSignal == nil else { break }
            try rebuilder.rebuild(entries[start..<min(start + ReplayRebuilder.writesPerBatchMax, entries.count)])
            run.progress.show("writing", Int64(start), of: Int64(entries.count))
        }
    }
}
