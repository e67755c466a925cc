import ActivityStore
import ArgumentParser
import CausewayCommandLine
import CausewayConfiguration
import Kafka
import LiveActivity
import Redis

/// What all replays have in common: the range is read, the newest commands of its activities are kept, and Redis is asked about them.
struct ReplayRun {
    let name: String
    let options: ReplayOptions
    let configuration: WorkerConfiguration
    let redis: RedisConfiguration
    let scope: ReplayScope
    let topic: String
    let interruption = Interruption(endsAtSecond: true)
    private(set) var tally = ReplayTally()
    private(set) var table: ReplayTable
    /// What was not read because of an interruption.
    private(set) var rest: [ReplaySource.Part] = []
    /// The registrations were not all read, or Redis was not asked about every activity.
    private(set) var isInterrupted = false
    /// The range names what the topic does not have.
    private(set) var hasGaps = false
    var progress = ReplayProgress()

    init(name: String, options: ReplayOptions) throws {
        self.name = "causeway replay \(name)"
        self.options = options
        configuration = try ConfigurationOption.load(path: options.config, requiresFiles: false)
        do {
            redis = try RedisConfiguration(configuration.redis)
        } catch {
            StandardStreams.printError("\(self.name): \(error)")
            throw ExitCode.configuration
        }
        scope = try options.scope(in: configuration)
        topic = options.topic ?? configuration.kafka.topics.commands
        table = ReplayTable(bytesMax: options.memory << 20)
    }

    var isComplete: Bool { rest.isEmpty && !isInterrupted && !hasGaps && !table.wasFull }

    /// Reads the range into the table.
    mutating func read(_ range: ReplayRange) throws {
        let source = try interruption.endingAtOnce {
            try ReplaySource(topic: topic, range: range, kafka: configuration.kafka)
        }
        defer { source.close() }
        for note in source.notes { say(note) }
        hasGaps = !source.notes.isEmpty
        let positions = try interruption.endingAtOnce {
            try ReplayPositions(
                of: topic,
                partitions: source.partitionCount,
                isInput: topic == configuration.kafka.topics.commands,
                kafka: configuration.kafka
            )
        }
        var (tally, table, progress) = (tally, table, progress)
        rest = try source.read(interruption, &progress) { message in
            let intake = scope.take(
                message.value,
                key: message.key,
                (message.partition, message.offset, message.timestampMilliseconds),
                isUnread: positions.isUnread(message.offset, of: message.partition),
                nowMilliseconds: Clock.wallMilliseconds
            )
            tally.count(intake)
            if case .invalid(let code, _) = intake { printLine(invalid: message, code: code) }
            if case .command(let candidate, let addressee, let app) = intake {
                table.take(candidate, of: addressee, app: app) { tally.count($0, app: app) }
            }
        }
        (self.tally, self.table, self.progress) = (tally, table, progress)
        self.progress.clear()
    }

    /// Reads the registrations topic from its first record on.
    mutating func readRegistrations(_ body: (borrowing Message) throws -> Void) throws {
        let source = try interruption.endingAtOnce {
            try ReplaySource(
                topic: configuration.kafka.topics.registrations,
                range: .times(from: 0, to: nil),
                kafka: configuration.kafka
            )
        }
        defer { source.close() }
        isInterrupted = try !source.read(interruption, &progress, body).isEmpty
        progress.clear()
    }

    /// Asks Redis about each activity and audience of the table, and hands on what its newest command comes to.
    mutating func decide(
        takesStarts: Bool,
        _ body: (ReplayDecision, inout ReplayTally, inout ReplayProgress) throws -> Bool
    ) throws {
        // What an interrupted reading has read is still decided on.
        let wasInterrupted = !rest.isEmpty
        let interruption = interruption
        let isOver = { interruption.pending != nil && !wasInterrupted }
        let queries = try RedisQueries(configuration: redis, isOver: isOver)
        defer { queries.close() }
        let decisions = ReplayDecisions(scope: scope, queries: queries, takesStarts: takesStarts)
        var (tally, progress) = (tally, progress)
        isInterrupted = true
        defer {
            progress.clear()
            (self.tally, self.progress) = (tally, progress)
        }
        do {
            let isWhole = try decisions.forEach(of: table) { decision in
                if isOver() { return false }
                return try body(decision, &tally, &progress)
            }
            isInterrupted = !isWhole
        } catch is RedisError where isOver() {
            // It was not waited for any longer.
        }
    }

    func say(_ line: String) { StandardStreams.printError("\(name): \(line)") }

    /// A line for one command, if lines were asked for.
    func printLine(_ decision: ReplayDecision) {
        guard options.verbose else { return }
        let app = scope.apps[decision.app]
        let candidate = decision.candidate
        let audience = candidate.audience.map { String(decoding: $0, as: UTF8.self) }
        let activity = audience == nil ? app.activity(ofKey: decision.key) : nil
        let source = "\(topic)/\(candidate.partition)/\(candidate.offset)"
        guard options.json else {
            let alert = decision.verdict.dropsAlert ? ", without its alert" : ""
            let addressee = audience.map { "audience \($0)" } ?? activity ?? "-"
            let line =
                "\(source)  \(app.bundleIdentifier)  \(addressee)  \(candidate.event.name)  \(candidate.version.timestamp)"
            return StandardStreams.printOutput("\(line)  \(decision.verdict.reason.title)\(alert)")
        }
        let line = JSONValue.members([
            "source": .string(source),
            "app": .string(app.bundleIdentifier),
            "activity": activity.map { .string($0) },
            "audience": audience.map { .string($0) },
            "event": .string(candidate.event.name),
            "timestamp": .integer(candidate.version.timestamp),
            "sequence": candidate.version.sequence > 0 ? .integer(Int64(clamping: candidate.version.sequence)) : nil,
            "reason": .string(decision.verdict.reason.rawValue),
            "dropsAlert": decision.verdict.dropsAlert ? .bool(true) : nil,
        ])
        StandardStreams.printOutput(line.line)
    }

    /// A line for a record that is no command a worker would take, with what can be told of it.
    private func printLine(invalid message: borrowing Message, code: String) {
        guard options.verbose else { return }
        let source = "\(topic)/\(message.partition)/\(message.offset)"
        var (app, activity): (String?, String?) = (nil, nil)
        if let value = message.value, let command = try? Command.decode(value) {
            (app, activity) = (command.app.text(in: value), command.activity.text(in: value))
        }
        guard options.json else {
            return StandardStreams.printOutput(
                "\(source)  \(app ?? "-")  \(activity ?? "-")  \(ReplayReason.invalid.title): \(code)"
            )
        }
        let line = JSONValue.members([
            "source": .string(source),
            "app": app.map { .string($0) },
            "activity": activity.map { .string($0) },
            "reason": .string(ReplayReason.invalid.rawValue),
            "code": .string(code),
        ])
        StandardStreams.printOutput(line.line)
    }

    /// - Parameter isSent: what would be sent has been.
    func printReport(_ others: [String: JSONValue] = [:], isSent: Bool = false) {
        guard !options.json else {
            let members = others.merging(["replay": .string(String(name.split(separator: " ")[2]))]) { $1 }
            let report = tally.json(scope, topic: topic, isComplete: isComplete, others: members)
            return StandardStreams.printOutput(report.line)
        }
        for line in tally.lines(scope, topic: topic, isSent: isSent) { StandardStreams.printOutput(line) }
    }

    /// What keeps the replay from being whole.
    func sayWhatIsMissing() {
        if table.wasFull {
            say("--memory \(options.memory) has room for no more activities: narrow the range, or name an app")
        }
        guard !rest.isEmpty else {
            if isInterrupted { say("stopped before the end: the counts are not those of the whole range") }
            return
        }
        say("stopped while reading; what is left: \(rest.map { "--offsets \($0.text)" }.joined(separator: " "))")
    }

    /// Does something that Kafka or Redis may refuse.
    ///
    /// - Parameter configuration: says where Kafka is, which its errors do not.
    /// - Returns: what is wrong, in words; nil if nothing is.
    static func failure(_ configuration: WorkerConfiguration, _ body: () throws -> Void) throws -> String? {
        do {
            try body()
            return nil
        } catch let error as RedisError {
            return "\(error)"
        } catch let error as KafkaError {
            return "Kafka at \(configuration.kafka.bootstrapServers): \(error)"
        } catch let error as InspectionError {
            return "\(error)"
        }
    }
}

extension Event {
    /// As `aps.event` has it.
    var name: String {
        switch self {
        case .start: "start"
        case .update: "update"
        case .end: "end"
        }
    }
}
