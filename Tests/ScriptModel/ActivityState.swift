import Redis

/// The hash of an activity.
public struct ActivityState: Hashable, Sendable, ExpiringState {
    /// Where the newest version stands; the states' letters are the script's.
    public enum Standing: Character, Sendable {
        case waits = "w"
        case assigned = "a"
        case startAssigned = "b"
        case held = "h"
        case assignedHeld = "k"
        case settled = "s"
        case notShown = "f"

        var isSettled: Bool { self == .settled || self == .notShown }
        var isAssigned: Bool { self == .assigned || self == .assignedHeld }
        var holds: Bool { self == .held || self == .assignedHeld }
    }

    public struct Start: Hashable, Sendable {
        public var version: ScriptVersion
        public var isSettled: Bool
        public var timestampSeconds: UInt64
        /// Of the record that was given the send verdict.
        public var claim: UInt64
    }

    public internal(set) var version: ScriptVersion?
    public internal(set) var standing = Standing.waits
    /// The newest version is an end.
    public internal(set) var ended = false
    public internal(set) var lastTimestampSeconds: UInt64 = 0
    /// The time of the last send verdict; 0: none yet.
    public internal(set) var lastSendMilliseconds: Int64 = 0
    public internal(set) var digest: UInt64?
    public internal(set) var token: ModelToken?
    public internal(set) var registeredAtMilliseconds: Int64?
    public internal(set) var heldCommand: [UInt8] = []
    public internal(set) var start: Start?
    public internal(set) var expiresAtMilliseconds: Int64?

    mutating func command(
        isEnd: Bool,
        _ version: ScriptVersion,
        digest: UInt64,
        spacing: Int64,
        registration: ModelToken?,
        now: Int64
    ) -> (ModelReply, Lifetime) {
        var lifetime = Lifetime.unchanged
        if let registration, takes(registration) { lifetime = .renewed }
        if let verdict = refusal(isEnd: isEnd, version) { return (ModelReply(verdict), lifetime) }

        let same = self.version == version && ended == isEnd
        if !same { drop() }
        if !isEnd, self.digest == digest {
            drop()
            stand(.settled, version, isEnd: false)
            return (ModelReply(.unchanged), .renewed)
        }
        guard let token else {
            if same && !standing.holds { return (ModelReply(.noToken), lifetime) }
            stand(same ? .held : .waits, version, isEnd: isEnd)
            return (ModelReply(same ? .held : .noToken), .renewed)
        }
        let since = now - lastSendMilliseconds
        let wait = spacing - since
        if since >= 0 && wait > 0 {
            if !same {
                stand(.waits, version, isEnd: isEnd)
                lifetime = .renewed
            }
            var reply = ModelReply(.wait)
            reply.waitMilliseconds = wait
            return (reply, lifetime)
        }
        if !(same && standing.isAssigned) { assignTimestamp(version) }
        stand(same && standing.holds ? .assignedHeld : .assigned, version, isEnd: isEnd)
        if lastSendMilliseconds / 1_000_000 != now / 1_000_000 { lifetime = .renewed }
        lastSendMilliseconds = now
        self.digest = nil
        var reply = ModelReply(.send)
        reply.timestampSeconds = lastTimestampSeconds
        reply.token = token
        return (reply, lifetime)
    }

    /// Why an update or an end goes no further; nil: it is the newest, or the newest come again.
    private func refusal(isEnd: Bool, _ version: ScriptVersion) -> Verdict? {
        guard let newest = self.version else { return nil }
        if ended {
            if !isEnd { return .ended }
            if newest == version { return standing.isSettled ? .duplicate : nil }
            return standing == .notShown && newest < version ? nil : .ended
        }
        if isEnd { return nil }
        if newest == version { return standing.isSettled || standing == .startAssigned ? .duplicate : nil }
        return newest > version ? .superseded : nil
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
            drop()
            token = nil
            stand(.startAssigned, version, isEnd: false)
        }
        assignTimestamp(version)
        lastSendMilliseconds = now
        digest = nil
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

    mutating func hold(_ version: ScriptVersion, _ command: [UInt8]) -> (ModelReply, Lifetime) {
        guard self.version == version else { return (ModelReply(.superseded), .unchanged) }
        if standing.isSettled { return (ModelReply(.duplicate), .unchanged) }
        if token != nil { return (ModelReply(.retry), .unchanged) }
        standing = .held
        heldCommand = command
        return (ModelReply(.held), .renewed)
    }

    mutating func register(_ registration: ModelToken, shows: ScriptVersion?) -> (ModelReply, Lifetime) {
        guard takes(registration) else { return (ModelReply(.stale), .unchanged) }
        var reply = ModelReply(.registered)
        guard standing.holds, let version else { return (reply, .renewed) }
        if let shows, shows >= version {
            standing = standing == .held ? .settled : .assigned
            heldCommand = []
        } else {
            reply.held = .init(version: version, command: heldCommand)
        }
        return (reply, .renewed)
    }

    mutating func unregister(at: Int64) -> (ModelReply, Lifetime) {
        guard at >= registeredAtMilliseconds ?? 0 else { return (ModelReply(.stale), .unchanged) }
        token = nil
        registeredAtMilliseconds = at
        return (ModelReply(.unregistered), .renewed)
    }

    mutating func settle(_ call: SettleCall) -> Bool {
        if let version = call.version {
            if self.version == version {
                if call.outcome == .accepted {
                    drop()
                    standing = .settled
                    digest = call.digest
                } else if !standing.isSettled {
                    drop()
                    standing = call.outcome == .notShown ? .notShown : .settled
                }
            }
            if start?.version == version { start?.isSettled = true }
        }
        guard let retirement = call.retirement, let token, token.isRetired(by: retirement) else { return false }
        self.token = nil
        registeredAtMilliseconds = min(
            token.registeredAtMilliseconds + 1,
            TokenRegistration.registeredAtMillisecondsMax
        )
        return true
    }

    private mutating func takes(_ registration: ModelToken) -> Bool {
        guard registration.registeredAtMilliseconds >= registeredAtMilliseconds ?? 0 else { return false }
        token = registration
        registeredAtMilliseconds = registration.registeredAtMilliseconds
        return true
    }

    private mutating func stand(_ standing: Standing, _ version: ScriptVersion, isEnd: Bool) {
        self.version = version
        self.standing = standing
        ended = isEnd
    }

    private mutating func drop() {
        heldCommand = []
    }

    /// The version's own timestamp, raised where needed to one above the last.
    private mutating func assignTimestamp(_ version: ScriptVersion) {
        let above = min(lastTimestampSeconds + 1, ScriptVersion.timestampSecondsMax)
        lastTimestampSeconds =
            version.timestampSeconds > lastTimestampSeconds ? version.timestampSeconds : above
    }
}

extension ModelToken {
    func isRetired(by retirement: SettleCall.Retirement) -> Bool {
        token == retirement.token && environment == retirement.environment
            && retirement.invalidAtMilliseconds.map { registeredAtMilliseconds < $0 } ?? true
    }
}
