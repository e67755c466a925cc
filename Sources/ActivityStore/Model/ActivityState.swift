import LiveActivity

/// An activity's value in the model.
public struct ActivityState: Hashable, Sendable, ExpiringState {
    /// The state of the newest version.
    public enum VersionState: Sendable {
        case waits
        case assigned
        case startAssigned
        case held
        case settled
        case notShown

        var isSettled: Bool { self == .settled || self == .notShown }
    }

    public struct Held: Hashable, Sendable {
        /// The newest version, or an older one if the newest still has to carry its alert.
        public var version: Version
        public var isEnd: Bool
        public var command: [UInt8]
        public var carriesAlert: Bool
    }

    public struct Start: Hashable, Sendable {
        public var version: Version
        public var isSettled: Bool
        public var timestamp: Int64
        /// The claim of the record that got the send verdict; nil once the start was accepted, because no
        /// record asks for it afterwards.
        public var claim: UInt64?
    }

    public internal(set) var version: Version?
    public internal(set) var versionState = VersionState.waits
    /// Whether the newest version is an end.
    public internal(set) var ended = false
    /// Whether the newest version has drawn on the bucket.
    public internal(set) var hasDrawn = false
    public internal(set) var lastTimestamp: Int64 = 0
    /// The time of the last send verdict; 0: none yet.
    public internal(set) var lastSendMilliseconds: Int64 = 0
    public internal(set) var digest: UInt64?
    public internal(set) var token: TokenRegistration<[UInt8]>?
    public internal(set) var registeredAtMilliseconds: Int64?
    /// The last token that APNs has declared dead.
    public internal(set) var retired: RetiredToken?
    public internal(set) var held: Held?
    /// The version of the newest command whose alert APNs has accepted.
    public internal(set) var acceptedAlertVersion: Version?
    public internal(set) var start: Start?
    public internal(set) var pace: ActivityPace?
    public internal(set) var audiences = MemberAudiences()
    public internal(set) var expiresAtMilliseconds: Int64?

    /// Whether the newest version itself is held.
    public var holdsNewest: Bool { held.map { $0.version == version && $0.isEnd == ended } ?? false }

    mutating func command(_ call: StateAdmission<[UInt8]>, now: Int64) -> (StoreReply<[UInt8]>, Expiry) {
        if let departures {
            var reply = StoreReply<[UInt8]>(.departures)
            reply.departures = departures
            return (reply, .unchanged)
        }
        var expiry = Expiry.unchanged
        let isFirstToken = token == nil
        if let registration = call.registration, token?.isSame(as: registration) != true,
            retired?.isSame(as: registration) != true, takes(registration)
        {
            expiry = .renewed
            if call.isReadAgain, isFirstToken { lastTimestamp = max(lastTimestamp, now / 1_000) }
            beginLife(at: now)
        }
        if let verdict = refusal(call) { return (refused(call, verdict), expiry) }
        if call.isTooOld, version == nil { return (StoreReply(.expired), expiry) }
        if !call.isEnd, pace?.hasEnded(at: now) ?? false { return (StoreReply(.tooOld), expiry) }

        let same = version == call.version && ended == call.isEnd
        if let alert = call.carriedAlert, let acceptedAlertVersion, alert <= acceptedAlertVersion {
            return (StoreReply<[UInt8]>(.alertAlreadyAccepted), expiry)
        }
        if let held, held.carriesAlert, !call.carriesAlert, token != nil || !(same && holdsNewest) {
            var reply = StoreReply<[UInt8]>(.alertHeld)
            reply.heldCommand = held.command
            return (reply, expiry)
        }
        beginLife(at: now)
        if !call.isEnd, audiences.current.isEmpty, digest == Self.compared(call.digest) {
            held = nil
            advance(to: call, .settled)
            return (StoreReply(.unchanged), .renewed)
        }
        guard let token else {
            if same && !holdsNewest { return (StoreReply(.noToken), expiry) }
            let verdict: StoreVerdict = same ? .held : .noToken
            advance(to: call, same ? .held : .waits)
            return (StoreReply<[UInt8]>(verdict), .renewed)
        }
        let since = now - lastSendMilliseconds
        let wait = (pace?.spacing(call.pace, at: now) ?? 0) - since
        if since >= 0 && wait > 0 {
            if !same {
                advance(to: call, .waits)
                expiry = .renewed
            }
            var reply = StoreReply<[UInt8]>(.wait)
            reply.waitMilliseconds = wait
            return (reply, expiry)
        }
        if !same || versionState != .assigned { assignTimestamp(call.version) }
        let heldBefore = held
        advance(to: call, .assigned)
        if held != heldBefore { expiry = .renewed }
        if lastSendMilliseconds / 1_000_000 != now / 1_000_000 { expiry = .renewed }
        lastSendMilliseconds = now
        digest = nil
        var reply = StoreReply<[UInt8]>(.send)
        reply.timestamp = lastTimestamp
        reply.registration = token
        draw(call, now: now, into: &reply)
        return (reply, expiry)
    }

    /// Returns why an update or an end is refused; nil if it is the newest version or repeats it. (R11)
    private func refusal(_ call: StateAdmission<[UInt8]>) -> StoreVerdict? {
        guard let newest = version else { return nil }
        if ended {
            if call.isEnd {
                if newest == call.version { return versionState.isSettled ? .duplicate : nil }
                return versionState == .notShown && newest < call.version ? nil : .ended
            }
            return isSuperseded(call, by: newest) ? .overtaken : .ended
        }
        if call.isEnd { return nil }
        if newest == call.version { return versionState.isSettled || versionState == .startAssigned ? .duplicate : nil }
        if newest < call.version { return nil }
        return isSuperseded(call, by: newest) ? .overtaken : .superseded
    }

    /// Whether the command has an alert, and a newer version that is not settled yet can carry this alert. A
    /// start cannot carry it, because the alert belongs to the activity's previous life.
    private func isSuperseded(_ call: StateAdmission<[UInt8]>, by newest: Version) -> Bool {
        call.carriesAlert && call.version < newest && !versionState.isSettled && versionState != .startAssigned
    }

    private mutating func draw(_ call: StateAdmission<[UInt8]>, now: Int64, into reply: inout StoreReply<[UInt8]>) {
        guard let pace else { return }
        let bucket = pace.bucket(call.pace)
        var left = bucket.pushesLeft(fullAt: pace.fullAtMilliseconds, now: now)
        reply.priority = 5
        if call.requestsHighPriority {
            if hasDrawn {
                reply.priority = 10
            } else if left > (call.mayUseReserve ? 0 : bucket.reservedForAlerts) {
                reply.priority = 10
                left -= 1
                hasDrawn = true
                self.pace?.fullAtMilliseconds = bucket.fullAtAfterDraw(fullAt: pace.fullAtMilliseconds, now: now)
            } else {
                reply.isDemoted = true
            }
        }
        reply.budgetLeft = left
    }

    mutating func start(
        _ version: Version,
        claim: UInt64,
        previousClaim: UInt64?,
        now: Int64
    ) -> (StoreReply<[UInt8]>, Expiry) {
        if let start {
            if start.version == version { return startAgain(start, claim: claim, previousClaim: previousClaim) }
            if start.version > version { return (StoreReply(.superseded), .unchanged) }
        }
        if let newest = self.version, newest >= version {
            if newest == version && versionState.isSettled && !ended { return (StoreReply(.duplicate), .unchanged) }
            if ended || token != nil || lastTimestamp >= version.timestamp {
                return (StoreReply(.superseded), .unchanged)
            }
        } else {
            held = nil
            token = nil
            acceptedAlertVersion = nil
            versionState = .startAssigned
            self.version = version
            ended = false
        }
        assignTimestamp(version)
        lastSendMilliseconds = now
        digest = nil
        hasDrawn = false
        pace = ActivityPace(beganAtMilliseconds: now)
        let start = Start(version: version, isSettled: false, timestamp: lastTimestamp, claim: claim)
        self.start = start
        return (startVerdict(start), .renewed)
    }

    /// Answers a start that has already got a send verdict. The caller may be the same record after a lost
    /// reply, the record that was deferred with the claim, or another record.
    private mutating func startAgain(
        _ start: Start,
        claim: UInt64,
        previousClaim: UInt64?
    ) -> (StoreReply<[UInt8]>, Expiry) {
        guard let claimed = start.claim, claimed == claim || claimed == previousClaim else {
            return (StoreReply<[UInt8]>(start.isSettled ? .duplicate : .unknown), .unchanged)
        }
        if ended || token != nil && versionState != .startAssigned { return (StoreReply(.superseded), .unchanged) }
        guard claimed != claim else { return (startVerdict(start), .unchanged) }
        self.start?.claim = claim
        return (startVerdict(start), .renewed)
    }

    private func startVerdict(_ start: Start) -> StoreReply<[UInt8]> {
        var reply = StoreReply<[UInt8]>(.send)
        reply.timestamp = start.timestamp
        return reply
    }

    mutating func hold(_ version: Version, _ command: [UInt8], carriesAlert: Bool) -> (StoreReply<[UInt8]>, Expiry) {
        guard self.version == version else { return (StoreReply(.superseded), .unchanged) }
        if versionState.isSettled { return (StoreReply(.duplicate), .unchanged) }
        if token != nil { return (StoreReply(.retry), .unchanged) }
        versionState = .held
        held = Held(version: version, isEnd: ended, command: command, carriesAlert: carriesAlert)
        return (StoreReply(.held), .renewed)
    }

    mutating func register(
        _ registration: TokenRegistration<[UInt8]>,
        frequentUpdates: Bool?,
        shows: Version?,
        source: RegistrationSource,
        audiences list: [UInt8]?,
        now: Int64
    ) -> (StoreReply<[UInt8]>, Expiry) {
        var registration = registration
        if source == .command {
            if let token, token.isSame(as: registration) {
                registration = token
            } else if let retired, retired.isSame(as: registration) {
                return (StoreReply(.stale), .unchanged)
            }
        }
        var reply = StoreReply<[UInt8]>(.stale)
        guard registration.registeredAtMilliseconds >= registeredAtMilliseconds ?? 0 else {
            if list != nil { reply.departures = departures }
            return (reply, .unchanged)
        }
        reply.wasMemberOfAll = audiences.containsAll(of: list)
        if let list, !changeAudiences(to: list) { return (StoreReply(.full), .unchanged) }
        _ = takes(registration)
        if source == .readAgain { lastTimestamp = max(lastTimestamp, now / 1_000) }
        beginLife(at: now)
        if let frequentUpdates { pace?.allowsFrequentUpdates = frequentUpdates }
        reply.verdict = .registered
        if list != nil { reply.departures = departures }
        guard let held, holdsNewest else { return (reply, .renewed) }
        if let shows, shows >= held.version {
            if versionState == .held { versionState = .settled }
            self.held = nil
        } else if reply.departures == nil {
            reply.heldCommand = held.command
        }
        return (reply, .renewed)
    }

    mutating func unregister(at: Int64) -> (StoreReply<[UInt8]>, Expiry) {
        let isStale = at < registeredAtMilliseconds ?? 0
        var reply = StoreReply<[UInt8]>(isStale ? .stale : .unregistered)
        if !isStale {
            token = nil
            registeredAtMilliseconds = at
            leaveAllAudiences()
        }
        reply.departures = departures
        return (reply, isStale ? .unchanged : .renewed)
    }

    /// Settles a version. A change outside of the record's fixed bytes renews the key's expiry.
    mutating func settle(_ operation: StoreCall<[UInt8]>.Operation, now: Int64) -> (StoreReply<[UInt8]>, Expiry) {
        switch operation {
        case .limit(_, let numbers):
            let counts = pace?.limit(numbers, sentAt: lastSendMilliseconds, at: now) ?? false
            return (StoreReply(.settled), counts ? .renewed : .unchanged)
        case .settle(let version, let settlement, let digest, let retirement, let alert):
            var expiry = settle(version, settlement, digest: digest)
            if settlement == .accepted, let alert, acceptedAlertVersion.map({ $0 < alert }) ?? true {
                acceptedAlertVersion = alert
                expiry = .renewed
            }
            var reply = StoreReply<[UInt8]>(.settled)
            reply.retiredToken = retirement.map { retire(by: $0) } ?? false
            if settlement == .accepted, self.version == version, ended, !audiences.current.isEmpty {
                expiry = .renewed
                leaveAtEnd()
            }
            reply.departures = departures
            return (reply, reply.retiredToken ? .renewed : expiry)
        case .retire(_, let retirement):
            var reply = StoreReply<[UInt8]>(.settled)
            reply.retiredToken = retire(by: retirement)
            reply.departures = departures
            return (reply, reply.retiredToken ? .renewed : .unchanged)
        default:
            preconditionFailure("no settlement")
        }
    }

    private mutating func settle(_ version: Version, _ settlement: Settlement, digest: UInt64) -> Expiry {
        var expiry = Expiry.unchanged
        let heldBefore = held
        if self.version == version { settleNewest(settlement, digest: digest) }
        if let start, start.version == version, start.claim != nil {
            expiry = .renewed
            self.start?.isSettled = true
            if settlement == .accepted { self.start?.claim = nil }
        }
        return held == heldBefore ? expiry : .renewed
    }

    /// Retires a token. Raises the registration's time, so that the same registration is stale afterwards.
    private mutating func retire(by retirement: TokenRetirement<[UInt8]>) -> Bool {
        guard let token, token.isRetired(by: retirement) else { return false }
        retired = RetiredToken(token)
        self.token = nil
        registeredAtMilliseconds = min(token.registeredAtMilliseconds + 1, StoredTime.millisecondsMax)
        leaveAllAudiences()
        return true
    }

    /// Returns the 48 bits of a digest that are stored. 0 means no digest, so 0 is stored as 1.
    private static func compared(_ digest: UInt64) -> UInt64 { max(1, digest % (1 << 48)) }

    private mutating func settleNewest(_ settlement: Settlement, digest: UInt64) {
        if settlement == .accepted {
            held = nil
            versionState = .settled
            self.digest = Self.compared(digest)
        } else if !versionState.isSettled {
            held = nil
            versionState = settlement == .notShown ? .notShown : .settled
        }
    }

    /// Begins the activity's life, with the first command or registration that names the activity.
    private mutating func beginLife(at now: Int64) {
        if pace == nil { pace = ActivityPace(beganAtMilliseconds: now) }
    }

    private mutating func takes(_ registration: TokenRegistration<[UInt8]>) -> Bool {
        guard registration.registeredAtMilliseconds >= registeredAtMilliseconds ?? 0 else { return false }
        token = registration
        registeredAtMilliseconds = registration.registeredAtMilliseconds
        return true
    }

    /// Makes the command the newest version. A held older command is dropped unless it has an alert.
    private mutating func advance(to call: StateAdmission<[UInt8]>, _ versionState: VersionState) {
        if version != call.version || ended != call.isEnd {
            if let held, !held.carriesAlert { self.held = nil }
            hasDrawn = false
        }
        version = call.version
        ended = call.isEnd
        self.versionState = versionState
    }

    /// Assigns the version's own timestamp, or one second above the last if its own is not higher.
    private mutating func assignTimestamp(_ version: Version) {
        let above = min(lastTimestamp + 1, Limits.timestampMax)
        lastTimestamp =
            version.timestamp > lastTimestamp ? version.timestamp : above
    }
}

/// A token that APNs has declared dead. Only a registration makes it valid again.
public struct RetiredToken: Hashable, Sendable {
    public let token: [UInt8]
    public let environment: DeviceEnvironment

    init(_ registration: TokenRegistration<[UInt8]>) {
        (token, environment) = (registration.token, registration.environment)
    }

    func isSame(as registration: TokenRegistration<[UInt8]>) -> Bool {
        token == registration.token && environment == registration.environment
    }
}

extension TokenRegistration<[UInt8]> {
    /// Whether the token is the same, whenever it was registered.
    func isSame(as other: Self) -> Bool { token == other.token && environment == other.environment }

    func isRetired(by retirement: TokenRetirement<[UInt8]>) -> Bool {
        token == retirement.token && environment == retirement.environment
            && retirement.invalidAtMilliseconds.map { registeredAtMilliseconds < $0 } ?? true
    }
}
