import Reactor

/// Once a second, opens or retires connections to get the number that ``PoolSizing`` decides. Also retires connections
/// that use the token of a replaced signing key.
extension Pool {
    /// The state of the pool's connections at this moment, for metrics.
    public var gauges: PoolGauges {
        var gauges = PoolGauges()
        gauges.awaitsConnectionBudget = openingSchedule.awaitsConnectionBudget
        for connection in connections {
            switch connection.phase {
            case .connecting, .awaitingSettings: gauges.openingConnectionCount += 1
            case .unauthenticated, .open: gauges.readyConnectionCount += 1
            case .draining, .closed: gauges.drainingConnectionCount += 1
            }
            gauges.streamsMax += connection.streamsMax
            gauges.inFlightPushCount += connection.inFlightPushCount
            gauges.providerTokenIssuedAtSeconds =
                connection.providerToken?.issuedAtSeconds ?? gauges.providerTokenIssuedAtSeconds
        }
        return gauges
    }

    /// Whether a connection still takes pushes with a token of a key that has been replaced.
    var hasConnectionWithOldKey: Bool {
        let generation = tokenSource.keyGeneration
        return connections.contains { $0.acceptsPushes && $0.usesKey(otherThan: generation) }
    }

    /// Takes the next step in replacing a signing key, once per interval:
    /// 1. If no other pool tries the new key, begins to try it. The pool must have had an ended push in the last
    ///    interval: otherwise it may have no push for the trial.
    /// 2. When APNs has accepted the new key, retires one `open` connection with the old key, if a connection with the
    ///    new key is `open`.
    private func continueKeyReplacement() {
        for connection in connections where connection.acceptsPushes {
            if let token = connection.trialToken, tokenSource.isKeyTrialObsolete(token) {
                connection.retire(.providerToken)
            }
        }
        if let token = trialToken, tokenSource.isKeyTrialObsolete(token) { trialToken = nil }
        beginKeyTrialIfPossible()
        let generation = tokenSource.keyGeneration
        // Retire `unauthenticated` connections with the old key. Otherwise the next pushes would test the old key's
        // tokens, which the pool no longer needs.
        for connection in connections
        where connection.phase == .unauthenticated && connection.usesKey(otherThan: generation) {
            connection.retire(.providerToken)
        }
        let openConnections = connections.filter { $0.phase == .open }
        guard let oldConnection = openConnections.first(where: { $0.usesKey(otherThan: generation) }),
            openConnections.contains(where: { !$0.usesKey(otherThan: generation) })
        else { return }
        oldConnection.retire(.providerToken)
    }

    /// Begins to try a new key, the candidate, with a token from the token source. A trial begins only if the key in
    /// use is in one of two states:
    /// - APNs accepts the key in use. Its connections keep sending during the trial.
    /// - APNs refuses the key in use, so the breaker is open. The pool retires this key's connections: otherwise they
    ///   would get the breaker's probes, and no push would try the candidate.
    private func beginKeyTrialIfPossible() {
        let isKeyInUseRefused = breaker.cause == .providerToken
        let isKeyInUseAccepted = breaker.isClosed && connections.contains { $0.phase == .open }
        guard sizingInterval.endedPushCount > 0, trialToken == nil, isKeyInUseAccepted || isKeyInUseRefused else {
            return
        }
        trialToken = tokenSource.beginKeyTrial(unixSeconds: loop.wallMilliseconds / 1_000)
        guard isKeyInUseRefused, trialToken != nil else { return }
        for connection in connections where connection.acceptsPushes { connection.retire(.providerToken) }
    }

    /// Begins the next interval of ``PoolSizing``, and schedules its end.
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

    /// Ends an interval: updates the number of wanted connections, opens or retires connections, and begins the next
    /// interval.
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

extension Connection {
    /// Whether the connection's token was signed by another key than the key in use. False while the connection tries a
    /// candidate key (``ProviderTokenSource``), although the candidate is not in use yet.
    fileprivate func usesKey(otherThan generation: Int) -> Bool {
        guard let providerToken, trialToken == nil else { return false }
        return providerToken.keyGeneration != generation
    }
}
