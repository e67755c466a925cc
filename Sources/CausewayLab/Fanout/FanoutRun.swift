import APNsSimulator
import CausewayCommandLine
import Foundation
import Kafka
import Numbers

/// One fan-out run. Phones join the audience, and the run sends one or two commands. It waits until every phone shows
/// the newest state and the commands' results have arrived, and then measures what the fan-out has cost.
final class FanoutRun {
    /// The run fails if a step makes no progress for this time. A step that does not count its progress may take at
    /// most this time.
    private static let stallMillisecondsMax: Int64 = 120_000
    private static let pollIntervalMilliseconds: Int64 = 20
    /// The maximum number of registrations that may wait for a worker. If more wait, the embedded broker may drop some.
    private static let unreadRegistrationsMax = 100_000
    /// The maximum number of registrations that the run writes between two checks of the run's progress.
    private static let registrationsWrittenPerPollMax = 2_000
    /// After this many registrations, the run checks that Redis has members. So a worker that ignores the
    /// registrations' audiences is noticed soon.
    private static let registrationCountBeforeMemberCheck = 1_000
    /// The phones' initial content is at least this many seconds older than the command. With the same timestamp, the
    /// simulator would treat the command's push as a repetition.
    private static let initialContentAgeSeconds: Int64 = 60

    private let memberCount: Int
    /// The newer command is sent when the first command has reached this percentage of the members. Nil if there is no
    /// newer command.
    private let overtakePercent: Int?
    private let h2loadPushCount: Int
    private let deployment: FanoutDeployment
    private let interruption: Interruption
    private let crowd: FanoutCrowd
    private let phones: SimulatedPhones
    private let commandProducer: CommandProducer
    private let results: FanoutResults
    private var progress = FanoutProgressBar()

    init(
        memberCount: Int,
        overtakePercent: Int?,
        h2loadPushCount: Int,
        singleCommandsPerSecond: Int,
        on deployment: FanoutDeployment,
        interruption: Interruption
    ) throws(LabError) {
        self.memberCount = memberCount
        self.overtakePercent = overtakePercent
        self.h2loadPushCount = h2loadPushCount
        self.deployment = deployment
        self.interruption = interruption
        let client = LoopbackHTTPClient(port: deployment.simulator.controlPort)
        phones = SimulatedPhones(client: client)
        crowd = FanoutCrowd(
            phoneCount: memberCount,
            name: "fan-",
            contentTimestamp: Clock.wallMilliseconds / 1_000 - Self.initialContentAgeSeconds,
            client: client
        )
        commandProducer = try CommandProducer(bootstrapServers: deployment.base.bootstrapServers)
        results = try FanoutResults(bootstrapServers: deployment.base.bootstrapServers)
        if singleCommandsPerSecond > 0 {
            results.singleCommandLoad = SingleCommandLoad(commandsPerSecond: singleCommandsPerSecond, client: client)
        }
    }

    func close() {
        progress.erase()
        results.close()
        commandProducer.close()
    }

    func run() throws(LabError) -> FanoutFigures {
        try FanoutCrowd.declareApp(LoopbackHTTPClient(port: deployment.simulator.controlPort))
        try crowd.createPhones()
        let joinCost = try registerMembers()
        let audienceBytes = try deployment.measureAudienceBytes()
        try measureSingleCommands()
        let h2load = try makeH2LoadRun()
        var h2loadCosts: [Double] = []
        if let h2load { h2loadCosts.append(try h2load.run(eachPoll: pollOnce)) }
        let measurement = try measureFanout()
        // Ask the phones before h2load runs again. The pushes of h2load have the first command's content, and sometimes
        // its timestamp too. Then the simulator would count them as the fan-out's last pushes.
        let crowdReport = try crowd.readReport(about: measurement.newestCommand.contentState)
        if let h2load { h2loadCosts.append(try h2load.run(eachPoll: pollOnce)) }
        try deployment.stopWorkers()
        try results.readArrivedRecords()
        let pushDivisor = Double(max(1, crowdReport.pushCount))
        return FanoutFigures(
            memberCount: memberCount,
            workerCount: measurement.workerCount,
            overtakenAtPercent: overtakePercent,
            joinSeconds: Double(joinCost.milliseconds) / 1_000,
            redisMicrosecondsPerJoin: Double(joinCost.redisCPUMicroseconds) / Double(memberCount),
            redisBytesPerMember: Double(audienceBytes) / Double(memberCount),
            fanoutSeconds: Double(crowdReport.lastPushAtMilliseconds - measurement.recordTimestampMilliseconds) / 1_000,
            pushCount: crowdReport.pushCount,
            workerCPUMicrosecondsPerPush: Double(measurement.workerCPUMicroseconds) / pushDivisor,
            redisCPUMicrosecondsPerPush: Double(measurement.redisCPUMicroseconds) / pushDivisor,
            h2loadMicrosecondsPerPush: h2loadCosts.isEmpty ? nil : h2loadCosts.reduce(0, +) / Double(h2loadCosts.count),
            workerPeakMemoryBytes: measurement.workerPeakMemoryBytes,
            singleCommandsBeforeFanout: results.singleCommandLoad?.freshness(.before),
            singleCommandsDuringFanout: results.singleCommandLoad?.freshness(.during),
            resultRecordCount: results.resultRecordCount - measurement.resultRecordCountBeforeFanout,
            outcomes: measurement.commands.map { results.commandResults[$0.identifier]?.outcome ?? "no result" },
            resultsAddUp: measurement.commands.allSatisfy {
                results.memberCountsAddUp($0.identifier, memberCount: memberCount)
            },
            staleScreenPhoneCount: memberCount - crowdReport.matchingPhoneCount,
            outdatedPushPhoneCount: crowdReport.outdatedPushPhoneCount,
            repeatedAlertPhoneCount: crowdReport.repeatedAlertPhoneCount,
            unalertedPhoneCount: max(0, memberCount - crowdReport.alertCount)
        )
    }

    private func makeH2LoadRun() throws(LabError) -> H2LoadRun? {
        guard h2loadPushCount > 0 else { return nil }
        let body = try AudienceUpdate(number: 1, timestamp: Clock.wallMilliseconds / 1_000).makeBody()
        return try H2LoadRun(deployment, pushCount: h2loadPushCount, body: body)
    }

    // MARK: - Members join the audience

    private struct JoinCost {
        var milliseconds: Int64
        var redisCPUMicroseconds: Int64
    }

    /// Registers the members, and waits until the workers have settled all registrations.
    private func registerMembers() throws(LabError) -> JoinCost {
        try wait("workers that read") { () throws(LabError) in
            Int(deployment.metrics.readSum(of: "causeway_partitions_assigned")) > 0
        }
        let beganAtMilliseconds = Clock.monotonicMilliseconds
        let redisCPUMicrosecondsBefore = redisCPUMicroseconds
        var writtenCount = 0
        var joinProgress = 0
        var areKeysChecked = false
        let writeAndCheckJoined = { [self] () throws(LabError) -> Bool in
            let nowWallMilliseconds = Clock.wallMilliseconds
            let targetCount = min(
                areKeysChecked ? memberCount : min(Self.registrationCountBeforeMemberCheck, memberCount),
                joinProgress + Self.unreadRegistrationsMax
            )
            let end = min(targetCount, writtenCount + Self.registrationsWrittenPerPollMax)
            while writtenCount < end {
                let record = crowd.makeRegistration(writtenCount, registeredAtMilliseconds: nowWallMilliseconds)
                guard try commandProducer.produceRegistration(key: record.key, value: record.value) else { break }
                writtenCount += 1
            }
            commandProducer.takeDeliveryReports()
            guard writtenCount == targetCount else { return false }
            joinProgress = registrationProgress(writtenCount: writtenCount)
            if !areKeysChecked, joinProgress == writtenCount {
                areKeysChecked = true
                try requireAudienceKeys()
            }
            return areKeysChecked && joinProgress == memberCount
        }
        try wait("the members to join", progress: { (joinProgress, self.memberCount) }, until: writeAndCheckJoined)
        guard commandProducer.undeliveredRecordCount == 0 else {
            throw LabError("\(commandProducer.undeliveredRecordCount) registrations did not reach the broker")
        }
        return JoinCost(
            milliseconds: Clock.monotonicMilliseconds - beganAtMilliseconds,
            redisCPUMicroseconds: redisCPUMicroseconds - redisCPUMicrosecondsBefore
        )
    }

    /// Returns `writtenCount` when the workers have settled all registrations. Before that, returns how many they have
    /// received, at most `writtenCount` - 1, so that the step is not finished too soon.
    private func registrationProgress(writtenCount: Int) -> Int {
        if deployment.metrics.hasSettled(registrationCount: writtenCount) { return writtenCount }
        return min(deployment.metrics.countReceivedRegistrations(), writtenCount - 1)
    }

    /// Throws an error if Redis has no audience although members have registered.
    private func requireAudienceKeys() throws(LabError) {
        guard try deployment.countAudienceKeys() == 0 else { return }
        throw LabError(
            """
            the workers do not store audiences: Redis has no member after \
            \(Numeral.grouped(min(Self.registrationCountBeforeMemberCheck, memberCount))) registrations that name one
            """
        )
    }

    // MARK: - Load of single commands

    /// Measures the single commands without a fan-out. The phones of these commands register after the members of the
    /// audience, so that the figures about joining leave these phones out.
    private func measureSingleCommands() throws(LabError) {
        guard let singleCommandLoad = results.singleCommandLoad else { return }
        try singleCommandLoad.crowd.createPhones()
        let nowWallMilliseconds = Clock.wallMilliseconds
        for number in 0..<singleCommandLoad.crowd.compactCrowd.phoneCount {
            let record = singleCommandLoad.crowd.makeRegistration(number, registeredAtMilliseconds: nowWallMilliseconds)
            while try !commandProducer.produceRegistration(key: record.key, value: record.value) {
                commandProducer.takeDeliveryReports()
            }
        }
        let registrationCount = memberCount + singleCommandLoad.crowd.compactCrowd.phoneCount
        try wait("other phones to register") { () throws(LabError) in
            registrationProgress(writtenCount: registrationCount) == registrationCount
        }
        let endMilliseconds = Clock.monotonicMilliseconds + SingleCommandLoad.phaseBeforeFanoutMilliseconds
        results.singleCommandLoad?.begin(.before, atMilliseconds: Clock.monotonicMilliseconds)
        try wait("single commands alone") { () throws(LabError) in Clock.monotonicMilliseconds >= endMilliseconds }
        try endSingleCommands()
    }

    /// Stops the single commands and waits for their results.
    private func endSingleCommands() throws(LabError) {
        results.singleCommandLoad?.begin(nil, atMilliseconds: Clock.monotonicMilliseconds)
        try wait("the single commands' results") { () throws(LabError) in
            results.singleCommandLoad.map { $0.resultCount >= $0.writtenCommandCount } ?? true
        }
    }

    // MARK: - The measured fan-out

    private struct FanoutMeasurement {
        var commands: [AudienceUpdate]
        var newestCommand: AudienceUpdate
        /// The time just before the record of the last command was queued, UNIX milliseconds.
        var recordTimestampMilliseconds: Int64
        var workerCount: Int
        var resultRecordCountBeforeFanout: Int
        var workerCPUMicroseconds: Int64
        var redisCPUMicroseconds: Int64
        var workerPeakMemoryBytes: Int64
    }

    /// Sends the commands to the audience, waits for the phones and the results, and returns what the fan-out has cost.
    private func measureFanout() throws(LabError) -> FanoutMeasurement {
        try results.readArrivedRecords()
        results.singleCommandLoad?.begin(.during, atMilliseconds: Clock.monotonicMilliseconds)
        let acceptedCountBefore = try phones.readAcceptedCounts().tokenPushCount
        for worker in deployment.workers { try ProcessCPUTime.resetPeakMemory(of: worker.processIdentifier) }
        let (workerCPUMicrosecondsBefore, redisCPUMicrosecondsBefore) = (workerCPUMicroseconds, redisCPUMicroseconds)
        let first = AudienceUpdate(number: 1, timestamp: Clock.wallMilliseconds / 1_000)
        var measurement = FanoutMeasurement(
            commands: [first],
            newestCommand: first,
            recordTimestampMilliseconds: try sendCommand(first),
            workerCount: deployment.workers.count,
            resultRecordCountBeforeFanout: results.resultRecordCount,
            workerCPUMicroseconds: 0,
            redisCPUMicroseconds: 0,
            workerPeakMemoryBytes: 0
        )
        if let overtakePercent {
            let targetCount = (memberCount * overtakePercent + 99) / 100
            try awaitPushes(targetCount, acceptedCountBefore: acceptedCountBefore)
            let second = AudienceUpdate(number: 2, timestamp: max(first.timestamp, Clock.wallMilliseconds / 1_000))
            measurement.recordTimestampMilliseconds = try sendCommand(second)
            (measurement.commands, measurement.newestCommand) = ([first, second], second)
        }
        try awaitPushes(memberCount, acceptedCountBefore: acceptedCountBefore)
        try wait("every phone to show the newest state") { () throws(LabError) in
            try crowd.readReport(about: measurement.newestCommand.contentState).matchingPhoneCount == memberCount
        }
        try endSingleCommands()
        try wait("the commands' results") { () throws(LabError) in
            measurement.commands.allSatisfy { results.commandResults[$0.identifier] != nil }
        }
        measurement.workerCPUMicroseconds = workerCPUMicroseconds - workerCPUMicrosecondsBefore
        measurement.redisCPUMicroseconds = redisCPUMicroseconds - redisCPUMicrosecondsBefore
        measurement.workerPeakMemoryBytes =
            deployment.workers.compactMap { ProcessUsage(processIdentifier: $0.processIdentifier)?.residentPeakBytes }
            .max() ?? 0
        return measurement
    }

    private func awaitPushes(_ count: Int, acceptedCountBefore: Int) throws(LabError) {
        var pushCount = 0
        let countAndCheckPushes = { [self] () throws(LabError) -> Bool in
            pushCount = try phones.readAcceptedCounts().tokenPushCount - acceptedCountBefore
            return pushCount >= count
        }
        try wait(
            "\(Numeral.grouped(count)) pushes",
            progress: { (pushCount, self.memberCount) },
            until: countAndCheckPushes
        )
    }

    /// Sends a command to the audience.
    ///
    /// - Returns: the time just before its record was queued, UNIX milliseconds.
    private func sendCommand(_ command: AudienceUpdate) throws(LabError) -> Int64 {
        let record = try command.makeRecord()
        let nowWallMilliseconds = Clock.wallMilliseconds
        let outcome = record.withUnsafeBytes { value in
            Array(FanoutCrowd.audience.utf8)
                .withUnsafeBytes { key in
                    commandProducer.producer.produce(
                        topic: commandProducer.commandsTopic,
                        key: key,
                        value: value,
                        tag: 0
                    )
                }
        }
        guard case .queued = outcome else { throw LabError("the command could not be produced") }
        return nowWallMilliseconds
    }

    private var workerCPUMicroseconds: Int64 {
        deployment.workers.reduce(0) { $0 + (ProcessCPUTime.cpuMicroseconds(of: $1.processIdentifier) ?? 0) }
    }

    private var redisCPUMicroseconds: Int64 {
        deployment.redis.flatMap { ProcessCPUTime.cpuMicroseconds(of: $0.processIdentifier) } ?? 0
    }

    // MARK: - Waiting with a progress bar

    /// Waits until `isDone` returns true, and shows the progress. Throws an error if the number of done items does not
    /// change for `stallMillisecondsMax`.
    private func wait(
        _ awaitedEvent: String,
        progress readProgress: () -> (doneCount: Int, totalCount: Int) = { (0, 0) },
        until isDone: () throws(LabError) -> Bool
    ) throws(LabError) {
        var lastProgress = (doneCount: -1, atMilliseconds: Clock.monotonicMilliseconds)
        while try !isDone() {
            let (doneCount, totalCount) = readProgress()
            let nowMilliseconds = Clock.monotonicMilliseconds
            if doneCount != lastProgress.doneCount { lastProgress = (doneCount, nowMilliseconds) }
            progress.show(awaitedEvent, doneCount: doneCount, of: totalCount, nowMilliseconds: nowMilliseconds)
            guard nowMilliseconds - lastProgress.atMilliseconds < Self.stallMillisecondsMax else {
                throw LabError(
                    """
                    \(awaitedEvent): no progress for \(Self.stallMillisecondsMax / 1_000) s, \
                    \(Numeral.grouped(doneCount)) of \(Numeral.grouped(totalCount)) are done; the worker's log ends \
                    with
                    """,
                    logTail: TextFile.readLastLines(
                        of: deployment.base.path("worker-0.log"),
                        ChildProcess.logTailLineCount
                    )
                )
            }
            try pollOnce()
            usleep(UInt32(Self.pollIntervalMilliseconds) * 1_000)
        }
        progress.erase()
    }

    /// Writes single commands that are due, and reads results. Throws an error if the user interrupts the run, if a
    /// process has ended, or if the result of a command makes the run fail.
    private func pollOnce() throws(LabError) {
        if let signal = interruption.pendingSignal { throw LabError("interrupted (signal \(signal))") }
        try deployment.throwIfAnyProcessHasEnded()
        commandProducer.takeDeliveryReports()
        try results.singleCommandLoad?
            .writeDueCommands(
                to: commandProducer,
                atMilliseconds: Clock.monotonicMilliseconds,
                wallMilliseconds: Clock.wallMilliseconds
            )
        try results.readArrivedRecords()
        for command in ["fanout-1", "fanout-2"] {
            if let failureText = results.commandResults[command]?.failureText(commandIdentifier: command) {
                throw LabError(failureText)
            }
        }
    }
}
