import Foundation
import Kafka
import Testing

@testable import causeway

@Suite("A trace that comes with a command", .timeLimit(.minutes(5)))
struct TraceTests {
    private static let parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00"

    @Test func goesOnWithItsResultAndItsDeadLetter() async throws {
        try await onOwnThread {
            let run = try ExampleRun(["ride"])
            defer { run.close() }
            let log = try HeaderLog(run)
            defer { log.close() }
            let traffic = try Traffic(run)
            let traced = try traffic.sendOne(headers: [
                ("other", "x"), ("traceparent", Self.parent), ("tracestate", "congo=t61rcWkgMzE"),
            ])
            let bare = try traffic.sendOne()
            let wrong = try traffic.sendOne(headers: [("traceparent", Self.parent.uppercased())])
            let long = try traffic.sendOne(headers: [
                ("traceparent", Self.parent), ("tracestate", String(repeating: "x", count: 513)),
            ])
            try run.send(Data("{".utf8), key: "k", headers: [("traceparent", Self.parent)])
            try log.await { $0.results.count == 5 && $0.deadLetters.count == 1 }

            #expect(log.results[traced] == ["traceparent": Self.parent, "tracestate": "congo=t61rcWkgMzE"])
            #expect(log.results[bare] == [:])
            #expect(log.results[wrong] == [:])
            #expect(log.results[long] == ["traceparent": Self.parent])
            let dead = try #require(log.deadLetters.first)
            #expect(dead["traceparent"] == Self.parent && dead["error"] != nil)
            #expect(dead["source"].map { log.results[$0] } == ["traceparent": Self.parent])
            try run.stage.stopWorker(graceMilliseconds: 30_000)
        }
    }
}

/// The headers of results, by command, and of dead letters.
private final class HeaderLog: ConsumerHandler {
    private(set) var results: [String: [String: String]] = [:]
    private(set) var deadLetters: [[String: String]] = []
    private let run: ExampleRun
    private var consumer: Consumer?

    init(_ run: ExampleRun) throws {
        self.run = run
        consumer = try Consumer(
            properties: [
                ("bootstrap.servers", run.stage.bootstrapServers), ("group.id", "headers"),
                ("auto.offset.reset", "earliest"), ("session.timeout.ms", "6000"), ("fetch.wait.max.ms", "10"),
            ],
            topics: ["causeway.results", "causeway.dead-letters"],
            handler: self
        )
    }

    func await(_ isDone: (HeaderLog) -> Bool) throws {
        let deadline = Date(timeIntervalSinceNow: 60)
        while !isDone(self) {
            guard Date() < deadline else { throw Timeout(what: "headers: \(results), \(deadLetters)") }
            try run.stage.check()
            guard let consumer, case .message(let message) = consumer.poll() else {
                usleep(2_000)
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
    }

    func close() {
        _ = consumer?.close(deadlineMilliseconds: 1_000)
        consumer = nil
    }

    func assigned(_ partitions: [TopicPartition]) {}
    func revoked(_ partitions: [TopicPartition], lost: Bool) {}
}
