import Foundation
import Testbed
import Testing

@testable import CausewayLab

/// The APNs host of one app does not respond. The app's commands are deferred, so nothing waits behind them in their
/// partitions.
@Suite("Commands that cannot be sent soon", .serialized, .timeLimit(.minutes(10)))
struct DeferralTests {
    /// Runs the apps `ride` and `trip`. Nothing listens at the APNs host of `trip` until the relay starts.
    private static func makeRun(_ relay: TCPRelay, deferredDelayMilliseconds: Int) throws -> ExampleRun {
        try ExampleRun(["ride", "trip"]) { text, _ in
            guard let trip = text.range(of: "\n  trip:") else { throw Timeout(awaiting: "the second app") }
            let deferralSettings =
                "  deferAfterMilliseconds: 1000\n  deferredDelayMilliseconds: \(deferredDelayMilliseconds)\n"
            return
                (text[..<trip.lowerBound]
                + text[trip.lowerBound...].replacingRequired("[sandbox]", with: "[production]"))
                .replacingRequired(
                    "\napns:\n",
                    with: "\napns:\n  production:\n    host: localhost\n    port: \(relay.port)\n"
                )
                .replacingRequired("\nworker:\n", with: "\nworker:\n\(deferralSettings)")
        }
    }

    @Test func `A host that does not respond holds back no other app`() async throws {
        try await onOwnThread {
            let apnsRelay = try TCPRelay()
            // A tenth of the default time, so that the test is short.
            let run = try Self.makeRun(apnsRelay, deferredDelayMilliseconds: 3_000)
            defer { run.close() }
            let updates = try RideUpdates(run)
            try updates.awaitToken()
            let trip = try TripUpdates(run)

            var slowestSeconds = 0.0
            for _ in 0..<10 {
                try trip.send()
                let startDate = Date()
                try updates.sendOne()
                slowestSeconds = max(slowestSeconds, Date().timeIntervalSince(startDate))
            }
            // The spacing allows one update a second, so each update may wait up to 1 s. The limit adds 4 s for a slow
            // machine.
            #expect(slowestSeconds < 5, "the other app's updates wait only for their spacing")
            try run.awaitMetrics("a commands topic of which everything is settled") {
                $0.sum("causeway_consumer_lag_records", ["topic": "commands"]) == 0
                    && ($0.sum("causeway_deferred_total", ["app": "trip"]) ?? 0) > 1
            }
            #expect(!trip.outcomes.contains("accepted"))

            try apnsRelay.start(to: run.deployment.simulator.apnsPort, on: run.deployment)
            let newestCommand = try trip.send()
            try run.awaitAccepted([newestCommand])
            try run.await("every result") {
                try run.takeResults(milliseconds: 10)
                return !trip.outcomes.contains("none")
            }
            #expect(trip.outcomes.dropLast().allSatisfy { $0 == "superseded" }, "\(trip.outcomes)")
            let result = try #require(run.results.lastResult(newestCommand))
            #expect((result["source"] as? JSONObject)?["topic"] as? String == "causeway.commands", "\(result)")
            try run.awaitMetrics("nothing that waits") {
                $0.sum("causeway_records_in_progress") == 0 && $0.sum("causeway_consumer_lag_records") == 0
            }
            try run.deployment.stopWorker(graceMilliseconds: 90_000)
        }
    }

    @Test func `A host that responds again gets deferred commands before they are due`() async throws {
        try await onOwnThread {
            let apnsRelay = try TCPRelay()
            let run = try Self.makeRun(apnsRelay, deferredDelayMilliseconds: 600_000)
            defer { run.close() }
            let command = try TripUpdates(run).send()
            try run.awaitMetrics("a deferred command, and nothing that waits for the pool") {
                $0.sum("causeway_deferred_total", ["app": "trip"]) == 1 && $0.sum("causeway_records_in_progress") == 0
            }
            try apnsRelay.start(to: run.deployment.simulator.apnsPort, on: run.deployment)
            try run.awaitAccepted([command])
            try run.deployment.stopWorker(graceMilliseconds: 90_000)
        }
    }

    /// Each command is deferred several times. Its age counts from its first receipt, not from its last deferral.
    @Test func `The worker says how many commands are deferred, and since when`() async throws {
        try await onOwnThread {
            let run = try Self.makeRun(TCPRelay(), deferredDelayMilliseconds: 5_000)
            defer { run.close() }
            let trip = try TripUpdates(run)
            let sentInstant = ContinuousClock.now
            for number in 0..<5 { try trip.send(to: "waiting-\(number)") }
            try run.awaitMetrics("five deferred commands") {
                ($0.sum("causeway_deferred_total", ["app": "trip"]) ?? 0) >= 5
            }
            let deferredInstant = ContinuousClock.now
            // A command that is deferred for the third time has been in the topic for at most the delay.
            let scrape = try run.awaitMetrics("five commands that are deferred again and again") {
                ($0.sum("causeway_deferred_total", ["app": "trip"]) ?? 0) >= 15
                    && $0.sum("causeway_deferred_waiting") == 5
            }
            let scrapedInstant = ContinuousClock.now
            let ageSeconds = scrape.sum("causeway_deferred_oldest_seconds") ?? 0
            // The metrics are up to 250 ms old. The limits add some time for a slow machine.
            #expect(ageSeconds > (scrapedInstant - deferredInstant) / .seconds(1) - 2)
            #expect(ageSeconds < (scrapedInstant - sentInstant) / .seconds(1) + 1)
            #expect(ageSeconds > 8, "longer than since the last deferral")
            #expect(try WorkerPage("/statusz", port: run.deployment.httpPort).text.contains("from the deferred topic"))
            try run.deployment.stopWorker(graceMilliseconds: 90_000)
        }
    }
}

/// Updates to one activity of the second app. The commands carry its token.
private final class TripUpdates {
    private let run: ExampleRun
    private let command: JSONObject
    private var sentIdentifiers: [String] = []

    init(_ run: ExampleRun) throws {
        self.run = run
        let files = ExampleFiles("trip")
        try run.post("/phones", try files.object("phones.json"))
        let starts = try files.object("app-starts.json")
        try run.post("/activities", starts)
        let activity = try #require((starts["activities"] as? [JSONObject])?.first?["activity"] as? String)
        let registration = try #require(try run.readRegistrations().first { $0["activity"] as? String == activity })
        var command = try #require(
            try files.records("commands.jsonl").first { ($0["aps"] as? JSONObject)?["event"] as? String == "update" }
        )
        command["activity"] = activity
        command["token"] = registration["token"]
        command["environment"] = "production"
        self.command = command
    }

    var outcomes: [String] { sentIdentifiers.map { run.results.outcome($0) ?? "none" } }

    /// - Parameter activity: another activity, which the token does not reach; nil: that of the app.
    /// - Returns: the command's id.
    @discardableResult
    func send(to activity: String? = nil) throws -> String {
        let identifier = "trip-\(sentIdentifiers.count)"
        var (command, aps) = (command, command["aps"] as? JSONObject ?? [:])
        aps["timestamp"] = Int(Date().timeIntervalSince1970)
        aps["relevance-score"] = sentIdentifiers.count
        command["aps"] = aps
        command["id"] = identifier
        if let activity { command["activity"] = activity }
        command["sequence"] = sentIdentifiers.count + 1
        sentIdentifiers.append(identifier)
        try run.send(command)
        return identifier
    }
}
