import Reactor
import Synchronization

/// Limits the connections of all pools of a process, in total and to each address. The pools of all lanes share one
/// budget. The connections of ``ChannelManagementClient`` do not count.
///
/// The limits do not apply to an *essential* connection, so that one app's connections cannot keep another app from
/// sending. Such a connection is its pool's only connection that is not retired, tries a new signing key, or replaces a
/// connection with an old key.
///
/// A lock guards the counts. Pools take it when a connection opens or ends, never for a push.
public final class ConnectionBudget: Sendable {
    private struct State {
        var connectionCount = 0
        var connectionCountsByAddress: [SocketAddress: Int] = [:]
        /// For each address with usable connections: their number, and since when there has always been at least one.
        var usableConnections: [SocketAddress: (count: Int, sinceMilliseconds: Int64)] = [:]
        /// The addresses that failed in the last `failureMemoryMilliseconds`, and when. A later attempt to connect to
        /// such an address replaces the time by its own.
        var failedAtMillisecondsByAddress: [SocketAddress: Int64] = [:]
        /// When the next pool that starts may open its first connection; `.min` until a pool has started.
        var nextFirstOpeningAtMicroseconds: Int64 = .min

        mutating func forgetOldFailures(nowMilliseconds: Int64) {
            guard !failedAtMillisecondsByAddress.isEmpty else { return }
            failedAtMillisecondsByAddress = failedAtMillisecondsByAddress.filter {
                nowMilliseconds - $0.value < ConnectionBudget.failureMemoryMilliseconds
            }
        }

        /// Whether a connection to the address failed in the last `avoidanceMilliseconds`.
        func isAvoided(_ address: SocketAddress, nowMilliseconds: Int64) -> Bool {
            guard let failedAtMilliseconds = failedAtMillisecondsByAddress[address] else { return false }
            return nowMilliseconds - failedAtMilliseconds < ConnectionBudget.avoidanceMilliseconds
        }

        /// The sort key of an address; the lowest comes first. Addresses without a remembered failure come first, by
        /// the number of their connections; then the others, the oldest failure first. An address that always fails,
        /// such as an IPv6 address without a route, always has the fewest connections, so their number does not count
        /// here.
        func rank(_ address: SocketAddress) -> (Int64, Int) {
            (failedAtMillisecondsByAddress[address] ?? .min, connectionCountsByAddress[address, default: 0])
        }

        /// Whether the address has had a usable connection all the time since `sinceMilliseconds`, and no failure of
        /// the address is remembered.
        func hasWorked(_ address: SocketAddress, sinceMilliseconds: Int64) -> Bool {
            guard failedAtMillisecondsByAddress[address] == nil, let usable = usableConnections[address] else {
                return false
            }
            return usable.sinceMilliseconds <= sinceMilliseconds
        }
    }

    /// The limit on the pools' connections at one time. Range 1 to 4,096.
    public let connectionsMax: Int
    /// The limit on the pools' connections to one address at one time. Users of the library pushy needed no more
    /// than two for each of APNs' about eight addresses (pushy discussion 1052). Range 1 to 4,096.
    public let connectionsPerAddressMax: Int
    /// How long the pools avoid an address after a failed connection, if another address has room. An address that is
    /// dead has the fewest connections, so without this time the pools would choose it again and again.
    static let avoidanceMilliseconds: Int64 = 60_000
    /// How long the failure of an address is remembered: at the end of an outage, ``noteUsable(_:nowMilliseconds:)``
    /// must know that the first address that works again had failed. In ten minutes, even a single pool with the
    /// longest back-off tries all of APNs' about eight addresses again.
    static let failureMemoryMilliseconds: Int64 = 600_000
    /// The maximum number of addresses whose failure is known at one time (R4). APNs has about eight for each host.
    static let failedAddressesMax = 256
    /// The longest time from a pool's first connection to the first connection of the next pool. Apple asks senders not
    /// to open all connections at once (developer forums, thread 778909).
    private static let firstOpeningIntervalMicrosecondsMax: Int64 = 50_000
    /// The time in which all pools of the budget open their first connections, however many pools there are. It must be
    /// shorter than `OutageWatch.outageAfterMilliseconds` (5 s): a pool without a connection for so long seems to have
    /// an outage.
    private static let firstOpeningsMicrosecondsMax: Int64 = 2_000_000
    private let firstOpeningIntervalMicroseconds: Int64
    private let state = Mutex(State())

    /// - Parameter poolCount: how many pools share the budget.
    public init(connectionsMax: Int = 64, connectionsPerAddressMax: Int = 16, poolCount: Int = 1) {
        precondition((1...4_096).contains(connectionsMax) && (1...4_096).contains(connectionsPerAddressMax))
        self.connectionsMax = connectionsMax
        self.connectionsPerAddressMax = connectionsPerAddressMax
        firstOpeningIntervalMicroseconds = min(
            ConnectionBudget.firstOpeningIntervalMicrosecondsMax,
            ConnectionBudget.firstOpeningsMicrosecondsMax / Int64(max(1, poolCount))
        )
    }

    /// Reserves the time of a pool's first connection, and returns it. Every pool calls this method once, when it
    /// starts. The times of pools that start together are 50 ms apart, or less if there are more than 40 pools.
    func reserveFirstOpening(nowMilliseconds: Int64) -> Int64 {
        state.withLock { state in
            let openingAtMicroseconds = max(state.nextFirstOpeningAtMicroseconds, nowMilliseconds * 1_000)
            state.nextFirstOpeningAtMicroseconds = openingAtMicroseconds + firstOpeningIntervalMicroseconds
            return openingAtMicroseconds / 1_000
        }
    }

    /// Reserves a connection to one address, and returns this address. Takes the address with the lowest `rank` from
    /// the first of these groups that has an address with room:
    /// 1. For a pool without a live connection whose last attempt failed: the addresses that have had a usable
    ///    connection since before that attempt. (One that works only since then may be the only one after an outage,
    ///    and all pools would connect to it.)
    /// 2. The addresses of `preferred` that are not avoided (``avoidanceMilliseconds``).
    /// 3. The addresses of `all`.
    ///
    /// - Parameters:
    ///   - isEssential: if true, the limits do not apply.
    ///   - failedAttemptAtMilliseconds: when that attempt began; nil if the pool has a live connection, or no attempt
    ///     failed.
    /// - Returns: nil if the limit in total, or the limit of every address, is reached; or if `all` is empty.
    func reserveAddress(
        preferred: [SocketAddress],
        all: [SocketAddress],
        isEssential: Bool,
        failedAttemptAtMilliseconds: Int64? = nil,
        nowMilliseconds: Int64
    ) -> SocketAddress? {
        state.withLock { state in
            guard isEssential || state.connectionCount < connectionsMax else { return nil }
            state.forgetOldFailures(nowMilliseconds: nowMilliseconds)
            let unavoidedAddresses = preferred.filter { !state.isAvoided($0, nowMilliseconds: nowMilliseconds) }
            let workingAddresses = all.filter { address in
                failedAttemptAtMilliseconds.map { state.hasWorked(address, sinceMilliseconds: $0) } ?? false
            }
            for candidates in [workingAddresses, unavoidedAddresses, all] {
                let addressesWithRoom = candidates.shuffled()
                    .filter {
                        isEssential || state.connectionCountsByAddress[$0, default: 0] < connectionsPerAddressMax
                    }
                guard let address = addressesWithRoom.min(by: { state.rank($0) < state.rank($1) }) else { continue }
                state.connectionCount += 1
                state.connectionCountsByAddress[address, default: 0] += 1
                // A failed address gets a new failure time when an attempt begins, so that the next pool tries another
                // address. Otherwise all pools would connect to the address whose failure is oldest.
                if state.failedAtMillisecondsByAddress[address] != nil {
                    state.failedAtMillisecondsByAddress[address] = nowMilliseconds
                }
                return address
            }
            return nil
        }
    }

    /// Notes that a connection to the address failed: it did not become usable, served no requests, or allowed none.
    /// Forgets the oldest failure if there is no room for another one.
    func noteFailure(of address: SocketAddress, nowMilliseconds: Int64) {
        state.withLock { state in
            state.forgetOldFailures(nowMilliseconds: nowMilliseconds)
            if state.failedAtMillisecondsByAddress[address] == nil,
                state.failedAtMillisecondsByAddress.count >= Self.failedAddressesMax,
                let oldestFailure = state.failedAtMillisecondsByAddress.min(by: { $0.value < $1.value })
            {
                state.failedAtMillisecondsByAddress[oldestFailure.key] = nil
            }
            state.failedAtMillisecondsByAddress[address] = nowMilliseconds
        }
    }

    /// Notes that a connection to the address is usable. If the address had failed, also forgets the failures of all
    /// addresses of its family (IPv4 or IPv6), because the fault has probably ended for all of them. Otherwise all
    /// pools would avoid the others, and connect to this one.
    func noteUsable(_ address: SocketAddress, nowMilliseconds: Int64) {
        state.withLock { state in
            state.usableConnections[address, default: (count: 0, sinceMilliseconds: nowMilliseconds)].count += 1
            guard state.failedAtMillisecondsByAddress[address] != nil else { return }
            state.failedAtMillisecondsByAddress = state.failedAtMillisecondsByAddress.filter {
                $0.key.family != address.family
            }
        }
    }

    /// Whether the pools have fewer than `connectionsMax` connections. A new connection also needs room at its address.
    var hasRoom: Bool { state.withLock { $0.connectionCount < connectionsMax } }

    /// Releases the reservation of a connection that has ended.
    ///
    /// - Parameter wasUsable: whether ``noteUsable(_:nowMilliseconds:)`` was called for the connection.
    func release(_ address: SocketAddress, wasUsable: Bool = false) {
        state.withLock { state in
            guard let count = state.connectionCountsByAddress[address] else {
                preconditionFailure("a place that was not taken")
            }
            state.connectionCount -= 1
            state.connectionCountsByAddress[address] = count > 1 ? count - 1 : nil
            guard wasUsable else { return }
            state.usableConnections[address]?.count -= 1
            if state.usableConnections[address]?.count == 0 { state.usableConnections[address] = nil }
        }
    }

    /// The pools' connections that have not ended, including those that are being opened.
    public var connectionCount: Int { state.withLock { $0.connectionCount } }
}
