import CausewayCommandLine
import Glibc
import Kafka

/// Plays one case. One thread writes the commands, carries out the steps, copies registrations, and reads results. The
/// run ends when all phones have shown the right state and all commands have had results for a while, or when the
/// case's time limit has passed.
final class OutageRun {
    private static let pollMicroseconds: UInt32 = 10_000
    private static let copyIntervalMilliseconds: Int64 = 100
    private static let pollMilliseconds: Int64 = 1_000
    private static let lagTimeoutMilliseconds: Int32 = 1_000
    /// How long the phones are observed after they show the right state. A repeated alert would arrive within
    /// this time.
    private static let observationMilliseconds: Int64 = 3_000
    private static let startMillisecondsMax: Int64 = 60_000

    private let outage: OutageCase
    private let deployment: OutageDeployment
    private let interruption: Interruption
    private let commandProducer: CommandProducer
    private let outcomes: OutageOutcomes
    private var feeds: [OutageFeed]
    private var steps: ArraySlice<OutageStep>
    private var history = OutageHistory()
    private let positions: GroupPositions
    private var lag = CommitLag()
    private var nextLagMilliseconds: Int64 = 0
    private var areRegistrationsHeld = false
    private var nextCopyMilliseconds: Int64 = 0
    /// When the first command was due, UNIX milliseconds.
    private var firstCommandMilliseconds: Int64 = 0

    /// - Parameter deployment: a started deployment without running workers.
    init(_ outage: OutageCase, on deployment: OutageDeployment, interruption: Interruption) throws(LabError) {
        self.outage = outage
        self.deployment = deployment
        self.interruption = interruption
        commandProducer = try CommandProducer(bootstrapServers: deployment.base.bootstrapServers)
        outcomes = try OutageOutcomes(bootstrapServers: deployment.base.bootstrapServers)
        positions = try deployment.groupPositions()
        feeds = outage.apps.map(OutageFeed.init)
        steps = outage.steps[...]
    }

    func run() throws(LabError) -> OutageReport {
        defer {
            outcomes.close()
            commandProducer.close()
            positions.close(deadlineMilliseconds: 1_000)
        }
        try awaitRegistrations()
        try play()
        try awaitRightPhones()
        deployment.stopWorkers()
        while try outcomes.drain() {}
        try observe()
        return OutageReport(
            name: outage.name,
            verdict: verdict,
            brokenExpectations: deployment.faults + facts.unmetExpectations(of: outage.expectations)
        )
    }

    // MARK: - Before the first command

    /// Waits until all tokens are registered in Redis. If the workers start later, waits only until all
    /// registrations are copied to Kafka.
    private func awaitRegistrations() throws(LabError) {
        if outage.workers.areStartedFirst { try deployment.startWorkers() }
        let deadline = Clock.milliseconds + Self.startMillisecondsMax
        while true {
            try poll()
            let copied = try deployment.copyRegistrations(to: commandProducer)
            let registered = try outage.workers.areStartedFirst ? deployment.redis.keyCount() : copied
            let expected = outage.expectedRegistrations
            if copied >= expected, registered >= expected { return }
            guard Clock.milliseconds < deadline else {
                throw LabError("only \(registered) of \(expected) tokens are registered")
            }
        }
    }

    // MARK: - Playing

    private func play() throws(LabError) {
        let beganMilliseconds = Clock.milliseconds
        firstCommandMilliseconds = Clock.wallMilliseconds
        while !(steps.isEmpty && feeds.allSatisfy(\.isFinished)) {
            let elapsedMilliseconds = Clock.milliseconds - beganMilliseconds
            for index in feeds.indices { try feeds[index].advance(to: elapsedMilliseconds, commandProducer) }
            if let step = steps.first, elapsedMilliseconds >= step.milliseconds {
                steps.removeFirst()
                try inject(step.kind)
            }
            try poll()
        }
    }

    /// Measures how long records wait for their commit. If a broker does not answer in time, a later call
    /// measures again.
    private func measureLag() {
        guard needsLag, Clock.milliseconds >= nextLagMilliseconds else { return }
        nextLagMilliseconds = Clock.milliseconds + Self.pollMilliseconds
        guard let polledPositions = try? positions.positions(timeoutMilliseconds: Self.lagTimeoutMilliseconds) else {
            return
        }
        lag.addPoll(polledPositions, at: Clock.milliseconds)
    }

    private var needsLag: Bool {
        outage.expectations.contains { if case .committedWithin = $0 { true } else { false } }
    }

    private func inject(_ kind: OutageStep.Kind) throws(LabError) {
        switch kind {
        case .rotateTokens: areRegistrationsHeld = true
        case .releaseTokens: areRegistrationsHeld = false
        default: break
        }
        try deployment.inject(kind)
    }

    private func poll() throws(LabError) {
        if let signal = interruption.pending { throw LabError("interrupted (signal \(signal))") }
        try deployment.check()
        commandProducer.takeReports()
        try outcomes.drain()
        if !areRegistrationsHeld, Clock.milliseconds >= nextCopyMilliseconds {
            nextCopyMilliseconds = Clock.milliseconds + Self.copyIntervalMilliseconds
            _ = try deployment.copyRegistrations(to: commandProducer)
        }
        measureLag()
        usleep(Self.pollMicroseconds)
    }

    /// Waits until all phones show the right state and each command has a result, or until the case's time
    /// limit. What is then missing is in the report.
    private func awaitRightPhones() throws(LabError) {
        let deadline = Clock.milliseconds + outage.checkDelayMillisecondsMax
        var (rightSince, nextPoll): (Int64?, Int64) = (nil, 0)
        while Clock.milliseconds < deadline {
            try poll()
            guard Clock.milliseconds >= nextPoll else { continue }
            nextPoll = Clock.milliseconds + Self.pollMilliseconds
            try observe()
            guard verdict.losses.isEmpty, facts.commandsWithoutResult == 0 else {
                rightSince = nil
                continue
            }
            let since = rightSince ?? Clock.milliseconds
            rightSince = since
            if Clock.milliseconds - since >= Self.observationMilliseconds { return }
        }
    }

    // MARK: - Judging

    private func observe() throws(LabError) {
        history.commands = feeds.flatMap(\.commands)
        for service in deployment.services { history.pushes += try service.newPushes() }
        history.screens = [:]
        for app in outage.apps {
            let service = try deployment.service(of: app)
            guard !service.isFrozen else { continue }
            history.screens.merge(try service.screens(of: app)) { first, _ in first }
        }
        history.endMilliseconds = Clock.wallMilliseconds
    }

    private var verdict: OutageVerdict {
        let crashes = outage.crashes.map { crash in
            Crash(
                milliseconds: firstCommandMilliseconds + crash.milliseconds,
                forgottenMilliseconds: crash.forgottenMilliseconds
            )
        }
        return OutageJudge.verdict(
            of: history,
            bounds: outage.bounds,
            crashes: crashes,
            afterLifetime: outage.afterLifetime
        )
    }

    private var facts: OutageFacts {
        OutageFacts(
            verdict: verdict,
            outcomes: outcomes.outcomes,
            invalidations: outcomes.invalidations,
            history: history,
            firstCommandMilliseconds: firstCommandMilliseconds,
            longestCommitMilliseconds: lag.longestMilliseconds
        )
    }
}
