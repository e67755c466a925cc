import Reactor

/// The number of the pool's connections; ``PoolSizing`` decides it.
extension Pool {
    /// Connections and streams at this moment.
    public var gauges: PoolGauges {
        var gauges = PoolGauges()
        gauges.awaitsRoom = opening.awaitsRoom
        for connection in connections {
            switch connection.phase {
            case .connecting, .settling: gauges.connectionsOpening += 1
            case .cold, .open: gauges.connectionsReady += 1
            case .draining, .closed: gauges.connectionsDraining += 1
            }
            gauges.streams += connection.streamsMax
            gauges.inFlight += connection.inFlight
            gauges.providerTokenIssuedAtSeconds =
                connection.token?.issuedAtSeconds ?? gauges.providerTokenIssuedAtSeconds
        }
        return gauges
    }

    /// Whether a connection carries pushes with a token of a key that another has replaced.
    var hasOldKey: Bool {
        let generation = tokens.keyGeneration
        return connections.contains { $0.carriesPushes && $0.isOfAnotherKey(than: generation) }
    }

    /// Takes part in the trial of a new key, and after it gives up the connections with the old one: one an interval, and only while
    /// there is one with the new key.
    ///
    /// A pool that has sent nothing lately takes no trial: it would have nothing to try the key with, and the others would wait for its
    /// verdict for nothing.
    private func replaceOldKey() {
        for connection in connections where connection.carriesPushes {
            if let token = connection.trialToken, tokens.hasForsaken(token) { connection.retire(.providerToken) }
        }
        if let token = trialToken, tokens.hasForsaken(token) { trialToken = nil }
        takeTrial()
        let generation = tokens.keyGeneration
        // A connection that has not proved itself gets the next push before any other: with a key of the past none would reach another.
        for connection in connections where connection.phase == .cold && connection.isOfAnotherKey(than: generation) {
            connection.retire(.providerToken)
        }
        let open = connections.filter { $0.phase == .open }
        guard let old = open.first(where: { $0.isOfAnotherKey(than: generation) }),
            open.contains(where: { !$0.isOfAnotherKey(than: generation) })
        else { return }
        old.retire(.providerToken)
    }

    /// A key that works stays in use while the next one is tried beside it. One that APNs refuses has nothing to lose: its connections, on
    /// which no push would be accepted, make room for the trial's.
    private func takeTrial() {
        let isRefused = breaker.cause == .providerToken
        let isProven = breaker.isClosed && connections.contains { $0.phase == .open }
        guard interval.ends > 0, trialToken == nil, isProven || isRefused else { return }
        trialToken = tokens.takeTrial(unixSeconds: loop.wallMilliseconds / 1_000)
        guard isRefused, trialToken != nil else { return }
        for connection in connections where connection.carriesPushes { connection.retire(.providerToken) }
    }

    func beginInterval() {
        interval = PoolSizing.Interval()
        intervalBeganMilliseconds = loop.nowMilliseconds
        sizingTimer = loop.schedule(
            afterMilliseconds: PoolSizing.intervalMilliseconds,
            handler: self,
            tag: PoolTimer.sizing.rawValue
        )
    }

    /// The time without a free stream ends, or its part in this interval.
    func endStarvation() {
        guard let since = starvedSinceMilliseconds else { return }
        interval.starvedMilliseconds += loop.nowMilliseconds - max(since, intervalBeganMilliseconds)
        starvedSinceMilliseconds = nil
    }

    func endInterval() {
        guard phase == .running else { return }
        let isStarved = starvedSinceMilliseconds != nil
        endStarvation()
        if isStarved { starvedSinceMilliseconds = loop.nowMilliseconds }
        let carrying = connections.filter { $0.phase == .open }
        if breaker.isClosed {
            sizing.end(
                interval,
                carrying: carrying.count,
                streamsPerConnection: carrying.map(\.streamsMax).min() ?? 0,
                now: loop.nowMilliseconds
            )
        }
        retireSurplus()
        replaceOldKey()
        beginInterval()
        considerOpening()
    }
}

extension Connection {
    /// Not that of a candidate, which is not in use yet.
    fileprivate func isOfAnotherKey(than generation: Int) -> Bool {
        guard let token, trialToken == nil else { return false }
        return token.keyGeneration != generation
    }
}
