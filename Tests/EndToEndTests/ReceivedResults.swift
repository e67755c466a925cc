import Foundation
import Kafka
import Testbed
import Testing

/// Reads the results topic, and keeps the results by command.
final class ReceivedResults: ConsumerHandler {
    private var consumer: Consumer?
    private let wakeup = WakeupPipe()
    private(set) var byCommand: [String: [JSONObject]] = [:]
    /// While no result comes, `meanwhile` runs again after this time.
    private static let pauseMilliseconds: Int64 = 20

    init(bootstrapServers: String) throws {
        consumer = try Consumer(
            properties: [
                ("bootstrap.servers", bootstrapServers), ("group.id", "end-to-end"), ("auto.offset.reset", "earliest"),
                ("session.timeout.ms", "6000"), ("fetch.wait.max.ms", "10"),
            ],
            topics: ["causeway.results"],
            handler: self
        )
        consumer?.setWakeup(descriptor: wakeup.writeDescriptor)
    }

    /// The newest result of a command.
    func lastResult(_ command: String) -> JSONObject? { byCommand[command]?.last }

    func outcome(_ command: String) -> String? { lastResult(command)?["outcome"] as? String }

    /// Reads until the newest result of each of these commands has this outcome.
    func await(_ commands: [String], outcome: String, _ meanwhile: () throws -> Void = {}) throws {
        let deadline = ContinuousClock.now + eventWaitMax
        while !commands.allSatisfy({ self.outcome($0) == outcome }) {
            guard ContinuousClock.now < deadline else {
                let seenOutcomes = commands.map { "\($0): \(self.outcome($0) ?? "no result")" }
                throw Timeout(awaiting: "outcome \(outcome): \(seenOutcomes.joined(separator: ", "))")
            }
            try meanwhile()
            takeNext(withinMilliseconds: Self.pauseMilliseconds)
        }
    }

    /// Reads results for the given time. `meanwhile` runs before each result, and at least every 20 ms.
    func take(milliseconds: Int, _ meanwhile: () throws -> Void) throws {
        let end = ContinuousClock.now + .milliseconds(milliseconds)
        while ContinuousClock.now < end {
            try meanwhile()
            takeNext(withinMilliseconds: min(Self.pauseMilliseconds, Int64(milliseconds)))
        }
    }

    /// Takes the next result. If there is none, waits until the consumer has one, but at most for the limit.
    private func takeNext(withinMilliseconds limit: Int64) {
        if !takeOne() { wakeup.waitBlocking(milliseconds: limit) }
    }

    private func takeOne() -> Bool {
        guard let consumer, case .message(let message) = consumer.poll() else { return false }
        if let value = message.value, let object = try? JSONSerialization.jsonObject(with: Data(value)) as? JSONObject,
            let command = object["command"] as? String
        {
            byCommand[command, default: []].append(object)
        }
        return true
    }

    func close() {
        _ = consumer?.close(timeoutMilliseconds: 1_000)
        consumer = nil
    }

    func partitionsAssigned(_ partitions: [TopicPartition]) {}
    func partitionsRevoked(_ partitions: [TopicPartition], areLost: Bool) {}
}
