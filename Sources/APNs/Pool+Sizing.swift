import Reactor

/// Once a second, opens or retires connections to get the number that ``PoolSizing`` decides, and retires connections
/// that have allowed no stream for too long.
extension Pool {
    /// Begins the next interval of ``PoolSizing``, and schedules its end. In it, pushes test provider tokens again
    /// whose last test has failed.
    func beginSizingInterval() {
        sizingInterval = PoolSizing.Interval()
        repeatFailedTokenTests()
        sizingIntervalBeganAtMilliseconds = loop.nowMilliseconds
        sizingTimer = loop.schedule(
            afterMilliseconds: PoolSizing.intervalMilliseconds,
            handler: self,
            tag: PoolTimer.sizing.rawValue
        )
    }

    /// Lets the next pushes test again whether APNs accepts the provider tokens of the `unauthenticated` connections
    /// (``Connection/hasTokenTestFailed``). Also clears the preferred connection, which would get these pushes first.
    private func repeatFailedTokenTests() {
        for connection in connections where connection.hasTokenTestFailed {
            connection.hasTokenTestFailed = false
            preferredConnection = nil
        }
    }

    /// Notes that the pool no longer starves (``PoolSizing``), and counts the time of starvation that lies in the
    /// current interval.
    func endStarvation() {
        guard let sinceMilliseconds = starvedSinceMilliseconds else { return }
        sizingInterval.starvedMilliseconds +=
            loop.nowMilliseconds - max(sinceMilliseconds, sizingIntervalBeganAtMilliseconds)
        starvedSinceMilliseconds = nil
    }

    /// Retires each connection that has allowed no stream for too long (``StreamAbsence``), so that another one is
    /// opened. Does not ask whether the pool starves: a lane whose pool has no stream offers it no push of an audience,
    /// so the pool cannot know that pushes wait.
    private func retireConnectionsWithoutStreams() {
        for connection in connections where connection.streamAbsence.isTooLong(nowMilliseconds: loop.nowMilliseconds) {
            connection.retire(.unresponsive)
        }
    }

    /// Ends an interval: decides how many connections are wanted (not while the breaker is open), opens or retires
    /// connections, takes the next steps in replacing a signing key, and begins the next interval. Does nothing unless
    /// the pool is `running`.
    func endSizingInterval() {
        guard phase == .running else { return }
        let isStarved = starvedSinceMilliseconds != nil
        endStarvation()
        if isStarved { starvedSinceMilliseconds = loop.nowMilliseconds }
        let openConnections = connections.filter { $0.phase == .open }
        if breaker.isClosed {
            sizing.endInterval(
                sizingInterval,
                openConnectionCount: openConnections.count,
                streamsMax: openConnections.map(\.streamsMax).min() ?? 0,
                nowMilliseconds: loop.nowMilliseconds
            )
        }
        retireConnectionsWithoutStreams()
        retireSurplusConnection()
        continueKeyReplacement()
        beginSizingInterval()
        scheduleOpeningIfNeeded()
    }
}
