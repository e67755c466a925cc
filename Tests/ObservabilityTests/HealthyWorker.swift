@testable import Observability

extension ThreadMetrics {
    mutating func publish(_ partitions: [PartitionReading] = [], at milliseconds: Int64) {
        partitions.withUnsafeBufferPointer { publish(partitions: $0, nowMilliseconds: milliseconds) }
    }
}

/// The metrics of a healthy worker, which a test then changes.
struct HealthyWorker: ~Copyable {
    let registry = Fixture.registry()
    /// The metrics of its two lanes: `first` and `second`.
    var first: ThreadMetrics
    var second: ThreadMetrics
    var kafka: ThreadMetrics

    init() {
        first = ThreadMetrics(publishingTo: registry.lanes[0])
        second = ThreadMetrics(publishingTo: registry.lanes[1])
        kafka = ThreadMetrics(publishingTo: registry.kafka)
        for pool in 0..<3 {
            first.set(.apnsConnections, pool, Int(ConnectionState.ready.rawValue), to: 2)
        }
        for app in 0..<2 {
            first.set(.retryBudget, app, to: 1_000_000)
            second.set(.retryBudget, app, to: 1_000_000)
        }
        first.set(.redisReady, to: 1)
        second.set(.redisReady, to: 1)
        kafka.set(.kafkaReady, to: 1)
        kafka.set(.partitionsAssigned, to: 4)
        registry.condition.change {
            $0.membership = .member
            $0.partitionsAssigned = 4
            $0.areKeysLoaded = true
        }
    }

    mutating func publish(
        at milliseconds: Int64,
        lanePartitions: [PartitionReading] = [],
        kafkaPartitions: [PartitionReading] = []
    ) {
        first.publish(lanePartitions, at: milliseconds)
        second.publish(at: milliseconds)
        kafka.publish(kafkaPartitions, at: milliseconds)
    }

    /// - Parameter earlier: the totals at the start of the report's window. Nil: the report has no rates, and its
    ///   histograms cover the time since the start.
    func report(before earlier: MetricTotals?, at milliseconds: Int64) -> StatusReport {
        StatusBuilder(
            labels: registry.labels,
            window: MetricWindow(current: registry.totals(nowMilliseconds: milliseconds), earlier: earlier),
            process: ProcessReading(),
            processBefore: nil,
            condition: registry.condition.current,
            events: registry.events.loggedEvents,
            channelCounts: registry.channels.currentCounts,
            wallMilliseconds: 1_790_000_000_000
        )
        .report(host: "worker-0", uptimeMilliseconds: milliseconds)
    }
}
