import CausewayCommandLine
import Glibc
import Kafka

/// Plays one case. One thread writes the commands, carries out the steps, copies registrations, and reads results.
///
/// After the last command and step, the run waits until all phones show the right state and all commands have a result.
/// It then observes the phones for `observationMilliseconds`. The wait and the observation together take at most
/// `recoveryMillisecondsMax`.
final class OutageRun {
    private static let pollIntervalMicroseconds: UInt32 = 10_000
    /// How often new registrations of the phones are written to Kafka.
    private static let registrationCopyIntervalMilliseconds: Int64 = 100
    private static let measurementIntervalMilliseconds: Int64 = 1_000
    private static let commitPollTimeoutMilliseconds: Int32 = 1_000
    /// How long the phones are observed after all show the right state. A repeated alert would come within this time.
    private static let observationMilliseconds: Int64 = 3_000
    private static let registrationWaitMillisecondsMax: Int64 = 60_000

    private let outage: OutageCase
    private let deployment: OutageDeployment
    private let interruption: Interruption
    private let commandProducer: CommandProducer
    private let results: OutageResults
    private var feeds: [OutageFeed]
    private var steps: ArraySlice<OutageStep>
    private var history = OutageHistory()
    private let groupPositionReader: GroupPositionReader
    private var commitWaitMeter = CommitWaitMeter()
    private var nextCommitPollAtMilliseconds: Int64 = 0
    private var areRegistrationsPaused = false
    private var nextRegistrationCopyAtMilliseconds: Int64 = 0
    /// When the first command was due, UNIX milliseconds.
    private var firstCommandAtWallMilliseconds: Int64 = 0

    /// - Parameter deployment: a started deployment without running workers.
    init(_ outage: OutageCase, on deployment: OutageDeployment, interruption: Interruption) throws(LabError) {
        self.outage = outage
        self.deployment = deployment
        self.interruption = interruption
        commandProducer = try CommandProducer(bootstrapServers: deployment.base.bootstrapServers)
        results = try OutageResults(bootstrapServers: deployment.base.bootstrapServers)
        groupPositionReader = try deployment.makeGroupPositionReader()
        feeds = outage.apps.map(OutageFeed.init)
        steps = outage.steps[...]
    }

    func run() throws(LabError) -> OutageReport {
        defer {
            results.close()
            commandProducer.close()
            groupPositionReader.close(timeoutMilliseconds: 1_000)
        }
        try awaitRegistrations()
        try play()
        try awaitCorrectScreens()
        deployment.stopWorkers()
        while try results.readArrivedRecords() {}
        try updateHistory()
        return OutageReport(
            name: outage.name,
            findings: findings,
            unmetExpectations: deployment.workerFailures + expectationChecker.unmetExpectations(of: outage.expectations)
        )
    }

    // MARK: - Before the first command

    /// Waits until all tokens are in Redis. If a later step starts the workers, waits only until all registrations are
    /// in Kafka.
    private func awaitRegistrations() throws(LabError) {
        if outage.workers.areStartedBeforeCommands { try deployment.startWorkers() }
        let deadlineMilliseconds = Clock.monotonicMilliseconds + Self.registrationWaitMillisecondsMax
        while true {
            try poll()
            let copiedRegistrationCount = try deployment.copyRegistrations(to: commandProducer)
            let registeredTokenCount =
                try outage.workers.areStartedBeforeCommands ? deployment.redis.countKeys() : copiedRegistrationCount
            let expectedTokenCount = outage.expectedRegistrationCount
            if copiedRegistrationCount >= expectedTokenCount, registeredTokenCount >= expectedTokenCount { return }
            guard Clock.monotonicMilliseconds < deadlineMilliseconds else {
                throw LabError("only \(registeredTokenCount) of \(expectedTokenCount) tokens are registered")
            }
        }
    }

    // MARK: - Commands and faults

    private func play() throws(LabError) {
        let beganAtMilliseconds = Clock.monotonicMilliseconds
        firstCommandAtWallMilliseconds = Clock.wallMilliseconds
        while !(steps.isEmpty && feeds.allSatisfy(\.isFinished)) {
            let elapsedMilliseconds = Clock.monotonicMilliseconds - beganAtMilliseconds
            for index in feeds.indices {
                try feeds[index].writeDueCommands(elapsedMilliseconds: elapsedMilliseconds, commandProducer)
            }
            if let step = steps.first, elapsedMilliseconds >= step.dueMilliseconds {
                steps.removeFirst()
                try perform(step.action)
            }
            try poll()
        }
    }

    /// Measures how long records wait for their commit, if the case limits this wait and a measurement is due. If a
    /// broker does not respond in time, a later call measures.
    private func measureCommitWaits() {
        guard isCommitWaitNeeded, Clock.monotonicMilliseconds >= nextCommitPollAtMilliseconds else { return }
        nextCommitPollAtMilliseconds = Clock.monotonicMilliseconds + Self.measurementIntervalMilliseconds
        guard
            let polledPositions = try? groupPositionReader.readPositions(
                timeoutMilliseconds: Self.commitPollTimeoutMilliseconds
            )
        else {
            return
        }
        commitWaitMeter.addPoll(polledPositions, atMilliseconds: Clock.monotonicMilliseconds)
    }

    private var isCommitWaitNeeded: Bool {
        outage.expectations.contains { if case .committedWithin = $0 { true } else { false } }
    }

    private func perform(_ action: OutageStep.Action) throws(LabError) {
        switch action {
        case .rotateTokens: areRegistrationsPaused = true
        case .resumeRegistrations: areRegistrationsPaused = false
        default: break
        }
        try deployment.perform(action)
    }

    private func poll() throws(LabError) {
        if let signal = interruption.pendingSignal { throw LabError("interrupted (signal \(signal))") }
        try deployment.throwIfAnyProcessHasEnded()
        commandProducer.takeDeliveryReports()
        try results.readArrivedRecords()
        if !areRegistrationsPaused, Clock.monotonicMilliseconds >= nextRegistrationCopyAtMilliseconds {
            nextRegistrationCopyAtMilliseconds = Clock.monotonicMilliseconds + Self.registrationCopyIntervalMilliseconds
            _ = try deployment.copyRegistrations(to: commandProducer)
        }
        measureCommitWaits()
        usleep(Self.pollIntervalMicroseconds)
    }

    /// Waits until all phones show the right state and each command has a result, and this has lasted for
    /// `observationMilliseconds`. Gives up after the case's `recoveryMillisecondsMax`; the report then says what is
    /// missing.
    private func awaitCorrectScreens() throws(LabError) {
        let deadlineMilliseconds = Clock.monotonicMilliseconds + outage.recoveryMillisecondsMax
        var (correctSinceMilliseconds, nextPollAtMilliseconds): (Int64?, Int64) = (nil, 0)
        while Clock.monotonicMilliseconds < deadlineMilliseconds {
            try poll()
            guard Clock.monotonicMilliseconds >= nextPollAtMilliseconds else { continue }
            nextPollAtMilliseconds = Clock.monotonicMilliseconds + Self.measurementIntervalMilliseconds
            try updateHistory()
            guard findings.losses.isEmpty, expectationChecker.missingResultCount == 0 else {
                correctSinceMilliseconds = nil
                continue
            }
            let sinceMilliseconds = correctSinceMilliseconds ?? Clock.monotonicMilliseconds
            correctSinceMilliseconds = sinceMilliseconds
            if Clock.monotonicMilliseconds - sinceMilliseconds >= Self.observationMilliseconds { return }
        }
    }

    // MARK: - Collecting the findings

    /// Updates the history: all commands so far, the new pushes, and what the phones show now. The phones of a frozen
    /// simulator are left out.
    private func updateHistory() throws(LabError) {
        history.commands = feeds.flatMap(\.commands)
        for simulator in deployment.simulators { history.pushes += try simulator.readNewPushes() }
        history.screens = [:]
        for app in outage.apps {
            let simulator = try deployment.findSimulator(of: app)
            guard !simulator.isFrozen else { continue }
            history.screens.merge(try simulator.readScreens(of: app)) { first, _ in first }
        }
        history.screensReadAtMilliseconds = Clock.wallMilliseconds
    }

    private var findings: OutageFindings {
        let alertRepeatCauses = outage.alertRepeatCauses.map { cause in
            AlertRepeatCause(
                happenedAtMilliseconds: firstCommandAtWallMilliseconds + cause.happenedAtMilliseconds,
                alertRepeatWindowMilliseconds: cause.alertRepeatWindowMilliseconds
            )
        }
        return OutageChecker.findings(
            of: history,
            ageLimits: outage.ageLimits,
            alertRepeatCauses: alertRepeatCauses,
            afterLifetime: outage.afterLifetime
        )
    }

    private var expectationChecker: OutageExpectationChecker {
        OutageExpectationChecker(
            findings: findings,
            outcomeNamesByCommand: results.outcomeNamesByCommand,
            invalidationCount: results.invalidationCount,
            history: history,
            firstCommandAtWallMilliseconds: firstCommandAtWallMilliseconds,
            longestCommitWaitMilliseconds: commitWaitMeter.longestWaitMilliseconds
        )
    }
}
