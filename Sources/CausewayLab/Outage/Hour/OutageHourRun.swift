import CausewayCommandLine
import Glibc
import Kafka
import LiveActivity

/// Plays an hour of outage. One thread writes commands, reads results and pushes, and summarizes each minute.
final class OutageHourRun {
    private static let pollMicroseconds: UInt32 = 10_000
    private static let lagIntervalMilliseconds: Int64 = 2_000
    private static let lagTimeoutMilliseconds: Int32 = 2_000
    private static let startMillisecondsMax: Int64 = 120_000
    private static let minuteMilliseconds: Int64 = 60_000

    private let schedule: OutageHourSchedule
    private let outage: OutageCase
    private let deployment: OutageDeployment
    private let interruption: Interruption
    private let commandProducer: CommandProducer
    private let positions: GroupPositions
    private let outcomes: OutcomeCounts
    private let tableFile: String?
    private var feeds: [OutageFeed]
    private var recent = RecentCommands()
    private var lag = CommitLag()
    private var table = [OutageMinute.header]
    private var minutes: [OutageMinute] = []
    private var minute: OutageMinute
    private var cpuMilliseconds: Int64 = 0
    private var pushesAfterReturn = PushesAfterReturn()

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
        positions = try deployment.groupPositions()
        outcomes = try OutcomeCounts(bootstrapServers: deployment.base.bootstrapServers)
        feeds = outage.apps.map(OutageFeed.init)
        minute = OutageMinute(number: 1, isHostUnreachable: false)
    }

    /// Starts the workers, waits until all tokens are registered, plays the outage, and stops the workers.
    ///
    /// - Returns: the broken promises and the workers' faults, as text; empty if there are none.
    func run() throws(LabError) -> [String] {
        defer {
            outcomes.close()
            commandProducer.close()
            positions.close(deadlineMilliseconds: 1_000)
        }
        try awaitRegistrations()
        StandardStreams.printOutput(OutageMinute.header)
        try play()
        let judge = OutageHourJudge(
            schedule: schedule,
            minutes: minutes,
            pushesAfterReturn: pushesAfterReturn.newestFlags,
            wrongScreens: try wrongScreens(),
            failedCommands: outcomes.counts[.failed] ?? 0
        )
        deployment.stopWorkers()
        return judge.brokenPromises + deployment.faults
    }

    private func awaitRegistrations() throws(LabError) {
        try deployment.startWorkers()
        let deadline = Clock.milliseconds + Self.startMillisecondsMax
        while true {
            let copied = try deployment.copyRegistrations(to: commandProducer)
            try poll()
            let (registered, expected) = (try deployment.redis.keyCount(), outage.expectedRegistrations)
            if copied >= expected, registered >= expected { return }
            guard Clock.milliseconds < deadline else {
                throw LabError("only \(registered) of \(expected) tokens are registered")
            }
        }
    }

    private func poll() throws(LabError) {
        if let signal = interruption.pending { throw LabError("interrupted (signal \(signal))") }
        try deployment.check()
        commandProducer.takeReports()
        try outcomes.drain()
        usleep(Self.pollMicroseconds)
    }

    // MARK: - Playing

    private func play() throws(LabError) {
        let beganMilliseconds = Clock.milliseconds
        var steps = outage.steps[...]
        var (nextLagMeasurement, nextMinute) = (beganMilliseconds, beganMilliseconds + Self.minuteMilliseconds)
        while Clock.milliseconds - beganMilliseconds < schedule.endMilliseconds + OutageHourSchedule.silenceMilliseconds
        {
            let elapsedMilliseconds = Clock.milliseconds - beganMilliseconds
            for index in feeds.indices {
                try feeds[index].advance(to: elapsedMilliseconds, commandProducer)
                for command in feeds[index].takeCommands() {
                    recent.append(command)
                    minute.commands += 1
                }
            }
            if let step = steps.first, elapsedMilliseconds >= step.milliseconds {
                steps.removeFirst()
                try deployment.inject(step.kind)
                switch step.kind {
                case .freeze: pushesAfterReturn.hostWentAway(atSeconds: Clock.wallMilliseconds / 1_000)
                case .thaw: pushesAfterReturn.hostReturned()
                default: break
                }
            }
            try poll()
            try takePushes()
            if Clock.milliseconds >= nextLagMeasurement {
                nextLagMeasurement = Clock.milliseconds + Self.lagIntervalMilliseconds
                measureLag()
            }
            if Clock.milliseconds >= nextMinute {
                nextMinute += Self.minuteMilliseconds
                try endMinute(elapsedMilliseconds: Clock.milliseconds - beganMilliseconds)
            }
        }
    }

    private func takePushes() throws(LabError) {
        for service in deployment.services {
            for push in try service.newPushes() where push.status == 200 { count(push, of: service.name) }
        }
    }

    private func count(_ push: OutageHistory.Push, of service: ServiceName) {
        let command = recent.command(of: push)
        guard service == .production else {
            let age = command.map { push.milliseconds - $0.producedMilliseconds } ?? Int64(Histogram.millisecondsMax)
            return minute.freshness.add(milliseconds: age)
        }
        minute.affectedPushes += 1
        let isNewest = command != nil && command == recent.newestCommand(of: push.activity)
        pushesAfterReturn.add(push, isNewest: isNewest)
    }

    /// Measures how long records wait for their commit. If a broker does not answer in time, a later call
    /// measures again.
    private func measureLag() {
        guard let polledPositions = try? positions.positions(timeoutMilliseconds: Self.lagTimeoutMilliseconds) else {
            return
        }
        lag.addPoll(polledPositions, at: Clock.milliseconds)
        minute.recordsBehind = polledPositions.reduce(0) { $0 + $1.end - ($1.committed ?? 0) }
    }

    private func endMinute(elapsedMilliseconds: Int64) throws(LabError) {
        minute.longestCommitMilliseconds = lag.takeLongest()
        let usages = deployment.workerIdentifiers.compactMap { ProcessUsage(identifier: $0) }
        let cpu = usages.reduce(0) { $0 + $1.cpuMilliseconds }
        minute.cpuMilliseconds = cpu - cpuMilliseconds
        cpuMilliseconds = cpu
        minute.residentBytes = deployment.workerIdentifiers.reduce(0) { $0 + (ProcessUsage.residentBytes(of: $1) ?? 0) }
        StandardStreams.printOutput(minute.text)
        table.append(minute.text)
        if let tableFile { try TextFile.write(table.joined(separator: "\n") + "\n", to: tableFile) }
        minutes.append(minute)
        let middleOfNextMinuteMilliseconds = elapsedMilliseconds + Self.minuteMilliseconds / 2
        minute = OutageMinute(
            number: minute.number + 1,
            isHostUnreachable: schedule.isHostUnreachable(at: middleOfNextMinuteMilliseconds)
        )
    }

    private func wrongScreens() throws(LabError) -> Int {
        var screens: [String: OutageHistory.Screen] = [:]
        for app in outage.apps {
            screens.merge(try deployment.service(of: app).screens(of: app)) { first, _ in first }
        }
        return recent.newestCommands.count { screens[$0.activity]?.number != $0.version.sequence }
    }
}
