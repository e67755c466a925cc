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
    }

    /// The limit on the pools' connections at one time. Range 1 to 4,096.
    public let connectionsMax: Int
    /// The limit on the pools' connections to one address at one time. Users of the library pushy needed no more
    /// than two for each of APNs' about eight addresses (pushy discussion 1052). Range 1 to 4,096.
    public let connectionsPerAddressMax: Int
    private let state = Mutex(State())

    public init(connectionsMax: Int = 64, connectionsPerAddressMax: Int = 16) {
        precondition((1...4_096).contains(connectionsMax) && (1...4_096).contains(connectionsPerAddressMax))
        self.connectionsMax = connectionsMax
        self.connectionsPerAddressMax = connectionsPerAddressMax
    }

    /// Reserves a connection to one address, and returns this address: one of `preferred` if such an address has room,
    /// otherwise one of `all`. If several addresses of this list have room, chooses the one to which the pools have the
    /// fewest connections.
    ///
    /// - Parameter isEssential: if true, the limits do not apply.
    /// - Returns: nil if the limit in total, or the limit of every address, is reached; or if `all` is empty.
    func reserveAddress(preferred: [SocketAddress], all: [SocketAddress], isEssential: Bool) -> SocketAddress? {
        state.withLock { state in
            guard isEssential || state.connectionCount < connectionsMax else { return nil }
            for candidates in [preferred, all] {
                let addressesWithRoom = candidates.shuffled()
                    .filter {
                        isEssential || state.connectionCountsByAddress[$0, default: 0] < connectionsPerAddressMax
                    }
                let leastUsedAddress = addressesWithRoom.min {
                    state.connectionCountsByAddress[$0, default: 0] < state.connectionCountsByAddress[$1, default: 0]
                }
                guard let leastUsedAddress else { continue }
                state.connectionCount += 1
                state.connectionCountsByAddress[leastUsedAddress, default: 0] += 1
                return leastUsedAddress
            }
            return nil
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
