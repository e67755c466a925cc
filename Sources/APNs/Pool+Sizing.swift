import Reactor

/// Once a second, opens or retires connections to get the number that ``PoolSizing`` decides.
extension Pool {
    /// Begins the next interval of ``PoolSizing``, and schedules its end. Also lets the next pushes repeat failed token
    /// tests.
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

    /// Notes that the pool no longer starves (``PoolSizing``). Adds the time of starvation to the `starvedMilliseconds`
    /// of the current interval, without the part that lies in earlier intervals.
    func endStarvation() {
        guard let sinceMilliseconds = starvedSinceMilliseconds else { return }
        sizingInterval.starvedMilliseconds +=
            loop.nowMilliseconds - max(sinceMilliseconds, sizingIntervalBeganAtMilliseconds)
        starvedSinceMilliseconds = nil
    }

    /// Ends an interval: updates the number of wanted connections if the breaker is closed, opens or retires
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
        retireSurplusConnection()
        continueKeyReplacement()
        beginSizingInterval()
        scheduleOpeningIfNeeded()
    }
}
