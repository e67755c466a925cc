import Redis

/// The hash of an activity.
public struct ActivityState: Hashable, Sendable, ExpiringState {
    /// What has become of the newest version.
    public enum Standing: Sendable {
        case waits
        case assigned
        case startAssigned
        case held
        case settled
        case notShown

        var isSettled: Bool { self == .settled || self == .notShown }
    }

    public struct Held: Hashable, Sendable {
        /// The newest; or an older one, if its alert still has to be carried by the newest.
        public var version: ScriptVersion
        public var isEnd: Bool
        public var command: [UInt8]
        public var carriesAlert: Bool
    }

    public struct Start: Hashable, Sendable {
        public var version: ScriptVersion
        public var isSettled: Bool
        public var timestampSeconds: UInt64
        /// Of the record that was given the send verdict; nil once the start was accepted, and so is not asked for again.
        public var claim: UInt64?
    }

    public internal(set) var version: ScriptVersion?
    public internal(set) var standing = Standing.waits
    /// The newest version is an end.
    public internal(set) var ended = false
    /// The newest version has drawn on the bucket.
    public internal(set) var hasDrawn = false
    public internal(set) var lastTimestampSeconds: UInt64 = 0
    /// The time of the last send verdict; 0: none yet.
    public internal(set) var lastSendMilliseconds: Int64 = 0
    public internal(set) var digest: UInt64?
    public internal(set) var token: ModelToken?
    public internal(set) var registeredAtMilliseconds: Int64?
    public internal(set) var held: Held?
    public internal(set) var start: Start?
    public internal(set) var pace: Pace?
    public internal(set) var expiresAtMilliseconds: Int64?

    /// The newest version itself is held.
    public var holdsNewest: Bool { held.map { $0.version == version && $0.isEnd == ended } ?? false }

    mutating func command(_ call: Command, now: Int64) -> (ModelReply, Lifetime) {
        var lifetime = Lifetime.unchanged
        if let registration = call.registration, takes(registration) {
            lifetime = .renewed
            bear(at: now)
        }
        if let verdict = refusal(call) { return (ModelReply(verdict), lifetime) }
        if !call.isEnd, pace?.isOver(at: now) ?? false { return (ModelReply(.tooOld), lifetime) }

        let same = version == call.version && ended == call.isEnd
        if let held, held.carriesAlert, !call.request.carriesAlert, token != nil || !(same && holdsNewest) {
            var reply = ModelReply(.alertHeld)
            reply.held = .init(version: held.version, command: held.command)
            return (reply, lifetime)
        }
        bear(at: now)
        if !call.isEnd, digest == Self.compared(call.digest) {
            held = nil
            advance(to: call, .settled)
            return (ModelReply(.unchanged), .renewed)
        }
        guard let token else {
            if same && !holdsNewest { return (ModelReply(.noToken), lifetime) }
            let verdict: Verdict = same ? .held : .noToken
            advance(to: call, same ? .held : .waits)
            return (ModelReply(verdict), .renewed)
        }
        let since = now - lastSendMilliseconds
        let wait = (pace?.spacing(call.pace, at: now) ?? 0) - since
        if since >= 0 && wait > 0 {
            if !same {
                advance(to: call, .waits)
                lifetime = .renewed
            }
            var reply = ModelReply(.wait)
            reply.waitMilliseconds = wait
            return (reply, lifetime)
        }
        if !same || standing != .assigned { assignTimestamp(call.version) }
        let heldBefore = held
        advance(to: call, .assigned)
        if held != heldBefore { lifetime = .renewed }
        if lastSendMilliseconds / 1_000_000 != now / 1_000_000 { lifetime = .renewed }
        lastSendMilliseconds = now
        digest = nil
        var reply = ModelReply(.send)
        reply.timestampSeconds = lastTimestampSeconds
        reply.token = token
        draw(call, now: now, into: &reply)
        return (reply, lifetime)
    }

    /// Why an update or an end goes no further; nil: it is the newest, or the newest come again.
    private func refusal(_ call: Command) -> Verdict? {
        guard let newest = version else { return nil }
        if ended {
            if call.isEnd {
                if newest == call.version { return standing.isSettled ? .duplicate : nil }
                return standing == .notShown && newest < call.version ? nil : .ended
            }
            return isOvertaken(call, by: newest) ? .overtaken : .ended
        }
        if call.isEnd { return nil }
        if newest == call.version { return standing.isSettled || standing == .startAssigned ? .duplicate : nil }
        if newest < call.version { return nil }
        return isOvertaken(call, by: newest) ? .overtaken : .superseded
    }

    /// A start's alert is its own, and takes none from the life before.
    private func isOvertaken(_ call: Command, by newest: ScriptVersion) -> Bool {
        call.request.carriesAlert && call.version < newest && !standing.isSettled && standing != .startAssigned
    }

    private mutating func draw(_ call: Command, now: Int64, into reply: inout ModelReply) {
        guard let pace else { return }
        let bucket = pace.bucket(call.pace)
        var left = bucket.left(fullAt: pace.fullAtMilliseconds, now: now)
        reply.priority = 5
        if call.request.isHigh {
            if hasDrawn {
                reply.priority = 10
            } else if left > (call.request.mayUseReserve ? 0 : bucket.reserved) {
                reply.priority = 10
                left -= 1
                hasDrawn = true
                self.pace?.fullAtMilliseconds = bucket.drawn(fullAt: pace.fullAtMilliseconds, now: now)
            } else {
                reply.isDemoted = true
            }
        }
        reply.budgetLeft = left
    }

    mutating func start(_ version: ScriptVersion, claim: UInt64, now: Int64) -> (ModelReply, Lifetime) {
        if let start {
            if start.version == version { return (startAgain(start, claim: claim), .unchanged) }
            if start.version > version { return (ModelReply(.superseded), .unchanged) }
        }
        if let newest = self.version, newest >= version {
            if newest == version && standing.isSettled && !ended { return (ModelReply(.duplicate), .unchanged) }
            if ended || token != nil || lastTimestampSeconds >= version.timestampSeconds {
                return (ModelReply(.superseded), .unchanged)
            }
        } else {
            held = nil
            token = nil
            standing = .startAssigned
            self.version = version
            ended = false
        }
        assignTimestamp(version)
        lastSendMilliseconds = now
        digest = nil
        hasDrawn = false
        pace = Pace(bornAtMilliseconds: now)
        let start = Start(version: version, isSettled: false, timestampSeconds: lastTimestampSeconds, claim: claim)
        self.start = start
        return (startVerdict(start), .renewed)
    }

    /// The start that was given a send verdict comes again: to the record that has it, since the reply was lost, or to another.
    private func startAgain(_ start: Start, claim: UInt64) -> ModelReply {
        guard start.claim == claim else { return ModelReply(start.isSettled ? .duplicate : .unknown) }
        if ended || token != nil && standing != .startAssigned { return ModelReply(.superseded) }
        return startVerdict(start)
    }

    private func startVerdict(_ start: Start) -> ModelReply {
        var reply = ModelReply(.send)
        reply.timestampSeconds = start.timestampSeconds
        return reply
    }

    mutating func hold(_ version: ScriptVersion, _ command: [UInt8], carriesAlert: Bool) -> (ModelReply, Lifetime) {
        guard self.version == version else { return (ModelReply(.superseded), .unchanged) }
        if standing.isSettled { return (ModelReply(.duplicate), .unchanged) }
        if token != nil { return (ModelReply(.retry), .unchanged) }
        standing = .held
        held = Held(version: version, isEnd: ended, command: command, carriesAlert: carriesAlert)
        return (ModelReply(.held), .renewed)
    }

    mutating func register(
        _ registration: ModelToken,
        frequentUpdates: Bool?,
        shows: ScriptVersion?,
        now: Int64
    ) -> (ModelReply, Lifetime) {
        guard takes(registration) else { return (ModelReply(.stale), .unchanged) }
        bear(at: now)
        if let frequentUpdates { pace?.allowsFrequentUpdates = frequentUpdates }
        var reply = ModelReply(.registered)
        guard let held, holdsNewest else { return (reply, .renewed) }
        if let shows, shows >= held.version {
            if standing == .held { standing = .settled }
            self.held = nil
        } else {
            reply.held = .init(version: held.version, command: held.command)
        }
        return (reply, .renewed)
    }

    mutating func unregister(at: Int64) -> (ModelReply, Lifetime) {
        guard at >= registeredAtMilliseconds ?? 0 else { return (ModelReply(.stale), .unchanged) }
        token = nil
        registeredAtMilliseconds = at
        return (ModelReply(.unregistered), .renewed)
    }

    /// True if the token was retired. Whatever changes what is kept beside the record renews the lifetime.
    mutating func settle(_ call: SettleCall, now: Int64) -> (Bool, Lifetime) {
        var lifetime = Lifetime.unchanged
        let heldBefore = held
        if call.outcome == .limited {
            if let numbers = call.pace, pace?.limit(numbers, sentAt: lastSendMilliseconds, at: now) ?? false {
                lifetime = .renewed
            }
        } else if let version = call.version {
            if self.version == version { settleNewest(call) }
            if let start, start.version == version, start.claim != nil {
                lifetime = .renewed
                self.start?.isSettled = true
                if call.outcome == .accepted { self.start?.claim = nil }
            }
        }
        if held != heldBefore { lifetime = .renewed }
        guard let retirement = call.retirement, let token, token.isRetired(by: retirement) else {
            return (false, lifetime)
        }
        self.token = nil
        registeredAtMilliseconds = min(
            token.registeredAtMilliseconds + 1,
            TokenRegistration.registeredAtMillisecondsMax
        )
        return (true, .renewed)
    }

    /// Of a digest 48 bits are kept, and 0 is none.
    private static func compared(_ digest: UInt64) -> UInt64 { max(1, digest % (1 << 48)) }

    private mutating func settleNewest(_ call: SettleCall) {
        if call.outcome == .accepted {
            held = nil
            standing = .settled
            digest = Self.compared(call.digest)
        } else if !standing.isSettled {
            held = nil
            standing = call.outcome == .notShown ? .notShown : .settled
        }
    }

    /// The activity's life is counted from the first that is heard of it.
    private mutating func bear(at now: Int64) {
        if pace == nil { pace = Pace(bornAtMilliseconds: now) }
    }

    private mutating func takes(_ registration: ModelToken) -> Bool {
        guard registration.registeredAtMilliseconds >= registeredAtMilliseconds ?? 0 else { return false }
        token = registration
        registeredAtMilliseconds = registration.registeredAtMilliseconds
        return true
    }

    /// The command is the newest now. What an older one left is over, but for an alert.
    private mutating func advance(to call: Command, _ standing: Standing) {
        if version != call.version || ended != call.isEnd {
            if let held, !held.carriesAlert { self.held = nil }
            hasDrawn = false
        }
        version = call.version
        ended = call.isEnd
        self.standing = standing
    }

    /// The version's own timestamp, raised where needed to one above the last.
    private mutating func assignTimestamp(_ version: ScriptVersion) {
        let above = min(lastTimestampSeconds + 1, ScriptVersion.timestampSecondsMax)
        lastTimestampSeconds =
            version.timestampSeconds > lastTimestampSeconds ? version.timestampSeconds : above
    }
}

extension ActivityState {
    /// An update or an end, as it comes to be admitted.
    struct Command {
        var isEnd: Bool
        var version: ScriptVersion
        var digest: UInt64
        var pace: PaceNumbers
        var request: PushRequest
        var registration: ModelToken?
    }
}

extension ModelToken {
    func isRetired(by retirement: SettleCall.Retirement) -> Bool {
        token == retirement.token && environment == retirement.environment
            && retirement.invalidAtMilliseconds.map { registeredAtMilliseconds < $0 } ?? true
    }
}
