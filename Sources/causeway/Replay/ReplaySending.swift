import ActivityStore
import CausewayCommandLine
import CausewayConfiguration
import Foundation
import Kafka
import LiveActivity
import Redis

/// Writes commands of the range to the commands topic once more, at a rate, and has Redis take those that it has settled without their having
/// been shown.
struct ReplaySending {
    /// Half a minute is long enough for a person; the worker's producer waits longer.
    private static let patience = [(name: "delivery.timeout.ms", value: "30000")]

    private let redis: WorkerConfiguration.Redis
    private let source: String
    private var sender: RecordSender
    private var store: BlockingStore?
    /// Versions that were reopened, by the marks of their records.
    private var reopened: [UInt64: StoreCall<[UInt8]>] = [:]
    private(set) var isInterrupted = false
    private var apps: [[UInt8]]

    init(_ configuration: WorkerConfiguration, topic: String, rate: Double) throws {
        redis = configuration.redis
        source = topic
        apps = configuration.apps.map { Array($0.bundleId.utf8) }
        let producer = try Producer(properties: Self.patience + configuration.kafka.producerProperties)
        sender = try RecordSender(producer: producer, topic: configuration.kafka.topics.commands, rate: rate)
    }

    /// Waits for the command's turn, and writes it.
    ///
    /// - Returns: what became of it: another worker may have come between; nil if it was over before its turn came.
    mutating func send(_ decision: ReplayDecision, until isOver: () -> Bool) throws -> ReplayVerdict? {
        guard sender.waitForTurn(until: isOver) else {
            isInterrupted = true
            return nil
        }
        let candidate = decision.candidate
        var mark: UInt64 = 0
        if decision.verdict.reason == .sendAgain {
            let answer = try reopen(decision)
            guard answer == .retry else {
                return ReplayVerdict(reason: answer == .duplicate ? .duplicate : .superseded)
            }
            mark = UInt64(reopened.count)
        }
        let copy = RecordCopy(
            topic: source,
            partition: candidate.partition,
            offset: candidate.offset,
            timestampMilliseconds: candidate.timestampMilliseconds
        )
        sender.send(candidate.value, key: candidate.key ?? RecordKey.key(of: candidate.value), copy: copy, mark: mark)
        return decision.verdict
    }

    private mutating func reopen(_ decision: ReplayDecision) throws -> StoreVerdict {
        let store = try store ?? BlockingStore(configuration: RedisConfiguration(redis))
        self.store = store
        let app = apps[decision.app]
        let activity = ActivityKey.activity(ofKey: decision.activity, app: app)
        let subject = StoreSubject(app: app, kind: .activity, identifier: activity)
        let version = decision.candidate.version
        let answer = try store.perform(StoreCall(tag: 0, subject: subject, operation: .reopen(version: version)))
            .verdict
        guard answer == .retry else { return answer }
        // If it is not written after all, it is settled as it was.
        reopened[UInt64(reopened.count + 1)] = StoreCall(
            tag: 0,
            subject: subject,
            operation: .settle(version: version, .notShown, digest: 0, retirement: nil)
        )
        return answer
    }

    /// Waits for the acknowledgements. What was not written is settled as it was, so that another replay sends it.
    mutating func finish() {
        for mark in sender.finish().failedMarks {
            guard let call = reopened[mark] else { continue }
            _ = try? store?.perform(call)
        }
        store?.close()
        store = nil
    }

    var tally: RecordSender.Tally { sender.tally }

    var line: String {
        let seconds = String(format: "%.3f", sender.elapsedSeconds)
        return "\(tally.sent) sent, \(tally.acknowledged) acknowledged, \(tally.failed) failed, \(seconds) s"
    }

    var json: JSONValue {
        .object([
            "sent": .integer(Int64(tally.sent)),
            "acknowledged": .integer(Int64(tally.acknowledged)),
            "failed": .integer(Int64(tally.failed)),
        ])
    }
}
