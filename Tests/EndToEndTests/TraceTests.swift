import Foundation
import Testbed
import Testing

@testable import CausewayLab

@Suite("A trace that comes with a command", .timeLimit(.minutes(10)))
struct TraceTests {
    private static let traceparent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00"

    @Test func `A trace continues in the result and the dead letter`() async throws {
        try await onOwnThread {
            let run = try ExampleRun(["ride"])
            defer { run.close() }
            let receivedHeaders = try ReceivedHeaders(run)
            defer { receivedHeaders.close() }
            let updates = try RideUpdates(run)
            try updates.awaitToken()
            let tracedCommand = try updates.sendOne(headers: [
                ("other", "x"), ("traceparent", Self.traceparent), ("tracestate", "congo=t61rcWkgMzE"),
            ])
            let untracedCommand = try updates.sendOne()
            let invalidTraceCommand = try updates.sendOne(headers: [("traceparent", Self.traceparent.uppercased())])
            let longStateCommand = try updates.sendOne(headers: [
                ("traceparent", Self.traceparent), ("tracestate", String(repeating: "x", count: 513)),
            ])
            try run.send(Data("{".utf8), key: "k", headers: [("traceparent", Self.traceparent)])
            // Four updates, and the record that is no JSON.
            try receivedHeaders.await { $0.resultHeaders.count == 5 && $0.deadLetterHeaders.count == 1 }

            #expect(
                receivedHeaders.resultHeaders[tracedCommand] == [
                    "traceparent": Self.traceparent, "tracestate": "congo=t61rcWkgMzE",
                ]
            )
            #expect(receivedHeaders.resultHeaders[untracedCommand] == [:])
            #expect(receivedHeaders.resultHeaders[invalidTraceCommand] == [:])
            #expect(receivedHeaders.resultHeaders[longStateCommand] == ["traceparent": Self.traceparent])
            let deadLetter = try #require(receivedHeaders.deadLetterHeaders.first)
            #expect(deadLetter["traceparent"] == Self.traceparent && deadLetter["error"] != nil)
            #expect(deadLetter["source"].map { receivedHeaders.resultHeaders[$0] } == ["traceparent": Self.traceparent])
            try run.deployment.stopWorker(graceMilliseconds: 90_000)
        }
    }
}
