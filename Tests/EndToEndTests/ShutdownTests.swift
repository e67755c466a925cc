import Foundation
import Testbed
import Testing

@testable import CausewayLab

/// After a stop signal, a worker settles what it can until the drain ends, commits, and ends in time. The next worker
/// continues from the commit, so nothing is lost. (R5)
@Suite("A worker that is told to stop", .timeLimit(.minutes(10)))
struct ShutdownTests {
    /// SIGTERM comes while pushes wait for APNs' responses. The worker finishes what it has begun, commits and exits
    /// with 0. The next worker continues from the commit, and repeats no push and no result. This holds also for
    /// commands above the committed offset: some were settled while an earlier command still waited for its spacing.
    @Test func `A worker drains under load, and loses nothing`() async throws {
        try await onOwnThread {
            let match = try MatchPlayback(followerCount: 150, configure: ExampleRun.withLongResponseTimeout)
            defer { match.close() }
            let deployment = match.run.deployment
            let simulator = try #require(deployment.processesExceptWorker.first { $0.name == "simulator" })
            try match.play(until: 10_000)
            try match.awaitResults { match.reader.tally.commandCount > 0 }
            // APNs does not respond, so a fast worker also has pushes in flight and leaves commands to the next worker.
            simulator.signal(SIGSTOP)
            defer { simulator.signal(SIGCONT) }
            try match.play(until: 20_000)
            try #require(!match.feed.isFinished)
            try match.run.awaitMetrics("a push in flight") {
                ($0.sum("causeway_records_waiting", ["for": "apns"]) ?? 0) > 0
            }
            let worker = try #require(deployment.worker)
            worker.signal(SIGTERM)
            try match.run.awaitLog("draining")
            try match.play()
            simulator.signal(SIGCONT)
            #expect(worker.wait(timeoutMilliseconds: 90_000) == .exited(0))
            try deployment.startWorker()
            try match.awaitResults { match.reader.tally.commandCount == match.feed.commandCount }
            let secondWorkerScrape = try match.run.awaitMetrics("outcomes of the second worker") {
                $0.sum("causeway_outcomes_total") ?? 0 > 0
            }
            let secondWorkerOutcomes = secondWorkerScrape.sum("causeway_outcomes_total") ?? 0
            #expect(match.reader.tally.repeatedResultCount == 0)
            #expect(
                secondWorkerOutcomes < Double(match.feed.commandCount),
                "the second worker began where the first worker's commit ended"
            )
            try match.expectFinalStates()
            try match.expectEachPushToHaveOneResult()
        }
    }

    /// APNs no longer responds, so the drain would take its full time. A second signal ends it at once. The
    /// next worker reads the unfinished commands again, and nothing is lost.
    @Test(arguments: [SIGTERM, SIGINT]) func `A second signal ends the drain without loss`(second: Int32) async throws {
        try await onOwnThread {
            let match = try MatchPlayback(followerCount: 20, configure: ExampleRun.withLongResponseTimeout)
            defer { match.close() }
            let deployment = match.run.deployment
            let simulator = try #require(deployment.processesExceptWorker.first { $0.name == "simulator" })
            simulator.signal(SIGSTOP)
            defer { simulator.signal(SIGCONT) }
            try match.play()
            try match.awaitResults { match.reader.tally.commandCount > 0 }
            let worker = try #require(deployment.worker)
            worker.signal(SIGTERM)
            try match.run.awaitLog("draining")
            // After two seconds the worker must still wait. So it is the second signal that ends the worker.
            #expect(worker.wait(timeoutMilliseconds: 2_000) == nil)
            let start = ContinuousClock.now
            worker.signal(second)
            #expect(worker.wait(timeoutMilliseconds: 60_000) == .exited(0))
            // Without the second signal the drain would take 50 s. An end within 30 s shows that the signal
            // ended the drain.
            #expect(ContinuousClock.now - start < .seconds(30))
            try match.run.awaitLog("a second stop signal")
            try match.run.awaitLog("worker stopped")

            simulator.signal(SIGCONT)
            try deployment.startWorker()
            try match.awaitResults { match.reader.tally.commandCount == match.feed.commandCount }
            try match.expectFinalStates()
        }
    }

    /// A dependency neither responds nor closes its connection, so a command waits for Redis or APNs, or a result
    /// cannot be written. The worker still ends within the drain time.
    @Test(arguments: ["redis-server", "simulator", "broker"]) func `A frozen dependency delays no stop`(name: String)
        async throws
    {
        try await onOwnThread {
            let run = try ExampleRun(["ride"]) { text, _ in
                text.replacingRequired("\nworker:\n", with: "\nworker:\n  drainMilliseconds: 8000\n")
            }
            defer { run.close() }
            let updates = try RideUpdates(run)
            try updates.sendOne()
            let dependency = try #require(run.deployment.processesExceptWorker.first { $0.name == name })
            let simulator = try #require(run.deployment.processesExceptWorker.first { $0.name == "simulator" })
            // Lets the frozen programs continue, because closing the run first waits for each program's end.
            defer { for process in [dependency, simulator] { process.signal(SIGCONT) } }
            if name == "redis-server" { dependency.signal(SIGSTOP) } else { simulator.signal(SIGSTOP) }
            try updates.sendWithoutWaiting()
            let awaitedDependency = name == "redis-server" ? "redis" : "apns"
            try run.awaitMetrics("a command that waits", meanwhile: { try run.takeResults(milliseconds: 10) }) {
                ($0.sum("causeway_records_waiting", ["for": awaitedDependency]) ?? 0) > 0
            }
            if name == "broker" {
                dependency.signal(SIGSTOP)
                simulator.signal(SIGCONT)
                try run.awaitMetrics("a result that cannot be written") {
                    ($0.sum("causeway_records_waiting", ["for": "result"]) ?? 0) > 0
                }
            }
            let worker = try #require(run.deployment.worker)
            let start = ContinuousClock.now
            worker.signal(SIGTERM)
            #expect(worker.wait(timeoutMilliseconds: 60_000) == .exited(0))
            let elapsed = ContinuousClock.now - start
            // The limit includes two seconds for the end of the process on a busy machine.
            #expect(elapsed < .milliseconds(10_000), "\(name) is frozen: \(elapsed)")
        }
    }
}

/// The commands of a match, and their results. Used from one thread.
private final class MatchPlayback {
    /// The time limit of one wait. It is long, because a restarted worker may have to process most of the match's
    /// commands.
    private static let matchWaitMax: Duration = .seconds(480)

    let run: ExampleRun
    let reader: ResultsReader
    private(set) var feed: SeasonFeed
    private let phones: SimulatedPhones
    private let commandProducer: CommandProducer

    init(
        followerCount: Int,
        configure: (_ text: String, _ deployment: Deployment) throws -> String = { text, _ in text }
    ) throws {
        let season = ExampleFiles("season")
        run = try ExampleRun(
            [("cricket", MatchCommands.app, season.path("shapes.json"))],
            configure: configure
        )
        let matches = Array(try SeasonFiles(directory: season.directory.path).season.matches.prefix(1))
        feed = SeasonFeed(matches: matches, followerCount: followerCount, durationMilliseconds: 1)
        phones = SimulatedPhones(client: LoopbackHTTPClient(port: run.deployment.simulator.controlPort))
        commandProducer = try CommandProducer(bootstrapServers: run.deployment.bootstrapServers)
        reader = try ResultsReader(bootstrapServers: run.deployment.bootstrapServers)
        try phones.createPhones(for: feed)
        // The app starts half of the activities; pushes start the other half.
        try run.relayRegistrations(until: followerCount + followerCount / 2)
        try feed.sendStarts(to: commandProducer.commandsTopic, of: commandProducer.producer)
        try run.relayRegistrations(until: 2 * followerCount)
    }

    /// Sends commands without a pause until `count` commands were sent in total, or the match is over.
    func play(until count: Int = .max) throws {
        while !feed.isFinished, feed.commandCount < count {
            let limit = min(1_000, count - feed.commandCount)
            _ = try feed.writeDueCommands(
                elapsedMilliseconds: .max,
                limit: limit,
                topic: commandProducer.commandsTopic,
                producer: commandProducer.producer
            )
            commandProducer.takeDeliveryReports()
        }
    }

    func close() {
        commandProducer.close()
        reader.close()
        run.close()
    }

    func awaitResults(until isDone: () -> Bool) throws {
        try eventually(
            "\(feed.commandCount) results, there are \(reader.tally.commandCount)",
            within: Self.matchWaitMax,
            every: .milliseconds(1)
        ) {
            commandProducer.takeDeliveryReports()
            try run.deployment.throwIfAnyProcessHasEnded()
            while try reader.readArrivedRecords(limit: 1_000) {}
            return isDone()
        }
    }

    func expectEachPushToHaveOneResult() throws {
        let pushCount = try phones.readAcceptedCounts().tokenPushCount
        try awaitResults { reader.tally.pushCount >= pushCount }
        #expect(reader.tally.pushCount == pushCount)
    }

    /// Waits until every phone shows its final state. A command that is held for its token already has a result, so its
    /// push may come after the last result.
    func expectFinalStates() throws {
        try eventually("the final state on \(feed.phoneCount) phones", within: Self.matchWaitMax) {
            try run.deployment.throwIfAnyProcessHasEnded()
            return try phones.compare(with: feed).matchingPhoneCount == feed.phoneCount
        }
    }
}
