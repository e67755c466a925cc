public import Reactor

/// The connections of one lane to APNs for one (environment, team, key, bundle).
///
/// Belongs to its loop's thread, which makes every call, and on which the handler is called. The pool opens its
/// connections one after the other, replaces those that end, and spreads the pushes over them.
public final class Pool {
    enum Phase {
        /// Made. → `running`, `closed`.
        case created
        /// Takes pushes. → `draining`, `closed`.
        case running
        /// Takes no push; connections close as they empty. → `closed`.
        case draining
        /// Every push has been answered and no connection is left. Final.
        case closed
    }

    let loop: EventLoop
    let configuration: PoolConfiguration
    let tokens: ProviderTokenSource
    private unowned let handler: any PushHandler
    var phase = Phase.created
    var connections: [Connection] = []
    public internal(set) var statistics = PoolStatistics()

    var breaker: Breaker
    /// How many of the pushes may be sent again; the owner asks before it sends one, see ``PushRequest/isRetry``.
    public private(set) var retryBudget = RetryBudget()
    var sizing: PoolSizing
    var interval = PoolSizing.Interval()
    var intervalBeganMilliseconds: Int64 = 0
    var sizingTimer = TimerIdentifier.none
    private var breakerTimer = TimerIdentifier.none
    var opening: Opening
    var lookUp: LookUp?
    /// A candidate key's token, for the next connection to try.
    var trialToken: ProviderToken?

    /// The connection that the last push went to, and how many more go there before the choice is made again: as many as
    /// fill about one TLS record.
    var preferred: Connection?
    private var preferredPushesLeft = 0
    private static let preferredPushes = 32

    /// A push was turned away, so the handler waits to hear of room.
    private var isRoomWanted = false
    /// Since when there has been no stream for a push that was turned away; nil if there is one.
    var starvedSinceMilliseconds: Int64?

    /// Tags of malformed pushes, which are answered at the turn's end.
    var malformed: [UInt64] = []
    /// Beyond this many in a turn, `submit` says that there is no room.
    private static let malformedMax = 256

    /// - Parameters:
    ///   - configuration: must be valid; see ``PoolConfiguration/validate()``.
    ///   - handler: not retained. It must outlive the pool, or close it first.
    public init(
        loop: EventLoop,
        configuration: PoolConfiguration,
        tokens: ProviderTokenSource,
        handler: any PushHandler
    ) {
        do {
            try configuration.validate()
        } catch {
            preconditionFailure("pool configuration: \(error)")
        }
        self.loop = loop
        self.configuration = configuration
        self.tokens = tokens
        self.handler = handler
        breaker = Breaker(configuration.breaker)
        opening = Opening(configuration)
        sizing = PoolSizing(configuration)
    }

    deinit {
        precondition(connections.isEmpty, "a pool went away before it was closed")
        loop.cancel(breakerTimer)
        loop.cancel(opening.timer)
        loop.cancel(sizingTimer)
    }

    /// Pushes that were taken and are not answered.
    public var inFlight: Int { connections.reduce(malformed.count) { $0 + $1.inFlight } }

    /// Pushes that would be taken now.
    public var freeStreams: Int {
        guard phase == .running else { return 0 }
        let free = connections.reduce(0) { $0 + $1.freeStreams }
        if breaker.isClosed { return free }
        return mayProbe ? min(1, free) : 0
    }

    /// Why the pool takes only probes, or nil.
    public var openBreaker: BreakerCause? { breaker.cause }

    /// Whether pushes go, and one was accepted since a device token was last called unknown, or another topic's: only then does such an
    /// answer concern a single token.
    public var acceptsTokens: Bool { breaker.isClosed && acceptedSinceSuspect }
    private var acceptedSinceSuspect = false

    /// Opens the first connection; the others follow at the configured distance.
    public func start() {
        precondition(phase == .created, "a pool starts once")
        phase = .running
        beginInterval()
        considerOpening()
    }

    /// Sends a push, or says that no stream is free for it now; ``PushHandler/poolHasRoom(_:)`` follows when one is.
    public func submit(_ request: borrowing PushRequest) -> Bool {
        guard phase == .running, breaker.isClosed || mayProbe else {
            isRoomWanted = true
            return false
        }
        guard request.isWellFormed else { return refuse(tag: request.tag) }
        guard let connection = connectionWithRoom(avoiding: request.avoidedConnection), connection.submit(request)
        else {
            isRoomWanted = true
            if starvedSinceMilliseconds == nil { starvedSinceMilliseconds = loop.nowMilliseconds }
            return false
        }
        preferredPushesLeft -= 1
        statistics.submitted += 1
        interval.inFlightPeak = max(interval.inFlightPeak, Int(statistics.submitted - statistics.answered))
        if request.isRetry {
            statistics.retries += 1
            retryBudget.countRetry()
        } else {
            retryBudget.countFirstAttempt()
        }
        if !breaker.isClosed { breaker.submitted() }
        return true
    }

    /// Takes no more pushes, awaits those in flight, closes, and says ``PoolNotice/drained``. Each push comes to its
    /// answer within the request timeout.
    public func drain() {
        guard phase == .created || phase == .running else { return }
        phase = .draining
        loop.cancel(opening.timer)
        loop.cancel(sizingTimer)
        giveTrialBack()
        for connection in connections { connection.retire(.draining) }
        finishDraining()
    }

    /// Ends everything now. When it returns, every push has been answered, as `ambiguous` or `notProcessed` if not
    /// otherwise; nothing is called after that.
    public func close() {
        guard phase != .closed else { return }
        phase = .closed
        loop.cancel(opening.timer)
        loop.cancel(breakerTimer)
        loop.cancel(sizingTimer)
        giveTrialBack()
        for connection in connections { connection.close(.poolClosed, detail: "") }
        answerMalformed()
    }

    /// Another pool may try the key.
    private func giveTrialBack() {
        guard let token = trialToken else { return }
        trialToken = nil
        tokens.endTrial(of: token, .inconclusive)
    }

    // MARK: - Choosing

    private func connectionWithRoom(avoiding avoided: UInt32) -> Connection? {
        if let preferred, preferredPushesLeft > 0, preferred.freeStreams > 0, preferred.identifier != avoided {
            return preferred
        }
        var best: Connection?
        var bestFree = 0
        for connection in connections where connection.identifier != avoided {
            // The one push that a new connection needs before it takes more goes there first.
            if connection.phase == .cold, connection.freeStreams > 0 { return connection }
            if connection.freeStreams > bestFree {
                best = connection
                bestFree = connection.freeStreams
            }
        }
        // Where no other connection has room the one to be avoided is better than none: what waits behind the push would wait too.
        if best == nil {
            best = connections.first { $0.identifier == avoided && $0.freeStreams > 0 }
        }
        preferred = best
        preferredPushesLeft = Pool.preferredPushes
        return best
    }

    private var mayProbe: Bool { breaker.permitsProbe(inFlight: inFlight, nowMilliseconds: loop.nowMilliseconds) }

    /// Tells the handler of room if it waits for it.
    func roomMayHaveChanged() {
        guard isRoomWanted, freeStreams > 0 else { return }
        isRoomWanted = false
        endStarvation()
        handler.poolHasRoom(self)
    }

    // MARK: - Answers

    func pushCompleted(
        _ answer: borrowing PushAnswer,
        on connection: Connection,
        isBroadcast: Bool,
        ranOutOfTime: Bool,
        roundTripMilliseconds: Int64
    ) {
        let sample = BreakerSample(
            kind: answer.kind,
            disposition: answer.disposition,
            status: answer.status,
            reason: answer.reason,
            isDeadline: ranOutOfTime
        )
        let transition = breaker.record(sample, nowMilliseconds: loop.nowMilliseconds)
        interval.count(
            isError: sample == .unavailable || sample == .forbidden,
            isAnswered: answer.kind == .answered,
            roundTripMilliseconds: roundTripMilliseconds
        )
        statistics.answered += 1
        if answer.disposition != .accepted { act(on: answer.reason, of: connection) }
        // A broadcast says nothing about tokens.
        if answer.disposition == .accepted, !isBroadcast { acceptedSinceSuspect = true }
        handler.pushAnswered(answer)
        if sample == .suspect { acceptedSinceSuspect = false }
        if transition != .none { breakerChanged(transition) }
    }

    /// What an answer's reason says about its connection.
    private func act(on reason: Reason, of connection: Connection) {
        switch reason {
        case .expiredProviderToken, .unrelatedKeyIdInToken:
            if let token = connection.token { tokens.refused(token, unixSeconds: loop.wallMilliseconds / 1_000) }
            retireForToken(connection, reason)
        case .tooManyProviderTokenUpdates:
            retireForToken(connection, reason)
        case .idleTimeout, .shutdown:
            connection.retire(.serverClosing)
        default:
            break
        }
    }

    private func retireForToken(_ connection: Connection, _ reason: Reason) {
        guard connection.isLive else { return }
        notice(.providerTokenTrouble(reason: reason, detail: ""))
        connection.retire(.providerToken)
    }

    private func breakerChanged(_ transition: Breaker.Transition) {
        switch transition {
        case .none:
            break
        case .opened(let cause):
            notice(.breakerOpened(cause: cause))
            scheduleProbe()
        case .postponed:
            scheduleProbe()
        case .closed:
            notice(.breakerClosed)
        }
    }

    private func scheduleProbe() {
        guard phase == .running, let probeAt = breaker.probeAtMilliseconds else { return }
        loop.cancel(breakerTimer)
        let wait = max(0, probeAt - loop.nowMilliseconds)
        breakerTimer = loop.schedule(afterMilliseconds: wait, handler: self, tag: PoolTimer.probe.rawValue)
    }

    private func refuse(tag: UInt64) -> Bool {
        guard malformed.count < Pool.malformedMax else {
            isRoomWanted = true
            return false
        }
        if malformed.isEmpty { loop.atTurnEnd(self) }
        malformed.append(tag)
        statistics.submitted += 1
        return true
    }

    private func answerMalformed() {
        let tags = malformed
        malformed.removeAll(keepingCapacity: true)
        for tag in tags {
            let answer = PushAnswer(
                tag: tag,
                kind: .malformed,
                status: 0,
                reason: .absent,
                reasonText: UnsafeRawBufferPointer(start: nil, count: 0),
                timestampMilliseconds: -1,
                retryAfterSeconds: -1,
                sentAtMilliseconds: -1,
                answeredAtMilliseconds: loop.wallMilliseconds,
                connection: 0,
                disposition: Disposition(kind: .malformed, status: 0, reason: .absent)
            )
            statistics.answered += 1
            handler.pushAnswered(answer)
        }
    }

    func notice(_ notice: PoolNotice) {
        handler.poolNotice(notice)
    }
}

enum PoolTimer: UInt64 {
    /// The next connection may be opened.
    case open
    /// It is time to look at the number of connections.
    case sizing
    /// The breaker lets a probe through.
    case probe
}

extension Pool: TimerHandler, TurnEndHandler {
    /// For the loop.
    public func timerFired(tag: UInt64) {
        switch PoolTimer(rawValue: tag) {
        case .open:
            opening.timer = .none
            open()
        case .sizing:
            sizingTimer = .none
            endInterval()
        case .probe:
            breakerTimer = .none
            roomMayHaveChanged()
        case nil:
            preconditionFailure("a timer that no pool sets")
        }
    }

    /// For the loop.
    public func turnEnded() {
        answerMalformed()
        finishDraining()
    }
}
