import Reactor

/// The pool's connections: opened, replaced, given up.
extension Pool {
    /// Opens the next connection when its time comes, unless there are enough or one is on its way.
    func considerOpening() {
        guard phase == .running, !opening.isUnderWay, wantsConnection else { return }
        if opening.timer != .none {
            // What waits for room may have become what the pool cannot do without, for which there always is some.
            guard opening.awaitsRoom, needsConnection else { return }
            loop.cancel(opening.timer)
        }
        if needsConnection { opening.endRoomWait() }
        let wait = opening.waitMilliseconds(now: loop.nowMilliseconds)
        opening.timer = loop.schedule(afterMilliseconds: wait, handler: self, tag: PoolTimer.open.rawValue)
    }

    /// One more connection than there are. Retired ones that still wait for answers have a place of their own, so that a replacement
    /// need not wait.
    private var wantsConnection: Bool {
        let extra = trialToken != nil || hasConnectionBesideWanted ? 1 : 0
        return connections.count(where: \.isLive) < sizing.wanted + extra
            && connections.count < 2 * configuration.connectionsMax
    }

    /// One connection is kept beside those that are wanted: it tries a key, or takes the place of one with the old key.
    private var hasConnectionBesideWanted: Bool {
        hasOldKey || connections.contains { $0.isLive && $0.trialToken != nil }
    }

    /// The next connection is one that the pool cannot do without.
    private var needsConnection: Bool {
        trialToken != nil || hasOldKey || !connections.contains(where: \.isLive)
    }

    /// Gives up a connection that is not wanted any more, one at a time: first of one that has nothing to do and was never used,
    /// else of the one with the least to do.
    func retireSurplus() {
        let wanted = sizing.wanted + (hasConnectionBesideWanted ? 1 : 0)
        let carrying = connections.filter(\.carriesPushes)
        guard carrying.count > wanted else { return }
        if let unused = carrying.first(where: { $0.phase == .cold && $0.inFlight == 0 && $0.trialToken == nil }) {
            return unused.retire(.surplus)
        }
        // One that has not proved itself replaces none that has.
        let open = carrying.filter { $0.phase == .open }
        if open.count > wanted { open.min { $0.inFlight < $1.inFlight }?.retire(.surplus) }
    }

    func open() {
        // It may have waited for long: demand has fallen since, or the key's trial is over.
        guard phase == .running else { return }
        guard wantsConnection else { return opening.endRoomWait() }
        guard needsConnection || configuration.budget.hasRoom else { return awaitRoom() }
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
        guard wantsConnection else {
            opening.isUnderWay = false
            return opening.endRoomWait()
        }
        let used = connections.compactMap(\.peer)
        let unused = addresses.filter { !used.contains($0) }
        guard let address = configuration.budget.take(preferred: unused, all: addresses, isNeeded: needsConnection)
        else {
            opening.isUnderWay = false
            return awaitRoom()
        }
        opening.endRoomWait()
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

    /// The process has as many connections as it may, or as many to each of the addresses.
    private func awaitRoom() {
        if opening.roomIsAwaited() { notice(.roomAwaited(host: configuration.host)) }
        considerOpening()
    }

    /// The server's SETTINGS came: the next one may be opened.
    func connectionReady(_ connection: Connection) {
        opening.isUnderWay = false
        // The next push goes to the new connection, however many more were to go to the one before: at a push a second these took half
        // a minute, and a key's trial with them.
        preferred = nil
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
