import CausewayCommandLine
import Foundation
import LiveActivity
import Testbed
import Testing

@testable import CausewayLab
@testable import causeway

@Suite("Metrics, pages and health of a worker", .timeLimit(.minutes(10)))
struct MetricsTests {
    private static let followerCount = 20
    /// The season's feed lets the app start the activities of half of the followers, and starts the others by pushes.
    private static let startCount = followerCount / 2

    /// Runs one cricket match.
    @Test func `The metrics count the same numbers as the results and the simulator`() async throws {
        try await onOwnThread {
            let season = ExampleFiles("season")
            let run = try ExampleRun([("cricket", MatchCommands.app, season.path("shapes.json"))])
            defer { run.close() }
            let matches = Array(try SeasonFiles(directory: season.directory.path).season.matches.prefix(1))
            var feed = SeasonFeed(matches: matches, followerCount: Self.followerCount, durationMilliseconds: 4_000)
            let phones = SimulatedPhones(client: LoopbackHTTPClient(port: run.deployment.simulator.controlPort))
            let commandProducer = try CommandProducer(bootstrapServers: run.deployment.bootstrapServers)
            defer { commandProducer.close() }
            let reader = try ResultsReader(bootstrapServers: run.deployment.bootstrapServers)
            defer { reader.close() }
            try phones.createPhones(for: feed)
            // First each phone registers its push-to-start token, and each activity that the app started its update
            // token. Then the activities that pushes start register their update tokens.
            try run.relayRegistrations(until: 2 * Self.followerCount - Self.startCount)
            try feed.sendStarts(to: commandProducer.commandsTopic, of: commandProducer.producer)
            try run.relayRegistrations(until: 2 * Self.followerCount)
            let earlyScrape = try run.awaitMetrics("pushes") { ($0.sum("causeway_pushes_total") ?? 0) > 0 }

            let beganAtMilliseconds = Clock.monotonicMilliseconds
            try eventually(
                "\(feed.commandCount) results, there are \(reader.tally.commandCount)",
                every: .milliseconds(1)
            ) {
                _ = try feed.writeDueCommands(
                    elapsedMilliseconds: Clock.monotonicMilliseconds - beganAtMilliseconds,
                    limit: 1_000,
                    topic: commandProducer.commandsTopic,
                    producer: commandProducer.producer
                )
                commandProducer.takeDeliveryReports()
                try run.deployment.throwIfAnyProcessHasEnded()
                while try reader.readArrivedRecords(limit: 1_000) {}
                return feed.isFinished && reader.tally.commandCount >= feed.commandCount
            }
            // A held command has two results: first `held`, later its final result. Both also count as outcomes, so
            // there are as many outcomes as results.
            let scrape = try run.awaitMetrics(
                "as many outcomes as results, and no lag",
                meanwhile: { while try reader.readArrivedRecords(limit: 1_000) {} }
            ) {
                $0.sum("causeway_outcomes_total") == Double(reader.resultCount)
                    && $0.sum("causeway_consumer_lag_records") == 0 && $0.sum("causeway_records_in_progress") == 0
            }
            try expectSameCounts(scrape, as: reader, commandCount: feed.commandCount)
            try expectSameCounts(scrape, as: try simulatorStatistics(of: run))
            #expect(scrape.sum("causeway_oldest_unsettled_seconds") == 0)
            #expect(
                scrape.sum("causeway_partitions_assigned")
                    == Double(2 * Deployment.commandPartitionCount + 2 * Deployment.partitionCount)
            )
            #expect(try run.status(of: "/livez") == 200)
            #expect(try run.status(of: "/readyz") == 200)

            // Thousands of commands add no new series, and no series names an activity.
            let knownSeries = scrape.stableSeriesNames.filter { !Self.isEventDriven($0) }
            #expect(knownSeries == earlyScrape.stableSeriesNames.filter { !Self.isEventDriven($0) })
            #expect(!scrape.text.contains(feed.activityIdentifier(match: 0, follower: 1)))
            try checkWithPromtool(scrape.text)
            #expect(try metricsOfAlertsAndDashboard().filter { scrape.sum($0) == nil } == [])
        }
    }

    /// Metrics that have no series until their event happens. A run may be without these events.
    private static let eventDrivenMetrics: Set<String> = [
        "causeway_apns_goaway_total", "causeway_redis_errors_total", "causeway_kafka_errors_total",
        "causeway_log_lines_suppressed_total",
    ]

    private static func isEventDriven(_ series: String) -> Bool {
        eventDrivenMetrics.contains(String(series.prefix { $0 != "{" }))
    }

    /// Returns the metrics that alerts and the dashboard read, without the metrics in ``eventDrivenMetrics``.
    private func metricsOfAlertsAndDashboard() throws -> Set<String> {
        let text = try ["rules.yaml", "dashboard.json"].map { try Repository.text("Helm/causeway/files/\($0)") }
            .joined()
        let names = Set(text.matches(of: /(?:causeway|process)_[a-z_]+/).map { String($0.output) })
        #expect(names.count > 30)
        return names.subtracting(Self.eventDrivenMetrics)
    }

    private func expectSameCounts(_ scrape: Scrape, as reader: ResultsReader, commandCount: Int) throws {
        let tally = reader.tally
        let app = ["app": "cricket"]
        #expect(scrape.sum("causeway_outcomes_total", ["outcome": "superseded"]) == Double(tally[.superseded]))
        #expect(scrape.sum("causeway_outcomes_total", app) == Double(reader.resultCount))
        #expect(scrape.sum("causeway_outcomes_total", ["outcome": "accepted"]) == Double(tally.pushCount))
        #expect(scrape.sum("causeway_records_received_total", ["topic": "commands"]) == Double(commandCount))
        #expect(scrape.sum("causeway_records_received_total", ["topic": "registrations"]) == 40)
        #expect(try #require(scrape.sum("causeway_commands_replaced_total", app)) > 0)
        #expect(scrape.sum("causeway_freshness_seconds_count", app) == Double(tally.pushCount))
        for part in ["queue", "admit", "stream", "apns", "settle"] {
            let count = scrape.sum("causeway_latency_seconds_count", ["part": part])
            #expect(count == Double(tally.pushCount), "\(part)")
        }
        #expect(scrape.sum("causeway_dead_letters_total") == 0)
        #expect(scrape.sum("causeway_redis_servers_unavailable") == 0)
    }

    private func simulatorStatistics(of run: ExampleRun) throws -> JSONObject {
        let client = LoopbackHTTPClient(port: run.deployment.simulator.controlPort)
        let response = try JSONSerialization.jsonObject(with: Data(try client.requestSuccessfully("GET", "/stats")))
        return try #require(response as? JSONObject)
    }

    private func expectSameCounts(_ scrape: Scrape, as statistics: JSONObject) throws {
        let requests = try #require(statistics["requests"] as? Double)
        let byPriority = try #require(statistics["acceptedByPriority"] as? JSONObject)
        // At least the starts, and an end for each follower, are sent, however slow the machine is.
        #expect(requests >= Double(Self.startCount + Self.followerCount))
        #expect(scrape.sum("causeway_pushes_total", ["status": "200"]) == statistics["accepted"] as? Double)
        #expect(scrape.sum("causeway_pushes_total") == requests)
        #expect(scrape.sum("causeway_apns_round_trip_seconds_count") == requests)
        #expect(scrape.sum("causeway_budget_draws_total") == byPriority["10"] as? Double)
        #expect(scrape.sum("causeway_budget_demotions_total") == 0)
    }

    /// Checks with promtool that Prometheus can parse the text.
    private func checkWithPromtool(_ text: String) throws {
        let directory = try WorkDirectory()
        defer { directory.remove(keeping: false) }
        let file = "\(directory.path)/metrics.txt"
        try text.write(toFile: file, atomically: true, encoding: .utf8)
        let check = try runProgram("/bin/sh", ["-c", "exec \(Promtool.path) check metrics < '\(file)'"])
        #expect(check.exitCode == 0 && check.text.isEmpty, "\(check.text)")
    }

    /// The worker gets the signal to stop while a push has no response. It reports at once that it drains, and stays
    /// alive until the response comes.
    @Test func `A draining worker is alive, but not ready`() async throws {
        try await onOwnThread {
            let run = try ExampleRun(["ride"], configure: ExampleRun.withLongResponseTimeout)
            defer { run.close() }
            let updates = try RideUpdates(run)
            try updates.sendOne()
            try run.awaitMetrics("a worker with partitions") { ($0.sum("causeway_partitions_assigned") ?? 0) > 0 }
            #expect(try run.status(of: "/readyz") == 200)
            #expect(try run.scrape().sum("causeway_draining") == 0)
            // APNs responds only after the test has checked the draining worker.
            let simulator = try #require(run.deployment.processesExceptWorker.first { $0.name == "simulator" })
            simulator.signal(SIGSTOP)
            defer { simulator.signal(SIGCONT) }
            try updates.sendWithoutWaiting()
            try run.awaitMetrics("a push on its way") {
                $0.sum("causeway_pushes_in_flight") == 1 && $0.sum("causeway_records_waiting", ["for": "apns"]) == 1
            }

            let worker = try #require(run.deployment.worker)
            worker.signal(SIGTERM)
            try run.awaitMetrics("a draining worker", within: .seconds(10)) { $0.sum("causeway_draining") == 1 }
            #expect(try run.status(of: "/readyz") == 503)
            #expect(try run.status(of: "/livez") == 200)
            #expect(worker.poll() == nil)
            simulator.signal(SIGCONT)
            #expect(worker.wait(timeoutMilliseconds: 60_000) == .exited(0))
        }
    }

    /// Another worker already listens at the port.
    @Test func `A worker whose port is taken does not run`() async throws {
        try await onOwnThread {
            let run = try ExampleRun(["ride"])
            defer { run.close() }
            try run.awaitMetrics("the partitions of the first worker") {
                ($0.sum("causeway_partitions_assigned") ?? 0) > 0
            }
            let secondWorker = try ChildProcess(
                name: "second worker",
                command: [ExampleRun.programs.causeway, "worker", "--config", run.deployment.path("causeway.yaml")],
                logFile: run.deployment.path("second.log")
            )
            #expect(secondWorker.wait(timeoutMilliseconds: 60_000) == .exited(78))
            let log = try String(contentsOfFile: run.deployment.path("second.log"), encoding: .utf8)
            #expect(log.contains("http.port: cannot listen on 127.0.0.1:\(run.deployment.httpPort): "), "\(log)")
            #expect(try run.status(of: "/readyz") == 200, "the second worker has not joined the group")
        }
    }

    @Test func `The command health reports what the worker's pages say`() async throws {
        try await onOwnThread {
            let run = try ExampleRun(["ride"])
            defer { run.close() }
            let configuration = run.deployment.path("causeway.yaml")
            try run.awaitMetrics("a worker with partitions") { $0.sum("causeway_partitions_assigned") == 40 }
            let program = try ExampleRun.programs.causeway
            let liveOutput = try runProgram(program, ["health", "--config", configuration])
            #expect(liveOutput.exitCode == 0 && liveOutput.text.hasSuffix("\nok\n"), "\(liveOutput.text)")
            let readyOutput = try runProgram(
                program,
                ["health", "--url", "http://127.0.0.1:\(run.deployment.httpPort)/readyz"]
            )
            #expect(
                readyOutput.exitCode == 0 && readyOutput.text.contains("[+] group: reads 40 partitions\n"),
                "\(readyOutput.text)"
            )
            let namedHostOutput = try runProgram(
                program,
                ["health", "--url", "http://localhost:\(run.deployment.httpPort)/readyz"]
            )
            #expect(
                namedHostOutput.exitCode == 0 && namedHostOutput.text == readyOutput.text,
                "\(namedHostOutput.text)"
            )
            let unknownHostOutput = try runProgram(
                program,
                ["health", "--url", "http://nobody.invalid:\(run.deployment.httpPort)/readyz"]
            )
            #expect(
                unknownHostOutput.exitCode == 1 && unknownHostOutput.text.contains("nobody.invalid: "),
                "\(unknownHostOutput.text)"
            )
            let errorOutput = try runProgram(
                program,
                ["health", "--url", "http://127.0.0.1:\(run.deployment.httpPort)/ready"]
            )
            let pages = """
                causeway health: a worker has no page http://127.0.0.1:\(run.deployment.httpPort)/ready (404); \
                its pages are /livez, /readyz, /statusz and /metrics

                """
            #expect(errorOutput.exitCode == 1 && errorOutput.text.contains(pages), "\(errorOutput.text)")
            try checkHealthOfProcess(of: run)
            let page = try WorkerPage("/statusz?format=html", port: run.deployment.httpPort)
            #expect(page.status == 200 && page.text.hasPrefix("<!doctype html>"))
            let statusOutput = try runProgram(
                program,
                ["health", "--url", "http://127.0.0.1:\(run.deployment.httpPort)/statusz"]
            )
            #expect(statusOutput.exitCode == 0 && statusOutput.text.contains("Throughput\n"), "\(statusOutput.text)")
            try run.deployment.stopWorker(graceMilliseconds: 90_000)
            let stoppedOutput = try runProgram(program, ["health", "--config", configuration])
            #expect(
                stoppedOutput.exitCode == 1 && stoppedOutput.text.contains("no server responds at 127.0.0.1:"),
                "\(stoppedOutput.text)"
            )
        }
    }

    /// `health --process` asks the worker at the address where it listens. It does not read the configuration file,
    /// because the file may have changed since the worker started.
    private func checkHealthOfProcess(of run: ExampleRun) throws {
        let path = run.deployment.path("causeway.yaml")
        let text = try String(contentsOfFile: path, encoding: .utf8)
        let process = try #require(run.deployment.worker?.processIdentifier)
        let movedConfiguration = text.replacingRequired("port: \(run.deployment.httpPort)", with: "port: 1")
        for changedText in [movedConfiguration, "no: configuration\n"] {
            try changedText.write(toFile: path, atomically: true, encoding: .utf8)
            let liveOutput = try runProgram(ExampleRun.programs.causeway, ["health", "--process", "\(process)"])
            #expect(liveOutput.exitCode == 0 && liveOutput.text.hasSuffix("\nok\n"), "\(liveOutput.text)")
        }
        let errorOutput = try runProgram(ExampleRun.programs.causeway, ["health", "--config", path])
        #expect(errorOutput.exitCode == 78, "\(errorOutput.text)")
        try text.write(toFile: path, atomically: true, encoding: .utf8)
        // This program itself may listen, because other tests run servers in it.
        let idleProcess = Process()
        idleProcess.executableURL = URL(filePath: "/bin/sleep")
        idleProcess.arguments = ["600"]
        try idleProcess.run()
        defer { idleProcess.terminate() }
        let otherProcessOutput = try runProgram(
            ExampleRun.programs.causeway,
            ["health", "--process", "\(idleProcess.processIdentifier)"]
        )
        #expect(otherProcessOutput.exitCode == 1, "\(otherProcessOutput.text)")
        #expect(
            WorkerProcess.findRunning().map(\.identifier).contains(process) == false,
            "only this program's own processes are listed"
        )
        // The form of an address in Linux' /proc/net/tcp: an IP address and a port in hexadecimal.
        for (line, host, port) in [
            ("0100007F:24F8", "127.0.0.1", 9_464), ("00000000:0050", "0.0.0.0", 80),
            ("00000000000000000000000001000000:24F8", "::1", 9_464),
        ] as [(Substring, String, UInt16)] {
            let address = try #require(WorkerProcess.parseKernelAddress(line))
            #expect(address.host == host && address.port == port)
        }
        #expect(WorkerProcess.parseKernelAddress("0100007F") == nil && WorkerProcess.parseKernelAddress("01:1") == nil)
    }
}
