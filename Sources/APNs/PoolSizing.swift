/// Decides how many connections a pool keeps. Does no I/O; time is an argument.
///
/// The pool asks once per ``intervalMilliseconds``:
/// - The pool opens **one more** connection if it had no free stream for at least half of the interval and
///   turned pushes away. It opens none if more than ``errorPercentMax`` of the interval's pushes failed, or if
///   the mean response took more than ``roundTripFactorMax`` times the shortest round trip of the last minutes.
///   APNs or this host is then slow, and more connections would make both slower. The spacing between openings
///   applies as well.
/// - The pool keeps **one fewer** if, for ``PoolConfiguration/shrinkMilliseconds``, no interval had more pushes
///   in flight than half of what one connection fewer can carry. This time is minutes, because Apple asks for
///   connections that last. The pool also lowers the number if a wanted connection never opened.
/// - ``Pool/retireSurplus()`` retires connections beyond the wanted number, one per interval.
///
/// Never fewer than ``PoolConfiguration/connectionsMin``, never more than
/// ``PoolConfiguration/connectionsMax``.
struct PoolSizing {
    enum Change: Equatable {
        case none, grow, shrink
    }

    /// The counts of one interval.
    struct Interval: Equatable {
        var starvedMilliseconds: Int64 = 0
        /// Pushes that ended, and how many of them failed because of APNs (5xx, timeout, 403).
        var ends = 0
        var errors = 0
        /// Pushes that APNs answered. Only these count as round trips: a push that was lost or timed out has
        /// no round trip.
        var responses = 0
        var roundTripMillisecondsSum: Int64 = 0
        var roundTripMillisecondsMin = Int64.max
        var inFlightPeak = 0

        /// Counts a push that ended after `roundTripMilliseconds`.
        mutating func count(isError: Bool, isAnswered: Bool, roundTripMilliseconds: Int64) {
            ends += 1
            if isError { errors += 1 }
            guard isAnswered else { return }
            responses += 1
            roundTripMillisecondsSum += roundTripMilliseconds
            roundTripMillisecondsMin = min(roundTripMillisecondsMin, roundTripMilliseconds)
        }
    }

    static let intervalMilliseconds: Int64 = 1_000
    /// The share of an interval without a free stream, in per cent, from which one more connection is wanted.
    static let starvedPercentMin: Int64 = 50
    static let errorPercentMax = 10
    static let roundTripFactorMax: Int64 = 4
    /// A mean round trip up to this is never judged slow, because the loop's own turns take much of so short
    /// a time.
    static let roundTripMillisecondsIgnored: Int64 = 250
    /// How long the shortest round trip is remembered.
    static let roundTripMemoryMilliseconds: Int64 = 120_000

    private let connectionsMin: Int
    private let connectionsMax: Int
    private let shrinkMilliseconds: Int64
    private(set) var wanted: Int
    private var shortestRoundTrip = Int64.max
    private var shortestRoundTripAt: Int64 = 0
    private var surplusSince: Int64?

    init(_ configuration: PoolConfiguration) {
        connectionsMin = min(configuration.connectionsMin, configuration.connectionsMax)
        connectionsMax = configuration.connectionsMax
        shrinkMilliseconds = configuration.shrinkMilliseconds
        wanted = connectionsMin
    }

    /// Closes an interval and changes the number of wanted connections by at most one.
    ///
    /// - Parameters:
    ///   - carrying: the number of `open` connections.
    ///   - streamsPerConnection: how many pushes one `open` connection may have in flight.
    @discardableResult
    mutating func end(
        _ interval: Interval,
        carrying: Int,
        streamsPerConnection: Int,
        now: Int64
    ) -> Change {
        noteRoundTrip(interval, now: now)
        if interval.starvedMilliseconds * 100 >= Self.intervalMilliseconds * Self.starvedPercentMin {
            surplusSince = nil
            // Want one more connection only when all connections that were wanted before are open.
            guard carrying >= wanted, wanted < connectionsMax, !isFailing(interval) else { return .none }
            wanted += 1
            return .grow
        }
        let room = min(carrying, wanted - 1) * streamsPerConnection
        guard wanted > connectionsMin, interval.inFlightPeak * 2 <= room else {
            surplusSince = nil
            return .none
        }
        guard let since = surplusSince else {
            surplusSince = now
            return .none
        }
        guard now - since >= shrinkMilliseconds else { return .none }
        surplusSince = now
        wanted -= 1
        return .shrink
    }

    private mutating func noteRoundTrip(_ interval: Interval, now: Int64) {
        guard interval.responses > 0 else { return }
        let isOld = now - shortestRoundTripAt >= Self.roundTripMemoryMilliseconds
        guard isOld || interval.roundTripMillisecondsMin <= shortestRoundTrip else { return }
        shortestRoundTrip = interval.roundTripMillisecondsMin
        shortestRoundTripAt = now
    }

    private func isFailing(_ interval: Interval) -> Bool {
        if interval.errors * 100 > interval.ends * Self.errorPercentMax { return true }
        guard interval.responses > 0 else { return false }
        let typical = interval.roundTripMillisecondsSum / Int64(interval.responses)
        return typical > Self.roundTripMillisecondsIgnored && typical / Self.roundTripFactorMax > shortestRoundTrip
    }
}
