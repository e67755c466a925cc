import APNsSimulator
import Foundation
import Testbed
import Testing

/// Faults of responses, streams and connections that a test sets. Each fault is checked by what an HTTP/2 client gets,
/// some also by the service's statistics.
@Suite(.ownThread) struct TransportFaultTests {
    /// Returns a client that may use a thousand streams. Its first push is sent without faults; the faults
    /// apply to later pushes.
    private func makeClient(_ fixture: SimulatorFixture, _ adjust: (inout Faults) -> Void) async throws -> H2Client {
        let client = try fixture.connect()
        _ = try client.perform(fixture.headers(), body: fixture.update(home: 0))
        try client.run { $0.streamLimits.count == 2 }
        var faults = Faults()
        adjust(&faults)
        try await fixture.simulator.setFaults(faults)
        return client
    }

    private func submit(_ count: Int, _ client: H2Client, _ fixture: SimulatorFixture) throws -> [Int32] {
        try (1...count).map { try client.submit(fixture.headers(), body: fixture.update(home: $0)) }
    }

    private func runAll(_ streams: [Int32], _ client: H2Client) throws {
        try client.run { client in streams.allSatisfy { client.responses[$0]?.isClosed == true } }
    }

    @Test func `Each configured reason occurs in its share`() async throws {
        try await SimulatorFixture.run { fixture in
            let client = try await makeClient(fixture) {
                $0.reasonShares = [.tooManyRequests: 0.1, .internalServerError: 0.3, .unregistered: 0.3]
            }
            let streams = try submit(300, client, fixture)
            try runAll(streams, client)
            let counts = streams.reduce(into: [Int: Int]()) { $0[client.responses[$1]?.status ?? 0, default: 0] += 1 }
            #expect((10...60).contains(counts[429] ?? 0) && (50...130).contains(counts[500] ?? 0), "\(counts)")
            #expect((50...130).contains(counts[410] ?? 0) && counts.values.reduce(0, +) == 300, "\(counts)")
            let expiredResponse = try #require(streams.compactMap { client.responses[$0] }.first { $0.status == 410 })
            let body = try #require(
                try JSONSerialization.jsonObject(with: Data(expiredResponse.body.utf8)) as? [String: Any]
            )
            #expect(body["reason"] as? String == "Unregistered")
            #expect((body["timestamp"] as? Int64 ?? 0) / 1_000 >= Int64(time(nil)) - 60)
        }
    }

    @Test func `Faults end after the configured number of requests`() async throws {
        try await SimulatorFixture.run { fixture in
            let client = try await makeClient(fixture) {
                $0.resetShare = 1
                $0.resetCode = 11
                $0.requestsSubjectToFaultsMax = 7
            }
            let streams = try submit(20, client, fixture)
            try runAll(streams, client)
            let codes = streams.map { client.responses[$0]?.errorCode ?? .max }
            #expect(codes == Array(repeating: 11, count: 7) + Array(repeating: 0, count: 13))
        }
    }

    @Test func `The simulator can send responses that Apple does not document`() async throws {
        try await SimulatorFixture.run { fixture in
            let client = try await makeClient(fixture) { $0.unknownReasonShare = 1 }
            let firstResponse = try client.perform(fixture.headers(), body: fixture.update(home: 1))
            #expect(firstResponse.status == 400 && firstResponse.body == #"{"reason":"ReasonOfTomorrow"}"#)
            var faults = Faults()
            faults.notJSONShare = 1
            faults.informationalShare = 1
            try await fixture.simulator.setFaults(faults)
            let secondResponse = try client.perform(fixture.headers(), body: fixture.update(home: 1))
            #expect(
                secondResponse.status == 503 && secondResponse.body.hasPrefix("<html>")
                    && secondResponse.informationalStatuses == [103]
            )
            faults = Faults()
            faults.informationalShare = 1
            try await fixture.simulator.setFaults(faults)
            let thirdResponse = try client.perform(fixture.headers(), body: fixture.update(home: 1))
            #expect(
                thirdResponse.status == 200 && thirdResponse.informationalStatuses == [103]
                    && thirdResponse.errorCode == 0
            )
            #expect(try await fixture.simulator.statistics().undocumentedResponseCount == 2)
        }
    }

    @Test func `Late responses come after the others`() async throws {
        try await SimulatorFixture.run { fixture in
            let client = try await makeClient(fixture) {
                $0.lateShare = 1
                $0.lateMilliseconds = 300
                $0.requestsSubjectToFaultsMax = 1
            }
            let streams = try submit(2, client, fixture)
            try client.run { $0.responses[streams[1]]?.isClosed == true }
            #expect(client.responses[streams[0]]?.isClosed == false)
            try runAll(streams, client)
            #expect(client.responses[streams[0]]?.status == 200)
        }
    }

    /// The service has not processed pushes above GOAWAY's last stream, so a client may send them again.
    @Test func `GOAWAY leaves the last requests unprocessed`() async throws {
        try await SimulatorFixture.run { fixture in
            let client = try await makeClient(fixture) {
                $0.goAwayAfterRequests = 11
                $0.goAwayUnprocessedRequests = 4
                $0.goAway.errorCode = 2
                $0.goAway.reason = ""
            }
            let streams = try submit(10, client, fixture)
            try client.run { $0.goAway != nil }
            try client.run { client in streams.prefix(6).allSatisfy { client.responses[$0]?.isClosed == true } }
            #expect(client.goAway == .init(lastStream: streams[5], reason: "", code: 2))
            #expect(streams.prefix(6).allSatisfy { client.responses[$0]?.status == 200 })
            #expect(streams.suffix(4).allSatisfy { client.responses[$0]?.status == 0 })
            let statistics = try await fixture.simulator.statistics()
            #expect(statistics[.success] == 7)
        }
    }

    @Test func `A graceful GOAWAY comes twice`() async throws {
        try await SimulatorFixture.run { fixture in
            let client = try await makeClient(fixture) { $0.latencyMilliseconds = 2_000...2_000 }
            let stream = try client.submit(fixture.headers(), body: fixture.update(home: 1))
            try client.runUntilPong()
            var goAway = GoAway()
            goAway.graceMilliseconds = 200
            try await fixture.simulator.sendGoAway(goAway)
            try client.run { $0.goAways.count == 1 }
            #expect(client.goAways.first == .init(lastStream: .max, reason: ""))
            try client.run { $0.goAways.count == 2 }
            #expect(client.goAways.last == .init(lastStream: stream, reason: #"{"reason":"Shutdown"}"#))
            try client.run { $0.responses[stream]?.isClosed == true }
            #expect(client.responses[stream]?.status == 200)
        }
    }

    @Test func `A connection is cut after some requests`() async throws {
        try await SimulatorFixture.run { fixture in
            let client = try await makeClient(fixture) { $0.cutAfterRequests = 6 }
            let streams = try submit(9, client, fixture)
            #expect(throws: H2Client.Failure.self) { try runAll(streams, client) }
            #expect(client.hasEnded && !client.wasEndAnnounced && client.goAway == nil)
            let statistics = try await fixture.simulator.statistics()
            #expect(statistics[.success] == 6)
            #expect(statistics.cutConnectionCount == 1 && statistics.openConnectionCount == 0)
        }
    }

    /// The server sends close_notify before it closes the connection. A connection that is cut gets none.
    @Test func `An orderly end is announced`() async throws {
        try await SimulatorFixture.run { fixture in
            let client = try await makeClient(fixture) { _ in }
            await fixture.simulator.stop()
            #expect(throws: H2Client.Failure.self) { try client.run { _ in false } }
            #expect(client.hasEnded && client.wasEndAnnounced)
        }
    }

    @Test func `A half-open connection sends no response`() async throws {
        try await SimulatorFixture.run { fixture in
            let client = try await makeClient(fixture) { $0.silentAfterRequests = 3 }
            let streams = try submit(5, client, fixture)
            try client.run { _ in true }
            // The connection stays silent from now on, so only the service's statistics show that it got the
            // requests.
            try await eventuallyInTask("six requests") { try await fixture.simulator.statistics().requestCount >= 6 }
            client.ping()
            #expect(throws: H2Client.Failure(reason: "nothing came")) {
                try client.run(seconds: 1) { $0.pongCount > 0 }
            }
            // Only the last three responses are checked. The first two may have been written before the
            // silence, or lost.
            #expect(streams.suffix(3).allSatisfy { client.responses[$0]?.isClosed == false })
            let statistics = try await fixture.simulator.statistics()
            #expect(statistics.requestCount == 6 && statistics.requestWithoutResponseCount == 3)
            #expect(statistics.openConnectionCount == 1 && statistics.halfOpenConnectionCount == 1)
        }
    }

    @Test func `A half-open connection may not even send its SETTINGS`() async throws {
        try await SimulatorFixture.run { fixture in
            var faults = Faults()
            faults.silentAfterRequests = 0
            faults.silentStopsReading = true
            try await fixture.simulator.setFaults(faults)
            let client = try fixture.connect()
            _ = try client.submit(fixture.headers(), body: fixture.update(home: 1))
            #expect(throws: H2Client.Failure(reason: "nothing came")) {
                try client.run(seconds: 1) { !$0.streamLimits.isEmpty }
            }
            #expect(try await fixture.simulator.statistics().requestCount == 0)
        }
    }

    @Test func `The window of a connection has the configured size`() async throws {
        try await SimulatorFixture.run { fixture in
            var faults = Faults()
            faults.connectionWindowBytes = 1 << 20
            try await fixture.simulator.setFaults(faults)
            let client = try fixture.connect()
            try client.run { $0.connectionWindowBytes == 1 << 20 }
        }
    }
}
