import Reactor
import Synchronization

/// Limits the process's connections to all of APNs and to each address. The pools of all lanes share one
/// budget.
///
/// The limits do not apply to a pool's only connection or to a connection for a new key. Otherwise one app's
/// connections could keep another app from sending.
///
/// A lock guards the counts. Pools take it when a connection opens or ends, never for a push.
public final class ConnectionBudget: Sendable {
    private struct State {
        var total = 0
        var countsByAddress: [SocketAddress: Int] = [:]
    }

    /// The most connections of the process at one time. Range 1 to 4,096.
    public let connectionsMax: Int
    /// The most connections of the process to one address at one time. Users of the library pushy needed no
    /// more than two for each of APNs' about eight addresses (pushy discussion 1052). Range 1 to 4,096.
    public let connectionsPerAddressMax: Int
    private let state = Mutex(State())

    public init(connectionsMax: Int = 64, connectionsPerAddressMax: Int = 16) {
        precondition((1...4_096).contains(connectionsMax) && (1...4_096).contains(connectionsPerAddressMax))
        self.connectionsMax = connectionsMax
        self.connectionsPerAddressMax = connectionsPerAddressMax
    }

    /// Reserves a connection to one address: one of `preferred` if such an address has room, otherwise one of
    /// `all`. Chooses the address to which the process has the fewest connections.
    ///
    /// - Parameter isNeeded: whether the pool cannot do without the connection. If true, the limits do not
    ///   apply.
    /// - Returns: nil if no address has room.
    func acquire(preferred: [SocketAddress], all: [SocketAddress], isNeeded: Bool) -> SocketAddress? {
        state.withLock { state in
            guard isNeeded || state.total < connectionsMax else { return nil }
            for candidates in [preferred, all] {
                let addressesWithRoom = candidates.shuffled()
                    .filter { isNeeded || state.countsByAddress[$0, default: 0] < connectionsPerAddressMax }
                let leastUsedAddress = addressesWithRoom.min {
                    state.countsByAddress[$0, default: 0] < state.countsByAddress[$1, default: 0]
                }
                guard let leastUsedAddress else { continue }
                state.total += 1
                state.countsByAddress[leastUsedAddress, default: 0] += 1
                return leastUsedAddress
            }
            return nil
        }
    }

    /// Whether the process is below `connectionsMax`. A new connection also needs room at its address.
    var hasRoom: Bool { state.withLock { $0.total < connectionsMax } }

    /// Releases the reservation of a connection that has ended.
    func release(_ address: SocketAddress) {
        state.withLock { state in
            guard let count = state.countsByAddress[address] else { preconditionFailure("a place that was not taken") }
            state.total -= 1
            state.countsByAddress[address] = count > 1 ? count - 1 : nil
        }
    }

    /// The process's connections that are open or being opened.
    public var count: Int { state.withLock { $0.total } }
}
