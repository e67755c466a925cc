import Testing

@testable import Observability

struct HealthTests {
    @Test func `A worker is alive only while its threads make progress`() {
        let metricRegistry = Fixture.metricRegistry(laneCount: 1)
        func isLive(at nowMilliseconds: Int64, up: Int64) -> Bool {
            HealthReport.liveness(
                iterationAges: metricRegistry.threads.map {
                    ($0.thread, $0.iterationAgeMilliseconds(nowMilliseconds: nowMilliseconds))
                },
                uptimeMilliseconds: up
            )
            .isPassed
        }
        // At the start a thread has 30 s for its first iteration.
        #expect(isLive(at: 0, up: 0))
        #expect(!isLive(at: 30_000, up: 30_000))
        metricRegistry.lanes[0].recordIteration(nowMilliseconds: 30_000)
        #expect(!isLive(at: 30_000, up: 30_000))
        metricRegistry.kafka.recordIteration(nowMilliseconds: 30_000)
        #expect(isLive(at: 44_999, up: 44_999))
        #expect(!isLive(at: 45_000, up: 45_000))
        // A thread that has announced a pause may be silent until the pause's end.
        metricRegistry.kafka.announceBlocking(untilMilliseconds: 60_000)
        metricRegistry.lanes[0].recordIteration(nowMilliseconds: 70_000)
        #expect(isLive(at: 74_999, up: 74_999))
        #expect(!isLive(at: 75_000, up: 75_000))
    }

    static func isReady(
        _ membership: WorkerCondition.ConsumerGroupState,
        kafka: Bool = true,
        keys: Bool = true,
        draining: Bool = false,
        assigned: Int = 0,
        up: Int64 = 60_000,
        hasReachedKafka: Bool = false,
        isTopicMissing: Bool = false,
        isEveryKeyRefused: Bool = false
    ) -> Bool {
        var condition = WorkerCondition()
        condition.consumerGroupState = membership
        condition.areKeysLoaded = keys
        condition.isDraining = draining
        condition.assignedPartitionCount = assigned
        condition.hasReachedKafka = hasReachedKafka || kafka
        condition.isKafkaUnreachable = hasReachedKafka && !kafka
        condition.isTopicMissing = isTopicMissing
        return
            HealthReport.readiness(
                condition,
                isEveryKeyRefused: isEveryKeyRefused,
                uptimeMilliseconds: up
            )
            .isPassed
    }

    @Test func `A worker is ready if it has a place in the group`() {
        #expect(Self.isReady(.member, assigned: 3))
        #expect(Self.isReady(.member, assigned: 0))
        #expect(!Self.isReady(.joining))
        #expect(!Self.isReady(.left))
        #expect(!Self.isReady(.joining, isTopicMissing: true))
        // In a cooperative rebalance the remaining partitions are still read while others are assigned again.
        #expect(Self.isReady(.joining, assigned: 3))
        #expect(!Self.isReady(.left, assigned: 3))
        #expect(!Self.isReady(.member, keys: false))
        #expect(!Self.isReady(.member, draining: true, assigned: 3))
    }

    @Test func `An outage of Kafka does not make a worker unready`() {
        #expect(Self.isReady(.joining, kafka: false))
        #expect(Self.isReady(.member, kafka: false, assigned: 3))
        // A worker that has just started has not reached Kafka yet, so it is not ready.
        #expect(!Self.isReady(.joining, kafka: false, up: 1_000))
        // A worker that has reached Kafka before, and has now lost it, stays ready.
        #expect(Self.isReady(.joining, kafka: false, up: 1_000, hasReachedKafka: true))
        #expect(!Self.isReady(.joining, up: 1_000, hasReachedKafka: true), "Kafka is there, and the group not joined")
    }

    @Test func `The text gives the reason`() {
        var condition = WorkerCondition()
        condition.isDraining = true
        let report = HealthReport.readiness(
            condition,
            isEveryKeyRefused: false,
            uptimeMilliseconds: 0
        )
        #expect(
            report.text
                == "[-] group: is joining: no partitions yet\n[-] keys: not loaded yet\n[-] draining: yes\nnot ok\n"
        )
    }

    @Test func `A worker whose only key APNs refuses is not ready`() {
        #expect(!Self.isReady(.member, assigned: 3, isEveryKeyRefused: true))
        var condition = WorkerCondition()
        // Pools 0 and 1 belong to one app, pool 2 to another one.
        func isEveryKeyRefused(_ refused: [Int: Bool]) -> Bool {
            condition.isProviderTokenRefusedByPool = refused
            return condition.isEveryKeyRefused(of: Fixture.labels)
        }
        #expect(!isEveryKeyRefused([:]), "nothing was sent yet")
        #expect(!isEveryKeyRefused([0: true]), "the other app may be sent to")
        #expect(isEveryKeyRefused([0: true, 2: true]))
        #expect(!isEveryKeyRefused([0: true, 1: false, 2: true]), "the same key is taken in the other environment")
        #expect(!isEveryKeyRefused([0: true, 2: false]))
    }
}
