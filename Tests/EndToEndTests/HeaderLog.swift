import Foundation
import Kafka
import Testbed

@testable import CausewayLab

/// The headers of each command's last result, by command, and the headers of all dead letters.
final class HeaderLog: ConsumerHandler {
    private(set) var results: [String: [String: String]] = [:]
    /// Of the results of commands to audiences, only those over all ranges and broadcasts.
    private(set) var totals: [String: [String: String]] = [:]
    private(set) var deadLetters: [[String: String]] = []
    private let run: ExampleRun
    private var consumer: Consumer?
    private let wakeup = WakeupPipe()
    private static let pauseMilliseconds: Int64 = 20

    init(_ run: ExampleRun) throws {
        self.run = run
        consumer = try Consumer(
            properties: [
                ("bootstrap.servers", run.deployment.bootstrapServers), ("group.id", "headers"),
                ("auto.offset.reset", "earliest"), ("session.timeout.ms", "6000"), ("fetch.wait.max.ms", "10"),
            ],
            topics: ["causeway.results", "causeway.dead-letters"],
            handler: self
        )
        consumer?.setWakeup(descriptor: wakeup.writing)
    }

    func await(_ isDone: (HeaderLog) -> Bool) throws {
        let deadline = ContinuousClock.now + eventLimit
        while !isDone(self) {
            guard ContinuousClock.now < deadline else { throw Timeout(what: "headers: \(results), \(deadLetters)") }
            try run.deployment.check()
            guard let consumer, case .message(let message) = consumer.poll() else {
                wakeup.waitHere(milliseconds: Self.pauseMilliseconds)
                continue
            }
            take(message)
        }
    }

    private func take(_ message: borrowing Message) {
        var headers: [String: String] = [:]
        message.headers?
            .visit { name, value in
                headers[String(decoding: name, as: UTF8.self)] = value.map { String(decoding: $0, as: UTF8.self) }
            }
        if message.topic.index == 1 { return deadLetters.append(headers) }
        guard let value = message.value,
            let object = try? JSONSerialization.jsonObject(with: Data(value)) as? JSONObject,
            let command = object["command"] as? String
        else { return }
        results[command] = headers
        if object["ranges"] != nil { totals[command] = headers }
    }

    func close() {
        _ = consumer?.close(deadlineMilliseconds: 1_000)
        consumer = nil
    }

    func partitionsAssigned(_ partitions: [TopicPartition]) {}
    func partitionsRevoked(_ partitions: [TopicPartition], areLost: Bool) {}
}
