import Reactor

/// Reviews the number of the pool's connections once a second. ``PoolSizing`` decides the number.
extension Pool {
    /// The counts of the pool's connections and streams at this moment.
    public var gauges: PoolGauges {
        var gauges = PoolGauges()
        gauges.awaitsRoom = opening.awaitsRoom
        for connection in connections {
            switch connection.phase {
            case .connecting, .awaitingSettings: gauges.connectionsOpening += 1
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

    /// Whether a connection carries pushes with a token of a key that has been replaced.
    var hasOldKey: Bool {
        let generation = tokens.keyGeneration
        return connections.contains { $0.takesPushes && $0.isOfAnotherKey(than: generation) }
    }

    /// Takes part in the trial of a new key. After the trial, retires the connections with the old key: one
    /// per interval, and only while a connection with the new key is open.
    ///
    /// A pool that has sent nothing lately takes no trial: it has no push to try the key with, and other
    /// pools would wait for its verdict.
    private func replaceOldKey() {
        for connection in connections where connection.takesPushes {
            if let token = connection.trialToken, tokens.isTrialObsolete(token) { connection.retire(.providerToken) }
        }
        if let token = trialToken, tokens.isTrialObsolete(token) { trialToken = nil }
        takeTrial()
        let generation = tokens.keyGeneration
        // A `cold` connection gets the next push first. A `cold` connection with the old key would delay the
        // new key's connection.
        for connection in connections where connection.phase == .cold && connection.isOfAnotherKey(than: generation) {
            connection.retire(.providerToken)
        }
        let open = connections.filter { $0.phase == .open }
        guard let old = open.first(where: { $0.isOfAnotherKey(than: generation) }),
            open.contains(where: { !$0.isOfAnotherKey(than: generation) })
        else { return }
        old.retire(.providerToken)
    }

    /// Takes a candidate key to try, while the key in use works or is refused.
    ///
    /// A working key stays in use beside the trial. If APNs refuses the key in use, its connections can carry
    /// no push, so they make room for the trial's connection. Otherwise these connections would get the
    /// breaker's probes, and the new key would never be tried.
    private func takeTrial() {
        let isRefused = breaker.cause == .providerToken
        let isProven = breaker.isClosed && connections.contains { $0.phase == .open }
        guard interval.ends > 0, trialToken == nil, isProven || isRefused else { return }
        trialToken = tokens.takeTrial(unixSeconds: loop.wallMilliseconds / 1_000)
        guard isRefused, trialToken != nil else { return }
        for connection in connections where connection.takesPushes { connection.retire(.providerToken) }
    }

    func beginInterval() {
        interval = PoolSizing.Interval()
        tryUnprovenConnections()
        intervalBeganMilliseconds = loop.nowMilliseconds
        sizingTimer = loop.schedule(
            afterMilliseconds: PoolSizing.intervalMilliseconds,
            handler: self,
            tag: PoolTimer.sizing.rawValue
        )
    }

    /// Gives cold connections their priority for the next push again.
    private func tryUnprovenConnections() {
        for connection in connections where connection.hasUnprovenAnswer {
            connection.hasUnprovenAnswer = false
            preferred = nil
        }
    }

    /// Ends the time without a free stream, and adds this interval's part of the time to
    /// `starvedMilliseconds`.
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
        openIfNeeded()
    }
}

extension Connection {
    /// Whether the connection's token is of another key. False while the connection tries a candidate key,
    /// which is not in use yet.
    fileprivate func isOfAnotherKey(than generation: Int) -> Bool {
        guard let token, trialToken == nil else { return false }
        return token.keyGeneration != generation
    }
}
