/// Decides how many connections a pool wants. It does no I/O, and gets the time as an argument.
///
/// A pool *starves* from the moment when it refuses a push for lack of a free stream, until a stream is free. At the
/// end of each interval of ``intervalMilliseconds``, unless the breaker is open:
/// - The pool wants **one more** connection if it starved for at least half of the interval, all wanted connections are
///   open, and pushes neither fail nor are slow (`isFailingOrSlow`).
/// - The pool wants **one fewer** if one connection fewer was enough in each interval of the last
///   ``PoolConfiguration/shrinkAfterMilliseconds``.
///
/// The number is never below ``PoolConfiguration/connectionsMin`` or above ``PoolConfiguration/connectionsMax``.
struct PoolSizing {
    enum Change: Equatable {
        case none, grow, shrink
    }

    /// What a pool counts and measures in one interval.
    struct Interval: Equatable {
        /// How long the pool starved: it had refused a push, and no stream was free.
        var starvedMilliseconds: Int64 = 0
        var endedPushCount = 0
        /// The ended pushes with the ``CircuitBreakerSample`` `unavailable` or `providerRefused`: APNs is at fault, or
        /// refuses the provider.
        var failedPushCount = 0
        /// Pushes to which APNs responded. Only these pushes have a round trip; a push that was lost or timed out has
        /// none.
        var responseCount = 0
        var roundTripMillisecondsSum: Int64 = 0
        /// The shortest round trip; `.max` if there is no response.
        var roundTripMillisecondsMin = Int64.max
        var peakInFlightPushCount = 0

        mutating func countEndedPush(isFailure: Bool, hasFinalStatus: Bool, roundTripMilliseconds: Int64) {
            endedPushCount += 1
            if isFailure { failedPushCount += 1 }
            guard hasFinalStatus else { return }
            responseCount += 1
            roundTripMillisecondsSum += roundTripMilliseconds
            roundTripMillisecondsMin = min(roundTripMillisecondsMin, roundTripMilliseconds)
        }
    }

    static let intervalMilliseconds: Int64 = 1_000
    /// The pool wants one more connection only if it starved for at least this percentage of the interval.
    static let starvedPercentMin: Int64 = 50
    /// The pool wants no further connection if more than this percentage of the interval's pushes failed
    /// (``Interval/failedPushCount``).
    static let failurePercentMax = 10
    /// The pool wants no further connection while APNs is slow: the mean round trip of an interval is above
    /// ``fastRoundTripMillisecondsMax``, and more than this many times the shortest round trip that the pool remembers.
    static let fastRoundTripFactorMax: Int64 = 4
    /// A mean round trip up to this time never counts as slow: a large part of so short a time may be the work of the
    /// event loop, not of APNs.
    static let fastRoundTripMillisecondsMax: Int64 = 250
    /// How long the pool remembers the shortest round trip. After this time, the next interval with responses sets a
    /// new shortest round trip, which may be longer.
    static let shortestRoundTripAgeMillisecondsMax: Int64 = 120_000

    private let connectionsMin: Int
    private let connectionsMax: Int
    private let shrinkAfterMilliseconds: Int64
    private(set) var wantedConnectionCount: Int
    /// The shortest round trip that the pool remembers; `.max` before the first response.
    private var shortestRoundTripMilliseconds = Int64.max
    private var shortestRoundTripMeasuredAtMilliseconds: Int64 = 0
    /// Since when one connection fewer would have been enough; nil if all are needed, or
    /// ``PoolConfiguration/connectionsMin`` are wanted. Begins again when the pool gives up a connection, so that it
    /// keeps the others for at least ``PoolConfiguration/shrinkAfterMilliseconds``.
    private var surplusSinceMilliseconds: Int64?

    init(_ configuration: PoolConfiguration) {
        connectionsMin = min(configuration.connectionsMin, configuration.connectionsMax)
        connectionsMax = configuration.connectionsMax
        shrinkAfterMilliseconds = configuration.shrinkAfterMilliseconds
        wantedConnectionCount = connectionsMin
    }

    /// Ends an interval, and changes the number of wanted connections by at most one.
    ///
    /// - Parameters:
    ///   - openConnectionCount: the number of `open` connections.
    ///   - streamsMax: the lowest stream limit of the `open` connections; 0 if none is open.
    @discardableResult
    mutating func endInterval(
        _ interval: Interval,
        openConnectionCount: Int,
        streamsMax: Int,
        nowMilliseconds: Int64
    ) -> Change {
        updateShortestRoundTrip(interval, nowMilliseconds: nowMilliseconds)
        if interval.starvedMilliseconds * 100 >= Self.intervalMilliseconds * Self.starvedPercentMin {
            surplusSinceMilliseconds = nil
            guard openConnectionCount >= wantedConnectionCount, wantedConnectionCount < connectionsMax,
                !isFailingOrSlow(interval)
            else { return .none }
            wantedConnectionCount += 1
            return .grow
        }
        // One connection fewer is enough if the other open connections can carry twice the peak of pushes in flight.
        // For example, of 3 open connections with 1,000 streams each, 2 are enough if the peak is at most 1,000.
        let streamCountAfterShrink = min(openConnectionCount, wantedConnectionCount - 1) * streamsMax
        guard wantedConnectionCount > connectionsMin,
            interval.peakInFlightPushCount * 2 <= streamCountAfterShrink
        else {
            surplusSinceMilliseconds = nil
            return .none
        }
        guard let sinceMilliseconds = surplusSinceMilliseconds else {
            surplusSinceMilliseconds = nowMilliseconds
            return .none
        }
        guard nowMilliseconds - sinceMilliseconds >= shrinkAfterMilliseconds else { return .none }
        surplusSinceMilliseconds = nowMilliseconds
        wantedConnectionCount -= 1
        return .shrink
    }

    /// Remembers the interval's shortest round trip, unless a shorter one is remembered and not too old.
    private mutating func updateShortestRoundTrip(_ interval: Interval, nowMilliseconds: Int64) {
        guard interval.responseCount > 0 else { return }
        let isOld =
            nowMilliseconds - shortestRoundTripMeasuredAtMilliseconds >= Self.shortestRoundTripAgeMillisecondsMax
        guard isOld || interval.roundTripMillisecondsMin <= shortestRoundTripMilliseconds else { return }
        shortestRoundTripMilliseconds = interval.roundTripMillisecondsMin
        shortestRoundTripMeasuredAtMilliseconds = nowMilliseconds
    }

    /// Whether more than ``failurePercentMax`` per cent of the interval's pushes failed, or their mean round trip was
    /// slow (``fastRoundTripFactorMax``). APNs or this host may then be overloaded, and one more connection would add
    /// load.
    private func isFailingOrSlow(_ interval: Interval) -> Bool {
        if interval.failedPushCount * 100 > interval.endedPushCount * Self.failurePercentMax { return true }
        guard interval.responseCount > 0 else { return false }
        let meanRoundTripMilliseconds = interval.roundTripMillisecondsSum / Int64(interval.responseCount)
        return meanRoundTripMilliseconds > Self.fastRoundTripMillisecondsMax
            && meanRoundTripMilliseconds / Self.fastRoundTripFactorMax > shortestRoundTripMilliseconds
    }
}
