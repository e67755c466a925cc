import Foundation
import Kafka
import Testing

/// The maximum wait of a test for an event: far longer than an event takes on the slowest machine.
let eventLimitSeconds = 180.0

/// The results topic, by command.
final class ResultLog: ConsumerHandler {
    private var consumer: Consumer?
    private(set) var results: [String: [JSONObject]] = [:]

    init(bootstrapServers: String) throws {
        consumer = try Consumer(
            properties: [
                ("bootstrap.servers", bootstrapServers), ("group.id", "end-to-end"), ("auto.offset.reset", "earliest"),
                ("session.timeout.ms", "6000"), ("fetch.wait.max.ms", "10"),
            ],
            topics: ["causeway.results"],
            handler: self
        )
    }

    /// The newest result of a command.
    func last(_ command: String) -> JSONObject? { results[command]?.last }

    func outcome(_ command: String) -> String? { last(command)?["outcome"] as? String }

    /// Reads until the newest result of each of these commands has this outcome.
    func await(_ commands: [String], outcome: String, _ turn: () throws -> Void = {}) throws {
        let deadline = Date(timeIntervalSinceNow: eventLimitSeconds)
        while !commands.allSatisfy({ self.outcome($0) == outcome }) {
            guard Date() < deadline else {
                let states = commands.map { "\($0): \(self.outcome($0) ?? "no result")" }
                throw Timeout(what: "outcome \(outcome): \(states.joined(separator: ", "))")
            }
            try turn()
            if !takeOne() { usleep(2_000) }
        }
    }

    /// Reads for this time.
    func take(milliseconds: Int, _ turn: () throws -> Void) throws {
        let end = Date(timeIntervalSinceNow: Double(milliseconds) / 1_000)
        while Date() < end {
            try turn()
            if !takeOne() { usleep(2_000) }
        }
    }

    private func takeOne() -> Bool {
        guard let consumer, case .message(let message) = consumer.poll() else { return false }
        if let value = message.value, let object = try? JSONSerialization.jsonObject(with: Data(value)) as? JSONObject,
            let command = object["command"] as? String
        {
            results[command, default: []].append(object)
        }
        return true
    }

    func close() {
        _ = consumer?.close(deadlineMilliseconds: 1_000)
        consumer = nil
    }

    func assigned(_ partitions: [TopicPartition]) {}
    func revoked(_ partitions: [TopicPartition], lost: Bool) {}
}

struct Timeout: Error, CustomStringConvertible {
    var what: String
    var description: String { "timed out waiting for \(what)" }
}
