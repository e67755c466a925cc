import Foundation
import Kafka
import Testbed
import Testing

@testable import CausewayLab

/// Causes alerts that need load, time, or rare faults. Exactly the expected alerts must fire.
@Suite("The causes of alerts that take longer", .timeLimit(.minutes(10)))
struct PrometheusAlertLoadTests {
    /// Redis does not reply for more than a minute, while commands keep coming.
    @Test func `A growing lag during an outage of Redis causes an alert`() async throws {
        try await evaluatingAlerts { run, history in
            let updates = try RideUpdates(run)
            try updates.sendOne()
            // The alert compares the lag with that of ten minutes before. So the first reading must already have the
            // lag of the commands topic. This series is absent until the worker knows where the topic's logs end.
            let startScrape = try run.awaitSteadyState("no lag") {
                $0.commandsLag == 0 && $0.sum("causeway_consumer_lag_records") == 0
            }
            history.addExpectingNoAlert(startScrape, minutes: 15)
            try run.deployment.stopRedis()
            try updates.floodOnePartition(activities: 0..<1_200)
            let lagScrape = try run.awaitSteadyState(
                "a lag of 1,200 commands",
                alerting: [.redisUnavailable, .lagGrows]
            ) {
                ($0.commandsLag ?? 0) >= 1_200
            }
            history.add(lagScrape, minutes: 9)
            try updates.floodOnePartition(activities: 1_200..<1_800)
            let oldScrape = try run.awaitSteadyState(
                "commands that are a minute old",
                alerting: [.redisUnavailable, .commandsStale, .lagGrows]
            ) { ($0.commandsLag ?? 0) >= max(1_800, (lagScrape.commandsLag ?? 0) + 1) }
            #expect(try run.findings().contains("CausewayCommandsStale"))
            history.add(
                oldScrape,
                minutes: 5,
                firing: "CausewayRedisUnavailable",
                "CausewayCommandsStale",
                "CausewayLagGrows"
            )
            try run.deployment.restartRedis()
            let healthyScrape = try run.awaitSteadyState("nothing that waits") {
                $0.sum("causeway_records_in_progress") == 0 && $0.sum("causeway_consumer_lag_records") == 0
            }
            history.addExpectingNoAlert(healthyScrape, minutes: 15)
        }
    }

    /// APNs takes more than five seconds for each response.
    @Test func `Slow responses cause an alert`() async throws {
        try await evaluatingAlerts { run, history in
            let registeredPhones = try RegisteredPhones(run, count: 16)
            try registeredPhones.send(to: registeredPhones.activities)
            let healthyScrape = try run.awaitSteadyState("an accepted push to each phone") {
                $0.sum("causeway_freshness_seconds_count") == 16
            }
            history.addExpectingNoAlert(healthyScrape, minutes: 15)
            let slowFaults = #"{"latencyMillisecondsMin":5500,"latencyMillisecondsMax":5500}"#
            try run.setFaults(json: slowFaults)
            // The next reading must count more late responses than the last one, so the test sends further
            // pushes.
            for start in stride(from: 0, to: 16, by: 4) {
                try registeredPhones.send(to: registeredPhones.activities[start..<start + 4])
                let lateScrape = try run.awaitSteadyState("responses that were late") {
                    $0.sum("causeway_freshness_seconds_count") == Double(16 + start + 4)
                }
                history.add(lateScrape, minutes: 4)
            }
            history.expect(firing: "CausewayFreshnessSlow")
        }
    }

    /// Large records come faster than one lane processes them.
    @Test func `More records than a lane can process cause an alert`() async throws {
        try await evaluatingAlerts(lanes: 1) { run, history in
            // Other tests run at the same time and need the processors, so this worker gets a lower priority.
            try run.replaceWorker(by: ["/usr/bin/nice", "-n", "5"])
            let updates = try RideUpdates(run)
            try updates.sendOne()
            history.add(try run.awaitSteadyState("an idle worker") { $0.hasAllDependencies }, minutes: 15)
            history.expect()
            // The next flood is sent when the worker has less than one flood left. A flood must be large: the lane
            // processes 1,000 records faster than this test sends the next 1,000.
            let recordCountPerFlood = 8_000
            let busyScrape = try run.awaitSteadyState(
                "a busy lane",
                alerting: [.laneBusy],
                ignoring: [.lagGrows],
                meanwhile: {
                    guard let scrape = try? run.scrape(),
                        (scrape.sum("causeway_consumer_lag_records") ?? 0) < Double(recordCountPerFlood)
                    else { return }
                    try updates.sendFlood(recordCountPerFlood, payloadMemberCount: 150)
                }
            ) {
                ($0.sum("causeway_lane_busy_ratio") ?? 0) > 0.85
            }
            #expect(try #require(busyScrape.sum("causeway_kafka_thread_busy_ratio")) > 0)
            history.add(busyScrape, minutes: 16, firing: "CausewayLaneBusy")
        }
    }

    /// A second worker never responds. Then the worker is restarted three times, the third time with the names of
    /// topics that do not exist. At last it is stopped.
    @Test func `Restarts, missing topics and missing workers cause an alert`() async throws {
        try await evaluatingAlerts { run, history in
            let healthyScrape = try run.awaitSteadyState("a worker with partitions") { $0.hasAllDependencies }
            history.addExpectingNoAlert(healthyScrape, minutes: 30)
            history.addBesideUnresponsiveWorker(healthyScrape, minutes: 9)
            history.expect()
            history.addBesideUnresponsiveWorker(healthyScrape, minutes: 3)
            history.expect(firing: "CausewayWorkerDown")
            history.addExpectingNoAlert(healthyScrape, minutes: 6)
            var start = healthyScrape.sum("process_start_time_seconds")
            for _ in 0..<2 {
                try run.deployment.killAndRestartWorker()
                let anotherScrape = try run.awaitSteadyState("a restarted worker") {
                    $0.sum("process_start_time_seconds") != start
                }
                start = anotherScrape.sum("process_start_time_seconds")
                history.add(anotherScrape, minutes: 2)
            }
            history.expect()
            let topics = "  groupId: nothing-to-read\n  topics: {commands: not.made, registrations: not.made.either}\n"
            try run.restartWorker(replacing: "\nkafka:\n", with: "\nkafka:\n\(topics)")
            let idleScrape = try run.awaitSteadyState("a broker, and nothing to read", alerting: [.noPartitions]) {
                $0.sum("process_start_time_seconds") != start
            }
            history.add(idleScrape, minutes: 15, firing: "CausewayNoPartitions", "CausewayRestarting")
            #expect(try run.findings().contains("CausewayNoPartitions"))
            #expect(try run.status(of: "/livez") == 200)

            try run.deployment.stopWorker(graceMilliseconds: 90_000)
            #expect(throws: (any Error).self) { try run.scrape() }
            history.add(nil, minutes: 20, firing: "CausewayDown")
            history.add(nil, minutes: 24 * 60, firing: "CausewayDown")
            history.addExpectingNoAlert(healthyScrape, minutes: 6)
        }
    }

    /// The group has committed an offset beyond the end of the log. The worker stops reading this partition, and
    /// reports that.
    @Test func `A committed offset that the log does not have causes an alert`() async throws {
        try await evaluatingAlerts { run, history in
            let healthyScrape = try run.awaitSteadyState("a worker with partitions") { $0.hasAllDependencies }
            history.addExpectingNoAlert(healthyScrape, minutes: 15)
            // The next worker finds a committed offset. If Redis had no mark of this partition, the worker would think
            // that Redis has lost the mark together with other data, and would read the partition again.
            try run.awaitMarks()
            try run.deployment.stopWorker(graceMilliseconds: 90_000)
            try OffsetPastEndCommitter.commit(on: run)
            try run.deployment.startWorker()
            let stillScrape = try run.awaitSteadyState("a partition that is stopped", alerting: [.partitionStuck]) {
                $0.hasAllDependencies && $0.sum("causeway_partitions_stuck") == 1
            }
            let partition = ["topic": "commands", "partition": "0"]
            #expect(
                stillScrape.sum("causeway_consumer_lag_records", partition) == nil,
                "the lag is unknown, so it has no series"
            )
            #expect(try run.findings().contains("CausewayPartitionStuck"))
            history.add(stillScrape, minutes: 5, firing: "CausewayPartitionStuck")
        }
    }

    /// The clock of the worker's machine is six minutes behind. By this clock, each command would be `invalid`: its
    /// timestamp would be more than five minutes ahead.
    @Test func `A wrong clock causes an alert, and no command is lost`() async throws {
        try await evaluatingAlerts { run, history in
            let faults = run.deployment.path("faults")
            try "-360 0".write(toFile: faults, atomically: true, encoding: .utf8)
            try run.replaceWorker(by: WorkerFaults.makeProgram(faults: faults, on: run.deployment))
            let updates = try RideUpdates(run)
            try updates.sendOne()
            let wrongScrape = try run.awaitSteadyState("a wrong clock", alerting: [.clockWrong]) {
                $0.hasAllDependencies && $0.highest("causeway_clock_difference_seconds") > 300
            }
            #expect(try run.findings().contains("CausewayClockWrong"))
            history.add(wrongScrape, minutes: 10, firing: "CausewayClockWrong")
            try "0 0".write(toFile: faults, atomically: true, encoding: .utf8)
            let rightScrape = try run.awaitSteadyState("a right clock") { $0.hasAllDependencies }
            try updates.sendOne()
            history.addExpectingNoAlert(rightScrape, minutes: 5)
        }
    }

    /// The worker's clock advances by almost an hour, which is too much for a correction by Redis' clock. OpenSSL signs
    /// no new token. Pushes wait, and the metric shows the last token's age. Without a push that needs a token, the
    /// metric would show nothing.
    @Test func `A provider token that is not renewed causes an alert`() async throws {
        try await evaluatingAlerts { run, history in
            let faults = run.deployment.path("faults")
            func write(_ text: String) throws { try text.write(toFile: faults, atomically: true, encoding: .utf8) }
            // The file has two numbers: the seconds by which the clock is ahead, and 1 if signing must fail.
            try write("0 0")
            try run.replaceWorker(by: WorkerFaults.makeProgram(faults: faults, on: run.deployment))
            let updates = try RideUpdates(run)
            try updates.sendOne()
            let age = { (scrape: Scrape) in scrape.sum("causeway_provider_token_age_seconds") ?? 0 }
            history.add(try run.awaitSteadyState("a young token") { (0.001..<300).contains(age($0)) }, minutes: 15)
            history.expect()
            try write("3400 1")
            // The worker uses its own clock from the next reading of Redis' clock on.
            try run.awaitMetrics("a clock that is too far ahead") {
                $0.highest("causeway_clock_difference_seconds") > 3_000
            }
            try updates.sendWithoutWaiting()
            let oldScrape = try run.awaitSteadyState("an old token", alerting: [.providerTokenOld, .clockWrong]) {
                $0.sum("causeway_pushes_waiting") == 1
            }
            #expect(try run.findings().contains("CausewayProviderTokenOld"))
            history.add(oldScrape, minutes: 5, firing: "CausewayProviderTokenOld")
            // The clock is set back, but signing must still fail. Otherwise the worker could use a token that it signed
            // with the later clock. Such a token is from the future, and APNs refuses it.
            try write("0 1")
            try updates.awaitAll()
            history.add(try run.awaitSteadyState("a young token again") { age($0) < 300 }, minutes: 5)
            history.expect()
        }
    }

    /// One of a cluster's two servers is stopped. The worker reports that this server alone is unreachable, and the
    /// rest of Redis is ready.
    @Test func `An outage of one server of a cluster causes an alert`() async throws {
        try await onOwnThread {
            let servers = try [LoopbackPort.findFree(), LoopbackPort.findFree()]
            let run = try ExampleRun(["ride"], onClusterOf: servers, mode: "cluster")
            defer { run.close() }
            var history = PrometheusAlertHistory()
            let healthyScrape = try run.awaitSteadyState("a worker that reaches both servers") { $0.hasAllDependencies }
            history.addExpectingNoAlert(healthyScrape, minutes: 15)
            try run.stopForGood("redis \(servers[1])")
            let awayScrape = try run.awaitSteadyState(
                "a worker that does not reach one server",
                alerting: [.redisServerUnavailable]
            ) {
                $0.sum("causeway_redis_servers_unavailable") == 1 && $0.sum("causeway_redis_ready") == 1
            }
            #expect(try run.findings().contains("CausewayRedisServerUnavailable"))
            history.add(awayScrape, minutes: 5, firing: "CausewayRedisServerUnavailable")
            try history.evaluate()
        }
    }
}

extension Scrape {
    /// The lag of the commands topic; nil if the worker knows it for no partition.
    fileprivate var commandsLag: Double? { sum("causeway_consumer_lag_records", ["topic": "commands"]) }
}
