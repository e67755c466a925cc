import Reactor
import Synchronization

/// Limits the process's connections to all of APNs and to each address. The pools of all lanes share it.
///
/// The limits hold back growth only. A pool's only connection, and a connection that takes up a new key, always get a
/// place: otherwise one app would stop because of the others.
///
/// Guarded by a lock, which is taken only when a connection opens or ends.
public final class ConnectionBudget: Sendable {
    private struct State {
        var total = 0
        var byAddress: [SocketAddress: Int] = [:]
    }

    /// The most connections at one time. Range 1 to 4,096.
    public let connectionsMax: Int
    /// The most connections to one address at one time. In the field, two for each of APNs' about eight addresses have
    /// been enough for a process (pushy discussion 1052). Range 1 to 4,096.
    public let connectionsPerAddressMax: Int
    private let state = Mutex(State())

    public init(connectionsMax: Int = 64, connectionsPerAddressMax: Int = 16) {
        precondition((1...4_096).contains(connectionsMax) && (1...4_096).contains(connectionsPerAddressMax))
        self.connectionsMax = connectionsMax
        self.connectionsPerAddressMax = connectionsPerAddressMax
    }

    /// Takes a place at one address: one of `preferred` if it has room, else any. Among several, the address with the
    /// fewest connections of the process wins. Nil if no address has room.
    ///
    /// - Parameter isNeeded: whether the pool cannot do without the connection; then the limits do not apply.
    func acquire(preferred: [SocketAddress], all: [SocketAddress], isNeeded: Bool) -> SocketAddress? {
        state.withLock { state in
            guard isNeeded || state.total < connectionsMax else { return nil }
            for choice in [preferred, all] {
                let open = choice.shuffled()
                    .filter { isNeeded || state.byAddress[$0, default: 0] < connectionsPerAddressMax }
                let fewest = open.min { state.byAddress[$0, default: 0] < state.byAddress[$1, default: 0] }
                guard let fewest else { continue }
                state.total += 1
                state.byAddress[fewest, default: 0] += 1
                return fewest
            }
            return nil
        }
    }

    /// Whether the process may open one more connection that its pool could do without. The address needs room as well.
    var hasRoom: Bool { state.withLock { $0.total < connectionsMax } }

    /// Returns the place of a connection that has ended.
    func release(_ address: SocketAddress) {
        state.withLock { state in
            guard let count = state.byAddress[address] else { preconditionFailure("a place that was not taken") }
            state.total -= 1
            state.byAddress[address] = count > 1 ? count - 1 : nil
        }
    }

    /// Connections that are open or opening.
    public var count: Int { state.withLock { $0.total } }
}
