import Reactor

/// The pool's connections: opened, replaced, let go.
extension Pool {
    /// Opens the next connection when its time comes, unless there are enough or one is on its way.
    func considerOpening() {
        guard phase == .running, !opening.isUnderWay, opening.timer == .none else { return }
        // Retired connections that still wait for answers have a place of their own, so that a replacement need not wait.
        // Beside those that are wanted, one that tries a key, or that takes the place of one with the old key.
        let wanted = sizing.wanted + (trialToken != nil || hasOldKey ? 1 : 0)
        guard connections.count(where: \.isLive) < wanted,
            connections.count < 2 * configuration.connectionsMax
        else { return }
        let wait = opening.waitMilliseconds(now: loop.nowMilliseconds)
        opening.timer = loop.schedule(afterMilliseconds: wait, handler: self, tag: PoolTimer.open.rawValue)
    }

    func open() {
        guard phase == .running else { return }
        opening.begin(now: loop.nowMilliseconds)
        let host = configuration.host
        // The pool itself is no target of a weak reference: it is retained for every push, which would cost more then.
        let lookUp = LookUp(pool: self)
        self.lookUp = lookUp
        loop.resolve(host: host, port: configuration.port) { [weak lookUp] result in
            guard let pool = lookUp?.pool, pool.phase == .running else { return }
            pool.lookUp = nil
            switch result {
            case .success(let addresses):
                pool.connect(to: addresses)
            case .failure(let error):
                pool.opening.isUnderWay = false
                pool.opening.failed()
                pool.notice(.resolveFailed(host: host, detail: error.reason))
                pool.considerOpening()
            }
        }
    }

    /// Apple asks not to open a second connection to an address while others are free.
    private func connect(to addresses: [SocketAddress]) {
        let used = connections.compactMap(\.peer)
        let unused = addresses.filter { !used.contains($0) }
        let isNeeded = trialToken != nil || hasOldKey || !connections.contains(where: \.isLive)
        guard let address = configuration.budget.take(preferred: unused, all: addresses, isNeeded: isNeeded) else {
            opening.isUnderWay = false
            opening.failed()
            notice(.resolveFailed(host: configuration.host, detail: "the process has no connection to it left"))
            return considerOpening()
        }
        statistics.connectionsOpened += 1
        let connection = Connection(
            pool: self,
            identifier: opening.nextIdentifier(),
            loop: loop,
            configuration: configuration,
            tokens: tokens,
            trialToken: trialToken
        )
        trialToken = nil
        connections.append(connection)
        connection.connect(to: address)
    }

    /// The server's SETTINGS came: the next one may be opened.
    func connectionReady(_ connection: Connection) {
        opening.isUnderWay = false
        considerOpening()
    }

    /// Proof that connecting works.
    func connectionAuthenticated(_ connection: Connection) {
        opening.succeeded()
        notice(.authenticated(connection: connection.identifier, streamsMax: connection.streamsMax))
    }

    func connectionRetired(_ connection: Connection, cause: RetirementCause) {
        if !connection.wasAuthenticated { opening.failed() }
        notice(.retiring(connection: connection.identifier, cause: cause))
        considerOpening()
    }

    /// - Parameter phase: the one in which it ended.
    func connectionClosed(_ connection: Connection, in phase: Connection.Phase, cause: CloseCause, detail: String) {
        connections.removeAll { $0 === connection }
        if let address = connection.peer { configuration.budget.give(address) }
        if preferred === connection { preferred = nil }
        if phase == .connecting || phase == .settling { opening.isUnderWay = false }
        if phase != .draining, !connection.wasAuthenticated { opening.failed() }
        notice(.closed(connection: connection.identifier, cause: cause, detail: detail))
        considerOpening()
        finishDraining()
    }

    func finishDraining() {
        guard phase == .draining, connections.isEmpty, malformed.isEmpty else { return }
        phase = .closed
        notice(.drained)
    }
}

/// Held by the pool until its look-up is answered; a pool that has gone leaves nothing to answer to.
final class LookUp {
    unowned let pool: Pool

    init(pool: Pool) {
        self.pool = pool
    }
}
