import CausewayCommandLine
import Foundation
import HTTP

/// Queries the phones at a fixed rate, on its own thread, and sends the changes to every viewer of the live page.
/// Without viewers, it queries nothing.
final class LivePageSampler: @unchecked Sendable {
    static let sampleIntervalMilliseconds: Int64 = 250

    private let pageMailbox: LivePageMailbox
    /// Guards `newStreams` and `isStopping`.
    private let condition = NSCondition()
    private var newStreams: [HTTPResponseStream] = []
    private var isStopping = false
    private let endSemaphore = DispatchSemaphore(value: 0)

    // Only the sampler's thread uses these properties.
    private var viewers = PageViewers<HTTPResponseStream>()
    private var dataSources: LivePageMailbox.DataSources?

    init(pageMailbox: LivePageMailbox) {
        self.pageMailbox = pageMailbox
    }

    func start() {
        let thread = Thread { [self] in
            run()
            endSemaphore.signal()
        }
        thread.name = "page"
        thread.start()
    }

    /// Adds a viewer, whose stream gets events from now on.
    func add(_ stream: HTTPResponseStream) {
        condition.withLock {
            newStreams.append(stream)
            condition.signal()
        }
    }

    /// Sends every viewer a last event, and closes the streams.
    func stop() {
        condition.withLock {
            isStopping = true
            condition.signal()
        }
        endSemaphore.wait()
    }

    private func run() {
        while true {
            let isLast = awaitNewViewersOrStop(
                untilMilliseconds: Clock.monotonicMilliseconds + Self.sampleIntervalMilliseconds
            )
            performSteps(pageMailbox.takeStepsAtAPNs(nowMilliseconds: Clock.monotonicMilliseconds))
            viewers.removeAll { $0.hasEnded }
            if !viewers.isEmpty { sendEvents() }
            if isLast { break }
        }
        for stream in viewers.streams { stream.finish() }
    }

    /// Waits until the deadline, a new viewer or `stop`. Then adds the new viewers. Returns whether `stop` was called.
    private func awaitNewViewersOrStop(untilMilliseconds: Int64) -> Bool {
        condition.withLock {
            while newStreams.isEmpty, !isStopping {
                let remainingMilliseconds = untilMilliseconds - Clock.monotonicMilliseconds
                guard remainingMilliseconds > 0 else { break }
                _ = condition.wait(until: Date(timeIntervalSinceNow: Double(remainingMilliseconds) / 1_000))
            }
            viewers.add(newStreams)
            newStreams.removeAll()
            return isStopping
        }
    }

    /// Carries out what visitors have requested at the simulated APNs, for example cuts its connections. Ignores a
    /// simulator that does not respond: the run itself notices if the process has ended.
    private func performSteps(_ steps: [PageDisturbances.Step]) {
        guard !steps.isEmpty, let dataSources = pageMailbox.dataSources else { return }
        let client = LoopbackHTTPClient(port: dataSources.controlPort)
        for step in steps {
            if case .begin(.cutConnections) = step {
                _ = try? client.requestSuccessfully("POST", "/cut")
                continue
            }
            _ = try? client.requestSuccessfully(
                "PUT",
                "/faults",
                body: Array(pageMailbox.disturbances.faultsJSON.utf8)
            )
            if case .begin(.blackHole) = step {
                _ = try? client.requestSuccessfully("POST", "/silence", body: Array(#"{"stopsReading":true}"#.utf8))
            }
        }
    }

    private func sendEvents() {
        let nowMilliseconds = Clock.monotonicMilliseconds
        let (figures, allowedActions, remarks, disturbances) = (
            pageMailbox.figures, pageMailbox.allowedActions, pageMailbox.remarks, pageMailbox.disturbances
        )
        if pageMailbox.dataSources != dataSources {
            // A new run has begun, so everything that the viewers know is out of date.
            dataSources = pageMailbox.dataSources
            viewers.forgetPhones()
        }
        let client = dataSources.map { LoopbackHTTPClient(port: $0.controlPort) }
        let service = client.flatMap { try? $0.requestSuccessfully("GET", "/stats") }
        viewers.sendEvents { cursor, phoneCount in
            let changes = client.flatMap { Self.readScreenChanges(from: $0, since: cursor, phoneCount: phoneCount) }
            let bytes = PageEventWriter.event(
                screens: changes?.response,
                hasAllPhones: cursor == 0,
                service: service,
                figures: figures,
                allowedActions: allowedActions,
                remarks: remarks,
                disturbances: disturbances,
                nowMilliseconds: nowMilliseconds
            )
            return PageEvent(
                bytes: bytes,
                nextCursor: changes?.next ?? cursor,
                phoneCount: changes?.phoneCount ?? phoneCount
            )
        } append: { stream, bytes in
            stream.append(bytes) == .appended
        }
    }

    /// Asks the simulator which screens have changed after change number `cursor`. Returns the response, the number of
    /// the last change and the number of phones, or nil without a response.
    ///
    /// - Parameter phoneCount: the number of phones that the viewers know.
    private static func readScreenChanges(
        from client: LoopbackHTTPClient,
        since cursor: Int,
        phoneCount: Int
    ) -> (response: [UInt8], next: Int, phoneCount: Int)? {
        let focus = PageEventWriter.focusedPhoneNumbers(phoneCount: phoneCount).map(String.init).joined(separator: ",")
        guard let response = try? client.requestSuccessfully("GET", "/screens?since=\(cursor)&focus=\(focus)"),
            let next = PageEventWriter.firstNumber("next", in: response),
            let count = PageEventWriter.firstNumber("phones", in: response)
        else { return nil }
        return (response, next, count)
    }
}
