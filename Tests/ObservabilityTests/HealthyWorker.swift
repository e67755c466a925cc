@testable import Observability

extension ThreadMetrics {
    mutating func publish(_ partitions: [PartitionReading] = [], at milliseconds: Int64) {
        partitions.withUnsafeBufferPointer { publish(partitions: $0, nowMilliseconds: milliseconds) }
    }
}

/// The metrics of a healthy worker, which a test then changes.
struct HealthyWorker: ~Copyable {
    let metricRegistry = Fixture.metricRegistry()
    /// The metrics of its two lanes.
    var firstLane: ThreadMetrics
    var secondLane: ThreadMetrics
    var kafka: ThreadMetrics

    init() {
        firstLane = ThreadMetrics(publishingTo: metricRegistry.laneMetrics[0])
        secondLane = ThreadMetrics(publishingTo: metricRegistry.laneMetrics[1])
        kafka = ThreadMetrics(publishingTo: metricRegistry.kafkaThreadMetrics)
        for pool in 0..<3 {
            firstLane.set(.apnsConnections, pool, Int(ConnectionPhase.ready.rawValue), to: 2)
        }
        for app in 0..<2 {
            firstLane.set(.retryBudgetRatio, app, to: 1_000_000)
            secondLane.set(.retryBudgetRatio, app, to: 1_000_000)
        }
        firstLane.set(.redisReady, to: 1)
        secondLane.set(.redisReady, to: 1)
        kafka.set(.kafkaReady, to: 1)
        kafka.set(.partitionsAssigned, to: 4)
        metricRegistry.condition.change {
            $0.consumerGroupState = .member
            $0.assignedPartitionCount = 4
            $0.areSigningKeysLoaded = true
        }
    }

    mutating func publish(
        at milliseconds: Int64,
        lanePartitions: [PartitionReading] = [],
        kafkaPartitions: [PartitionReading] = []
    ) {
        firstLane.publish(lanePartitions, at: milliseconds)
        secondLane.publish(at: milliseconds)
        kafka.publish(kafkaPartitions, at: milliseconds)
    }

    /// - Parameter earlierTotals: the totals at the start of the report's window. If they are nil, the report has no
    ///   rates, and its histograms cover the time since the start of the worker.
    func report(before earlierTotals: MetricTotals?, at milliseconds: Int64) -> StatusReport {
        StatusBuilder(
            labels: metricRegistry.labels,
            window: MetricWindow(
                currentTotals: metricRegistry.totals(nowMilliseconds: milliseconds),
                earlierTotals: earlierTotals
            ),
            processReading: ProcessReading(),
            earlierProcessReading: nil,
            condition: metricRegistry.condition.current,
            events: metricRegistry.events.loggedKindSummaries,
            channelPoolStatuses: metricRegistry.channelStatus.poolStatuses,
            wallMilliseconds: 1_790_000_000_000
        )
        .makeReport(host: "worker-0", uptimeMilliseconds: milliseconds)
    }
}
