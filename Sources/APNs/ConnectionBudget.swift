import Reactor
import Synchronization

/// Limits the connections of all pools of a process, in total and to each address. The pools of all lanes share one
/// budget. The connections of ``ChannelManagement`` do not count.
///
/// The limits do not apply to an *essential* connection. Such a connection tries a new signing key, replaces a
/// connection with an old key, or is its pool's only connection that is not retired. With limits for essential
/// connections, one app's connections could keep another app from sending.
///
/// A lock guards the counts. Pools take the lock when a connection opens or ends, never for a push.
public final class ConnectionBudget: Sendable {
    private struct State {
        var connectionCount = 0
        var connectionCountsByAddress: [SocketAddress: Int] = [:]
        /// The usable connections to each address, and since when the address has had one without a break. An address
        /// without a usable connection has no entry.
        var usableConnections: [SocketAddress: (count: Int, sinceMilliseconds: Int64)] = [:]
        /// For each address with a remembered failure: when the last connection to the address failed, or when the last
        /// attempt after this failure began. An entry is removed after `failureMemoryMilliseconds`, or by
        /// ``noteUsable(_:nowMilliseconds:)``.
        var failureTimesMilliseconds: [SocketAddress: Int64] = [:]

        mutating func forgetOldFailures(nowMilliseconds: Int64) {
            guard !failureTimesMilliseconds.isEmpty else { return }
            failureTimesMilliseconds = failureTimesMilliseconds.filter {
                nowMilliseconds - $0.value < ConnectionBudget.failureMemoryMilliseconds
            }
        }

        /// Whether a connection to the address failed in the last `avoidanceMilliseconds`.
        func isAvoided(_ address: SocketAddress, nowMilliseconds: Int64) -> Bool {
            guard let failedAtMilliseconds = failureTimesMilliseconds[address] else { return false }
            return nowMilliseconds - failedAtMilliseconds < ConnectionBudget.avoidanceMilliseconds
        }

        /// A key to sort addresses: the address with the lowest rank gets the next connection. First come the addresses
        /// without a remembered failure, and among these the one with the fewest connections. Then come the others, and
        /// among these the one whose failure is oldest. An address that always fails, such as an IPv6 address without a
        /// route, has the fewest connections, so the connections must not decide about it.
        func rank(_ address: SocketAddress) -> (Int64, Int) {
            (failureTimesMilliseconds[address] ?? .min, connectionCountsByAddress[address, default: 0])
        }

        /// Whether the address has had a usable connection since this time, and no failure is remembered.
        func isProven(_ address: SocketAddress, sinceMilliseconds: Int64) -> Bool {
            guard failureTimesMilliseconds[address] == nil, let usable = usableConnections[address] else {
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
    /// How long the pools avoid an address after a connection to it failed, if another address has room. A failed
    /// attempt gives back its place at once, so without this time the pools would choose a dead address again and
    /// again: it has the fewest connections.
    static let avoidanceMilliseconds: Int64 = 60_000
    /// How long the failure of an address is remembered: longer than the address is avoided. In an outage, the address
    /// that works first again is often one whose avoidance has just ended (``noteUsable(_:nowMilliseconds:)``). Ten
    /// minutes are enough for a single pool with the longest back-off to try all of about eight addresses again.
    static let failureMemoryMilliseconds: Int64 = 600_000
    /// The maximum number of addresses whose failure is known at one time (R4). APNs has about eight for each host.
    static let failedAddressesMax = 256
    private let state = Mutex(State())

    public init(connectionsMax: Int = 64, connectionsPerAddressMax: Int = 16) {
        precondition((1...4_096).contains(connectionsMax) && (1...4_096).contains(connectionsPerAddressMax))
        self.connectionsMax = connectionsMax
        self.connectionsPerAddressMax = connectionsPerAddressMax
    }

    /// Reserves a connection to one address, and returns this address. Chooses among the addresses of `preferred` that
    /// have room and are not avoided (``avoidanceMilliseconds``). If there is none, chooses among those of `all` that
    /// have room. Of several addresses, takes one without a remembered failure and with the fewest connections.
    ///
    /// A pool without a live connection whose last attempt has failed gets an address that surely works, if there is
    /// one: an address with a usable connection since before this attempt. An address that became usable later does not
    /// count. After an outage it may be the only one, and all pools would connect to it.
    ///
    /// - Parameters:
    ///   - isEssential: if true, the limits do not apply.
    ///   - failedAttemptAtMilliseconds: when the failed attempt of a pool without a live connection began; otherwise
    ///     nil.
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
            let provenAddresses = all.filter { address in
                failedAttemptAtMilliseconds.map { state.isProven(address, sinceMilliseconds: $0) } ?? false
            }
            for candidates in [provenAddresses, unavoidedAddresses, all] {
                let addressesWithRoom = candidates.shuffled()
                    .filter {
                        isEssential || state.connectionCountsByAddress[$0, default: 0] < connectionsPerAddressMax
                    }
                guard let address = addressesWithRoom.min(by: { state.rank($0) < state.rank($1) }) else { continue }
                state.connectionCount += 1
                state.connectionCountsByAddress[address, default: 0] += 1
                // If the address has failed, this attempt counts as a failure until it succeeds. So the next pool tries
                // another address. Otherwise all pools would connect to the address whose failure is oldest.
                if state.failureTimesMilliseconds[address] != nil {
                    state.failureTimesMilliseconds[address] = nowMilliseconds
                }
                return address
            }
            return nil
        }
    }

    /// Notes that a connection to the address failed: it did not become usable, or served no requests.
    func noteFailure(of address: SocketAddress, nowMilliseconds: Int64) {
        state.withLock { state in
            state.forgetOldFailures(nowMilliseconds: nowMilliseconds)
            if state.failureTimesMilliseconds[address] == nil,
                state.failureTimesMilliseconds.count >= Self.failedAddressesMax,
                let oldestFailure = state.failureTimesMilliseconds.min(by: { $0.value < $1.value })
            {
                state.failureTimesMilliseconds[oldestFailure.key] = nil
            }
            state.failureTimesMilliseconds[address] = nowMilliseconds
        }
    }

    /// Notes that a connection to the address is usable. If a failure of this address is remembered, forgets the
    /// failures of all addresses of its family (IPv4 or IPv6): usually they had one cause, such as a fault of the
    /// network, and it has ended. Otherwise all pools would open their connections to this address, because the other
    /// addresses would still be avoided. The other family may have no route at all, so its failures stay.
    func noteUsable(_ address: SocketAddress, nowMilliseconds: Int64) {
        state.withLock { state in
            state.usableConnections[address, default: (count: 0, sinceMilliseconds: nowMilliseconds)].count += 1
            guard state.failureTimesMilliseconds[address] != nil else { return }
            state.failureTimesMilliseconds = state.failureTimesMilliseconds.filter { $0.key.family != address.family }
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
