import Testbed
import Testing

@testable import APNs
@testable import Reactor

/// The addresses to which a ``ConnectionBudget`` grants connections.
@Suite(.ownThread) struct ConnectionBudgetTests {
    private func makeAddresses(_ count: Int) throws -> [SocketAddress] {
        try (1...count).map { try #require(SocketAddress(numeric: "127.0.0.\($0)", port: 443)) }
    }

    private func reserve(
        from budget: ConnectionBudget,
        preferred: [SocketAddress] = [],
        all: [SocketAddress],
        isEssential: Bool = false,
        at nowMilliseconds: Int64 = 0
    ) -> SocketAddress? {
        budget.reserveAddress(
            preferred: preferred,
            all: all,
            isEssential: isEssential,
            nowMilliseconds: nowMilliseconds
        )
    }

    @Test func `The connection budget spreads over addresses, and has limits`() throws {
        let addresses = try makeAddresses(3)
        let budget = ConnectionBudget(connectionsMax: 5, connectionsPerAddressMax: 2)
        var countsByAddress: [SocketAddress: Int] = [:]
        for _ in 0..<3 {
            let address = try #require(reserve(from: budget, all: addresses))
            countsByAddress[address, default: 0] += 1
        }
        #expect(countsByAddress.values.sorted() == [1, 1, 1])
        #expect(reserve(from: budget, preferred: [addresses[1]], all: addresses) == addresses[1])
        // The preferred address already has its two connections, so the budget grants another address.
        let otherAddress = try #require(reserve(from: budget, preferred: [addresses[1]], all: addresses))
        #expect(otherAddress != addresses[1])
        #expect(reserve(from: budget, all: addresses) == nil)
        budget.release(addresses[1])
        #expect(reserve(from: budget, all: [otherAddress]) == nil)
        #expect(reserve(from: budget, all: addresses) != nil)
        #expect(budget.connectionCount == 5)
        // A connection that the pool needs is opened at the address with the fewest connections.
        #expect(reserve(from: budget, all: addresses) == nil)
        let neededAddress = try #require(reserve(from: budget, all: addresses, isEssential: true))
        #expect(neededAddress != otherAddress)
        #expect(budget.connectionCount == 6)
    }

    /// A failed attempt gives back its place, so the dead address has the fewest connections. It is not chosen again
    /// within a minute, not even as the only one without a connection of the pool.
    @Test func `An address whose connection failed is avoided for a minute`() throws {
        let addresses = try makeAddresses(2)
        let (deadAddress, address) = (addresses[0], addresses[1])
        let budget = ConnectionBudget()
        budget.noteFailure(of: deadAddress, nowMilliseconds: 1_000)
        for _ in 0..<4 {
            #expect(reserve(from: budget, preferred: [deadAddress], all: addresses, at: 60_999) == address)
        }
        #expect(reserve(from: budget, all: addresses, at: 61_000) == deadAddress)
    }

    @Test func `The oldest failure is forgiven first if all addresses failed`() throws {
        let addresses = try makeAddresses(3)
        let budget = ConnectionBudget()
        for (index, address) in addresses.enumerated() {
            budget.noteFailure(of: address, nowMilliseconds: Int64(index))
        }
        #expect(reserve(from: budget, all: addresses, at: 10) == addresses[0])
        budget.noteFailure(of: addresses[0], nowMilliseconds: 10)
        #expect(reserve(from: budget, all: addresses, at: 10) == addresses[1])
    }

    /// After a fault of the network, the connections are spread over all addresses again.
    @Test func `All failures are forgotten when a failed address works again`() throws {
        let addresses = try makeAddresses(3)
        let budget = ConnectionBudget()
        for address in addresses { budget.noteFailure(of: address, nowMilliseconds: 0) }
        budget.noteUsable(addresses[0])
        let reservedAddresses = (0..<3).compactMap { _ in reserve(from: budget, all: addresses) }
        #expect(Set(reservedAddresses) == Set(addresses))
    }

    @Test func `A failure is remembered when another address works`() throws {
        let addresses = try makeAddresses(2)
        let budget = ConnectionBudget()
        budget.noteFailure(of: addresses[0], nowMilliseconds: 0)
        budget.noteUsable(addresses[1])
        for _ in 0..<2 { #expect(reserve(from: budget, all: addresses) == addresses[1]) }
    }

    /// Nothing listens at the second address. Another pool has a connection to the first one, so the second address
    /// always has fewer connections.
    @Test func `A pool connects although one of two addresses is dead`() throws {
        let fixture = try PoolFixture { $0.host = "apns.example.com" }
        let port = fixture.server.port
        let deadAddress = try #require(SocketAddress(numeric: "127.0.0.2", port: port))
        fixture.loop.hostLookup = { _, port in .success([.loopback(port: port), deadAddress]) }
        let budget = fixture.pool.configuration.connectionBudget
        _ = reserve(from: budget, all: [.loopback(port: port)], isEssential: true)
        fixture.pool.start()
        fixture.runLoop(until: { fixture.pool.gauges.readyConnectionCount == 1 })
        #expect(fixture.recorder.closeCauses == [.connectFailed])
    }
}
