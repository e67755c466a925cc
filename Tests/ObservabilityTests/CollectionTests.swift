import Testing

@testable import Observability

struct CollectionTests {
    @Test func `The totals of a counter are the sums over the lanes`() {
        let metricRegistry = Fixture.metricRegistry()
        var firstLane = ThreadMetrics(publishingTo: metricRegistry.laneMetrics[0])
        var secondLane = ThreadMetrics(publishingTo: metricRegistry.laneMetrics[1])
        firstLane.add(.outcomes, 0, 1, by: 3)
        secondLane.add(.outcomes, 0, 1)
        secondLane.add(.outcomes, 2, 2)
        firstLane.publish(at: 1)
        secondLane.publish(at: 1)
        let totals = metricRegistry.totals(nowMilliseconds: 1)
        #expect(totals[.outcomes, 0, 1] == 4)
        #expect(totals[.outcomes, 2, 2] == 1)
        #expect(totals.sum(.outcomes) == 5)
        #expect(totals.sum(.outcomes, 0) == 4)
        #expect(totals[.outcomes, 0, 0] == 0)
    }

    @Test func `A wrong number of indices traps with the metric's name`() async throws {
        let result = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
            let lane = ThreadMetrics(publishingTo: Fixture.metricRegistry().laneMetrics[0])
            lane.add(.outcomes, 0)
        }
        let text = String(decoding: try #require(result).standardErrorContent, as: UTF8.self)
        #expect(text.contains("an index for each dimension of the metric outcomes"))
    }

    @Test func `One lane without Redis, or with an open breaker, decides the worker's flag`() {
        let metricRegistry = Fixture.metricRegistry()
        var firstLane = ThreadMetrics(publishingTo: metricRegistry.laneMetrics[0])
        var secondLane = ThreadMetrics(publishingTo: metricRegistry.laneMetrics[1])
        firstLane.set(.redisReady, to: 1)
        firstLane.set(.breakerOpen, 1, to: 1)
        firstLane.publish(at: 1)
        secondLane.publish(at: 1)
        #expect(metricRegistry.totals(nowMilliseconds: 1)[.redisReady] == 0)
        #expect(metricRegistry.totals(nowMilliseconds: 1)[.breakerOpen, 1] == 1)
        secondLane.set(.redisReady, to: 1)
        secondLane.publish(at: 2)
        #expect(metricRegistry.totals(nowMilliseconds: 2)[.redisReady] == 1)
    }

    @Test func `The Kafka thread has its own numbers and shares the sums`() {
        let metricRegistry = Fixture.metricRegistry()
        var lane = ThreadMetrics(publishingTo: metricRegistry.laneMetrics[0])
        var kafka = ThreadMetrics(publishingTo: metricRegistry.kafkaThreadMetrics)
        let kind = Int(LogKind.kafkaError.rawValue)
        lane.add(.logLinesSuppressed, kind, by: 2)
        kafka.add(.logLinesSuppressed, kind, by: 5)
        kafka.set(.partitionsAssigned, to: 7)
        lane.publish(at: 1)
        kafka.publish(at: 1)
        let totals = metricRegistry.totals(nowMilliseconds: 1)
        #expect(totals[.logLinesSuppressed, kind] == 7)
        #expect(totals[.partitionsAssigned] == 7)
    }

    @Test(arguments: [
        (Int64(-5), 0), (0, 0), (50_000, 0), (50_001, 1), (1_000_000, 6), (300_000_000, 14), (300_000_001, 15),
        (.max, 15),
    ])
    func `An observation counts in the first bucket that holds it`(_ microseconds: Int64, _ bucket: Int) {
        let metricRegistry = Fixture.metricRegistry(laneCount: 1)
        var lane = ThreadMetrics(publishingTo: metricRegistry.laneMetrics[0])
        lane.observe(.freshness, 1, microseconds: microseconds)
        lane.publish(at: 1)
        let histogram = metricRegistry.totals(nowMilliseconds: 1).histogram(.freshness, 1)
        var expected = [Int64](repeating: 0, count: 16)
        expected[bucket] = 1
        #expect(histogram.bucketCounts == expected)
        #expect(histogram.sum == max(0, microseconds))
        #expect(metricRegistry.totals(nowMilliseconds: 1).histogram(.freshness, 0).count == 0)
    }

    @Test func `Quantiles lie in their bucket`() {
        let histogram = HistogramReading(bucketBounds: [10, 20, 40], bucketCounts: [50, 40, 9, 1], sum: 0)
        #expect(histogram.quantile(percent: 50) == 10)
        #expect(histogram.quantile(percent: 90) == 20)
        #expect(histogram.quantile(percent: 99) == 40)
        #expect(histogram.quantile(percent: 100) == 40)
        #expect(HistogramReading(bucketBounds: [10], bucketCounts: [0, 0], sum: 0).quantile(percent: 50) == nil)
        #expect(HistogramReading(bucketBounds: [100], bucketCounts: [4, 0], sum: 0).quantile(percent: 50) == 50)
    }

    @Test func `Publication is due every quarter second`() {
        let metricRegistry = Fixture.metricRegistry(laneCount: 1)
        var lane = ThreadMetrics(publishingTo: metricRegistry.laneMetrics[0])
        let isDueAtFirst = lane.isPublicationDue(nowMilliseconds: 0)
        lane.publish(at: 1_000)
        let isDueEarly = lane.isPublicationDue(nowMilliseconds: 1_249)
        let isDueInTime = lane.isPublicationDue(nowMilliseconds: 1_250)
        #expect(isDueAtFirst && !isDueEarly && isDueInTime)
    }

    @Test func `Unpublished values are not visible`() {
        let metricRegistry = Fixture.metricRegistry(laneCount: 1)
        var lane = ThreadMetrics(publishingTo: metricRegistry.laneMetrics[0])
        lane.add(.recordsReceived, 0)
        #expect(metricRegistry.totals(nowMilliseconds: 0).sum(.recordsReceived) == 0)
        lane.publish(at: 1)
        #expect(metricRegistry.totals(nowMilliseconds: 1).sum(.recordsReceived) == 1)
    }

    @Test func `The lane's and the Kafka thread's values of a partition are merged`() {
        let readings = [
            PartitionReading(topicIndex: 0, partition: 3, oldestUnsettledAgeMilliseconds: 1_200, committableOffset: 77),
            PartitionReading(topicIndex: 0, partition: 1, oldestUnsettledAgeMilliseconds: 0, committableOffset: 5),
            PartitionReading(topicIndex: 0, partition: 3, lagRecordCount: 40),
        ]
        .mergedByPartition()
        #expect(readings.map(\.partition) == [1, 3])
        #expect(
            readings[1].oldestUnsettledAgeMilliseconds == 1_200 && readings[1].committableOffset == 77
                && readings[1].lagRecordCount == 40
        )
        #expect(readings[0].lagRecordCount == -1)
    }

    @Test func `The busy share follows the lane's work`() {
        var busy = BusyShare()
        var workedMicroseconds: Int64 = 0
        for step in 0...200 {
            busy.update(busyMicroseconds: workedMicroseconds, nowMilliseconds: Int64(step) * 250)
            workedMicroseconds += 200_000
        }
        #expect((799_000...800_000).contains(busy.millionths), "\(busy.millionths)")
        // Ten idle seconds: the busy time no longer grows. The busy share falls below a fifth of its earlier value.
        for step in 201...241 {
            busy.update(busyMicroseconds: workedMicroseconds - 200_000, nowMilliseconds: Int64(step) * 250)
        }
        #expect(busy.millionths < 160_000)
    }

    @Test func `Readers see consistent values while threads publish`() async {
        let metricRegistry = Fixture.metricRegistry(laneCount: 1)
        let publicationCount = 20_000
        async let writing: Void =
            Task.detached {
                var lane = ThreadMetrics(publishingTo: metricRegistry.laneMetrics[0])
                for publication in 1...publicationCount {
                    // Two counters that are equal at every publication.
                    lane.add(.recordsReceived, 0)
                    lane.add(.recordsReceived, 1)
                    lane.publish(
                        [PartitionReading(topicIndex: 0, partition: Int32(publication & 7))],
                        at: Int64(publication)
                    )
                }
            }
            .value
        var tornReadCount = 0
        var readCount = 0
        repeat {
            let totals = metricRegistry.totals(nowMilliseconds: 0)
            if totals[.recordsReceived, 0] != totals[.recordsReceived, 1] { tornReadCount += 1 }
            readCount += 1
        } while readCount < 2_000
        await writing
        #expect(tornReadCount == 0)
    }

    /// The metric `outcomes` has two dimensions, but gets one index. The metric `laneBusyRatio` gets an index too many.
    /// Without a check, such a call would change a wrong series.
    @Test func `A missing index and an index too many trap`() async {
        await #expect(processExitsWith: .failure) {
            let lane = ThreadMetrics(publishingTo: Fixture.metricRegistry().laneMetrics[0])
            lane.add(.outcomes, 1)
        }
        await #expect(processExitsWith: .failure) {
            let lane = ThreadMetrics(publishingTo: Fixture.metricRegistry().laneMetrics[0])
            lane.set(.laneBusyRatio, 0, to: 1)
        }
    }

    @Test func `Responses are counted as in Apple's table`() {
        let table = Fixture.labels.responses
        let labels = table.labels
        #expect(labels[table.index(status: 200, reason: 0)] == ["200", "none"])
        #expect(labels[table.index(status: 400, reason: 2)] == ["400", "BadDeviceToken"])
        // A reason with another status than in Apple's table.
        #expect(labels[table.index(status: 500, reason: 2)] == ["500", "other"])
        // Unknown reasons, and an unknown status.
        #expect(labels[table.index(status: 400, reason: 1)] == ["400", "other"])
        #expect(labels[table.index(status: 418, reason: 99)] == ["other", "other"])
        #expect(labels[table.index(status: 0, reason: 0)] == ["none", "none"])
        #expect(table.reasonLabels[table.reasonIndex(4)] == ["Unregistered"])
        #expect(table.reasonLabels[table.reasonIndex(0)] == ["other"])
        #expect(table.reasonLabels[table.reasonIndex(-1)] == ["other"])
    }
}
