import CausewayCommandLine
import Foundation
import Kafka
import Reactor
import Synchronization

/// The page of a simulator without a demo, beside a worker that somebody else has started. On its own thread, it reads
/// the worker's results, and kills the worker if a visitor wants this.
final class SimulatorPage: Sendable {
    /// How the page reaches a worker and its results. If a property is nil, the page cannot show or do what needs this
    /// property.
    struct WorkerAccess: Sendable {
        /// Where to read the results; nil: not configured.
        var resultsSource: ResultsSource?
        /// How to inspect an activity in the worker's Redis and results; nil: not configured.
        var inspectCommandLine: LivePageMailbox.InspectCommandLine?
        /// How to find the process id of the worker that a visitor may kill; nil: not configured.
        var workerLocator: WorkerLocator?
    }

    struct ResultsSource: Sendable {
        /// The properties of the Kafka consumer.
        var properties: [KafkaProperties.Property]
        var topic: String
        /// The commands topic. A result is counted only if it names a record of this topic: the second result of a held
        /// command names a registration instead.
        var commandsTopic: String
    }

    private static let loopIntervalMilliseconds = 250
    private static let faultPauseMilliseconds = 1_000
    private static let stopTimeout = DispatchTimeInterval.seconds(2)

    let server: LivePageServer
    private let workerAccess: WorkerAccess
    private let isStopping = Atomic(false)
    /// Signalled by ``stop()`` to end the thread's pause early.
    private let stopSemaphore = DispatchSemaphore(value: 0)
    private let endSemaphore = DispatchSemaphore(value: 0)

    /// Starts the server of the page and its thread.
    init(
        ofSimulatorAt controlPort: UInt16,
        listeningAt address: SocketAddress,
        _ workerAccess: WorkerAccess
    ) throws(LabError) {
        let pageMailbox = LivePageMailbox()
        pageMailbox.show(
            LivePageMailbox.DataSources(controlPort: controlPort, inspectCommandLine: workerAccess.inspectCommandLine)
        )
        pageMailbox.show(LivePageFigures(phase: .open))
        _ = Self.updateAllowedActions(on: pageMailbox, workerAccess.workerLocator)
        self.workerAccess = workerAccess
        server = try LivePageServer(pageMailbox: pageMailbox, listeningAt: address)
        let startedAtWallMilliseconds = Clock.wallMilliseconds
        let thread = Thread { [self] in
            runUntilStopped(sinceWallMilliseconds: startedAtWallMilliseconds)
            endSemaphore.signal()
        }
        thread.name = "page-results"
        thread.start()
    }

    /// Sends every viewer a last event, and stops the page.
    func stop() {
        isStopping.store(true, ordering: .relaxed)
        stopSemaphore.signal()
        // Wait only a short time for the thread's end. The thread may wait for an unreachable broker, whose response is
        // no longer needed.
        _ = endSemaphore.wait(timeout: .now() + Self.stopTimeout)
        server.stop()
    }

    /// Tells the page which actions are possible now, and why the others are not. For the button that kills the worker,
    /// the page shows the worker's process id.
    ///
    /// - Returns: the worker that visitors may kill; nil: none.
    static func updateAllowedActions(
        on pageMailbox: LivePageMailbox,
        _ workerLocator: WorkerLocator?
    ) -> ExternalWorker? {
        var allowedActions = Set(PageAction.allCases.filter(\.isForAPNs))
        var remarks: [PageAction: String] = [
            .takeRedisAway: "disabled: the simulator did not start your Redis"
        ]
        var worker: ExternalWorker?
        if let workerLocator {
            do throws(LabError) {
                let found = try workerLocator.findWorker()
                allowedActions.insert(.killWorker)
                remarks[.killWorker] = "SIGKILL to process \(found.processIdentifier); you must start the next worker"
                worker = found
            } catch {
                remarks[.killWorker] = error.reason
            }
        } else {
            remarks[.killWorker] = "disabled: --worker-pid is missing"
        }
        pageMailbox.setAllowedActions(allowedActions, remarks: remarks)
        return worker
    }

    private func runUntilStopped(sinceWallMilliseconds: Int64) {
        let pageMailbox = server.pageMailbox
        var resultsCounter = workerAccess.resultsSource.map {
            ResultsCounter($0, sinceWallMilliseconds: sinceWallMilliseconds)
        }
        var figures = LivePageFigures(phase: .open)
        var worker: ExternalWorker?
        while !isStopping.load(ordering: .relaxed) {
            // Kill the worker that the loop's previous pass found, because the page's button shows that worker's
            // process id. A newer worker must stay.
            for case .begin(.killWorker) in pageMailbox.takeSteps(nowMilliseconds: Clock.monotonicMilliseconds) {
                worker?.kill()
            }
            worker = Self.updateAllowedActions(on: pageMailbox, workerAccess.workerLocator)
            if resultsCounter?.read(into: &figures, until: { isStopping.load(ordering: .relaxed) }) != nil {
                pageMailbox.show(figures)
            }
            let pauseMilliseconds =
                figures.resultsFault == nil ? Self.loopIntervalMilliseconds : Self.faultPauseMilliseconds
            _ = stopSemaphore.wait(timeout: .now() + .milliseconds(pauseMilliseconds))
        }
        resultsCounter?.close()
    }
}

/// Reads the results topic and counts the commands that have a result. The page does not read the commands topic, so it
/// knows no other commands, and shows this count also as the number of commands.
private struct ResultsCounter {
    private let source: SimulatorPage.ResultsSource
    private let sinceWallMilliseconds: Int64
    private var follower: TopicFollower?
    private var tally = LivePageResultTally()
    private var freshness = RecentFreshness()

    init(_ source: SimulatorPage.ResultsSource, sinceWallMilliseconds: Int64) {
        self.source = source
        self.sinceWallMilliseconds = sinceWallMilliseconds
    }

    mutating func read(into figures: inout LivePageFigures, until isCancelled: () -> Bool) {
        do throws(KafkaError) {
            let follower = try openFollower()
            self.follower = follower
            try follower.read(nowMilliseconds: Clock.monotonicMilliseconds, until: isCancelled) { message in
                guard let value = message.value else { return }
                tally.add(ScannedResult(scanning: value, commandsTopic: source.commandsTopic))
            }
            figures.resultsFault = nil
        } catch {
            figures.resultsFault = "the results cannot be read: \(error.reason)"
            return
        }
        figures.knownCommandCount = tally.commandCount
        figures.results = tally.commandCount
        figures.freshness = freshness.measure(tally.freshness, nowMilliseconds: Clock.monotonicMilliseconds)
    }

    private func openFollower() throws(KafkaError) -> TopicFollower {
        if let follower { return follower }
        return try TopicFollower(
            properties: source.properties,
            topic: source.topic,
            sinceWallMilliseconds: sinceWallMilliseconds
        )
    }

    mutating func close() {
        follower?.close()
        follower = nil
    }
}
