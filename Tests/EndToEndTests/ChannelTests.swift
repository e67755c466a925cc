import Foundation
import Testbed
import Testing

@testable import CausewayLab

/// A worker creates a channel, and another channel when the first is lost. All programs are real; the simulator serves
/// broadcasts and channel management.
@Suite("Channels of audiences", .timeLimit(.minutes(10)))
struct ChannelTests {
    private static let audience = "ride-all"

    private func makeRun() throws -> ExampleRun {
        try ExampleRun(["ride"], configure: ExampleRun.withChannels("ride-*", of: "com.example.ride"))
    }

    /// Returns the channels that APNs has now, each with its number of broadcasts.
    private func readChannels(_ run: ExampleRun) throws -> [(channel: String, broadcasts: Int)] {
        let control = LoopbackHTTPClient(port: run.deployment.simulator.controlPort)
        let body = try control.requestSuccessfully("GET", "/channels?app=com.example.ride")
        let object = try #require(try JSONSerialization.jsonObject(with: Data(body)) as? JSONObject)
        return try #require(object["channels"] as? [JSONObject])
            .filter { $0["deletedAt"] == nil }
            .map { ($0["channel"] as? String ?? "", $0["broadcasts"] as? Int ?? 0) }
    }

    /// Returns the section of /statusz that shows channels.
    private func readChannelStatus(_ run: ExampleRun) throws -> [JSONObject] {
        let body = try LoopbackHTTPClient(port: run.deployment.httpPort, serverName: "the worker")
            .requestSuccessfully("GET", "/statusz?format=json")
        let object = try #require(try JSONSerialization.jsonObject(with: Data(body)) as? JSONObject)
        return try #require(object["channels"] as? [JSONObject])
    }

    private func makeUpdate(_ number: Int, event: String = "update") -> JSONObject {
        [
            "app": "com.example.ride", "audience": Self.audience, "id": "state-\(number)", "sequence": number,
            "aps": [
                "event": event, "timestamp": Int(Date().timeIntervalSince1970), "relevance-score": number,
                "content-state": ["status": "underway", "etaMinutes": number],
            ] as JSONObject,
        ]
    }

    @Test func `A worker creates the channel, broadcasts to it and replaces it`() async throws {
        try await onOwnThread {
            let run = try makeRun()
            defer { run.close() }
            try run.send(makeUpdate(1))
            try run.await("a channel") { try readChannels(run).count == 1 }
            let firstChannel = try #require(try readChannels(run).first?.channel)

            // The command that requested the channel waits up to two seconds until APNs has created the channel.
            var number = 1
            try run.await("a broadcast") {
                try run.takeResults(milliseconds: 100)
                return try readChannels(run).first?.broadcasts ?? 0 > 0
            }

            // The worker compares the registry with APNs' list when it starts. /statusz says how long ago that was.
            try run.await("a reconciliation on /statusz") {
                try readChannelStatus(run).first?["reconciledSecondsAgo"] is NSNumber
            }
            let row = try #require(try readChannelStatus(run).first)
            #expect(row["app"] as? String == "ride" && row["environment"] as? String == "sandbox")
            #expect(row["lastError"] is NSNull, "\(row)")

            // A command may also name a channel by its id.
            try run.send([
                "app": "com.example.ride", "channel": firstChannel, "environment": "sandbox", "id": "own",
                "aps": makeUpdate(90)["aps"] as? JSONObject ?? [:],
            ])
            try run.results.await(["own"], outcome: "delivered") { try run.takeResults(milliseconds: 20) }
            let ownResult = try #require(run.results.lastResult("own"))
            #expect(ownResult["channel"] as? String == firstChannel && ownResult["environment"] as? String == "sandbox")
            #expect(ownResult["audience"] == nil && run.results.byCommand["own"]?.count == 1)

            let control = LoopbackHTTPClient(port: run.deployment.simulator.controlPort)
            let deletionBody = Array(#"{"app":"com.example.ride","channel":"\#(firstChannel)"}"#.utf8)
            _ = try control.requestSuccessfully("POST", "/channels/delete", body: deletionBody)
            number += 1
            try run.send(makeUpdate(number))
            // The state that waits is sent to the new channel, without another command.
            try run.await("a broadcast to another channel") {
                try run.takeResults(milliseconds: 100)
                return try readChannels(run).contains { $0.channel != firstChannel && $0.broadcasts > 0 }
            }
        }
    }
    /// Nothing listens at the host for broadcasts until the relay starts. Pushes to tokens do not wait for it.
    @Test func `Broadcasts go to their own host, and pushes to devices do not`() async throws {
        try await onOwnThread {
            let relay = try TCPRelay()
            let broadcastSettings = "    broadcastHost: localhost\n    broadcastPort: \(relay.port)\n"
            let managementHost = "    managementHost: localhost\n"
            let run = try ExampleRun(["ride"]) { text, deployment in
                try ExampleRun.withChannels("ride-*", of: "com.example.ride")(text, deployment)
                    .replacingRequired(managementHost, with: broadcastSettings + managementHost)
            }
            defer { run.close() }
            try run.send(makeUpdate(1))
            try run.await("a channel") { try readChannels(run).count == 1 }
            let updates = try RideUpdates(run)
            try updates.awaitToken()
            try updates.sendOne()
            #expect(try readChannels(run).first?.broadcasts == 0)
            try run.awaitMetrics("a broadcast that waits") {
                $0.sum("causeway_pushes_waiting", ["environment": "sandbox-broadcasts"]) == 1
            }
            let status = try WorkerPage("/statusz", port: run.deployment.httpPort).text
            #expect(status.contains("No APNs connection is ready for ride in sandbox-broadcasts"))
            #expect(status.contains("1 push waits for one."))

            try relay.start(to: run.deployment.simulator.apnsPort, on: run.deployment)
            try run.await("a broadcast") {
                try run.takeResults(milliseconds: 100)
                return try readChannels(run).first?.broadcasts ?? 0 > 0
            }
            try run.awaitMetrics("one response to a broadcast, in its own pool") {
                $0.sum("causeway_pushes_total", ["environment": "sandbox-broadcasts", "status": "200"]) == 1
                    && $0.sum("causeway_pushes_total", ["environment": "sandbox", "status": "200"]) ?? 0 > 0
            }
            try run.deployment.stopWorker(graceMilliseconds: 90_000)
        }
    }
}
