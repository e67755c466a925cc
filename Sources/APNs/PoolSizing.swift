/// How many connections a pool keeps. Pure; time is an argument.
///
/// Looked at once per ``intervalMilliseconds``:
/// - **One more** when pushes were turned away for want of a stream for at least half of the interval, unless more than
///   ``errorPercentMax`` of its pushes failed or a typical answer took more than ``roundTripFactorMax`` times the shortest
///   round trip of the last minutes: then it is APNs, or this host, that is slow, and more connections make it worse. Openings keep
///   their own distance beside this.
/// - **One fewer** when for ``PoolConfiguration/shrinkMilliseconds`` no interval had more in flight than half of what one connection
///   fewer carries. Apple asks for connections that last, so this is minutes. One that was asked for and never came up is given up
///   by the same rule.
/// - What is there beyond those that are wanted goes at once: ``Pool/retireSurplus()``.
/// Never fewer than ``PoolConfiguration/connectionsMin``, never more than ``PoolConfiguration/connectionsMax``.
struct PoolSizing {
    enum Change: Equatable {
        case none, grow, shrink
    }

    /// What an interval saw.
    struct Interval: Equatable {
        var starvedMilliseconds: Int64 = 0
        /// Pushes that came to their end, and those of them that APNs failed.
        var ends = 0
        var errors = 0
        /// Of those that APNs answered: what was lost, or given up, says nothing about the distance.
        var answers = 0
        var roundTripMillisecondsSum: Int64 = 0
        var roundTripMillisecondsMin = Int64.max
        var inFlightPeak = 0

        /// A push came to its end after so long.
        mutating func count(isError: Bool, isAnswered: Bool, roundTripMilliseconds: Int64) {
            ends += 1
            if isError { errors += 1 }
            guard isAnswered else { return }
            answers += 1
            roundTripMillisecondsSum += roundTripMilliseconds
            roundTripMillisecondsMin = min(roundTripMillisecondsMin, roundTripMilliseconds)
        }
    }

    static let intervalMilliseconds: Int64 = 1_000
    /// Share of an interval without a free stream, above which one more connection is wanted.
    static let starvedPercentMin: Int64 = 50
    static let errorPercentMax = 10
    static let roundTripFactorMax: Int64 = 4
    /// Round trips below this are never called slow: at such distances the loop's own turns are most of them.
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

    /// What the interval that ends now means for the number of connections.
    ///
    /// - Parameters:
    ///   - carrying: connections that take pushes side by side.
    ///   - streamsPerConnection: what one of them carries.
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
            // Those that were asked for before come first.
            guard carrying >= wanted, wanted < connectionsMax, !isTroubled(interval) else { return .none }
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
        guard interval.answers > 0 else { return }
        let isOld = now - shortestRoundTripAt >= Self.roundTripMemoryMilliseconds
        guard isOld || interval.roundTripMillisecondsMin <= shortestRoundTrip else { return }
        shortestRoundTrip = interval.roundTripMillisecondsMin
        shortestRoundTripAt = now
    }

    private func isTroubled(_ interval: Interval) -> Bool {
        if interval.errors * 100 > interval.ends * Self.errorPercentMax { return true }
        guard interval.answers > 0 else { return false }
        let typical = interval.roundTripMillisecondsSum / Int64(interval.answers)
        return typical > Self.roundTripMillisecondsIgnored && typical / Self.roundTripFactorMax > shortestRoundTrip
    }
}
