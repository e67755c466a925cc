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
        failedAttemptAtMilliseconds: Int64? = nil,
        at nowMilliseconds: Int64 = 0
    ) -> SocketAddress? {
        budget.reserveAddress(
            preferred: preferred,
            all: all,
            isEssential: isEssential,
            failedAttemptAtMilliseconds: failedAttemptAtMilliseconds,
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
    /// within a minute, not even as the only one without a connection of the pool. After the minute, only a pool with
    /// connections to all other addresses chooses it, until its failure is forgotten.
    @Test func `An address whose connection failed is avoided for a minute`() throws {
        let addresses = try makeAddresses(2)
        let (deadAddress, address) = (addresses[0], addresses[1])
        let budget = ConnectionBudget()
        budget.noteFailure(of: deadAddress, nowMilliseconds: 1_000)
        for _ in 0..<4 {
            #expect(reserve(from: budget, preferred: [deadAddress], all: addresses, at: 60_999) == address)
        }
        #expect(reserve(from: budget, all: addresses, at: 61_000) == address)
        #expect(reserve(from: budget, preferred: [deadAddress], all: addresses, at: 61_000) == deadAddress)
        #expect(reserve(from: budget, all: addresses, at: 661_000) == deadAddress)
    }

    /// The failures of an outage are milliseconds apart. All pools must not wait for the address whose failure is
    /// oldest.
    @Test func `If all addresses failed, they are tried in turn, the oldest failure first`() throws {
        let addresses = try makeAddresses(3)
        let budget = ConnectionBudget()
        for (index, address) in addresses.enumerated() {
            budget.noteFailure(of: address, nowMilliseconds: Int64(index))
        }
        let reservedAddresses = (0..<3).compactMap { _ in reserve(from: budget, all: addresses, at: 10) }
        #expect(reservedAddresses == addresses)
        // This address has the fewest connections now. It still comes last, because it may be dead.
        budget.noteFailure(of: addresses[0], nowMilliseconds: 20)
        budget.release(addresses[0])
        #expect(reserve(from: budget, all: addresses, at: 20) != addresses[0])
    }

    /// At the limit of remembered failures, a new failure replaces the oldest one. The other failures are so old that
    /// their addresses are no longer avoided.
    @Test func `A dead address is avoided although many others failed earlier`() throws {
        let budget = ConnectionBudget()
        for number in 0..<ConnectionBudget.failedAddressesMax {
            let address = try #require(SocketAddress(numeric: "127.0.1.\(number)", port: 443))
            budget.noteFailure(of: address, nowMilliseconds: Int64(number))
        }
        let addresses = try makeAddresses(2)
        budget.noteFailure(of: addresses[0], nowMilliseconds: 100_000)
        for _ in 0..<4 { #expect(reserve(from: budget, all: addresses, at: 100_001) == addresses[1]) }
    }

    /// After a fault of the network, the connections are spread over all addresses again.
    @Test func `All failures are forgotten when a failed address works again`() throws {
        let addresses = try makeAddresses(3)
        let budget = ConnectionBudget()
        for address in addresses { budget.noteFailure(of: address, nowMilliseconds: 0) }
        budget.noteUsable(addresses[0], nowMilliseconds: 0)
        let reservedAddresses = (0..<3).compactMap { _ in reserve(from: budget, all: addresses) }
        #expect(Set(reservedAddresses) == Set(addresses))
    }

    /// After an outage of more than a minute, the first address that works again is the one whose failure is oldest. It
    /// is no longer avoided, unlike the others.
    @Test func `All failures are forgotten even when an address works that is no longer avoided`() throws {
        let addresses = try makeAddresses(3)
        let budget = ConnectionBudget()
        for (address, milliseconds) in zip(addresses, [0, 30_000, 30_000] as [Int64]) {
            budget.noteFailure(of: address, nowMilliseconds: milliseconds)
        }
        #expect(reserve(from: budget, all: addresses, at: 60_000) == addresses[0])
        budget.noteUsable(addresses[0], nowMilliseconds: 60_000)
        budget.release(addresses[0])
        let reservedAddresses = (0..<3).compactMap { _ in reserve(from: budget, all: addresses, at: 60_001) }
        #expect(Set(reservedAddresses) == Set(addresses))
    }

    @Test func `A failure is remembered when another address works`() throws {
        let addresses = try makeAddresses(2)
        let budget = ConnectionBudget()
        budget.noteFailure(of: addresses[0], nowMilliseconds: 0)
        budget.noteUsable(addresses[1], nowMilliseconds: 0)
        for _ in 0..<2 { #expect(reserve(from: budget, all: addresses) == addresses[1]) }
    }

    /// A worker with 4 lanes and 40 apps in two environments starts, or one with 16 lanes and 255 apps.
    @Test(arguments: [320, 8_160])
    func `However many pools start together, all may connect within two seconds`(poolCount: Int) {
        let budget = ConnectionBudget(poolCount: poolCount)
        let times = (0..<poolCount).map { _ in budget.reserveFirstOpening(nowMilliseconds: 0) }
        #expect(times.max() ?? 0 <= 2_000)
        #expect(Set(times).count > 300, "they do not connect at once")
    }

    // MARK: - Addresses without a route, such as those of IPv6 in a network with only IPv4

    /// Reserves one usable connection to each address.
    private func connect(_ budget: ConnectionBudget, to addresses: [SocketAddress], at nowMilliseconds: Int64 = 0) {
        for address in addresses {
            _ = reserve(from: budget, all: [address], isEssential: true, at: nowMilliseconds)
            budget.noteUsable(address, nowMilliseconds: nowMilliseconds)
        }
    }

    @Test func `An address with a remembered failure comes after all others`() throws {
        let addresses = try makeAddresses(16)
        let (liveAddresses, deadAddresses) = (addresses[..<8], addresses[8...])
        let budget = ConnectionBudget()
        connect(budget, to: Array(liveAddresses))
        for address in deadAddresses { budget.noteFailure(of: address, nowMilliseconds: 0) }
        // All addresses have been avoided for a minute, and the dead ones have the fewest connections.
        let address = try #require(reserve(from: budget, all: addresses, isEssential: true, at: 61_000))
        #expect(liveAddresses.contains(address))
    }

    /// The failures of the dead addresses are forgotten, so the pool's first attempt chooses one of them.
    @Test func `After a failed attempt, a pool without a connection chooses an address that works`() throws {
        let addresses = try makeAddresses(16)
        let (liveAddresses, deadAddresses) = (addresses[..<8], addresses[8...])
        let budget = ConnectionBudget()
        connect(budget, to: Array(liveAddresses))
        let firstAddress = try #require(reserve(from: budget, all: addresses, isEssential: true, at: 1_000))
        try #require(deadAddresses.contains(firstAddress))
        budget.noteFailure(of: firstAddress, nowMilliseconds: 1_001)
        budget.release(firstAddress)
        let secondAddress = try #require(
            reserve(from: budget, all: addresses, isEssential: true, failedAttemptAtMilliseconds: 1_000, at: 2_000)
        )
        #expect(liveAddresses.contains(secondAddress))
        // When the last usable connection to an address has ended, the address no longer counts as one that works.
        for address in liveAddresses.dropFirst() { budget.release(address, wasUsable: true) }
        let thirdAddress = try #require(
            reserve(from: budget, all: addresses, isEssential: true, failedAttemptAtMilliseconds: 1_000, at: 3_000)
        )
        #expect(thirdAddress == liveAddresses.first)
    }

    /// The attempts of all pools failed in an outage. The pools spread over all addresses, not only the first one that
    /// works again.
    @Test func `An address that became usable after the failed attempt does not get all connections`() throws {
        let addresses = try makeAddresses(3)
        let budget = ConnectionBudget()
        for address in addresses { budget.noteFailure(of: address, nowMilliseconds: 0) }
        connect(budget, to: [addresses[0]], at: 1_000)
        let reservedAddresses = (0..<2)
            .compactMap { _ in
                reserve(from: budget, all: addresses, isEssential: true, failedAttemptAtMilliseconds: 0, at: 2_000)
            }
        #expect(Set(reservedAddresses) == Set(addresses[1...]))
    }

    @Test func `An IPv4 address that works again does not make the failures of IPv6 forgotten`() throws {
        let addresses = try makeAddresses(2)
        let addressOfIPv6 = try #require(SocketAddress(numeric: "2001:db8::1", port: 443))
        let budget = ConnectionBudget()
        for address in addresses + [addressOfIPv6] { budget.noteFailure(of: address, nowMilliseconds: 0) }
        connect(budget, to: [addresses[0]])
        let reservedAddresses = (0..<4).compactMap { _ in reserve(from: budget, all: addresses + [addressOfIPv6]) }
        #expect(reservedAddresses.count == 4 && Set(reservedAddresses) == Set(addresses))
    }

    /// Nothing listens at four of five addresses. Another pool has a connection to the fifth.
    @Test func `A pool connects at the second attempt although most addresses are dead`() throws {
        let fixture = try PoolFixture {
            $0.host = "apns.example.com"
            $0.openingIntervalMilliseconds = 200
        }
        let liveAddress = SocketAddress.loopback(port: fixture.server.port)
        let deadAddresses = try (2...5)
            .map { try #require(SocketAddress(numeric: "127.0.0.\($0)", port: fixture.server.port)) }
        fixture.loop.hostLookup = { _, _ in .success(deadAddresses + [liveAddress]) }
        connect(fixture.pool.configuration.connectionBudget, to: [liveAddress])
        fixture.pool.start()
        fixture.runLoop(until: { fixture.pool.gauges.readyConnectionCount == 1 })
        #expect(fixture.recorder.closeCauses == [.connectFailed])
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
