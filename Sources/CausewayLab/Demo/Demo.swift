import CausewayCommandLine
import Delivery
import Foundation
import Kafka
import LiveActivity
import Numbers

struct DemoOptions {
    var followerCount = 50
    var addressees = SeasonFeed.Addressees.activities
    /// Whether audiences have broadcast channels. If so, half of the phones subscribe to them.
    var hasChannels = false
    var seasonSeconds = 60
    var matchCount = 60
    /// The number of lanes of the worker; 0: one for each processor that the worker may use.
    var laneCount = 1
    /// The file that declares the app and its types to the simulator.
    var shapesPath: String
    /// The faults that the demo causes, in any order.
    var disturbances: [Disturbance] = []
    var policy = Policy(name: "default")
    /// Which superseded commands get a result of their own.
    var supersededResults = SupersededResultMode.each
    /// The files that the run writes for a checking program; nil: none.
    var evidenceFiles: EvidenceFiles?
}

/// Plays one season of cricket matches, ball by ball, to every phone: from the commands in Kafka to the Lock Screens.
///
/// One thread does all work in a loop of a few milliseconds. It writes the season's commands to Kafka, reads the
/// results, checks that the processes of the ``Deployment`` still run, and shows the progress.
final class Demo {
    static let loopPauseMilliseconds: Int64 = 5
    // How many commands one pass of the demo's loop writes at most, and how many results it reads at most. So neither
    // the reading nor the writing waits long for the other.
    static let commandsPerWriteMax = 4_000
    static let resultsPerReadMax = 8_000
    static let checkIntervalMilliseconds: Int64 = 250
    /// A step before the season may take this long. During and after the season, the run may make no progress for this
    /// long, for example read no further result. Otherwise the run fails.
    static let stallMillisecondsMax: Int64 = 120_000
    static let drainMillisecondsMax: Int64 = 90_000
    static let finalStateMillisecondsMax: Int64 = 60_000

    let options: DemoOptions
    let deployment: Deployment
    private let interruption: Interruption
    /// What the demo shares with the live page; nil: there is no page.
    let pageMailbox: LivePageMailbox?
    var feed: SeasonFeed
    var progressDisplay = ProgressDisplay()
    var pageReport = DemoPageReport()
    private var processCheckDueMilliseconds: Int64 = 0
    private var usageOfKilledWorkers = ProcessUsage.none
    private var disturbances: [Disturbance]

    init(
        options: DemoOptions,
        season: Season,
        deployment: Deployment,
        interruption: Interruption,
        pageMailbox: LivePageMailbox? = nil
    ) throws(LabError) {
        self.options = options
        self.deployment = deployment
        self.interruption = interruption
        self.pageMailbox = pageMailbox
        disturbances = options.disturbances.sorted { $0.afterMilliseconds < $1.afterMilliseconds }
        feed = SeasonFeed(
            matches: Array(season.matches.prefix(options.matchCount)),
            followerCount: options.followerCount,
            durationMilliseconds: Int64(options.seasonSeconds) * 1_000,
            addressees: options.addressees,
            hasChannels: options.hasChannels,
            journal: try options.evidenceFiles?.makeJournal()
        )
    }

    func runAllPhases() throws(LabError) -> DemoFigures {
        defer { progressDisplay.erase() }
        let phones = try startDeploymentWithPhones()
        let reader = try ResultsReader(bootstrapServers: deployment.bootstrapServers, addressees: options.addressees)
        defer { reader.close() }
        let commandProducer = try CommandProducer(bootstrapServers: deployment.bootstrapServers)
        defer { commandProducer.close() }

        try startActivities(phones, reader, commandProducer)
        allowPageActions()
        let pushesBeforeSeason = try countPushes(of: reader.tally, phones).totalCount
        let beganAtMilliseconds = Clock.monotonicMilliseconds
        try playSeason(reader, commandProducer, beganAtMilliseconds: beganAtMilliseconds)
        let endedAtMilliseconds = Clock.monotonicMilliseconds
        try endPageActions()
        reportProgress(.settling, reader, elapsedMilliseconds: endedAtMilliseconds - beganAtMilliseconds)
        progressDisplay.erase()
        progressDisplay.printLine("Every command has its result. What do the phones show?")
        var figures = try measureFigures(
            reader,
            phones,
            millisecondsToLastResult: endedAtMilliseconds - beganAtMilliseconds
        )
        figures.pushesBeforeSeason = pushesBeforeSeason
        if options.hasChannels { figures.channels = try awaitChannelDeletions(phones) }
        try deployment.stopWorker(graceMilliseconds: Self.drainMillisecondsMax)
        try awaitEvidenceFiles(options.evidenceFiles, reader)
        return figures
    }

    /// Waits until the evidence files are complete, so that another program can check the run. Another process writes
    /// the results file, and may be a little behind. Does nothing if the run writes no evidence files.
    private func awaitEvidenceFiles(_ evidenceFiles: EvidenceFiles?, _ reader: ResultsReader) throws(LabError) {
        guard let evidenceFiles else { return }
        try feed.flushJournal()
        var lines = LineCounter(path: evidenceFiles.resultsPath)
        let deadlineMilliseconds = Clock.monotonicMilliseconds + Self.finalStateMillisecondsMax
        while true {
            let hasMore = try reader.readArrivedRecords(limit: Self.resultsPerReadMax)
            if !hasMore, try lines.countLines() >= reader.resultCount { return }
            guard Clock.monotonicMilliseconds < deadlineMilliseconds else {
                throw LabError("the last of \(reader.resultCount) results did not reach \(evidenceFiles.resultsPath)")
            }
            try checkInterruptionAndProcesses()
            Self.pause()
        }
    }

    // MARK: - Before the season

    /// Starts all processes, and returns the phones of the simulator.
    private func startDeploymentWithPhones() throws(LabError) -> SimulatedPhones {
        progressDisplay.printLine(
            "Starting a Kafka broker, a redis-server, a simulated APNs with phones, and one worker, all on loopback."
        )
        try deployment.startBroker()
        try deployment.startRedis()
        try deployment.startSimulator(shapes: [options.shapesPath], pushLog: options.evidenceFiles?.pushesPath)
        pageMailbox?.show(pageDataSources)
        if let evidenceFiles = options.evidenceFiles {
            try evidenceFiles.writePolicy(options.policy)
            try deployment.startResultsWriter(to: evidenceFiles.resultsPath)
        }
        let feed = feed
        let phones = SimulatedPhones(client: LoopbackHTTPClient(port: deployment.simulator.controlPort)) {
            feed.audience(ofRegistration: $0)
        }
        let configuration = WorkerConfigurationText.makeYAML(
            deployment: deployment,
            apps: [.init(name: "cricket", bundleId: MatchCommands.app, channels: channelSettings)],
            laneCount: options.laneCount,
            policy: options.policy,
            supersededResults: options.supersededResults
        )
        try TextFile.write(configuration, to: deployment.path("causeway.yaml"))
        try deployment.startWorker()
        progressDisplay.printLine(
            """
            See the worker's status at http://127.0.0.1:\(deployment.httpPort)/statusz, and its metrics at /metrics. \
            The phones' counts are at http://127.0.0.1:\(deployment.simulator.controlPort)/summary.
            """
        )
        return phones
    }

    /// Begins an activity on every phone: the app starts half of them, and a push starts the others. Waits until all
    /// update tokens are in Kafka, all starts have results, and all phones on channels have subscribed.
    private func startActivities(
        _ phones: SimulatedPhones,
        _ reader: ResultsReader,
        _ commandProducer: CommandProducer
    ) throws(LabError) {
        try phones.createPhones(for: feed)
        var relay = RegistrationRelay(phones: phones)
        let appStartedPhoneCount = feed.matches.count * feed.appStartedFollowerCount
        // Wait for a push-to-start token of every phone, and an update token of every activity that an app started.
        try relayRegistrations(feed.phoneCount + appStartedPhoneCount, &relay, reader, commandProducer)
        if feed.addressees == .audiences {
            // A start to an audience reaches only the devices that have joined the audience before.
            try wait(until: "the devices have joined their audiences", reader, commandProducer) {
                deployment.workerMetrics.hasSettled(registrationCount: relay.copiedRegistrationCount)
            }
        }
        try feed.sendStarts(to: commandProducer.commandsTopic, of: commandProducer.producer)
        try relayRegistrations(2 * feed.phoneCount - feed.subscribedPhoneCount, &relay, reader, commandProducer)
        try wait(until: "the starts have results", reader, commandProducer) {
            reader.tally.commandCount >= feed.commandCount
        }
        if feed.hasChannels { try awaitSubscriptions(phones, reader, commandProducer) }
    }

    private func relayRegistrations(
        _ count: Int,
        _ relay: inout RegistrationRelay,
        _ reader: ResultsReader,
        _ commandProducer: CommandProducer
    ) throws(LabError) {
        try relay.copyRegistrations(
            upTo: count,
            to: commandProducer,
            withinMilliseconds: Self.stallMillisecondsMax,
            beforeRequest: { () throws(LabError) in
                try checkInterruptionAndProcesses()
                reportProgress(.beginning, reader)
                _ = try reader.readArrivedRecords(limit: Self.resultsPerReadMax)
                commandProducer.takeDeliveryReports()
            },
            makeStallError: { makeStallError($0, reader, commandProducer) }
        )
    }

    /// Waits until `isDone` returns true. Meanwhile reads results and reports progress. Throws an error after
    /// `stallMillisecondsMax`.
    func wait(
        until goal: String,
        _ reader: ResultsReader,
        _ commandProducer: CommandProducer,
        _ isDone: () throws(LabError) -> Bool
    ) throws(LabError) {
        let deadlineMilliseconds = Clock.monotonicMilliseconds + Self.stallMillisecondsMax
        while try !isDone() {
            try checkInterruptionAndProcesses()
            reportProgress(.beginning, reader)
            commandProducer.takeDeliveryReports()
            if try !reader.readArrivedRecords(limit: Self.resultsPerReadMax) { Self.pause() }
            guard Clock.monotonicMilliseconds < deadlineMilliseconds else {
                let seconds = Self.stallMillisecondsMax / 1_000
                throw makeStallError("This did not happen within \(seconds) s: \(goal)", reader, commandProducer)
            }
        }
    }

    // MARK: - The season

    private func playSeason(_ reader: ResultsReader, _ commandProducer: CommandProducer, beganAtMilliseconds: Int64)
        throws(LabError)
    {
        var rates = RateMeter(beganAtMilliseconds: beganAtMilliseconds)
        var lastProgress = (resultCount: 0, atMilliseconds: beganAtMilliseconds)
        reader.isFreshnessCounted = true
        while !feed.isFinished || reader.tally.commandCount < feed.commandCount {
            let nowMilliseconds = Clock.monotonicMilliseconds
            let elapsedMilliseconds = nowMilliseconds - beganAtMilliseconds
            try checkInterruptionAndProcesses()
            try carryOutPageActions()
            reportProgress(feed.isFinished ? .settling : .playing, reader, elapsedMilliseconds: elapsedMilliseconds)
            while let next = disturbances.first, elapsedMilliseconds >= next.afterMilliseconds {
                disturbances.removeFirst()
                try causeDisturbance(next.kind)
            }
            let hasRoom = try feed.writeDueCommands(
                elapsedMilliseconds: elapsedMilliseconds,
                limit: Self.commandsPerWriteMax,
                topic: commandProducer.commandsTopic,
                producer: commandProducer.producer
            )
            commandProducer.takeDeliveryReports()
            let hasMore = try reader.readArrivedRecords(limit: Self.resultsPerReadMax)
            if reader.tally.commandCount > lastProgress.resultCount || !feed.isFinished {
                lastProgress = (reader.tally.commandCount, nowMilliseconds)
            }
            guard nowMilliseconds - lastProgress.atMilliseconds < Self.stallMillisecondsMax else {
                let seconds = Self.stallMillisecondsMax / 1_000
                throw makeStallError("The demo has made no progress for \(seconds) s", reader, commandProducer)
            }
            if progressDisplay.isDue(nowMilliseconds: nowMilliseconds) {
                rates.update(at: nowMilliseconds, commandCount: feed.commandCount, pushCount: reader.tally.pushCount)
                let progress = makeProgress(reader, rates, elapsedMilliseconds: elapsedMilliseconds)
                progressDisplay.show(progress, nowMilliseconds: nowMilliseconds)
            }
            if hasRoom, hasMore { continue }
            Self.pause()
        }
    }

    func causeDisturbance(_ kind: Disturbance.Kind) throws(LabError) {
        switch kind {
        case .workerCrashes:
            if let worker = deployment.worker, let usage = ProcessUsage(processIdentifier: worker.processIdentifier) {
                usageOfKilledWorkers = usageOfKilledWorkers.adding(usage)
            }
            progressDisplay.printLine("Killing the worker (SIGKILL), and starting another.")
            try deployment.killAndRestartWorker()
        case .redisStops:
            progressDisplay.printLine("Stopping Redis.")
            try deployment.stopRedis()
        case .redisRestarts:
            progressDisplay.printLine("Starting Redis again.")
            try deployment.restartRedis()
        case .redisIsWiped:
            progressDisplay.printLine("Deleting all data in Redis (FLUSHALL). The worker restores it from Kafka.")
            try deployment.wipeRedis()
        }
    }

    // MARK: - After the season

    private func measureFigures(
        _ reader: ResultsReader,
        _ phones: SimulatedPhones,
        millisecondsToLastResult: Int64
    ) throws(LabError) -> DemoFigures {
        let comparison = try comparePhones(phones, reader)
        guard let worker = deployment.worker, let usage = ProcessUsage(processIdentifier: worker.processIdentifier)
        else {
            throw LabError("the worker has exited")
        }
        let ownUsage = ProcessUsage(processIdentifier: getpid())
            .map { DemoFigures.NamedProcessUsage(name: "demo", usage: $0) }
        let otherUsages = deployment.readProcessUsages() + [ownUsage].compactMap { $0 }
        let summary = try phones.readSummary()
        let tally = reader.tally
        let pushes = try countPushes(of: tally, phones)
        let workerUsage = usage.adding(usageOfKilledWorkers)
        return DemoFigures(
            matches: feed.matches.count,
            audiences: feed.addressees == .audiences ? feed.matches.count : 0,
            channels: nil,
            balls: feed.matches.reduce(0) { $0 + $1.balls.count },
            phones: feed.phoneCount,
            seasonSeconds: Double(options.seasonSeconds),
            secondsToLastResult: Double(millisecondsToLastResult) / 1_000,
            commands: feed.commandCount,
            outcomes: DemoFigures.OutcomeCount.all(of: tally),
            pushes: pushes.totalCount,
            pushesAtPriority10: pushes.priority10Count,
            workerMicrosecondsPerPush: workerUsage.cpuMicroseconds(per: pushes.totalCount),
            retries: tally.retryCount,
            repeatedResults: tally.repeatedResultCount,
            released: tally.releasedCommandCount,
            invalidations: reader.invalidationCount,
            deadLetters: reader.deadLetterCount,
            freshness: DemoFigures.Freshness(tally.freshness),
            worker: workerUsage,
            otherProcesses: otherUsages,
            scores: try phones.readScores(of: feed),
            phonesWithFinalScore: comparison.matchingPhoneCount,
            phonesBackInTime: summary.timestampRegressionCount + summary.ignoredOldPushCount,
            phonesStartedTwice: summary.duplicateStartCount,
            wrongPhones: comparison.wrongPhones,
            demotions: tally.demotionCount,
            disturbances: Disturbance.Kind.counts(of: options.disturbances)
        )
    }

    /// Returns how many pushes APNs has accepted, without broadcasts: in all, and at priority 10. The results give
    /// these numbers for commands to activities, the simulator for commands to audiences: there, the results have no
    /// priorities, and leave out members that join later.
    private func countPushes(of tally: ResultTally, _ phones: SimulatedPhones) throws(LabError) -> (
        totalCount: Int, priority10Count: Int
    ) {
        switch feed.addressees {
        case .activities: return (tally.pushCount, tally.priority10PushCount)
        case .audiences:
            let accepted = try phones.readAcceptedCounts()
            return (accepted.tokenPushCount, accepted.priority10PushCount)
        }
    }

    /// Compares the phones with the final states. The push of a command that was held may come after all results, so
    /// phones with a wrong state are compared again, at most for ``finalStateMillisecondsMax``.
    private func comparePhones(
        _ phones: SimulatedPhones,
        _ reader: ResultsReader
    ) throws(LabError) -> SimulatedPhones.FinalStateComparison {
        let endMilliseconds = Clock.monotonicMilliseconds + Self.finalStateMillisecondsMax
        while true {
            let comparison = try phones.compare(with: feed)
            if comparison.wrongPhones.isEmpty || Clock.monotonicMilliseconds >= endMilliseconds { return comparison }
            try checkInterruptionAndProcesses()
            reportProgress(.settling, reader)
            _ = try reader.readArrivedRecords(limit: Self.resultsPerReadMax)
            Self.pause(milliseconds: Self.checkIntervalMilliseconds)
        }
    }

    // MARK: - Checks of the figures

    /// Throws an error after a stop signal, or if a process of the deployment has ended. Checks the processes at most
    /// once in ``checkIntervalMilliseconds``.
    func checkInterruptionAndProcesses() throws(LabError) {
        if let signal = interruption.pendingSignal { throw LabError("interrupted (signal \(signal))") }
        let nowMilliseconds = Clock.monotonicMilliseconds
        guard nowMilliseconds >= processCheckDueMilliseconds else { return }
        processCheckDueMilliseconds = nowMilliseconds + Self.checkIntervalMilliseconds
        try deployment.throwIfAnyProcessHasEnded()
    }

    static func pause(milliseconds: Int64 = loopPauseMilliseconds) { usleep(UInt32(milliseconds) * 1_000) }
}
