import CausewayCommandLine
import Foundation
import Kafka
import Reactor
import Synchronization

/// The page of a simulator without a demo, beside a worker that somebody else has started. A thread of its own reads that worker's results and
/// does what visitors request.
final class SimulatorPage: Sendable {
    /// What the page may know and do beyond the simulator.
    struct Surroundings: Sendable {
        /// Where the results are; nil if it is not configured.
        var results: Results?
        /// How to inspect an activity in the worker's Redis and results.
        var inspection: LivePageState.Inspection?
        var worker: WorkerIdentity?
    }

    struct Results: Sendable {
        /// A consumer's properties.
        var properties: [KafkaProperties.Property]
        var topic: String
        /// The topic of the commands whose results are counted.
        var commandsTopic: String
    }

    private static let turnMilliseconds = 250
    private static let faultPauseMilliseconds = 1_000
    private static let stopLimit = DispatchTimeInterval.seconds(2)

    let server: LivePageServer
    private let surroundings: Surroundings
    private let isStopping = Atomic(false)
    /// Signalled by ``stop()``, so that the thread does not finish its pause.
    private let stopRequest = DispatchSemaphore(value: 0)
    private let hasEnded = DispatchSemaphore(value: 0)

    /// Serves from now on.
    init(
        ofSimulatorAt controlPort: UInt16,
        listeningAt place: SocketAddress,
        _ surroundings: Surroundings
    ) throws(LabError) {
        let pageState = LivePageState()
        pageState.show(LivePageState.Parts(controlPort: controlPort, inspection: surroundings.inspection))
        pageState.show(LivePageFigures(phase: .open))
        _ = Self.allow(on: pageState, surroundings.worker)
        self.surroundings = surroundings
        server = try LivePageServer(pageState: pageState, listeningAt: place)
        let startMilliseconds = Clock.milliseconds
        let thread = Thread { [self] in
            attend(sinceMilliseconds: startMilliseconds)
            hasEnded.signal()
        }
        thread.name = "page-results"
        thread.start()
    }

    /// Sends every viewer the last state, and ends.
    func stop() {
        isStopping.store(true, ordering: .relaxed)
        stopRequest.signal()
        // librdkafka ends a request to a broker that has gone after a minute only, and nobody needs the response any more.
        _ = hasEnded.wait(timeout: .now() + Self.stopLimit)
        server.stop()
    }

    /// What visitors may do, and why not the rest.
    ///
    /// - Returns: the worker that may be killed.
    static func allow(on pageState: LivePageState, _ identity: WorkerIdentity?) -> ExternalProcess? {
        var allowed = Set(PageAction.allCases.filter(\.isOfService))
        var remarks: [PageAction: String] = [
            .takeRedisAway: "not here: the simulator has not started your Redis"
        ]
        var worker: ExternalProcess?
        if let identity {
            do throws(LabError) {
                let found = try identity.worker()
                allowed.insert(.killWorker)
                remarks[.killWorker] = "SIGKILL to process \(found.identifier); nobody starts another"
                worker = found
            } catch {
                remarks[.killWorker] = error.reason
            }
        } else {
            remarks[.killWorker] = "which process? --worker-pid names it"
        }
        pageState.allow(allowed, remarks: remarks)
        return worker
    }

    private func attend(sinceMilliseconds: Int64) {
        let pageState = server.pageState
        var reading = surroundings.results.map { ResultsReading($0, sinceMilliseconds: sinceMilliseconds) }
        var figures = LivePageFigures(phase: .open)
        var worker: ExternalProcess?
        while !isStopping.load(ordering: .relaxed) {
            // The worker that the visitor saw when the button was pressed.
            for case .begin(.killWorker) in pageState.takeSteps(nowMilliseconds: Clock.milliseconds) { worker?.kill() }
            worker = Self.allow(on: pageState, surroundings.worker)
            if reading?.read(into: &figures, until: { isStopping.load(ordering: .relaxed) }) != nil {
                pageState.show(figures)
            }
            let pause = figures.resultsFault == nil ? Self.turnMilliseconds : Self.faultPauseMilliseconds
            _ = stopRequest.wait(timeout: .now() + .milliseconds(pause))
        }
        reading?.close()
    }
}

/// Counts what comes to the results topic.
private struct ResultsReading {
    private let results: SimulatorPage.Results
    private let sinceMilliseconds: Int64
    private var follower: TopicFollower?
    private var tally = LivePageTally()
    private var freshness = RecentFreshness()

    init(_ results: SimulatorPage.Results, sinceMilliseconds: Int64) {
        self.results = results
        self.sinceMilliseconds = sinceMilliseconds
    }

    mutating func read(into figures: inout LivePageFigures, until isOver: () -> Bool) {
        do throws(KafkaError) {
            let follower = try opened()
            self.follower = follower
            try follower.read(nowMilliseconds: Clock.milliseconds, until: isOver) { message in
                guard let value = message.value else { return }
                tally.add(ResultSummary(scanning: value, commandsTopic: results.commandsTopic))
            }
            figures.resultsFault = nil
        } catch {
            figures.resultsFault = "the results cannot be read: \(error.reason)"
            return
        }
        figures.commands = tally.commands
        figures.results = tally.commands
        figures.freshness = freshness.measure(tally.freshness, nowMilliseconds: Clock.milliseconds)
    }

    private func opened() throws(KafkaError) -> TopicFollower {
        if let follower { return follower }
        return try TopicFollower(
            properties: results.properties,
            topic: results.topic,
            sinceMilliseconds: sinceMilliseconds
        )
    }

    mutating func close() {
        follower?.close()
        follower = nil
    }
}
