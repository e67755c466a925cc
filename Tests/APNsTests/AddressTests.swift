import APNsSimulator
import Synchronization
import Testing

@testable import APNs
@testable import Reactor

/// A pool looks up the host's name again for each connection. So its connections spread over all addresses, and follow
/// a change of the addresses.
@Suite struct AddressTests {
    /// A name server that first responds with two addresses. After a number of look-ups it responds only with a third
    /// address.
    private final class ChangingNameServer: Sendable {
        static let addressesBefore = ["127.0.0.1", "127.0.0.2"]
        static let addressesAfter = ["127.0.0.3"]
        let lookUpCountBeforeChange: Int
        private let lookUpCounter = Mutex(0)

        init(lookUpCountBeforeChange: Int) { self.lookUpCountBeforeChange = lookUpCountBeforeChange }

        var lookUpCount: Int { lookUpCounter.withLock { $0 } }

        func lookUp(_ host: String, _ port: UInt16) -> Resolution {
            let isBefore = lookUpCounter.withLock { count in
                count += 1
                return count <= lookUpCountBeforeChange
            }
            return .success(
                (isBefore ? Self.addressesBefore : Self.addressesAfter)
                    .compactMap { SocketAddress(numeric: $0, port: port) }
            )
        }
    }

    /// Runs three services on the same port of three addresses. Each service closes a connection after 200
    /// requests.
    private func withServices(_ body: (SimulatorFixture, [Simulator]) async throws -> Void) async throws {
        let adjust = { (configuration: inout SimulatorConfiguration, host: String, port: UInt16) in
            configuration.host = host
            configuration.port = port
            configuration.faults.goAwayAfterRequests = 200
        }
        try await SimulatorFixture.run {
            adjust(&$0, "127.0.0.1", 0)
        } _: { first in
            let port = first.simulator.port
            try await SimulatorFixture.run {
                adjust(&$0, "127.0.0.2", port)
            } _: { second in
                try await SimulatorFixture.run {
                    adjust(&$0, "127.0.0.3", port)
                } _: { third in
                    try await body(first, [first.simulator, second.simulator, third.simulator])
                }
            }
        }
    }

    @Test func `Connections follow the addresses of the name`() async throws {
        try await withServices { fixture, services in
            let nameServer = ChangingNameServer(lookUpCountBeforeChange: 6)
            let sent = try await fixture.send(4_000, lookUp: { nameServer.lookUp($0, $1) }) {
                $0.host = "apns.example.com"
                $0.connectionsMax = 4
                $0.connectionsMin = 4
            }
            #expect(sent.count(.accepted) == 4_000)
            // Each connection begins with a look-up. When the last response comes, up to four connections may still be
            // opening. Their look-ups count already, but the connections do not.
            #expect((0...4).contains(nameServer.lookUpCount - sent.connectionAttemptCount))
            var acceptedCounts: [Int] = []
            for service in services {
                let statistics = try await service.statistics()
                acceptedCounts.append(statistics.acceptedConnectionCount)
                #expect(statistics[.success] > 0)
            }
            #expect(acceptedCounts[0] + acceptedCounts[1] == 6 && acceptedCounts[0] >= 2 && acceptedCounts[1] >= 2)
            #expect(acceptedCounts[2] == sent.connectionAttemptCount - 6 && acceptedCounts[2] > 6)
        }
    }

    /// A failed look-up is repeated, so every push is still accepted.
    @Test func `A name server that failed is asked again`() async throws {
        try await withServices { fixture, _ in
            let nameServer = ChangingNameServer(lookUpCountBeforeChange: .max)
            let lookUpCounter = Mutex(0)
            let sent = try await fixture.send(
                1_000,
                lookUp: { host, port in
                    let fails = lookUpCounter.withLock { count in
                        count += 1
                        return count % 2 == 0
                    }
                    return fails
                        ? .failure(ResolveError(code: .lookUpFailed(-3), reason: "try again"))
                        : nameServer.lookUp(host, port)
                }
            ) {
                $0.host = "apns.example.com"
            }
            #expect(sent.count(.accepted) == 1_000 && lookUpCounter.withLock { $0 } >= 4)
        }
    }
}
