import APNsSimulator
import Foundation
import Testbed
import Testing

@Suite(.ownThread) struct ConnectionTests {
    @Test func `A connection has one stream until it is authenticated`() async throws {
        try await SimulatorFixture.run { fixture in
            let client = try fixture.connect()
            try client.run { !$0.streamLimits.isEmpty }
            #expect(client.streamLimits == [1])
            let refusedResponse = try client.perform(
                fixture.headers(["authorization": "bearer x"]),
                body: fixture.update(home: 1)
            )
            #expect(refusedResponse.status == 403)
            #expect(client.streamLimits == [1])
            _ = try client.perform(fixture.headers(), body: fixture.update(home: 1))
            try client.run { $0.streamLimits.count == 2 }
            #expect(client.streamLimits == [1, 1_000])
        }
    }

    @Test func `Streams over the limit are refused`() async throws {
        try await SimulatorFixture.run { fixture in
            let client = try fixture.connect()
            // The client has not read the server's SETTINGS yet, and opens four streams at once.
            let streams = try (0..<4).map { try client.submit(fixture.headers(), body: fixture.update(home: $0)) }
            try client.run { client in streams.allSatisfy { client.responses[$0]?.isClosed == true } }
            let codes = streams.map { client.responses[$0]?.errorCode }
            #expect(codes.first == 0)
            #expect(codes.contains(7))
        }
    }

    @Test func `A thousand streams at once get one response each`() async throws {
        try await SimulatorFixture.run { fixture in
            let client = try fixture.connect()
            _ = try client.perform(fixture.headers(), body: fixture.update(home: 1))
            try client.run { $0.streamLimits.count == 2 }
            let streams = try (0..<1_000).map { try client.submit(fixture.headers(), body: fixture.update(home: $0)) }
            try client.run { client in streams.allSatisfy { client.responses[$0]?.isClosed == true } }
            #expect(streams.allSatisfy { client.responses[$0]?.status == 200 })
            let statistics = try await fixture.simulator.statistics()
            #expect(statistics.requestCount == 1_001)
            #expect(statistics.priority5PushCount == 1_001)
        }
    }

    @Test func `Frames may arrive in pieces`() async throws {
        try await SimulatorFixture.run { fixture in
            let client = try fixture.connect()
            client.bytesPerWrite = 1
            for home in 1...3 {
                let response = try client.perform(fixture.headers(), body: fixture.update(home: home))
                #expect(response.status == 200, "\(response)")
            }
        }
    }

    @Test func `GOAWAY comes after the configured number of requests`() async throws {
        try await SimulatorFixture.run { fixture in
            var faults = Faults()
            faults.goAwayAfterRequests = 3
            try await fixture.simulator.setFaults(faults)
            let client = try fixture.connect()
            var lastStream: Int32 = 0
            for _ in 0..<3 {
                lastStream = try client.submit(fixture.headers(), body: fixture.update(home: 1))
                try client.run { $0.responses[lastStream]?.isClosed == true }
            }
            try client.run { $0.goAway != nil }
            #expect(client.goAway == .init(lastStream: lastStream, reason: "{\"reason\":\"Shutdown\"}"))
            #expect(throws: H2Client.Failure.self) { try client.run { _ in false } }
            #expect(client.hasEnded)
        }
    }

    @Test func `After GOAWAY on demand, requests in progress still get their responses`() async throws {
        try await SimulatorFixture.run { fixture in
            var faults = Faults()
            faults.latencyMilliseconds = 2_000...2_000
            try await fixture.simulator.setFaults(faults)
            let client = try fixture.connect()
            let stream = try client.submit(fixture.headers(), body: fixture.update(home: 1))
            try client.run { $0.streamLimits.count == 2 }
            try await fixture.simulator.sendGoAway()
            try client.run { $0.responses[stream]?.isClosed == true && $0.goAway != nil }
            #expect(client.responses[stream]?.status == 200)
            #expect(client.goAway?.lastStream == stream)
        }
    }

    @Test func `The limit of streams changes at once`() async throws {
        try await SimulatorFixture.run { fixture in
            let client = try fixture.connect()
            _ = try client.perform(fixture.headers(), body: fixture.update(home: 1))
            var faults = Faults()
            faults.concurrentStreams = 10
            try await fixture.simulator.setFaults(faults)
            try client.run { $0.streamLimits.count == 3 }
            try await fixture.simulator.setFaults(Faults())
            try client.run { $0.streamLimits.count == 4 }
            #expect(client.streamLimits == [1, 1_000, 10, 1_000])
        }
    }

    @Test func `Clients without h2 are dropped`() async throws {
        try await SimulatorFixture.run { fixture in
            // With TLS 1.3 the client may finish its handshake before it gets the server's refusal.
            for protocols in [[], Array("\u{8}http/1.1".utf8)] {
                #expect(throws: H2Client.Failure.self) {
                    let client = try H2Client(
                        port: fixture.simulator.port,
                        caFile: fixture.caFile,
                        protocols: protocols
                    )
                    _ = try client.perform(fixture.headers(), body: fixture.update(home: 1))
                }
            }
        }
    }

    @Test func `Several threads share the same phones and statistics`() async throws {
        try await SimulatorFixture.run(\.threadCount, 3) { fixture in
            for home in 0..<9 {
                let response = try fixture.connect().perform(fixture.headers(), body: fixture.update(home: home))
                #expect(response.status == 200)
            }
            let statistics = try await fixture.simulator.statistics()
            #expect(statistics.requestCount == 9)
            #expect(statistics.acceptedConnectionCount == 9)
            let comparison = try await fixture.simulator.withDevices {
                (devices, nowMilliseconds) throws(DeviceModel.Fault) in
                try devices.compareContentStates(
                    app: SimulatorFixture.app,
                    expected: [("m1", Array(#"{"home":8,"away":0}"#.utf8))],
                    nowMilliseconds: nowMilliseconds
                )
            }
            #expect(comparison.matchingActivityCount == 1)
        }
    }

    @Test func `Stopping ends the connections, and the simulator can start again`() async throws {
        try await SimulatorFixture.run { fixture in
            let client = try fixture.connect()
            _ = try client.perform(fixture.headers(), body: fixture.update(home: 1))
            await fixture.simulator.stop()
            #expect(throws: H2Client.Failure.self) { try client.run { _ in false } }
            await #expect(throws: SimulatorError.self) { try await fixture.simulator.statistics() }
            try await fixture.simulator.start()
            #expect(try await fixture.simulator.statistics().requestCount == 0)
        }
    }
}

@Suite(.ownThread) struct FaultTests {
    /// Sends 200 pushes on one connection, and returns how many got each response or error code.
    private func responseCounts(_ fixture: SimulatorFixture, _ faults: Faults) async throws -> [String: Int] {
        let client = try fixture.connect()
        _ = try client.perform(fixture.headers(), body: fixture.update(home: 0))
        try client.run { $0.streamLimits.count == 2 }
        try await fixture.simulator.setFaults(faults)
        let streams = try (0..<200).map { _ in try client.submit(fixture.headers(), body: fixture.update(home: 1)) }
        let isWithoutResponses = faults.noResponseShare > 0
        try client.run { client in
            isWithoutResponses || streams.allSatisfy { client.responses[$0]?.isClosed == true }
        }
        if isWithoutResponses {
            try client.runUntilPong()
        }
        return streams.reduce(into: [:]) { counts, stream in
            let response = client.responses[stream] ?? .init()
            counts[
                response.errorCode != 0 ? "error \(response.errorCode)" : "\(response.status) \(response.body)",
                default: 0
            ] += 1
        }
    }

    @Test func `Each configured response occurs in its share`() async throws {
        try await SimulatorFixture.run { fixture in
            var faults = Faults()
            faults.internalServerErrorShare = 0.2
            faults.serviceUnavailableShare = 0.2
            faults.tooManyRequestsShare = 0.2
            faults.refusedShare = 0.2
            let counts = try await responseCounts(fixture, faults)
            for kind in [
                "200 ", "500 {\"reason\":\"InternalServerError\"}", "503 {\"reason\":\"ServiceUnavailable\"}",
                "429 {\"reason\":\"TooManyRequests\"}", "error 7",
            ] {
                #expect((10...80).contains(counts[kind] ?? 0), "\(kind): \(counts)")
            }
            #expect(counts.count == 5)
        }
    }

    @Test(arguments: [true, false])
    func `Requests whose responses are lost take effect as configured`(_ isApplied: Bool) async throws {
        try await SimulatorFixture.run { fixture in
            var faults = Faults()
            faults.resetShare = 1
            faults.requestsWithoutResponseTakeEffect = isApplied
            let counts = try await responseCounts(fixture, faults)
            #expect(counts == ["error 2": 200])
            let expected = #"{"home":\#(isApplied ? 1 : 0),"away":0}"#
            let comparison = try await fixture.simulator.withDevices {
                (devices, nowMilliseconds) throws(DeviceModel.Fault) in
                try devices.compareContentStates(
                    app: SimulatorFixture.app,
                    expected: [("m1", Array(expected.utf8))],
                    nowMilliseconds: nowMilliseconds
                )
            }
            #expect(comparison.matchingActivityCount == 1)
        }
    }

    @Test func `Some requests never get a response`() async throws {
        try await SimulatorFixture.run { fixture in
            var faults = Faults()
            faults.noResponseShare = 1
            let counts = try await responseCounts(fixture, faults)
            #expect(counts == ["0 ": 200])
            let statistics = try await fixture.simulator.statistics()
            #expect(statistics.requestWithoutResponseCount == 200)
        }
    }

    @Test func `Latency delays the responses`() async throws {
        try await SimulatorFixture.run { fixture in
            var faults = Faults()
            faults.latencyMilliseconds = 50...60
            try await fixture.simulator.setFaults(faults)
            let client = try fixture.connect()
            let clock = ContinuousClock()
            let duration = try clock.measure {
                _ = try client.perform(fixture.headers(), body: fixture.update(home: 1))
            }
            #expect(duration >= .milliseconds(49))
        }
    }

    @Test func `Impossible faults are refused`() async throws {
        try await SimulatorFixture.run { fixture in
            var faults = Faults()
            faults.resetShare = 0.7
            faults.refusedShare = 0.7
            await #expect(throws: SimulatorError.self) { try await fixture.simulator.setFaults(faults) }
            faults = Faults()
            faults.resetShare = .nan
            await #expect(throws: SimulatorError.self) { try await fixture.simulator.setFaults(faults) }
        }
    }
}
