import ActivityStore
import ArgumentParser
import CausewayCommandLine
import CausewayConfiguration
import Kafka
import LiveActivity
import Redis

import enum CausewayRecords.JSONValue

/// What all subcommands of `causeway replay` have in common: reading the range, keeping the newest command of each
/// activity and audience, and looking up these activities and audiences in Redis.
struct ReplayRun {
    let commandName: String
    let options: ReplayOptions
    let configuration: WorkerConfiguration
    let redis: RedisConfiguration
    let scope: ReplayScope
    let topic: String
    let interruption = Interruption(endsAtSecondSignal: true)
    private(set) var tally = ReplayTally()
    private(set) var table: NewestCommandTable
    /// The ranges of partitions that an interruption left unread.
    private(set) var unreadRanges: [ReplayReader.PartitionRange] = []
    /// Whether some registrations or some commands in the deferred or fan-out topic were not read, or some activities
    /// or audiences were not looked up in Redis.
    private(set) var isInterrupted = false
    /// Whether the range names offsets or partitions that the topic does not have, or a partition has no leader.
    private(set) var hasRangeFaults = false
    /// Whether a part of the range was not read: after an interruption, or because a partition has no leader. The
    /// unread part may have newer commands than the rest.
    private(set) var hasUnreadPart = false
    var progress = ReplayProgressBar()

    init(subcommand: String, options: ReplayOptions) throws {
        commandName = "causeway replay \(subcommand)"
        self.options = options
        configuration = try options.configurationFile.load(requiresFiles: false)
        do {
            redis = try RedisConfiguration(configuration.redis)
        } catch {
            StandardStreams.printError("\(commandName): \(error)")
            throw ExitCode.configurationFault
        }
        scope = try options.makeScope(in: configuration)
        topic = options.topic ?? configuration.kafka.topics.commands
        table = NewestCommandTable(bytesMax: options.memory << 20)
    }

    var isComplete: Bool { unreadRanges.isEmpty && !isInterrupted && !hasRangeFaults && !table.hasLackedRoom }

    /// Reads the records of the range into ``table``, counts them in ``tally``, and notes which parts could not be
    /// read.
    mutating func read(_ range: ReplayRange) throws {
        let reader = try interruption.withSignalsUnhandled {
            try ReplayReader(
                topic: topic,
                range: range,
                skipsPartitionsWithoutLeader: true,
                kafka: configuration.kafka
            )
        }
        defer { reader.close() }
        for fault in reader.rangeFaults { report(fault) }
        hasRangeFaults = !reader.rangeFaults.isEmpty
        let isPartitionMissing = !reader.partitionsWithoutLeader.isEmpty
        let committedOffsets = try interruption.withSignalsUnhandled {
            try GroupCommittedOffsets(
                of: topic,
                partitionCount: reader.partitionCount,
                isInput: topic == configuration.kafka.topics.commands,
                kafka: configuration.kafka
            )
        }
        // The closure changes the tally and the table while the reader changes `progress`. Swift permits this for local
        // variables, but not for properties.
        var (tally, table, progress) = (tally, table, progress)
        unreadRanges = try reader.read(interruption, &progress) { message in
            let record = scope.classify(
                message.value,
                key: message.key,
                (message.partition, message.offset, message.timestampMilliseconds),
                isUnread: committedOffsets.isUnread(message.offset, of: message.partition),
                nowMilliseconds: Clock.wallMilliseconds
            )
            tally.count(record)
            if case .invalid(let code, _) = record { printLine(invalid: message, code: code) }
            if case .command(let command, let redisKey, let appIndex) = record {
                table.insert(command, of: redisKey, appIndex: appIndex) { tally.count($0, appIndex: appIndex) }
            }
        }
        (self.tally, self.table, self.progress) = (tally, table, progress)
        hasUnreadPart = isPartitionMissing || !unreadRanges.isEmpty
        self.progress.erase()
    }

    /// Marks the states that wait in the deferred topic or the fan-out topic as unread. The workers have committed the
    /// original records of these states, but have not sent the states yet, or not to all members of an audience.
    ///
    /// Throws if a partition of these topics has no leader, because a state may wait there.
    mutating func readWaitingCommands() throws {
        let topics = configuration.kafka.topics
        for waitingTopic in [topics.deferred, topics.fanout] where !isInterrupted {
            try readWaitingCommands(in: waitingTopic)
        }
    }

    private mutating func readWaitingCommands(in waitingTopic: String) throws {
        var reader = try interruption.withSignalsUnhandled {
            try ReplayReader(
                topic: waitingTopic,
                range: .times(fromMilliseconds: 0, toMilliseconds: nil),
                kafka: configuration.kafka
            )
        }
        defer { reader.close() }
        let partitionCount = reader.partitionCount
        let committedOffsets = try interruption.withSignalsUnhandled {
            try GroupCommittedOffsets(
                of: waitingTopic,
                partitionCount: partitionCount,
                isInput: true,
                kafka: configuration.kafka
            )
        }
        reader.skipCommittedRecords(committedOffsets)
        // As in `read`, Swift does not permit that the closure uses properties while the reader changes `progress`. So
        // the closure uses local variables. The swap avoids a copy of the table.
        let scope = scope
        let isFanoutTopic = waitingTopic == configuration.kafka.topics.fanout
        var table = NewestCommandTable(bytesMax: 0)
        swap(&self.table, &table)
        defer { swap(&self.table, &table) }
        let remainingRanges = try reader.read(interruption, &progress) { message in
            let record = scope.classify(
                message.value,
                key: message.key,
                (message.partition, message.offset, message.timestampMilliseconds),
                isUnread: true,
                isWrittenByCauseway: isFanoutTopic,
                nowMilliseconds: Clock.wallMilliseconds
            )
            if case .command(let command, let redisKey, _) = record { table.markStateAsUnread(command, of: redisKey) }
        }
        isInterrupted = !remainingRanges.isEmpty
        progress.erase()
    }

    /// Reads the registrations topic from its first record on, until its end or a signal.
    mutating func readRegistrations(_ body: (borrowing Message) throws -> Void) throws {
        let reader = try interruption.withSignalsUnhandled {
            try ReplayReader(
                topic: configuration.kafka.topics.registrations,
                range: .times(fromMilliseconds: 0, toMilliseconds: nil),
                kafka: configuration.kafka
            )
        }
        defer { reader.close() }
        isInterrupted = try !reader.read(interruption, &progress, body).isEmpty
        progress.erase()
    }

    /// Looks up each activity and audience of `table` in Redis, and passes the decisions to `body`. The decision about
    /// a start comes before the decision about the state after this start.
    ///
    /// - Parameter body: returns false to stop. It must not use this run; to change the tally and the progress bar, it
    ///   gets them as parameters.
    mutating func decide(
        includesStarts: Bool,
        _ body: (ReplayDecision, inout ReplayTally, inout ReplayProgressBar) throws -> Bool
    ) throws {
        // If a signal has interrupted the reading, the same signal must not stop the decisions about the commands that
        // were read.
        let wasReadingInterrupted = !unreadRanges.isEmpty
        let interruption = interruption
        let isCancelled = { interruption.pendingSignal != nil && !wasReadingInterrupted }
        let queries = try RedisQueries(configuration: redis, isCancelled: isCancelled)
        defer { queries.close() }
        let decisions = ReplayDecisions(scope: scope, queries: queries, includesStarts: includesStarts)
        var (tally, progress) = (tally, progress)
        var isFinished = false
        defer {
            progress.erase()
            (self.tally, self.progress) = (tally, progress)
            isInterrupted = !isFinished
        }
        do {
            isFinished = try decisions.forEach(of: table) { decision in
                if isCancelled() { return false }
                return try body(decision, &tally, &progress)
            }
        } catch is RedisError where isCancelled() {
            // The user has asked to stop, so a missing reply is no failure.
        }
    }

    func report(_ line: String) { StandardStreams.printError("\(commandName): \(line)") }

    func reportWarnings(_ warnings: [RedisWarning]) {
        for warning in warnings { report("\(warning)") }
    }

    /// Prints a line for one command if `--verbose` is set.
    ///
    /// - Parameter isSent: whether the replay has sent the commands. The text says "sent" or "would be sent"; JSON is
    ///   the same for both.
    func printLine(_ decision: ReplayDecision, isSent: Bool) {
        guard options.verbose else { return }
        let app = scope.apps[decision.appIndex]
        let command = decision.candidate
        let audience = command.audience.map { String(decoding: $0, as: UTF8.self) }
        let activity = audience == nil ? app.activity(ofKey: decision.redisKey) : nil
        let source = "\(topic)/\(command.partition)/\(command.offset)"
        guard options.json else {
            let alert = decision.verdict.dropsAlert ? ", without its alert" : ""
            let addressee = audience.map { "audience \($0)" } ?? activity ?? "-"
            let line =
                """
                \(source)  \(app.bundleId)  \(addressee)  \(command.event.name)  \
                \(command.version.timestamp)
                """
            let reason = decision.verdict.reason
            return StandardStreams.printOutput("\(line)  \(isSent ? reason.titleWhenSent : reason.title)\(alert)")
        }
        let line = JSONValue.objectOmittingNil([
            "source": .string(source),
            "app": .string(app.bundleId),
            "activity": activity.map { .string($0) },
            "audience": audience.map { .string($0) },
            "event": .string(command.event.name),
            "timestamp": .integer(command.version.timestamp),
            "sequence": command.version.sequence > 0 ? .integer(Int64(clamping: command.version.sequence)) : nil,
            "reason": .string(decision.verdict.reason.rawValue),
            "dropsAlert": decision.verdict.dropsAlert ? .boolean(true) : nil,
        ])
        StandardStreams.printOutput(line.oneLineJSON)
    }

    /// With `--verbose`, prints a line about a record that a worker would refuse.
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
        let line = JSONValue.objectOmittingNil([
            "source": .string(source),
            "app": app.map { .string($0) },
            "activity": activity.map { .string($0) },
            "reason": .string(ReplayReason.invalid.rawValue),
            "code": .string(code),
        ])
        StandardStreams.printOutput(line.oneLineJSON)
    }

    /// Prints the counts, as text or as one JSON object. The text does not show `otherMembers`.
    ///
    /// - Parameter isSent: whether the replay has sent the commands. The text says "sent" or "would be sent"; JSON is
    ///   the same for both.
    func printReport(_ otherMembers: [String: JSONValue] = [:], isSent: Bool = false) {
        guard !options.json else {
            let members = otherMembers.merging(["replay": .string(String(commandName.split(separator: " ")[2]))]) { $1 }
            let report = tally.json(scope, topic: topic, isComplete: isComplete, otherMembers: members)
            return StandardStreams.printOutput(report.oneLineJSON)
        }
        for line in tally.lines(scope, topic: topic, isSent: isSent) { StandardStreams.printOutput(line) }
    }

    func reportIncomplete() {
        if table.hasLackedRoom {
            report("the commands exceed --memory \(options.memory): choose a smaller range or one app, or raise it")
        }
        guard !unreadRanges.isEmpty else {
            if isInterrupted { report("stopped before the end: the counts cover only a part of the range") }
            return
        }
        report("stopped while reading; not read: \(unreadRanges.map { "--offsets \($0.text)" }.joined(separator: " "))")
    }

    /// Runs code in which Kafka or Redis may fail, or a value in Redis may have an unknown form. Rethrows any other
    /// error.
    ///
    /// - Parameter configuration: gives the address of Kafka, which Kafka's errors do not contain.
    /// - Returns: the failure as text; nil if the code succeeded.
    static func captureFailure(_ configuration: WorkerConfiguration, _ body: () throws -> Void) throws -> String? {
        do {
            try body()
            return nil
        } catch let error as RedisError {
            return "\(error)"
        } catch let error as KafkaError {
            // librdkafka's texts do not name the address, so add it. Causeway's own texts (`isDescribedByReasonOnly`)
            // name it where this helps.
            return error.isDescribedByReasonOnly
                ? "\(error)" : "Kafka at \(configuration.kafka.bootstrapServers): \(error)"
        } catch let error as InspectionError {
            return "\(error)"
        }
    }
}

extension Event {
    /// The event's name, as in `aps.event`.
    var name: String {
        switch self {
        case .start: "start"
        case .update: "update"
        case .end: "end"
        }
    }
}
