import Foundation
import Numbers
import Testbed
import Testing

@testable import Observability

struct ExpositionTests {
    static func text(of worker: borrowing HealthyWorker, at milliseconds: Int64) -> String {
        Exposition(
            worker.metricRegistry.totals(nowMilliseconds: milliseconds),
            labels: worker.metricRegistry.labels,
            condition: worker.metricRegistry.condition.current,
            processReading: .now()
        )
        .text
    }

    @Test func `Label values and help are escaped`() {
        #expect(Exposition.escapedValue("a\\b\"c\nd") == "a\\\\b\\\"c\\nd")
        #expect(Exposition.escapedHelp("a\\b\"c\nd") == "a\\\\b\"c\\nd")
    }

    @Test func `Every line has the format of Prometheus`() throws {
        var worker = HealthyWorker()
        worker.firstLane.add(.pushes, 0, worker.metricRegistry.labels.responses.index(status: 200, reason: 0))
        worker.firstLane.observe(.freshness, 0, microseconds: 120_000)
        worker.publish(
            at: 1_000,
            lanePartitions: [
                PartitionReading(
                    topicIndex: 0,
                    partition: 3,
                    oldestUnsettledAgeMilliseconds: 1_500,
                    committableOffset: 9
                )
            ],
            kafkaPartitions: [PartitionReading(topicIndex: 0, partition: 3, lagRecordCount: 12)]
        )
        let text = Self.text(of: worker, at: 1_100)
        #expect(text.hasSuffix("\n"))
        let sample = /[a-z_]+(\{([a-z0-9_]+="([^"\\\n]|\\["\\n])*"(,|(?=\})))+\})? (-?[0-9]+(\.[0-9]+)?)/
        for line in text.split(separator: "\n") where !line.hasPrefix("#") {
            #expect(line.wholeMatch(of: sample) != nil, "\(line)")
        }
        for expected in [
            "causeway_pushes_total{app=\"match\",environment=\"production\",status=\"200\",reason=\"none\"} 1\n",
            "causeway_consumer_lag_records{topic=\"commands\",partition=\"3\"} 12\n",
            "causeway_oldest_unsettled_seconds{topic=\"commands\",partition=\"3\"} 1.5\n",
            "causeway_committable_offset{topic=\"commands\",partition=\"3\"} 9\n",
            "causeway_freshness_seconds_bucket{app=\"match\",le=\"0.1\"} 0\n",
            "causeway_freshness_seconds_bucket{app=\"match\",le=\"0.2\"} 1\n",
            "causeway_freshness_seconds_bucket{app=\"match\",le=\"+Inf\"} 1\n",
            "causeway_freshness_seconds_sum{app=\"match\"} 0.12\n",
            "causeway_freshness_seconds_count{app=\"match\"} 1\n",
            "causeway_redis_ready 1\n", "causeway_iteration_age_seconds{thread=\"lane-1\"} 0.1\n",
            "causeway_configuration_rejected 0\n", "causeway_lifetimes_failing 0\n",
            "causeway_lane_busy_ratio{lane=\"1\"} 0\n", "# TYPE causeway_freshness_seconds histogram\n",
            "causeway_build_info{version=\"1.2.3\",librdkafka=\"2.0.2\",openssl=\"3.0.22\",hiredis=\"0.14.1\"} 1\n",
        ] { #expect(text.contains(expected), "\(expected)") }
    }

    @Test func `The sum of a metric without labels is printed`() {
        // `MetricRegistry` itself sets these metrics.
        let setElsewhere: [Metric] = [.lifetimesEnded, .lifetimesRestarted, .tracesExported]
        let definitions = MetricCatalog.definitions.filter {
            $0.dimensions.isEmpty && $0.source == .lanes(.sum) && $0.unit.divisor == 1
                && !setElsewhere.contains($0.metric)
        }
        var worker = HealthyWorker()
        for definition in definitions {
            worker.firstLane.set(definition.metric, to: 100 + Int64(definition.metric.rawValue))
            worker.secondLane.set(definition.metric, to: 1_000)
        }
        worker.publish(at: 1)
        let text = Self.text(of: worker, at: 1)
        #expect(definitions.count > 5)
        for definition in definitions {
            let sample = "\n\(definition.name) \(1_100 + Int64(definition.metric.rawValue))\n"
            #expect(text.contains(sample), "\(definition.name)")
        }
    }

    @Test func `Every metric family occurs exactly once`() {
        var worker = HealthyWorker()
        worker.publish(at: 1)
        let families = Self.text(of: worker, at: 1).split(separator: "\n").filter { $0.hasPrefix("# TYPE ") }
        #expect(families.count == Metric.allCases.count)
        #expect(Set(families).count == families.count)
    }

    @Test func `The counts of a histogram's buckets are cumulative`() {
        var worker = HealthyWorker()
        for step in 0..<500 { worker.firstLane.observe(.latency, 2, microseconds: Int64(step) * 977) }
        worker.publish(at: 1)
        let counts = Self.text(of: worker, at: 1).split(separator: "\n")
            .filter { $0.hasPrefix("causeway_latency_seconds_bucket{part=\"stream\"") }
            .compactMap { $0.split(separator: " ").last.flatMap { Int($0) } }
        #expect(counts.count == MetricBuckets.latencyPartMicroseconds.count + 1)
        #expect(counts == counts.sorted() && counts.last == 500)
    }

    @Test func `Series of events that never happened are left out, except those that alerts read`() {
        var worker = HealthyWorker()
        worker.publish(at: 1)
        let text = Self.text(of: worker, at: 1)
        #expect(!text.contains("\ncauseway_redis_errors_total{"))
        // A Prometheus alert reads the increase of these series, so they exist from the start, with 0.
        let pushSamples = text.split(separator: "\n").filter { $0.hasPrefix("causeway_pushes_total{app=\"ride\"") }
        #expect(pushSamples.count == 5 && pushSamples.allSatisfy { $0.hasSuffix(" 0") }, "\(pushSamples)")
        #expect(pushSamples.contains { $0.contains("status=\"410\",reason=\"Unregistered\"") })
        #expect(text.contains("\ncauseway_outcomes_total{app=\"none\",outcome=\"failed\"} 0\n"))
    }

    @Test func `The process metrics are those of this process`() throws {
        let reading = ProcessReading.now()
        let startedAt = try #require(reading.startedAtWallMilliseconds)
        let nowMilliseconds = Int64(Date().timeIntervalSince1970 * 1_000)
        // All tests run in one process, which may be old on a slow machine. So a start within one day passes.
        #expect((nowMilliseconds - 86_400_000...nowMilliseconds + 2_000).contains(startedAt))
        #expect(try #require(reading.residentBytes) > 1_000_000)
        #expect(try #require(reading.cpuMicroseconds) > 0)
        let openDescriptorCount = try #require(reading.openDescriptorCount)
        let openDescriptorsMax = try #require(reading.openDescriptorsMax)
        #expect(openDescriptorCount >= 3 && openDescriptorCount <= openDescriptorsMax)
    }

    /// Checks the text with Prometheus' promtool, if it is installed.
    @Test(.enabled(if: FileManager.default.isExecutableFile(atPath: "/usr/bin/promtool")), .ownThread)
    func `Promtool finds no fault`() throws {
        var worker = HealthyWorker()
        worker.firstLane.add(.pushes, 0, 3)
        worker.publish(at: 1)
        let process = Process()
        process.executableURL = URL(filePath: "/usr/bin/promtool")
        process.arguments = ["check", "metrics"]
        let (input, output) = (Pipe(), Pipe())
        process.standardInput = input
        process.standardOutput = output
        process.standardError = output
        try process.start()
        try input.fileHandleForWriting.write(contentsOf: Data(Self.text(of: worker, at: 1).utf8))
        try input.fileHandleForWriting.close()
        let promtoolOutput = try output.fileHandleForReading.readToEnd() ?? Data()
        process.waitUntilExit()
        #expect(process.terminationStatus == 0, "\(String(decoding: promtoolOutput, as: UTF8.self))")
    }
}
