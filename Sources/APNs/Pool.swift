public import Reactor

/// The connections of one lane to APNs for one app in one environment.
///
/// A pool belongs to the thread of its loop: all calls come from that thread, and the pool calls its handler on that
/// thread. The pool opens its connections one after the other, replaces connections that end, and spreads the pushes
/// over its connections.
public final class Pool {
    enum Phase {
        /// `start` has not been called. Next: `running`, `draining` or `closed`.
        case created
        /// The pool takes pushes. Next: `draining` or `closed`.
        case running
        /// The pool takes no push. Each connection closes when it has no push in flight. Next: `closed`.
        case draining
        /// The pool has ended, or ``close()`` is just ending it. When ``close()`` returns, every push has its response,
        /// and no connection is left. No phase follows.
        case closed
    }

    let loop: EventLoop
    let configuration: PoolConfiguration
    let tokenSource: ProviderTokenSource
    private unowned let handler: any PushHandler
    var phase = Phase.created
    var connections: [Connection] = []
    public internal(set) var statistics = PoolStatistics()

    var breaker: CircuitBreaker
    /// Limits retries. The pool's owner must check ``RetryBudget/permitsRetry`` before it submits a push again
    /// (``PushRequest/isRetry``).
    public private(set) var retryBudget = RetryBudget()
    var sizing: PoolSizing
    var sizingInterval = PoolSizing.Interval()
    var sizingIntervalBeganAtMilliseconds: Int64 = 0
    var sizingTimer = TimerIdentifier.none
    private var breakerTimer = TimerIdentifier.none
    var openingSchedule: ConnectionOpeningSchedule
    /// Finds the pool when the look-up of the host's name has a result; nil if no look-up is under way.
    var hostLookupLink: HostLookupLink?
    /// The token of a new key that APNs has not accepted yet. The next connection tries this token, and the property
    /// becomes nil when that connection is opened.
    var trialToken: ProviderToken?

    /// The connection that gets the next pushes, up to 32 in a row. 32 pushes fill about one TLS record, and one full
    /// record needs fewer system calls than several small ones.
    var preferredConnection: Connection?
    private var preferredConnectionRemainingPushCount = 0
    private static let preferredConnectionPushesMax = 32

    /// Whether `submit` has refused a push, and the pool has not called ``PushHandler/poolHasRoom(_:)`` since. The
    /// handler waits for this call.
    private var isHandlerWaitingForRoom = false
    /// Since when the pool starves (``PoolSizing``); nil if it does not. At the end of an interval, this becomes the
    /// present, because each interval counts only its own part.
    var starvedSinceMilliseconds: Int64?

    /// The tags of malformed pushes, which the pool does not send. The pool never calls the handler from inside
    /// `submit`. So each push gets its response `malformed` at the end of the iteration, or in ``close()``.
    var malformedPushTags: [UInt64] = []
    /// The maximum number of elements in `malformedPushTags` (R4). If the array is full, `submit` returns false for a
    /// malformed push.
    private static let malformedPushTagsMax = 256

    /// - Parameters:
    ///   - configuration: must be valid; see ``PoolConfiguration/validate()``.
    ///   - handler: the pool does not keep the handler alive. The handler must live longer than the pool, or close the
    ///     pool first.
    public init(
        loop: EventLoop,
        configuration: PoolConfiguration,
        tokenSource: ProviderTokenSource,
        handler: any PushHandler
    ) {
        do {
            try configuration.validate()
        } catch {
            preconditionFailure("pool configuration: \(error)")
        }
        self.loop = loop
        self.configuration = configuration
        self.tokenSource = tokenSource
        self.handler = handler
        breaker = CircuitBreaker(configuration.breaker)
        openingSchedule = ConnectionOpeningSchedule(configuration)
        sizing = PoolSizing(configuration)
    }

    deinit {
        precondition(connections.isEmpty, "a pool was released before it was closed")
        loop.cancel(breakerTimer)
        loop.cancel(openingSchedule.timer)
        loop.cancel(sizingTimer)
    }

    /// How many pushes were taken and have no response yet.
    public var inFlightPushCount: Int { connections.reduce(malformedPushTags.count) { $0 + $1.inFlightPushCount } }

    /// How many pushes the pool has room for now; at most 1 while the breaker is open.
    public var freeStreamCount: Int {
        guard phase == .running else { return 0 }
        let freeStreamCountOfConnections = connections.reduce(0) { $0 + $1.freeStreamCount }
        if breaker.isClosed { return freeStreamCountOfConnections }
        return mayProbe ? min(1, freeStreamCountOfConnections) : 0
    }

    /// Why the breaker is open; nil if the breaker is closed. While the breaker is open, the pool takes only probes.
    public var breakerCause: BreakerCause? { breaker.cause }

    /// Whether a response BadDeviceToken or DeviceTokenNotForTopic means only that its push's token is wrong (R17). If
    /// false, the environment or the topic may be wrong for all tokens.
    ///
    /// True if the breaker is closed, and APNs has accepted a push to a device since the last such response. Read this
    /// inside ``PushHandler/pushResponseReceived(_:)``, where the response of the call does not yet count as the last
    /// one.
    public var trustsTokenRefusals: Bool { breaker.isClosed && hasAcceptedPushSinceTokenRefusal }
    private var hasAcceptedPushSinceTokenRefusal = false

    /// Schedules the opening of the first connection, at the time that the ``ConnectionBudget`` gives. Further
    /// connections follow one by one, at intervals of ``PoolConfiguration/openingIntervalMilliseconds``.
    public func start() {
        precondition(phase == .created, "a pool starts once")
        phase = .running
        beginSizingInterval()
        openingSchedule.reserveFirstOpening(
            from: configuration.connectionBudget,
            nowMilliseconds: loop.nowMilliseconds
        )
        scheduleOpeningIfNeeded()
    }

    /// Sends a push, or reports a malformed push at the end of the iteration.
    ///
    /// - Returns: false if the pool cannot take the push now. A running pool calls ``PushHandler/poolHasRoom(_:)`` when
    ///   it can take a push again.
    public func submit(_ request: borrowing PushRequest) -> Bool {
        guard phase == .running, breaker.isClosed || mayProbe else {
            isHandlerWaitingForRoom = true
            return false
        }
        guard request.isWellFormed else { return queueMalformedPush(tag: request.tag) }
        guard sendOnConnection(request) else {
            isHandlerWaitingForRoom = true
            if starvedSinceMilliseconds == nil { starvedSinceMilliseconds = loop.nowMilliseconds }
            return false
        }
        // This counts every push, whichever connection has sent it. The preferred connection may then get fewer than 32
        // pushes, which does no harm.
        preferredConnectionRemainingPushCount -= 1
        statistics.submittedPushCount += 1
        sizingInterval.peakInFlightPushCount = max(
            sizingInterval.peakInFlightPushCount,
            Int(statistics.submittedPushCount - statistics.receivedResponseCount)
        )
        if request.isRetry {
            statistics.retryCount += 1
            retryBudget.drawRetry()
        } else {
            retryBudget.addShareForFirstAttempt()
        }
        if !breaker.isClosed { breaker.noteSubmission() }
        return true
    }

    /// Takes no more pushes, and returns at once. Each connection closes when it has no push in flight. When all are
    /// closed, the pool reports ``PoolEvent/drained``. Each push gets its response within the request timeout.
    public func drain() {
        guard phase == .created || phase == .running else { return }
        phase = .draining
        loop.cancel(openingSchedule.timer)
        loop.cancel(sizingTimer)
        abandonKeyTrial()
        for connection in connections { connection.retire(.draining) }
        closeIfDrained()
    }

    /// Ends all connections now. When the call returns, every push has its response: a push to which APNs has not
    /// responded ends as `ambiguous`, `notProcessed` or `malformed`. The pool makes no later call to the handler.
    public func close() {
        guard phase != .closed else { return }
        phase = .closed
        loop.cancel(openingSchedule.timer)
        loop.cancel(breakerTimer)
        loop.cancel(sizingTimer)
        abandonKeyTrial()
        for connection in connections { connection.close(.poolClosed, detail: "") }
        completeMalformedPushes()
    }

    /// Gives up the trial of a new signing key if the pool has opened no connection for it yet. The trial is
    /// inconclusive, so another pool may try the key.
    private func abandonKeyTrial() {
        guard let token = trialToken else { return }
        trialToken = nil
        tokenSource.endKeyTrial(of: token, .inconclusive)
    }

    // MARK: - Choosing the connection of a push

    /// Sends a push on one of the connections. Returns whether a connection took the push. If the chosen connection has
    /// no usable provider token, that connection retires, and the pool chooses another one.
    private func sendOnConnection(_ request: borrowing PushRequest) -> Bool {
        for _ in 0..<connections.count {
            guard let connection = chooseConnection(avoiding: request.avoidedConnectionNumber) else { return false }
            if connection.submit(request) { return true }
        }
        return false
    }

    private func chooseConnection(avoiding avoidedNumber: UInt32?) -> Connection? {
        if let preferredConnection, preferredConnectionRemainingPushCount > 0, preferredConnection.freeStreamCount > 0,
            preferredConnection.number != avoidedNumber
        {
            return preferredConnection
        }
        var bestConnection: Connection?
        var bestFreeStreamCount = 0
        for connection in connections where connection.number != avoidedNumber {
            // Let the next push test this connection's provider token. Until a response shows that APNs accepts the
            // token, the connection may have only one push in flight.
            if connection.phase == .unauthenticated, !connection.hasTokenTestFailed, connection.freeStreamCount > 0 {
                return connection
            }
            if connection.freeStreamCount > bestFreeStreamCount {
                bestConnection = connection
                bestFreeStreamCount = connection.freeStreamCount
            }
        }
        // If only the connection to avoid (`avoidedNumber`) has room, use it: otherwise this push and all behind it
        // would wait.
        if bestConnection == nil {
            bestConnection = connections.first { $0.number == avoidedNumber && $0.freeStreamCount > 0 }
        }
        preferredConnection = bestConnection
        preferredConnectionRemainingPushCount = Pool.preferredConnectionPushesMax
        return bestConnection
    }

    private var mayProbe: Bool {
        breaker.permitsProbe(inFlightPushCount: inFlightPushCount, nowMilliseconds: loop.nowMilliseconds)
    }

    /// Calls ``PushHandler/poolHasRoom(_:)`` if the handler waits for it and a stream is free.
    func notifyHandlerIfRoom() {
        guard isHandlerWaitingForRoom, freeStreamCount > 0 else { return }
        isHandlerWaitingForRoom = false
        endStarvation()
        handler.poolHasRoom(self)
    }

    // MARK: - Responses to pushes

    func pushCompleted(
        _ response: borrowing PushResponse,
        on connection: Connection,
        hasTimedOut: Bool,
        roundTripMilliseconds: Int64
    ) {
        var sample = CircuitBreakerSample(
            completion: response.completion,
            disposition: response.disposition,
            reason: response.reason,
            hasTimedOut: hasTimedOut
        )
        // Refused broadcasts must not stop the pushes to devices, which may succeed.
        if response.mayRefuseOnlyBroadcasts, configuration.sendsDevicePushes { sample = .inconclusive }
        let transition = breaker.noteEndedPush(sample, nowMilliseconds: loop.nowMilliseconds)
        sizingInterval.countEndedPush(
            isFailure: sample == .unavailable || sample == .providerRefused,
            hasFinalStatus: response.completion == .responded,
            roundTripMilliseconds: roundTripMilliseconds
        )
        statistics.receivedResponseCount += 1
        if response.disposition != .accepted { retireIfNeeded(connection, after: response.reason) }
        // A broadcast has no device token, so its response says nothing about tokens.
        if response.disposition == .accepted, !response.isBroadcast { hasAcceptedPushSinceTokenRefusal = true }
        handler.pushResponseReceived(response)
        // Note the refusal only after the handler was called: inside this call, ``trustsTokenRefusals`` must not yet
        // count the refusal.
        if sample == .deviceTokenSuspect { hasAcceptedPushSinceTokenRefusal = false }
        if transition != .none { breakerChanged(transition) }
    }

    private func breakerChanged(_ transition: CircuitBreaker.Transition) {
        switch transition {
        case .none:
            break
        case .opened(let cause):
            report(.breakerOpened(cause: cause))
            scheduleProbe()
        case .openedAgain:
            scheduleProbe()
        case .closed:
            report(.breakerClosed)
        }
    }

    private func scheduleProbe() {
        guard phase == .running, let dueAtMilliseconds = breaker.probeAtMilliseconds else { return }
        loop.cancel(breakerTimer)
        let waitMilliseconds = max(0, dueAtMilliseconds - loop.nowMilliseconds)
        breakerTimer = loop.schedule(afterMilliseconds: waitMilliseconds, handler: self, tag: PoolTimer.probe.rawValue)
    }

    /// Queues a malformed push, which is not sent and gets its response at the end of the iteration. Returns whether
    /// the queue had room.
    private func queueMalformedPush(tag: UInt64) -> Bool {
        guard malformedPushTags.count < Pool.malformedPushTagsMax else {
            isHandlerWaitingForRoom = true
            return false
        }
        if malformedPushTags.isEmpty { loop.callAtIterationEnd(self) }
        malformedPushTags.append(tag)
        statistics.submittedPushCount += 1
        return true
    }

    private func completeMalformedPushes() {
        let tags = malformedPushTags
        malformedPushTags.removeAll(keepingCapacity: true)
        for tag in tags {
            let response = PushResponse(
                tag: tag,
                completion: .malformed,
                status: 0,
                reason: .absent,
                reasonText: UnsafeRawBufferPointer(start: nil, count: 0),
                invalidAtWallMilliseconds: nil,
                sentAtWallMilliseconds: nil,
                responseAtWallMilliseconds: loop.wallMilliseconds,
                connectionNumber: nil,
                disposition: ResponseDisposition(completion: .malformed, status: 0, reason: .absent)
            )
            statistics.receivedResponseCount += 1
            handler.pushResponseReceived(response)
        }
    }

    func report(_ event: PoolEvent) {
        handler.poolReported(event)
    }
}

enum PoolTimer: UInt64 {
    /// Fires when the next connection may be opened.
    case openConnection
    /// Fires at the end of a sizing interval. The pool then reviews its number of connections.
    case sizing
    /// Fires when the breaker's next probe is due.
    case probe
}

extension Pool: TimerHandler, IterationEndHandler {
    /// The loop calls this method when a timer of the pool fires.
    public func timerFired(tag: UInt64) {
        switch PoolTimer(rawValue: tag) {
        case .openConnection:
            openingSchedule.timer = .none
            openConnection()
        case .sizing:
            sizingTimer = .none
            endSizingInterval()
        case .probe:
            breakerTimer = .none
            notifyHandlerIfRoom()
        case nil:
            preconditionFailure("a timer that no pool sets")
        }
    }

    /// The loop calls this method at the end of an iteration in which `submit` took a malformed push.
    public func iterationEnded() {
        completeMalformedPushes()
        closeIfDrained()
        // The pool may have room again: `malformedPushTags` is empty, and a probe may be sent, because malformed pushes
        // no longer count as in flight.
        notifyHandlerIfRoom()
    }
}
