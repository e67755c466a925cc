import ArgumentParser
import CausewayCommandLine
import CausewayConfiguration
import Kafka
import LiveActivity
import Redis

/// `causeway replay rebuild`.
struct ReplayRebuildCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "rebuild",
        abstract:
            "Fill Redis from registrations and commands; nothing is sent. Without --execute, say what would be written.",
        discussion: """
            All registrations are read, and those of the last 12 hours (push-to-start tokens: 90 days) written; activities and \
            devices are members of the audiences again that they name. Of the \
            commands of the range, by default the last 12 hours, the newest of each activity and each audience is written as one that was sent \
            and whose alert has rung: nothing older is sent afterwards, and no alert rings for it. Without a token it is \
            held, without its alert, until the token registers. What the activity shows is left unknown, so the next \
            state is sent even if it is the same. Starts are passed over, and so is what the workers' group has not \
            committed.

            Workers that notice that Redis was emptied do the like by themselves. This is for a Redis that is filled \
            before they begin: after a move, or where they were stopped. With --registrations the workers may run: it \
            is for tokens whose registrations were refused while the configuration lacked their app.

            Examples:
              causeway replay rebuild -c causeway.yaml
              causeway replay rebuild -c causeway.yaml --execute
              causeway replay rebuild -c causeway.yaml --app com.example.match --from 4h --rate 2000 --execute
              causeway replay rebuild -c causeway.yaml --registrations --execute
            """
    )

    @OptionGroup var options: ReplayOptions

    @Option(
        help: ArgumentHelp("Keys of Redis a second, above 0; left out, as fast as it takes them.", valueName: "number")
    )
    var rate: Double?

    @Flag(help: "All registrations, and no commands.")
    var registrations = false

    @Flag(help: "Do it.")
    var execute = false

    private static let defaultFrom = "12h"

    func validate() throws {
        guard rate.map({ $0 > 0 && $0.isFinite }) ?? true else { throw ValidationError("--rate must be above 0") }
        guard !options.verbose else { throw ValidationError("--verbose: rebuild prints counts only") }
        let isRanged = options.from != nil || options.to != nil || !options.offsets.isEmpty || options.topic != nil
        guard !registrations || !isRanged else {
            throw ValidationError("--registrations reads no commands: leave out --from, --to, --offsets and --topic")
        }
        _ = try options.range(defaultFrom: Self.defaultFrom)
    }

    func run() throws {
        var run = try ReplayRun(name: "rebuild", options: options)
        var rebuilding: ReplayRebuilding?
        let failure = try ReplayRun.failure(run.configuration) {
            let interruption = run.interruption
            let isOver = { interruption.pending != nil }
            let queries = try RedisQueries(configuration: run.redis, isOver: isOver)
            let store = execute ? try BlockingStore(configuration: run.redis) : nil
            defer {
                store?.close()
                queries.close()
            }
            var made = ReplayRebuilding(scope: run.scope, queries: queries, store: store, rate: rate, isOver: isOver)
            defer { rebuilding = made }
            try rebuild(&run, &made)
        }
        run.progress.clear()
        let isInterrupted = run.interruption.pending != nil
        if let failure, !isInterrupted { run.say(failure) }
        guard let rebuilding, execute || failure == nil else { throw ExitCode.failure }
        if options.json {
            run.printReport(["rebuilt": rebuilding.tally.json, "isDone": .bool(execute)])
        } else {
            if !registrations { run.printReport() }
            for line in rebuilding.tally.lines(isDone: execute) { StandardStreams.printOutput(line) }
        }
        run.sayWhatIsMissing()
        if !execute { run.say("nothing was written: --execute writes it") }
        let isStopped = isInterrupted || failure != nil
        if isStopped { run.say("stopped; the same command begins again, and repeats no harm") }
        guard run.isComplete, !isStopped else { throw ExitCode.failure }
    }

    /// Tokens first: an activity without one would have its newest command held. Where nothing is written the commands are read first, so that
    /// of the tokens only those are remembered that they go to.
    private func rebuild(_ run: inout ReplayRun, _ rebuilding: inout ReplayRebuilding) throws {
        let range = registrations ? nil : try options.range(defaultFrom: Self.defaultFrom)
        if let range, !execute {
            try run.read(range)
            rebuilding.lookFor(run.table.entries.keys)
        }
        // A part of the range is no ground to write on: a newer command may lie in the rest.
        guard run.rest.isEmpty else { return }
        try run.readRegistrations { message in
            try rebuilding.register(
                message.value,
                key: message.key,
                recordMilliseconds: message.timestampMilliseconds
            )
        }
        try rebuilding.flush()
        guard !run.isInterrupted, let range else { return }
        if execute { try run.read(range) }
        guard run.rest.isEmpty else { return }
        let entries = Array(run.table.entries)
        for start in stride(from: 0, to: entries.count, by: ReplayRebuilding.batch) {
            guard run.interruption.pending == nil else { break }
            try rebuilding.take(entries[start..<min(start + ReplayRebuilding.batch, entries.count)])
            run.progress.show("writing", Int64(start), of: Int64(entries.count))
        }
    }
}
