import Delivery
import LiveActivity

/// The worker's core, asked for its verdict on one record.
struct WorkerCore {
    static let app = "com.example.scores"
    static let policy = "slow-1"
    static let now = Moment(monotonicMilliseconds: 5_000_000, wallMilliseconds: 1_790_000_100_000)
    static let appConfiguration = DeliveryConfiguration.App(
        bundleId: Array(app.utf8),
        hasProductionPool: true,
        hasSandboxPool: true
    )

    /// Returns why the worker gives the outcome `invalid`; nil if it accepts the record.
    ///
    /// Each record has a core of its own, so that it waits for no other record.
    static func refusal(of record: [UInt8], on topic: RecordTopic) -> String? {
        var configuration = DeliveryConfiguration(apps: [appConfiguration], seed: 7)
        configuration.reloadable.policies.append(Policy(name: policy))
        configuration.recordsMax = 64
        configuration.ledgerSpanOffsetCount = 64
        var delivery = Delivery(configuration: configuration, now: now)
        guard let partitionIndex = delivery.assign(topic: topic, number: 0) else { return "no partition" }
        record.withUnsafeBytes { value in
            delivery.receive(
                IncomingRecord(
                    partitionIndex: partitionIndex,
                    offset: 0,
                    timestampMilliseconds: -1,
                    key: nil,
                    value: value
                ),
                now: now
            )
        }
        delivery.endBatch(now: now)
        while let outgoingRecord = delivery.nextOutgoingRecord(now: now) {
            delivery.removeNextOutgoingRecord(outgoingRecord)
            let view = delivery.view(outgoingRecord.record)
            if outgoingRecord.kind == .result, "\(view.outcome.name)" == "invalid" {
                return String(decoding: view.reason, as: UTF8.self)
            }
        }
        return nil
    }
}
