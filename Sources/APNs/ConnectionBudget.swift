import Reactor
import Synchronization

/// The connections of a process to all of APNs, and to each of its addresses: shared by the pools of every lane.
///
/// The limits hold back growth. The only connection of a pool, and one that takes up a new key, are given a place in any case: without
/// it one app would stand still because of what another needs.
///
/// Locked, and touched only when a connection opens or ends.
public final class ConnectionBudget: Sendable {
    private struct State {
        var total = 0
        var byAddress: [SocketAddress: Int] = [:]
    }

    /// Connections at one time. Range 1 to 4,096.
    public let connectionsMax: Int
    /// Connections to one address at one time. In the field two for each of APNs' about eight addresses have been enough for a
    /// process (pushy discussion 1052). Range 1 to 4,096.
    public let connectionsPerAddressMax: Int
    private let state = Mutex(State())

    public init(connectionsMax: Int = 64, connectionsPerAddressMax: Int = 16) {
        precondition((1...4_096).contains(connectionsMax) && (1...4_096).contains(connectionsPerAddressMax))
        self.connectionsMax = connectionsMax
        self.connectionsPerAddressMax = connectionsPerAddressMax
    }

    /// Takes a place at one of the addresses: of those in `preferred` if there is room, else of any, and there where the process has
    /// the fewest. Nil if none has room.
    ///
    /// - Parameter isNeeded: whether the pool cannot do without it; then the limits do not count.
    func take(preferred: [SocketAddress], all: [SocketAddress], isNeeded: Bool) -> SocketAddress? {
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

    /// Whether one more connection may be opened that its pool could do without, if its address has room too.
    var hasRoom: Bool { state.withLock { $0.total < connectionsMax } }

    /// Gives a place back.
    func give(_ address: SocketAddress) {
        state.withLock { state in
            guard let count = state.byAddress[address] else { preconditionFailure("a place that was not taken") }
            state.total -= 1
            state.byAddress[address] = count > 1 ? count - 1 : nil
        }
    }

    /// Connections that are open or opening.
    public var count: Int { state.withLock { $0.total } }
}
