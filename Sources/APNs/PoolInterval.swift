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

    /// Takes part in the trial of a new key, and after it lets go of the connections with the old one: one an interval, and only while
    /// there is one with the new key.
    ///
    /// A pool that has sent nothing lately takes no trial: it would have nothing to try the key with, and the others would wait for its
    /// verdict in vain.
    private func replaceOldKey() {
        for connection in connections where connection.carriesPushes {
            if let token = connection.trialToken, tokens.hasForsaken(token) { connection.retire(.providerToken) }
        }
        if let token = trialToken, tokens.hasForsaken(token) { trialToken = nil }
        let hasSent = interval.ends > 0
        if hasSent, trialToken == nil, breaker.isClosed, connections.contains(where: { $0.phase == .open }) {
            trialToken = tokens.takeTrial(unixSeconds: loop.wallMilliseconds / 1_000)
        }
        let generation = tokens.keyGeneration
        let open = connections.filter { $0.phase == .open }
        guard let old = open.first(where: { $0.isOfAnotherKey(than: generation) }),
            open.contains(where: { !$0.isOfAnotherKey(than: generation) })
        else { return }
        old.retire(.providerToken)
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
