import Foundation
import Logging
import Reactor
import Synchronization

@testable import Observability

enum Fixture {
    static let apps = ["match", "ride"]

    static var labels: LabelSpace {
        LabelSpace(
            apps: apps,
            pools: [
                .init(app: "match", environment: "production"), .init(app: "match", environment: "sandbox"),
                .init(app: "ride", environment: "production"),
            ],
            outcomes: ["accepted", "superseded", "failed", "held"],
            answers: AnswerTable(reasons: [
                .init(documentedStatus: 0, text: ""), .init(documentedStatus: 0, text: ""),
                .init(documentedStatus: 400, text: "BadDeviceToken"),
                .init(documentedStatus: 403, text: "InvalidProviderToken"),
                .init(documentedStatus: 410, text: "Unregistered"),
            ]),
            signers: [.init(team: "TEAM123456", keyIdentifier: "KEY1234567")],
            policies: ["default"],
            redisErrors: ["moved", "outOfMemory", "unknown", "replicasMissing"],
            kafkaErrors: ["_TRANSPORT", "other"],
            build: .init(version: "1.2.3", librdkafka: "2.0.2", openssl: "3.0.22", hiredis: "0.14.1")
        )
    }

    static func registry(lanes: Int = 2) -> MetricRegistry { MetricRegistry(labels: labels, laneCount: lanes) }

    static let repository = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        .deletingLastPathComponent()
}

extension ThreadMetrics {
    mutating func publish(_ partitions: [PartitionReading] = [], at milliseconds: Int64) {
        partitions.withUnsafeBufferPointer { publish(partitions: $0, nowMilliseconds: milliseconds) }
    }
}

/// A healthy worker, whose numbers a test then changes.
struct WellWorker: ~Copyable {
    let registry = Fixture.registry()
    /// Its two lanes.
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

    /// A report over a minute: `before` is the publication at its start.
    func report(before: MetricTotals?, at milliseconds: Int64) -> StatusReport {
        StatusBuilder(
            labels: registry.labels,
            window: MetricWindow(now: registry.totals(nowMilliseconds: milliseconds), before: before),
            process: ProcessReading(),
            processBefore: nil,
            condition: registry.condition.now,
            events: registry.events.happened,
            channelCounts: registry.channels.now,
            wallMilliseconds: 1_790_000_000_000
        )
        .report(host: "worker-0", upMilliseconds: milliseconds)
    }
}

/// Records the log.
final class LogCollector: Sendable {
    struct Line: Sendable {
        var level: Logger.Level
        var message: String
        var metadata: Logger.Metadata
    }

    private let collected = Mutex<[Line]>([])
    var lines: [Line] { collected.withLock { $0 } }

    func note(_ line: Line) { collected.withLock { $0.append(line) } }

    var logger: Logger { Logger(label: "test") { _ in Handler(collector: self) } }

    private struct Handler: LogHandler {
        let collector: LogCollector
        var logLevel = Logger.Level.trace
        var metadata: Logger.Metadata = [:]
        subscript(metadataKey key: String) -> Logger.Metadata.Value? {
            get { metadata[key] }
            set { metadata[key] = newValue }
        }
        func log(event: LogEvent) {
            collector.note(
                .init(level: event.level, message: event.message.description, metadata: event.metadata ?? [:])
            )
        }
    }
}
