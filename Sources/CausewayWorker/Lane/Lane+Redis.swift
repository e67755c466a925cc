import Delivery
import LiveActivity
import Logging
import Observability
import Redis

/// The core's calls onto the wire, and the scripts' replies back to it.
extension Lane: RedisHandler {
    /// Calls to servers that are away, put behind the others in one turn: a bound on what that costs while nothing else is to be called.
    private static let passedCallsPerTurnMax = 1_024

    func performRedisCalls() {
        guard redis.isReady else { return }
        var passedLeft = Self.passedCallsPerTurnMax
        while let call = delivery.nextRedisCall(now: now) {
            switch issue(call) {
            case .issued:
                delivery.redisCallTaken()
            case .notReady where redis.hasSeveralServers && passedLeft > 0:
                // Only this key's server is away: calls to the others do not wait behind this one.
                passedLeft -= 1
                delivery.redisCallPostponed()
            case .notReady, .full:
                // Replies, and the next connection, each ask for a turn.
                return
            case .outOfBounds:
                delivery.redisCallTaken()
                refuse(call, reason: "does not fit Redis' limits")
            }
        }
    }

    private func issue(_ call: RedisCall) -> CallIssue {
        let view = delivery.view(call.record)
        return plan.applications[Int(call.application)]
            .withUnsafeBytes { app in
                let activity = HashKey(app: app, kind: .activity, identifier: view.activity)
                let device = HashKey(app: app, kind: .device, identifier: view.device)
                switch call.kind {
                case .address: return issueAddress(call, view, key: device)
                case .admit: return issueAdmission(call, view, key: activity)
                case .hold: return issueHold(call, view, key: view.isStart ? device : activity)
                case .register: return issueRegistration(call, view, key: view.device.isEmpty ? activity : device)
                case .unregisterActivity: return issueUnregistration(call, view, key: activity, scope: .activity)
                case .unregisterDevice:
                    // A tombstone names its device where others name their activity.
                    let key = HashKey(app: app, kind: .device, identifier: view.activity)
                    return issueUnregistration(call, view, key: key, scope: .allAttributesTypes)
                case .settle:
                    return issueSettlement(call, view, key: activity, scope: .activity, retires: !view.isStart)
                case .settleDevice:
                    let scope = RegistrationScope.start(attributesType: view.attributesType, activity: view.activity)
                    return issueSettlement(call, view, key: device, scope: scope, retires: true)
                case .limit: return issueLimit(call, view, key: activity)
                case .refundStart:
                    guard let connection = redis.connection(for: device) else { return .notReady }
                    return connection.refundStart(
                        key: device,
                        startBudget: plan.startBudgets[view.policy],
                        draw: view.startDraw,
                        tag: call.tag
                    )
                }
            }
    }

    private func issueAddress(_ call: RedisCall, _ view: RecordView, key: HashKey) -> CallIssue {
        guard let connection = redis.connection(for: key) else { return .notReady }
        return connection.address(
            key: key,
            attributesType: view.attributesType,
            startBudget: plan.startBudgets[view.policy],
            registration: view.suppliedRegistration,
            tag: call.tag
        )
    }

    private func issueAdmission(_ call: RedisCall, _ view: RecordView, key: HashKey) -> CallIssue {
        guard let version = ScriptVersion(view.version) else { return .outOfBounds }
        guard let connection = redis.connection(for: key) else { return .notReady }
        if view.isStart {
            return connection.admitStart(key: key, version: version, claim: view.claim, tag: call.tag)
        }
        return connection.admitCommand(
            key: key,
            event: view.event == .end ? .end : .update,
            version: version,
            digest: view.digest,
            pace: plan.paces[view.policy],
            request: PushRequest(
                isHigh: view.asksForHighPriority,
                mayUseReserve: view.mayUseReserve,
                carriesAlert: view.carriesAlert
            ),
            registration: view.suppliedRegistration,
            tag: call.tag
        )
    }

    private func issueHold(_ call: RedisCall, _ view: RecordView, key: HashKey) -> CallIssue {
        guard let version = ScriptVersion(view.version) else { return .outOfBounds }
        guard let connection = redis.connection(for: key) else { return .notReady }
        writer.reset()
        view.commandRecord(app: key.app).write(to: &writer)
        return connection.hold(
            key: key,
            scope: view.isStart
                ? .start(attributesType: view.attributesType, activity: view.activity) : .activity,
            version: version,
            command: writer.bytes,
            carriesAlert: view.carriesAlert,
            tag: call.tag
        )
    }

    private func issueRegistration(_ call: RedisCall, _ view: RecordView, key: HashKey) -> CallIssue {
        guard let connection = redis.connection(for: key) else { return .notReady }
        let last = view.followsHeldStart ? ScriptVersion(view.version) : nil
        return connection.register(
            key: key,
            scope: view.device.isEmpty ? .activity : .attributesType(view.attributesType),
            registration: view.registration,
            frequentUpdates: view.frequentUpdates,
            shows: view.shows.flatMap { ScriptVersion($0) },
            after: last.map { HeldStart(version: $0, activity: view.activity) },
            tag: call.tag
        )
    }

    private func issueUnregistration(
        _ call: RedisCall,
        _ view: RecordView,
        key: HashKey,
        scope: RegistrationScope
    ) -> CallIssue {
        guard let connection = redis.connection(for: key) else { return .notReady }
        return connection.unregister(
            key: key,
            scope: scope,
            atMilliseconds: view.registeredAtMilliseconds,
            tag: call.tag
        )
    }

    private func issueSettlement(
        _ call: RedisCall,
        _ view: RecordView,
        key: HashKey,
        scope: RegistrationScope,
        retires: Bool
    ) -> CallIssue {
        guard let connection = redis.connection(for: key) else { return .notReady }
        let retirement = TokenRetirement(
            token: view.token,
            environment: TokenEnvironment(view.environment),
            invalidAtMilliseconds: view.retiresTokenUnconditionally ? nil : view.invalidAtMilliseconds
        )
        return connection.settle(
            key: key,
            scope: scope,
            version: ScriptVersion(view.version),
            outcome: SettledOutcome(view.settlement),
            digest: view.digest,
            retirement: retires && view.retiresToken ? retirement : nil,
            pace: nil,
            tag: call.tag
        )
    }

    private func issueLimit(_ call: RedisCall, _ view: RecordView, key: HashKey) -> CallIssue {
        guard let connection = redis.connection(for: key) else { return .notReady }
        return connection.settle(
            key: key,
            scope: .activity,
            version: ScriptVersion(view.version),
            outcome: .limited,
            digest: view.digest,
            retirement: nil,
            pace: plan.paces[view.policy],
            tag: call.tag
        )
    }

    private func refuse(_ call: RedisCall, reason: String) {
        var reason = "Redis: " + reason
        reason.withUTF8 { delivery.redisRefused(call, reason: UnsafeRawBufferPointer($0), now: now) }
    }

    // MARK: - From Redis

    func redisReady() {
        if redisHistory.noteReady() { metrics.add(.redisReconnects) }
        note(.redisReady, ["lane": "\(number)"])
        requestTurnEnd()
    }

    func redisLost(_ reason: RedisError) {
        redisHistory.noteLost()
        note(.redisLost, ["lane": "\(number)", "reason": "\(reason)"])
    }

    func redisWarns(_ warning: RedisWarning) {
        note(.redisWarning, ["lane": "\(number)", "warning": "\(warning)"])
    }

    func answered(calls: Int, roundTripMicroseconds: Int64) {
        metrics.observe(.redisRoundTrip, microseconds: roundTripMicroseconds, count: Int64(calls))
    }

    func admitted(tag: UInt64, reply: AdmitReply) {
        guard let call = RedisCall(tag: tag) else { return }
        var script = ScriptReply(ScriptReply.Verdict(reply.verdict))
        script.number =
            switch reply.verdict {
            case .wait: reply.waitMilliseconds
            case .address: reply.draw
            default: Int64(clamping: reply.timestampSeconds)
            }
        script.environment = reply.environment == .sandbox ? .sandbox : .production
        script.registeredAtMilliseconds = reply.registeredAtMilliseconds
        script.token = reply.token
        if let held = reply.held { script.heldCommand = held.command }
        if reply.verdict == .send {
            script.priority = reply.priority
            script.isDemoted = reply.isDemoted
            script.budgetLeft = reply.budgetLeft
        }
        delivery.redisReplied(call, script, now: now)
        requestTurnEnd()
    }

    func settled(tag: UInt64, tokenRetired: Bool) {
        guard let call = RedisCall(tag: tag) else { return }
        delivery.redisReplied(call, ScriptReply(.settled), now: now)
        requestTurnEnd()
    }

    func failed(tag: UInt64, script: ScriptKind, error: RedisError) {
        guard let call = RedisCall(tag: tag) else { return }
        metrics.add(.redisErrors, Int(error.code.rawValue))
        if error.isRetriable {
            delivery.redisFailed(call, pauses: error.isServersAnswer, now: now)
        } else {
            note(.redisRefused, ["script": "\(script)", "reason": "\(error)"])
            refuse(call, reason: error.reason)
        }
        requestTurnEnd()
    }
}

extension RecordView {
    fileprivate var registration: TokenRegistration {
        TokenRegistration(
            token: token,
            environment: TokenEnvironment(environment),
            registeredAtMilliseconds: registeredAtMilliseconds
        )
    }

    fileprivate var suppliedRegistration: TokenRegistration? { suppliesToken ? registration : nil }
}

extension ScriptVersion {
    fileprivate init?(_ version: Version) {
        self.init(timestampSeconds: UInt64(clamping: version.timestamp), sequence: version.sequence)
    }
}

extension TokenEnvironment {
    fileprivate init(_ environment: DeviceEnvironment) {
        switch environment {
        case .production: self = .production
        case .sandbox: self = .sandbox
        }
    }
}

extension SettledOutcome {
    fileprivate init(_ settlement: Settlement) {
        switch settlement {
        case .accepted: self = .accepted
        case .unknown: self = .unknown
        case .final, .none: self = .notShown
        }
    }
}

extension ScriptReply.Verdict {
    fileprivate init(_ verdict: Verdict) {
        switch verdict {
        case .send: self = .send
        case .wait: self = .wait
        case .noToken: self = .noToken
        case .held: self = .held
        case .retry: self = .retry
        case .duplicate: self = .duplicate
        case .superseded: self = .superseded
        case .ended: self = .ended
        case .unchanged: self = .unchanged
        case .unknown: self = .unknown
        case .registered: self = .registered
        case .stale: self = .stale
        case .unregistered: self = .unregistered
        case .address: self = .address
        case .overtaken: self = .overtaken
        case .alertHeld: self = .alertHeld
        case .tooOld: self = .tooOld
        case .full: self = .full
        }
    }
}

extension RedisError {
    /// The server is there and said no: the next call is likely to hear the same. That a slot or a script is to be had elsewhere, or
    /// again, is no such answer.
    fileprivate var isServersAnswer: Bool {
        switch code {
        case .stream, .deadline, .resolve, .closed, .protocolViolation, .moved, .ask, .noScript: false
        default: true
        }
    }
}
