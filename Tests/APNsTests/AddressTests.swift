import APNsSimulator
import Synchronization
import Testing

@testable import APNs
@testable import Reactor

/// The addresses of connections. Each connection resolves the host's name again, so connections spread over
/// all addresses and follow changes.
@Suite struct AddressTests {
    /// A name server that first responds with two addresses. After a number of look-ups it responds only with a third
    /// address.
    private final class ChangingZone: Sendable {
        static let addressesBefore = ["127.0.0.1", "127.0.0.2"]
        static let addressesAfter = ["127.0.0.3"]
        let lookUpsBeforeChange: Int
        private let lookUpCounter = Mutex(0)

        init(lookUpsBeforeChange: Int) { self.lookUpsBeforeChange = lookUpsBeforeChange }

        var lookUpCount: Int { lookUpCounter.withLock { $0 } }

        func lookUp(_ host: String, _ port: UInt16) -> Resolution {
            let isBefore = lookUpCounter.withLock { count in
                count += 1
                return count <= lookUpsBeforeChange
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
            let zone = ChangingZone(lookUpsBeforeChange: 6)
            let sent = try await fixture.send(4_000, lookUp: { zone.lookUp($0, $1) }) {
                $0.host = "apns.example.com"
                $0.connectionsMax = 4
                $0.connectionsMin = 4
            }
            #expect(sent.count(.accepted) == 4_000)
            // Each connection makes one look-up. The last look-ups may still run when the last response
            // comes, so there may be more look-ups than opened connections.
            #expect((0...4).contains(zone.lookUpCount - sent.connectionsOpened))
            var acceptedCounts: [Int] = []
            for service in services {
                let statistics = try await service.statistics()
                acceptedCounts.append(statistics.acceptedConnectionCount)
                #expect(statistics[.success] > 0)
            }
            #expect(acceptedCounts[0] + acceptedCounts[1] == 6 && acceptedCounts[0] >= 2 && acceptedCounts[1] >= 2)
            #expect(acceptedCounts[2] == sent.connectionsOpened - 6 && acceptedCounts[2] > 6)
        }
    }

    /// A failed look-up is repeated, so every push is still accepted.
    @Test func `A name server that failed is asked again`() async throws {
        try await withServices { fixture, _ in
            let zone = ChangingZone(lookUpsBeforeChange: .max)
            let failures = Mutex(0)
            let sent = try await fixture.send(
                1_000,
                lookUp: { host, port in
                    let fails = failures.withLock { count in
                        count += 1
                        return count % 2 == 0
                    }
                    return fails
                        ? .failure(ResolveError(code: .lookUpFailed(-3), reason: "try again")) : zone.lookUp(host, port)
                }
            ) {
                $0.host = "apns.example.com"
            }
            #expect(sent.count(.accepted) == 1_000 && failures.withLock { $0 } >= 4)
        }
    }
}
