import Foundation
import Testbed
import Testing

@testable import CausewayLab

@Suite("A trace that comes with a command", .timeLimit(.minutes(10)))
struct TraceTests {
    private static let parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00"

    @Test func `A trace continues in the result and the dead letter`() async throws {
        try await onOwnThread {
            let run = try ExampleRun(["ride"])
            defer { run.close() }
            let log = try HeaderLog(run)
            defer { log.close() }
            let traffic = try Traffic(run)
            try traffic.awaitToken()
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
            try run.deployment.stopWorker(graceMilliseconds: 90_000)
        }
    }
}
