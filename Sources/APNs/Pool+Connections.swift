import Reactor

/// Opens, replaces and closes the pool's connections.
extension Pool {
    /// Schedules the opening of one more connection if the pool wants one, and no opening is scheduled or under way. An
    /// opening that waits for the ``ConnectionBudget`` is scheduled earlier when its connection has become essential.
    func scheduleOpeningIfNeeded() {
        guard phase == .running, !openingSchedule.isAttemptUnderWay, wantsAnotherConnection else { return }
        if openingSchedule.timer != .none {
            // Keep the scheduled opening, unless it waits for room in the budget, which no longer limits the
            // connection.
            guard openingSchedule.awaitsConnectionBudget, isNextConnectionEssential else { return }
            loop.cancel(openingSchedule.timer)
        }
        if isNextConnectionEssential { openingSchedule.endConnectionBudgetWait() }
        let waitMilliseconds = openingSchedule.waitMilliseconds(nowMilliseconds: loop.nowMilliseconds)
        openingSchedule.timer = loop.schedule(
            afterMilliseconds: waitMilliseconds,
            handler: self,
            tag: PoolTimer.openConnection.rawValue
        )
    }

    /// Whether the pool wants one more connection than it has. Connections that are retired do not count, even if they
    /// still wait for responses, so their replacements open at once. But all together are at most twice
    /// `connectionsMax` (R4).
    private var wantsAnotherConnection: Bool {
        let extraConnectionCount = trialToken != nil || mayHaveExtraConnectionForKey ? 1 : 0
        return connections.count(where: \.isLive) < sizing.wantedConnectionCount + extraConnectionCount
            && connections.count < 2 * configuration.connectionsMax
    }

    /// Whether the pool may have one connection more than `sizing.wantedConnectionCount`, because it tries a key on a
    /// connection, or still has a connection with the old key.
    private var mayHaveExtraConnectionForKey: Bool {
        hasConnectionWithOldKey || connections.contains { $0.isLive && $0.trialToken != nil }
    }

    /// Whether the next connection is essential (``ConnectionBudget``): it tries a new key, replaces a connection with
    /// an old key, or will be the pool's only live connection.
    private var isNextConnectionEssential: Bool {
        trialToken != nil || hasConnectionWithOldKey || !connections.contains(where: \.isLive)
    }

    /// Retires one connection if more connections take pushes than the pool wants. The first rule that fits decides:
    /// 1. Retire a connection that is `unauthenticated`, tries no key, and has no push in flight.
    /// 2. If more than the wanted number of connections are `open`, retire the `open` connection with the fewest pushes
    ///    in flight.
    func retireSurplusConnection() {
        let wantedCount = sizing.wantedConnectionCount + (mayHaveExtraConnectionForKey ? 1 : 0)
        let acceptingConnections = connections.filter(\.acceptsPushes)
        guard acceptingConnections.count > wantedCount else { return }
        if let unusedConnection = acceptingConnections.first(where: {
            $0.phase == .unauthenticated && $0.inFlightPushCount == 0 && $0.trialToken == nil
        }) {
            return unusedConnection.retire(.surplus)
        }
        // Count only `open` connections here. An `unauthenticated` connection cannot replace an `open` one, because
        // APNs has not accepted its token yet.
        let openConnections = acceptingConnections.filter { $0.phase == .open }
        if openConnections.count > wantedCount {
            openConnections.min { $0.inFlightPushCount < $1.inFlightPushCount }?.retire(.surplus)
        }
    }

    /// Begins to open the scheduled connection if the pool still wants one. Waits instead if the ``ConnectionBudget``
    /// has no room and limits this connection.
    func openConnection() {
        // Check again: while the timer ran, the load may have become lower, or APNs may have accepted or refused a new
        // key.
        guard phase == .running else { return }
        guard wantsAnotherConnection else { return openingSchedule.endConnectionBudgetWait() }
        guard isNextConnectionEssential || configuration.connectionBudget.hasRoom else {
            return waitForConnectionBudget()
        }
        openingSchedule.beginAttempt(nowMilliseconds: loop.nowMilliseconds)
        let host = configuration.host
        // The closure's weak reference targets `HostLookupLink`, not the pool. A weak reference to the pool would
        // make each retain of the pool slower, and every push retains the pool.
        let hostLookupLink = HostLookupLink(pool: self)
        self.hostLookupLink = hostLookupLink
        loop.resolve(host: host, port: configuration.port) { [weak hostLookupLink] result in
            guard let pool = hostLookupLink?.pool, pool.phase == .running else { return }
            pool.hostLookupLink = nil
            switch result {
            case .success(let addresses):
                pool.connect(to: addresses)
            case .failure(let error):
                pool.openingSchedule.isAttemptUnderWay = false
                pool.openingSchedule.lengthenBackoff()
                pool.report(.resolveFailed(host: host, detail: error.reason))
                pool.scheduleOpeningIfNeeded()
            }
        }
    }

    /// Connects to one of the addresses, if possible to one without a connection of this pool and without a recent
    /// failure. Apple advises senders not to open a second connection to an address while other addresses are unused
    /// (developer forums, thread 778909).
    private func connect(to addresses: [SocketAddress]) {
        // Give up if the pool no longer wants the connection after the look-up.
        guard wantsAnotherConnection else {
            openingSchedule.isAttemptUnderWay = false
            return openingSchedule.endConnectionBudgetWait()
        }
        let usedAddresses = connections.compactMap(\.peer)
        let unusedAddresses = addresses.filter { !usedAddresses.contains($0) }
        guard
            let address = configuration.connectionBudget.reserveAddress(
                preferred: unusedAddresses,
                all: addresses,
                isEssential: isNextConnectionEssential,
                failedAttemptAtMilliseconds: connections.contains(where: \.isLive)
                    ? nil : openingSchedule.failedAttemptAtMilliseconds,
                nowMilliseconds: loop.nowMilliseconds
            )
        else {
            openingSchedule.isAttemptUnderWay = false
            return waitForConnectionBudget()
        }
        openingSchedule.endConnectionBudgetWait()
        statistics.connectionAttemptCount += 1
        let connection = Connection(
            pool: self,
            number: openingSchedule.makeConnectionNumber(),
            loop: loop,
            configuration: configuration,
            tokenSource: tokenSource,
            trialToken: trialToken
        )
        trialToken = nil
        connections.append(connection)
        connection.connect(to: address)
    }

    /// Schedules another attempt, because the ``ConnectionBudget`` has no room: the process has reached its limit of
    /// connections in total, or the limit for each address of the host.
    private func waitForConnectionBudget() {
        if openingSchedule.beginConnectionBudgetWait() { report(.connectionLimitReached(host: configuration.host)) }
        scheduleOpeningIfNeeded()
    }

    /// Allows the pool to open its next connection, because the last one is set up: the server's SETTINGS have arrived.
    func connectionBecameReady(_ connection: Connection) {
        openingSchedule.isAttemptUnderWay = false
        // A server that allows no stream is not usable. If it counted as usable, other pools would choose it too.
        if connection.streamsMax > 0, let address = connection.peer {
            connection.isCountedAsUsable = true
            configuration.connectionBudget.noteUsable(address, nowMilliseconds: loop.nowMilliseconds)
        }
        // Let the new connection get the next push, which tests its provider token. Otherwise the preferred connection
        // would first get up to 32 pushes, which takes half a minute at one push a second.
        preferredConnection = nil
        scheduleOpeningIfNeeded()
    }

    /// Resets the back-off, because the connection got a response that shows that APNs accepts its provider token.
    func connectionAuthenticated(_ connection: Connection) {
        openingSchedule.noteSuccess()
        report(.authenticated(connection: connection.number, streamsMax: connection.streamsMax))
    }

    /// Notes that a connection takes no more pushes, and schedules its replacement if the pool needs one.
    func connectionRetired(_ connection: Connection, cause: RetirementCause) {
        if cause == .unresponsive {
            openingSchedule.setBackoffToOneFailure()
            noteFailure(ofAddressOf: connection)
        } else if !connection.wasAuthenticated, cause != .surplus {
            // APNs has not accepted the connection's token. (A surplus connection has not failed: the pool no longer
            // needs it.)
            openingSchedule.lengthenBackoff()
        }
        report(.retiring(connection: connection.number, cause: cause))
        scheduleOpeningIfNeeded()
    }

    /// Removes a connection that has closed, and schedules its replacement if the pool needs one.
    ///
    /// - Parameter phase: the connection's last phase before `closed`.
    func connectionClosed(_ connection: Connection, in phase: Connection.Phase, cause: CloseCause, detail: String) {
        connections.removeAll { $0 === connection }
        if let address = connection.peer {
            configuration.connectionBudget.release(address, wasUsable: connection.isCountedAsUsable)
        }
        if !connection.hasReceivedSettings, cause != .retired, cause != .poolClosed {
            openingSchedule.noteFailedAttempt()
            noteFailure(ofAddressOf: connection)
        }
        if preferredConnection === connection { preferredConnection = nil }
        if phase == .connecting || phase == .awaitingSettings { openingSchedule.isAttemptUnderWay = false }
        if phase != .draining, !connection.wasAuthenticated { openingSchedule.lengthenBackoff() }
        report(.closed(connection: connection.number, cause: cause, detail: detail))
        scheduleOpeningIfNeeded()
        closeIfDrained()
    }

    private func noteFailure(ofAddressOf connection: Connection) {
        guard let address = connection.peer else { return }
        configuration.connectionBudget.noteFailure(of: address, nowMilliseconds: loop.nowMilliseconds)
    }

    /// Ends a draining pool that has no connection and no malformed push left.
    func closeIfDrained() {
        guard phase == .draining, connections.isEmpty, malformedPushTags.isEmpty else { return }
        phase = .closed
        report(.drained)
    }
}

/// Links a name look-up to its pool. Only the pool holds this object, so the look-up does not keep the pool alive. If
/// the pool stops or is released before the result arrives, the result is ignored.
final class HostLookupLink {
    unowned let pool: Pool

    init(pool: Pool) {
        self.pool = pool
    }
}
