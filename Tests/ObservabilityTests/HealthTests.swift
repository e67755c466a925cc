import Testing

@testable import Observability

struct HealthTests {
    @Test func `A worker is alive only while its threads make progress`() {
        let metricRegistry = Fixture.metricRegistry(laneCount: 1)
        func isLive(at nowMilliseconds: Int64, uptimeMilliseconds: Int64) -> Bool {
            HealthReport.liveness(
                iterationAges: metricRegistry.publishedMetrics.map {
                    ($0.threadName, $0.iterationAgeMilliseconds(nowMilliseconds: nowMilliseconds))
                },
                uptimeMilliseconds: uptimeMilliseconds
            )
            .hasSucceeded
        }
        // At the start a thread has 30 s for its first iteration.
        #expect(isLive(at: 0, uptimeMilliseconds: 0))
        #expect(!isLive(at: 30_000, uptimeMilliseconds: 30_000))
        metricRegistry.laneMetrics[0].noteIteration(nowMilliseconds: 30_000)
        #expect(!isLive(at: 30_000, uptimeMilliseconds: 30_000))
        metricRegistry.kafkaThreadMetrics.noteIteration(nowMilliseconds: 30_000)
        #expect(isLive(at: 44_999, uptimeMilliseconds: 44_999))
        #expect(!isLive(at: 45_000, uptimeMilliseconds: 45_000))
        // A thread that has noted a blocking call may be silent until the call's end.
        metricRegistry.kafkaThreadMetrics.noteIterationPause(untilMilliseconds: 60_000)
        metricRegistry.laneMetrics[0].noteIteration(nowMilliseconds: 70_000)
        #expect(isLive(at: 74_999, uptimeMilliseconds: 74_999))
        #expect(!isLive(at: 75_000, uptimeMilliseconds: 75_000))
    }

    static func isReady(
        _ membership: WorkerCondition.ConsumerGroupState,
        isKafkaReachable: Bool = true,
        areSigningKeysLoaded: Bool = true,
        isDraining: Bool = false,
        assignedPartitionCount: Int = 0,
        uptimeMilliseconds: Int64 = 60_000,
        hasReachedKafka: Bool = false,
        isCommandsTopicMissing: Bool = false,
        isEveryAppRefused: Bool = false
    ) -> Bool {
        var condition = WorkerCondition()
        condition.consumerGroupState = membership
        condition.areSigningKeysLoaded = areSigningKeysLoaded
        condition.isDraining = isDraining
        condition.assignedPartitionCount = assignedPartitionCount
        condition.hasReachedKafka = hasReachedKafka || isKafkaReachable
        condition.isKafkaUnreachable = hasReachedKafka && !isKafkaReachable
        condition.isCommandsTopicMissing = isCommandsTopicMissing
        return
            HealthReport.readiness(
                condition,
                isEveryAppRefused: isEveryAppRefused,
                uptimeMilliseconds: uptimeMilliseconds
            )
            .hasSucceeded
    }

    @Test func `A worker is ready if it has a place in the group`() {
        #expect(Self.isReady(.member, assignedPartitionCount: 3))
        #expect(Self.isReady(.member, assignedPartitionCount: 0))
        #expect(!Self.isReady(.joining))
        #expect(!Self.isReady(.left))
        #expect(!Self.isReady(.joining, isCommandsTopicMissing: true))
        // In a cooperative rebalance the remaining partitions are still read while others are assigned again.
        #expect(Self.isReady(.joining, assignedPartitionCount: 3))
        #expect(!Self.isReady(.left, assignedPartitionCount: 3))
        #expect(!Self.isReady(.member, areSigningKeysLoaded: false))
        #expect(!Self.isReady(.member, isDraining: true, assignedPartitionCount: 3))
    }

    @Test func `An outage of Kafka does not make a worker unready`() {
        #expect(Self.isReady(.joining, isKafkaReachable: false))
        #expect(Self.isReady(.member, isKafkaReachable: false, assignedPartitionCount: 3))
        // A worker that has just started has not reached Kafka yet, so it is not ready.
        #expect(!Self.isReady(.joining, isKafkaReachable: false, uptimeMilliseconds: 1_000))
        // A worker that has reached Kafka before, and has now lost it, stays ready.
        #expect(Self.isReady(.joining, isKafkaReachable: false, uptimeMilliseconds: 1_000, hasReachedKafka: true))
        #expect(
            !Self.isReady(.joining, uptimeMilliseconds: 1_000, hasReachedKafka: true),
            "Kafka is reachable, but the worker has not joined its group"
        )
    }

    @Test func `The text of a health page gives the reasons`() {
        var condition = WorkerCondition()
        condition.isDraining = true
        let report = HealthReport.readiness(
            condition,
            isEveryAppRefused: false,
            uptimeMilliseconds: 0
        )
        #expect(
            report.text
                == "[-] group: is joining: no partitions yet\n[-] keys: not loaded yet\n[-] draining: yes\nnot ok\n"
        )
    }

    @Test func `A worker whose only key APNs refuses is not ready`() {
        #expect(!Self.isReady(.member, assignedPartitionCount: 3, isEveryAppRefused: true))
        var condition = WorkerCondition()
        // Pools 0 and 1 belong to one app, pool 2 to another one.
        func isEveryAppRefused(_ refused: [Int: Bool]) -> Bool {
            condition.isProviderRefusedByPoolIndex = refused
            return condition.isEveryAppRefused(labels: Fixture.labels)
        }
        #expect(!isEveryAppRefused([:]), "nothing was sent yet")
        #expect(!isEveryAppRefused([0: true]), "nothing is known about the other app's key")
        #expect(isEveryAppRefused([0: true, 2: true]))
        #expect(!isEveryAppRefused([0: true, 1: false, 2: true]), "APNs accepts the same key in the other environment")
        #expect(!isEveryAppRefused([0: true, 2: false]))
    }
}
