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
        /// When the last connection to an address failed. An address is not here if its last failure is older than
        /// `avoidanceMilliseconds`, or if a connection to it has become usable since.
        var failureTimesMilliseconds: [SocketAddress: Int64] = [:]

        mutating func forgetOldFailures(nowMilliseconds: Int64) {
            guard !failureTimesMilliseconds.isEmpty else { return }
            failureTimesMilliseconds = failureTimesMilliseconds.filter {
                nowMilliseconds - $0.value < ConnectionBudget.avoidanceMilliseconds
            }
        }

        /// The address with the lowest rank gets the next connection: an address without a failure comes first, then
        /// the one whose failure is oldest. Among addresses without a failure, the one with the fewest connections
        /// comes first.
        func rank(_ address: SocketAddress) -> (Int64, Int) {
            (failureTimesMilliseconds[address] ?? .min, connectionCountsByAddress[address, default: 0])
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
    /// The maximum number of addresses whose failure is known at one time (R4). APNs has about eight for each host.
    static let failedAddressesMax = 256
    private let state = Mutex(State())

    public init(connectionsMax: Int = 64, connectionsPerAddressMax: Int = 16) {
        precondition((1...4_096).contains(connectionsMax) && (1...4_096).contains(connectionsPerAddressMax))
        self.connectionsMax = connectionsMax
        self.connectionsPerAddressMax = connectionsPerAddressMax
    }

    /// Reserves a connection to one address, and returns this address: one of `preferred` if such an address has room
    /// and no connection to it has failed lately, otherwise one of `all`. Among several such addresses, chooses one to
    /// which no connection has failed lately, and with the fewest connections of the pools.
    ///
    /// - Parameter isEssential: if true, the limits do not apply.
    /// - Returns: nil if the limit in total, or the limit of every address, is reached; or if `all` is empty.
    func reserveAddress(
        preferred: [SocketAddress],
        all: [SocketAddress],
        isEssential: Bool,
        nowMilliseconds: Int64
    ) -> SocketAddress? {
        state.withLock { state in
            guard isEssential || state.connectionCount < connectionsMax else { return nil }
            state.forgetOldFailures(nowMilliseconds: nowMilliseconds)
            for candidates in [preferred.filter { state.failureTimesMilliseconds[$0] == nil }, all] {
                let addressesWithRoom = candidates.shuffled()
                    .filter {
                        isEssential || state.connectionCountsByAddress[$0, default: 0] < connectionsPerAddressMax
                    }
                guard let address = addressesWithRoom.min(by: { state.rank($0) < state.rank($1) }) else { continue }
                state.connectionCount += 1
                state.connectionCountsByAddress[address, default: 0] += 1
                return address
            }
            return nil
        }
    }

    /// Notes that a connection to the address failed: it did not become usable, or served no requests.
    func noteFailure(of address: SocketAddress, nowMilliseconds: Int64) {
        state.withLock { state in
            state.forgetOldFailures(nowMilliseconds: nowMilliseconds)
            guard
                state.failureTimesMilliseconds[address] != nil
                    || state.failureTimesMilliseconds.count < Self.failedAddressesMax
            else { return }
            state.failureTimesMilliseconds[address] = nowMilliseconds
        }
    }

    /// Notes that a connection to the address is usable. If a connection to the same address failed lately, the fault
    /// has ended, and usually it concerned all addresses, such as a fault of the network. So the failures of the
    /// others are forgotten too. Otherwise all pools would open their connections to this address.
    func noteUsable(_ address: SocketAddress) {
        state.withLock { state in
            if state.failureTimesMilliseconds[address] != nil { state.failureTimesMilliseconds.removeAll() }
        }
    }

    /// Whether the pools have fewer than `connectionsMax` connections. A new connection also needs room at its address.
    var hasRoom: Bool { state.withLock { $0.connectionCount < connectionsMax } }

    /// Releases the reservation of a connection that has ended.
    func release(_ address: SocketAddress) {
        state.withLock { state in
            guard let count = state.connectionCountsByAddress[address] else {
                preconditionFailure("a place that was not taken")
            }
            state.connectionCount -= 1
            state.connectionCountsByAddress[address] = count > 1 ? count - 1 : nil
        }
    }

    /// The pools' connections that have not ended, including those that are being opened.
    public var connectionCount: Int { state.withLock { $0.connectionCount } }
}
