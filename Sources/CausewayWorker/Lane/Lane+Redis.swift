import Delivery
import LiveActivity
import Logging
import Redis

/// The core's calls onto the wire, and the scripts' replies back to it.
extension Lane: RedisHandler {
    func performRedisCalls() {
        guard redis.isReady else { return }
        while let call = delivery.nextRedisCall(now: now) {
            switch issue(call) {
            case .issued:
                delivery.redisCallTaken()
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
                switch call.kind {
                case .address, .admit, .hold: return issueCommand(call, view, activity: activity)
                case .register: return issueRegistration(call, view, activity: activity)
                case .unregisterActivity:
                    return redis.unregister(
                        key: activity,
                        scope: .activity,
                        atMilliseconds: view.registeredAtMilliseconds,
                        tag: call.tag
                    )
                case .unregisterDevice:
                    return redis.unregister(
                        key: HashKey(app: app, kind: .device, identifier: view.activity),
                        scope: .allAttributesTypes,
                        atMilliseconds: view.registeredAtMilliseconds,
                        tag: call.tag
                    )
                case .settle:
                    return issueSettlement(call, view, key: activity, scope: .activity, retires: !view.isStart)
                case .settleDevice:
                    return issueSettlement(
                        call,
                        view,
                        key: HashKey(app: app, kind: .device, identifier: view.device),
                        scope: .attributesType(view.attributesType),
                        retires: true
                    )
                }
            }
    }

    private func issueCommand(_ call: RedisCall, _ view: RecordView, activity: HashKey) -> CallIssue {
        guard let version = ScriptVersion(view.version) else { return .outOfBounds }
        let device = HashKey(app: activity.app, kind: .device, identifier: view.device)
        switch call.kind {
        case .address:
            return redis.address(
                key: device,
                attributesType: view.attributesType,
                registration: view.suppliedRegistration,
                tag: call.tag
            )
        case .admit where view.isStart:
            return redis.admitStart(key: activity, version: version, claim: view.claim, tag: call.tag)
        case .admit:
            return redis.admitCommand(
                key: activity,
                event: view.event == .end ? .end : .update,
                version: version,
                digest: view.digest,
                spacingMilliseconds: plan.delivery.spacingMilliseconds,
                registration: view.suppliedRegistration,
                tag: call.tag
            )
        default:
            writer.reset()
            view.commandRecord(app: activity.app).write(to: &writer)
            return redis.hold(
                key: view.isStart ? device : activity,
                scope: view.isStart ? .attributesType(view.attributesType) : .activity,
                version: version,
                command: writer.bytes,
                tag: call.tag
            )
        }
    }

    private func issueRegistration(_ call: RedisCall, _ view: RecordView, activity: HashKey) -> CallIssue {
        let isActivity = view.device.isEmpty
        let device = HashKey(app: activity.app, kind: .device, identifier: view.device)
        return redis.register(
            key: isActivity ? activity : device,
            scope: isActivity ? .activity : .attributesType(view.attributesType),
            registration: view.registration,
            shows: view.shows.flatMap { ScriptVersion($0) },
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
        let retirement = TokenRetirement(
            token: view.token,
            environment: TokenEnvironment(view.environment),
            invalidAtMilliseconds: view.retiresTokenUnconditionally ? nil : view.invalidAtMilliseconds
        )
        return redis.settle(
            key: key,
            scope: scope,
            version: ScriptVersion(view.version),
            outcome: SettledOutcome(view.settlement),
            digest: view.digest,
            retirement: retires && view.retiresToken ? retirement : nil,
            tag: call.tag
        )
    }

    private func refuse(_ call: RedisCall, reason: String) {
        var reason = "Redis: " + reason
        reason.withUTF8 { delivery.redisRefused(call, reason: UnsafeRawBufferPointer($0), now: now) }
    }

    // MARK: - From Redis

    func redisReady() {
        logger.info("Redis is ready", metadata: ["lane": "\(number)"])
        requestTurnEnd()
    }

    func redisLost(_ reason: RedisError) {
        logger.warning("Redis is lost", metadata: ["lane": "\(number)", "reason": "\(reason)"])
    }

    func redisWarns(_ warning: RedisWarning) {
        logger.warning("Redis", metadata: ["lane": "\(number)", "warning": "\(warning)"])
    }

    func admitted(tag: UInt64, reply: AdmitReply) {
        guard let call = RedisCall(tag: tag) else { return }
        var script = ScriptReply(ScriptReply.Verdict(reply.verdict))
        script.number = reply.verdict == .wait ? reply.waitMilliseconds : Int64(clamping: reply.timestampSeconds)
        script.environment = reply.environment == .sandbox ? .sandbox : .production
        script.registeredAtMilliseconds = reply.registeredAtMilliseconds
        script.token = reply.token
        if let held = reply.held { script.heldCommand = held.command }
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
        if error.isRetriable {
            delivery.redisFailed(call, pauses: error.isServersAnswer, now: now)
        } else {
            logger.error("Redis refused a call", metadata: ["script": "\(script)", "reason": "\(error)"])
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
        }
    }
}

extension RedisError {
    /// The server is there and said no: the next call is likely to hear the same.
    fileprivate var isServersAnswer: Bool {
        switch code {
        case .stream, .deadline, .resolve, .closed, .protocolViolation: false
        default: true
        }
    }
}
