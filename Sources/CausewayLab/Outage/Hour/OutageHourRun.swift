import CausewayCommandLine
import Glibc
import Kafka
import LiveActivity

/// Plays an hour of outage. One thread writes commands, reads results and pushes, and summarizes each minute.
final class OutageHourRun {
    private static let pollIntervalMicroseconds: UInt32 = 10_000
    private static let commitPollIntervalMilliseconds: Int64 = 2_000
    private static let commitPollTimeoutMilliseconds: Int32 = 2_000
    private static let registrationWaitMillisecondsMax: Int64 = 120_000
    private static let minuteMilliseconds: Int64 = 60_000

    private let schedule: OutageHourSchedule
    private let outage: OutageCase
    private let deployment: OutageDeployment
    private let interruption: Interruption
    private let commandProducer: CommandProducer
    private let groupPositionReader: GroupPositionReader
    private let outcomeCounter: OutcomeCounter
    private let tableFile: String?
    private var feeds: [OutageFeed]
    private var recentCommands = RecentCommands()
    private var commitWaitMeter = CommitWaitMeter()
    private var tableLines = [OutageMinute.tableHeader]
    private var measuredMinutes: [OutageMinute] = []
    private var currentMinute: OutageMinute
    private var lastCPUMilliseconds: Int64 = 0
    private var pushesAfterHostReturn = PushesAfterHostReturn()

    /// - Parameter deployment: a started deployment without running workers.
    init(
        _ schedule: OutageHourSchedule,
        on deployment: OutageDeployment,
        interruption: Interruption,
        tableFile: String?
    )
        throws(LabError)
    {
        (self.schedule, outage, self.deployment, self.interruption) = (
            schedule, schedule.outage, deployment, interruption
        )
        self.tableFile = tableFile
        commandProducer = try CommandProducer(bootstrapServers: deployment.base.bootstrapServers)
        groupPositionReader = try deployment.makeGroupPositionReader()
        outcomeCounter = try OutcomeCounter(bootstrapServers: deployment.base.bootstrapServers)
        feeds = outage.apps.map(OutageFeed.init)
        currentMinute = OutageMinute(number: 1, isHostUnreachable: false)
    }

    /// Starts the workers, waits until all tokens are registered, plays the outage, and stops the workers.
    ///
    /// - Returns: the broken promises and the workers' faults, as text; empty if there are none.
    func run() throws(LabError) -> [String] {
        defer {
            outcomeCounter.close()
            commandProducer.close()
            groupPositionReader.close(timeoutMilliseconds: 1_000)
        }
        try awaitRegistrations()
        StandardStreams.printOutput(OutageMinute.tableHeader)
        try play()
        let checker = OutageHourChecker(
            schedule: schedule,
            measuredMinutes: measuredMinutes,
            newestStateFlagsByActivity: pushesAfterHostReturn.newestStateFlagsByActivity,
            outdatedActivityCount: try countOutdatedActivities(),
            failedCommandCount: outcomeCounter.counts[.failed] ?? 0
        )
        deployment.stopWorkers()
        return checker.brokenPromises + deployment.workerFailures
    }

    private func awaitRegistrations() throws(LabError) {
        try deployment.startWorkers()
        let deadlineMilliseconds = Clock.monotonicMilliseconds + Self.registrationWaitMillisecondsMax
        while true {
            let copiedRegistrationCount = try deployment.copyRegistrations(to: commandProducer)
            try poll()
            let (registeredTokenCount, expectedTokenCount) = (
                try deployment.redis.countKeys(), outage.expectedRegistrationCount
            )
            if copiedRegistrationCount >= expectedTokenCount, registeredTokenCount >= expectedTokenCount { return }
            guard Clock.monotonicMilliseconds < deadlineMilliseconds else {
                throw LabError("only \(registeredTokenCount) of \(expectedTokenCount) tokens are registered")
            }
        }
    }

    private func poll() throws(LabError) {
        if let signal = interruption.pendingSignal { throw LabError("interrupted (signal \(signal))") }
        try deployment.throwIfAnyProcessHasEnded()
        commandProducer.takeDeliveryReports()
        try outcomeCounter.readArrivedRecords()
        usleep(Self.pollIntervalMicroseconds)
    }

    // MARK: - Commands and faults of the hour

    private func play() throws(LabError) {
        let beganAtMilliseconds = Clock.monotonicMilliseconds
        var steps = outage.steps[...]
        var (nextCommitPollAtMilliseconds, nextMinuteAtMilliseconds) = (
            beganAtMilliseconds, beganAtMilliseconds + Self.minuteMilliseconds
        )
        while Clock.monotonicMilliseconds - beganAtMilliseconds < schedule.endMilliseconds
            + OutageHourSchedule.pauseBeforeHostReturnsMilliseconds
        {
            let elapsedMilliseconds = Clock.monotonicMilliseconds - beganAtMilliseconds
            for index in feeds.indices {
                try feeds[index].writeDueCommands(elapsedMilliseconds: elapsedMilliseconds, commandProducer)
                for command in feeds[index].takeCommands() {
                    recentCommands.append(command)
                    currentMinute.commandCount += 1
                }
            }
            if let step = steps.first, elapsedMilliseconds >= step.dueMilliseconds {
                steps.removeFirst()
                try deployment.perform(step.action)
                switch step.action {
                case .freeze: pushesAfterHostReturn.noteHostOutage(atSeconds: Clock.wallMilliseconds / 1_000)
                case .thaw: pushesAfterHostReturn.noteHostReturn()
                default: break
                }
            }
            try poll()
            try countNewPushes()
            if Clock.monotonicMilliseconds >= nextCommitPollAtMilliseconds {
                nextCommitPollAtMilliseconds = Clock.monotonicMilliseconds + Self.commitPollIntervalMilliseconds
                measureCommitWaits()
            }
            if Clock.monotonicMilliseconds >= nextMinuteAtMilliseconds {
                nextMinuteAtMilliseconds += Self.minuteMilliseconds
                try finishMinute(elapsedMilliseconds: Clock.monotonicMilliseconds - beganAtMilliseconds)
            }
        }
    }

    private func countNewPushes() throws(LabError) {
        for simulator in deployment.simulators {
            for push in try simulator.readNewPushes() where push.status == 200 {
                countPush(push, from: simulator.environment)
            }
        }
    }

    /// Counts a push that APNs has accepted. The app whose host becomes unreachable is in the production environment,
    /// the healthy app in the sandbox.
    private func countPush(_ push: OutageHistory.Push, from environment: SimulatorEnvironment) {
        let command = recentCommands.command(of: push)
        guard environment == .production else {
            let ageMilliseconds =
                command.map { push.arrivedAtMilliseconds - $0.producedAtMilliseconds }
                ?? Int64(DurationHistogram.millisecondsMax)
            return currentMinute.freshness.add(milliseconds: ageMilliseconds)
        }
        currentMinute.acceptedAffectedAppPushCount += 1
        let hasNewestState = command != nil && command == recentCommands.newestCommand(of: push.activity)
        pushesAfterHostReturn.add(push, hasNewestState: hasNewestState)
    }

    /// Measures how long records wait for their commit. If a broker does not respond in time, a later call measures.
    private func measureCommitWaits() {
        guard
            let polledPositions = try? groupPositionReader.readPositions(
                timeoutMilliseconds: Self.commitPollTimeoutMilliseconds
            )
        else {
            return
        }
        commitWaitMeter.addPoll(polledPositions, atMilliseconds: Clock.monotonicMilliseconds)
        currentMinute.uncommittedRecordCount = polledPositions.reduce(0) {
            $0 + $1.logEndOffset - ($1.committedOffset ?? 0)
        }
    }

    private func finishMinute(elapsedMilliseconds: Int64) throws(LabError) {
        currentMinute.longestCommitWaitMilliseconds = commitWaitMeter.takeLongestWaitMilliseconds()
        let usages = deployment.workerProcessIdentifiers.compactMap { ProcessUsage(processIdentifier: $0) }
        let cpuMilliseconds = usages.reduce(0) { $0 + $1.cpuMilliseconds }
        currentMinute.cpuMilliseconds = cpuMilliseconds - lastCPUMilliseconds
        lastCPUMilliseconds = cpuMilliseconds
        currentMinute.residentBytes = deployment.workerProcessIdentifiers.reduce(0) {
            $0 + (ProcessUsage.residentBytes(of: $1) ?? 0)
        }
        StandardStreams.printOutput(currentMinute.tableLine)
        tableLines.append(currentMinute.tableLine)
        if let tableFile { try TextFile.write(tableLines.joined(separator: "\n") + "\n", to: tableFile) }
        measuredMinutes.append(currentMinute)
        let middleOfNextMinuteMilliseconds = elapsedMilliseconds + Self.minuteMilliseconds / 2
        currentMinute = OutageMinute(
            number: currentMinute.number + 1,
            isHostUnreachable: schedule.isHostUnreachable(at: middleOfNextMinuteMilliseconds)
        )
    }

    private func countOutdatedActivities() throws(LabError) -> Int {
        var screens: [String: OutageHistory.Screen] = [:]
        for app in outage.apps {
            screens.merge(try deployment.findSimulator(of: app).readScreens(of: app)) { first, _ in first }
        }
        return recentCommands.newestCommands.count { screens[$0.activity]?.sequence != $0.version.sequence }
    }
}
