import CausewayCommandLine
import CausewayConfiguration
import Delivery
import Foundation
import Kafka

/// Measures a worker on a backlog. Commands pile up while no worker runs; then a worker reads them.
final class BacklogRun {
    /// How many lines of the worker's log the run searches for the time when the worker got its partitions. A healthy
    /// worker writes about ten lines.
    private static let logLinesMax = 1_000
    /// The number of matches that are played. Each match has the same number of followers.
    static let matchCount = 20
    /// The highest number of commands for one activity that the command line accepts. Each command is one step of a
    /// match (a ball or the end), so `init` accepts no more than the shortest match has steps.
    static let commandsPerActivityMax = 200
    /// The number of partitions of the commands topic and of the results topic. The embedded broker keeps 5 MiB of
    /// each, and silently drops the oldest records of a full one; the run would then fail. There is room for the two
    /// million commands of the default `--commands`, at about 50 bytes each. A result is smaller.
    static let partitionCount = 64
    private static let registrationWaitMillisecondsMax: Int64 = 120_000
    private static let waitMillisecondsMax: Int64 = 300_000
    private static let pollIntervalMilliseconds: UInt32 = 50

    private let deployment: Deployment
    private let interruption: Interruption
    private let feed: SeasonFeed
    private var matchCommands: [MatchCommands]
    private let commandsPerActivity: Int

    init(
        season: Season,
        activityCount: Int,
        commandsPerActivity: Int,
        deployment: Deployment,
        interruption: Interruption
    ) throws(LabError) {
        let matches = Array(season.matches.prefix(Self.matchCount))
        guard matches.count == Self.matchCount else { throw LabError("the season has only \(matches.count) matches") }
        feed = SeasonFeed(
            matches: matches,
            followerCount: activityCount / Self.matchCount,
            durationMilliseconds: 1,
            startsByPush: false
        )
        let shortestMatchStepCount = matches.map { $0.steps().count }.min() ?? 0
        guard commandsPerActivity <= shortestMatchStepCount else {
            throw LabError(
                "--commands may be \(shortestMatchStepCount) for each activity at most: "
                    + "the shortest match has no more balls"
            )
        }
        matchCommands = matches.map { match in
            MatchCommands(match, steps: Self.selectEvenly(match.steps(), to: commandsPerActivity))
        }
        self.deployment = deployment
        self.interruption = interruption
        self.commandsPerActivity = commandsPerActivity
    }

    /// Returns `count` of the steps, spread evenly over all of them. The last step is always among the returned ones.
    private static func selectEvenly(_ steps: [MatchStep], to count: Int) -> [MatchStep] {
        precondition(count <= steps.count, "a match has more balls than that")
        return (1...count).map { steps[steps.count * $0 / count - 1] }
    }

    /// Settings with which the worker sends nothing until it has read nearly all commands, even if this takes minutes.
    /// The run appends these lines to the worker's configuration file, so they belong to its last section, `worker`.
    private static let unlimitedReadAheadSettings = """
          readAheadLagRecords: 100
          readAheadMillisecondsMax: 600000
          commandsPerLane: 524288

        """

    func run(
        shapesPath: String,
        laneCount: Int,
        supersededResults: SupersededResultMode,
        hasUnlimitedReadAhead: Bool
    ) throws(LabError) -> BacklogFigures {
        try deployment.startBroker(
            commandPartitionCount: Self.partitionCount,
            resultPartitionCount: Self.partitionCount
        )
        try deployment.startRedis()
        try deployment.startSimulator(shapes: [shapesPath])
        let configuration = WorkerConfigurationText.makeYAML(
            deployment: deployment,
            apps: [.init(name: "cricket", bundleId: MatchCommands.app)],
            laneCount: laneCount,
            supersededResults: supersededResults
        )
        try TextFile.write(
            configuration + (hasUnlimitedReadAhead ? Self.unlimitedReadAheadSettings : ""),
            to: deployment.path("causeway.yaml")
        )
        let phones = SimulatedPhones(client: LoopbackHTTPClient(port: deployment.simulator.controlPort))
        let commandProducer = try CommandProducer(bootstrapServers: deployment.bootstrapServers)
        defer { commandProducer.close() }

        try registerPhones(phones, commandProducer)
        try produceBacklog(commandProducer)
        // Other programs may load the machine more at one time than at another. So measure read runs, which only read
        // the backlog, both before and after the worker's run.
        var readCosts = [try measureReadCost(), try measureReadCost()]
        let brokerCPUMillisecondsBefore = deployment.brokerCPUMilliseconds
        try deployment.startWorker()
        try awaitFinalScores(phones)
        let usage = deployment.worker.flatMap { ProcessUsage(processIdentifier: $0.processIdentifier) } ?? .none
        let brokerCPUMilliseconds = deployment.brokerCPUMilliseconds - brokerCPUMillisecondsBefore
        try deployment.stopWorker(graceMilliseconds: Demo.drainMillisecondsMax)
        readCosts.append(try measureReadCost())
        return try measureFigures(
            phones,
            readCosts: readCosts,
            worker: usage,
            brokerCPUMilliseconds: brokerCPUMilliseconds
        )
    }

    /// What one read run costs the broker and the client that reads the backlog.
    private struct ReadCost {
        var milliseconds: Int64
        var cpuMilliseconds: Int64
        var brokerCPUMilliseconds: Int64
    }

    /// Registers phones with one activity each. A worker stores their tokens in Redis and is then stopped, so that the
    /// commands pile up without a worker.
    private func registerPhones(_ phones: SimulatedPhones, _ commandProducer: CommandProducer) throws(LabError) {
        try phones.createPhones(for: feed)
        var relay = RegistrationRelay(phones: phones)
        // Each phone registers two tokens: a push-to-start token and an update token.
        try relay.copyRegistrations(
            upTo: 2 * feed.phoneCount,
            to: commandProducer,
            withinMilliseconds: Self.registrationWaitMillisecondsMax,
            beforeRequest: checkInterruptionAndProcesses
        )
        try deployment.startWorker()
        try wait(Self.registrationWaitMillisecondsMax, "tokens to be registered") { () throws(LabError) in
            commandProducer.takeDeliveryReports()
            return try deployment.countRedisKeys() >= 2 * feed.phoneCount
        }
        try deployment.stopWorker(graceMilliseconds: Demo.drainMillisecondsMax)
    }

    /// Writes the commands of all activities for the first step of the matches (`MatchStep`), then for the next step,
    /// and so on.
    private func produceBacklog(_ commandProducer: CommandProducer) throws(LabError) {
        for stepIndex in 0..<commandsPerActivity {
            for match in matchCommands.indices {
                matchCommands[match].steps[stepIndex].setTimestamp(seconds: Clock.wallMilliseconds / 1_000)
                for follower in 1...feed.followerCount {
                    matchCommands[match].steps[stepIndex].setFollowerNumber(follower)
                    try produce(matchCommands[match].steps[stepIndex], to: commandProducer)
                }
            }
            try checkInterruptionAndProcesses()
        }
        while commandProducer.producer.outstandingEventCount > 0 {
            commandProducer.takeDeliveryReports()
            try checkInterruptionAndProcesses()
            usleep(1_000)
        }
        guard commandProducer.undeliveredRecordCount == 0 else {
            throw LabError("\(commandProducer.undeliveredRecordCount) commands did not reach the broker")
        }
    }

    private func produce(_ template: CommandTemplate, to commandProducer: CommandProducer) throws(LabError) {
        while true {
            let queueingResult = template.withRecord { key, value in
                commandProducer.producer.produce(
                    topic: commandProducer.commandsTopic,
                    key: key,
                    value: value,
                    tag: 0
                )
            }
            switch queueingResult {
            case .queued: return
            case .queueFull:
                commandProducer.takeDeliveryReports()
                usleep(1_000)
            case .failed(let error): throw LabError("a command could not be produced: \(error)")
            }
        }
    }

    /// Reads the whole backlog once, with the worker's settings but without its work, and returns what this costs.
    private func measureReadCost() throws(LabError) -> ReadCost {
        let properties: [(name: String, value: String)]
        do {
            properties = try ConfigurationLoader(environment: [:], requiresFiles: false)
                .load(path: deployment.path("causeway.yaml")).kafka.consumerProperties
        } catch {
            throw LabError("causeway.yaml: \(error)")
        }
        let reader = try DiscardingTopicReader(properties: properties, topic: CommandProducer.commandsTopicName)
        defer { reader.close() }
        let usageBefore = ProcessUsage(processIdentifier: getpid()) ?? .none
        let brokerCPUMillisecondsBefore = deployment.brokerCPUMilliseconds
        let milliseconds = try reader.read(feed.phoneCount * commandsPerActivity) { () throws(LabError) in
            try checkInterruptionAndProcesses()
        }
        let usageAfter = ProcessUsage(processIdentifier: getpid()) ?? .none
        return ReadCost(
            milliseconds: milliseconds,
            cpuMilliseconds: usageAfter.cpuMilliseconds - usageBefore.cpuMilliseconds,
            brokerCPUMilliseconds: deployment.brokerCPUMilliseconds - brokerCPUMillisecondsBefore
        )
    }

    /// Waits until all phones show the final score. The results are read only later, because reading would take CPU
    /// time from the measured worker.
    private func awaitFinalScores(_ phones: SimulatedPhones) throws(LabError) {
        try wait(Self.waitMillisecondsMax, "phones to show the final score") { () throws(LabError) in
            guard try phones.readAcceptedCounts().tokenPushCount >= feed.phoneCount else { return false }
            return try phones.compare(with: feed).matchingPhoneCount == feed.phoneCount
        }
    }

    private func measureFigures(
        _ phones: SimulatedPhones,
        readCosts: [ReadCost],
        worker: ProcessUsage,
        brokerCPUMilliseconds: Int64
    ) throws(LabError) -> BacklogFigures {
        let reader = try ResultsReader(bootstrapServers: deployment.bootstrapServers)
        defer { reader.close() }
        let commandCount = feed.phoneCount * commandsPerActivity
        try wait(Self.waitMillisecondsMax, "results") { () throws(LabError) in
            while try reader.readArrivedRecords(limit: Demo.resultsPerReadMax) {}
            return reader.tally.commandCount == commandCount
        }
        let tally = reader.tally
        let assignedAtWallMilliseconds = try readAssignedAtWallMilliseconds()
        let readCosts = readCosts.sorted { $0.milliseconds < $1.milliseconds }
        let medianCost = readCosts[readCosts.count / 2]
        return BacklogFigures(
            commandCount: commandCount,
            activityCount: feed.phoneCount,
            outcomes: DemoFigures.OutcomeCount.all(of: tally),
            pushCount: try phones.readAcceptedCounts().tokenPushCount,
            phonesWithFinalScore: try phones.compare(with: feed).matchingPhoneCount,
            medianReadRunMilliseconds: medianCost.milliseconds,
            readRunDurationsMilliseconds: readCosts.map(\.milliseconds),
            medianReadRunLabCPUMilliseconds: medianCost.cpuMilliseconds,
            medianReadRunBrokerCPUMilliseconds: medianCost.brokerCPUMilliseconds,
            untilLastPushMilliseconds: tally.lastResponseAtMilliseconds - assignedAtWallMilliseconds,
            untilLastResultMilliseconds: reader.newestResultAtMilliseconds - assignedAtWallMilliseconds,
            resultRecordCount: reader.resultCount,
            worker: worker,
            brokerCPUMilliseconds: brokerCPUMilliseconds
        )
    }

    /// Returns when the worker got its partitions, UNIX milliseconds. Only the worker's log says this.
    private func readAssignedAtWallMilliseconds() throws(LabError) -> Int64 {
        let lines = TextFile.readLastLines(of: deployment.path("worker.log"), Self.logLinesMax)
        let timeText = lines.last { $0.contains("kind=partitions-assigned") }?.prefix { $0 != " " }
        guard let timeText,
            let date = try? Date(String(timeText), strategy: Date.ISO8601FormatStyle(includingFractionalSeconds: true))
        else {
            throw LabError("the worker's log does not show when it got its partitions", logTail: lines)
        }
        return Int64((date.timeIntervalSince1970 * 1_000).rounded())
    }

    private func wait(
        _ milliseconds: Int64,
        _ awaitedEvent: String,
        until isDone: () throws(LabError) -> Bool
    ) throws(LabError) {
        let deadlineMilliseconds = Clock.monotonicMilliseconds + milliseconds
        while try !isDone() {
            guard Clock.monotonicMilliseconds < deadlineMilliseconds else {
                throw LabError(
                    "waited \(milliseconds / 1_000) s for \(awaitedEvent), without success; "
                        + "the worker's log ends with",
                    logTail: TextFile.readLastLines(of: deployment.path("worker.log"), ChildProcess.logTailLineCount)
                )
            }
            try checkInterruptionAndProcesses()
            usleep(Self.pollIntervalMilliseconds * 1_000)
        }
    }

    private func checkInterruptionAndProcesses() throws(LabError) {
        if let signal = interruption.pendingSignal { throw LabError("interrupted (signal \(signal))") }
        try deployment.throwIfAnyProcessHasEnded()
    }
}
