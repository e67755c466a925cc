import Foundation
import Kafka
import Testbed

@testable import CausewayLab

/// Reads the headers of results and dead letters. It keeps those of each command's last result, and of all dead
/// letters.
final class ReceivedHeaders: ConsumerHandler {
    private(set) var resultHeaders: [String: [String: String]] = [:]
    /// The headers of the last result over all ranges and broadcasts, by command. Commands to single activities have no
    /// such result.
    private(set) var totalResultHeaders: [String: [String: String]] = [:]
    private(set) var deadLetterHeaders: [[String: String]] = []
    private let run: ExampleRun
    private var consumer: Consumer?
    private let wakeup = WakeupPipe()
    /// While no message comes, the processes are checked again after this time.
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
        consumer?.setWakeup(descriptor: wakeup.writeDescriptor)
    }

    func await(_ isDone: (ReceivedHeaders) -> Bool) throws {
        let deadline = ContinuousClock.now + eventWaitMax
        while !isDone(self) {
            guard ContinuousClock.now < deadline else {
                throw Timeout(awaiting: "headers: \(resultHeaders), \(deadLetterHeaders)")
            }
            try run.deployment.throwIfAnyProcessHasEnded()
            guard let consumer, case .message(let message) = consumer.poll() else {
                wakeup.waitBlocking(milliseconds: Self.pauseMilliseconds)
                continue
            }
            take(message)
        }
    }

    private func take(_ message: borrowing Message) {
        var headers: [String: String] = [:]
        message.headers?
            .forEachHeader { name, value in
                headers[String(decoding: name, as: UTF8.self)] = value.map { String(decoding: $0, as: UTF8.self) }
            }
        // A topic's index is its place in the consumer's list of topics: 1 is the topic of dead letters.
        if message.topic.index == 1 { return deadLetterHeaders.append(headers) }
        guard let value = message.value,
            let object = try? JSONSerialization.jsonObject(with: Data(value)) as? JSONObject,
            let command = object["command"] as? String
        else { return }
        resultHeaders[command] = headers
        if object["ranges"] != nil { totalResultHeaders[command] = headers }
    }

    func close() {
        _ = consumer?.close(timeoutMilliseconds: 1_000)
        consumer = nil
    }

    func partitionsAssigned(_ partitions: [TopicPartition]) {}
    func partitionsRevoked(_ partitions: [TopicPartition], areLost: Bool) {}
}
