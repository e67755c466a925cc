import Reactor

/// Replaces a signing key: tries a new key on one connection, and after APNs has accepted the new key, retires the
/// connections with the old key.
extension Pool {
    /// Whether a connection still takes pushes with a token of a key that has been replaced.
    var hasConnectionWithOldKey: Bool {
        let generation = tokenSource.keyGeneration
        return connections.contains { $0.acceptsPushes && $0.usesKey(otherThan: generation) }
    }

    /// Takes the next steps in replacing a signing key. Called at the end of each interval of ``PoolSizing``:
    /// 1. Retires each connection whose trial of a key is obsolete (``ProviderTokenSource/isKeyTrialObsolete(_:)``).
    /// 2. Forgets `trialToken` if its trial is obsolete. No connection was opened for this trial yet.
    /// 3. Begins to try a new key, if possible.
    /// 4. Retires all `unauthenticated` connections with the old key.
    /// 5. Retires one `open` connection with the old key, if a connection with the key in use is also `open`.
    func continueKeyReplacement() {
        for connection in connections where connection.acceptsPushes {
            if let token = connection.trialToken, tokenSource.isKeyTrialObsolete(token) {
                connection.retire(.providerToken)
            }
        }
        if let token = trialToken, tokenSource.isKeyTrialObsolete(token) { trialToken = nil }
        beginKeyTrialIfPossible()
        let generation = tokenSource.keyGeneration
        // The first push of an `unauthenticated` connection tests its token. The pool no longer needs the old key's
        // tokens, so no push should test them.
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

    /// Begins to try a new key, the candidate, with a token from the token source. All of these must be true:
    /// - The pool has no `trialToken` yet, and the token source gives it one. It gives none while another pool tries
    ///   the candidate.
    /// - A push has ended in this interval. Otherwise the pool may have no push for the trial.
    /// - APNs accepts the key in use (the breaker is closed and a connection is `open`), or refuses it (the breaker has
    ///   opened for this). In the second case, the pool retires the connections with the key in use: otherwise they,
    ///   and not the candidate's connection, would get the breaker's probes.
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
}

extension Connection {
    /// Whether the connection's token was signed by another key than the key in use. False while the connection tries a
    /// candidate key (``ProviderTokenSource``), although the candidate is not in use yet.
    fileprivate func usesKey(otherThan generation: Int) -> Bool {
        guard let providerToken, trialToken == nil else { return false }
        return providerToken.keyGeneration != generation
    }
}
