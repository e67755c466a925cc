import LiveActivity

/// An activity's value in the model.
public struct ActivityState: Hashable, Sendable, ExpiringState {
    /// The state of the newest version.
    public enum VersionState: Sendable {
        case waiting
        case sending
        case startSending
        case held
        case settled
        case notShown

        var isSettled: Bool { self == .settled || self == .notShown }
    }

    public struct HeldCommand: Hashable, Sendable {
        /// The newest version, or an older version whose alert the newest version still has to carry.
        public var version: Version
        public var isEnd: Bool
        public var command: [UInt8]
        public var carriesAlert: Bool
    }

    public struct Start: Hashable, Sendable {
        public var version: Version
        public var isSettled: Bool
        public var timestamp: Int64
        /// The claim of the record that got the send verdict; nil once APNs has accepted the start (then every record
        /// of the start gets `duplicate`), and in a state that was made from an inspection.
        public var claim: UInt64?
    }

    public internal(set) var version: Version?
    public internal(set) var versionState = VersionState.waiting
    /// Whether the newest version is an end.
    public internal(set) var isEnded = false
    /// Whether the newest version has drawn on the bucket.
    public internal(set) var hasDrawn = false
    public internal(set) var lastTimestamp: Int64 = 0
    /// The time of the last send verdict; 0: none yet.
    public internal(set) var lastSendMilliseconds: Int64 = 0
    public internal(set) var shownDigest: UInt64?
    public internal(set) var token: TokenRegistration<[UInt8]>?
    public internal(set) var registeredAtMilliseconds: Int64?
    /// The last token that APNs has declared dead.
    public internal(set) var retiredToken: RetiredToken?
    public internal(set) var heldCommand: HeldCommand?
    /// The version of the newest command whose alert APNs has accepted.
    public internal(set) var acceptedAlertVersion: Version?
    public internal(set) var start: Start?
    public internal(set) var pace: ActivityPace?
    public internal(set) var audiences = MemberAudiences()
    public internal(set) var expiresAtMilliseconds: Int64?

    /// Whether the newest version itself is held.
    public var holdsNewest: Bool { heldCommand.map { $0.version == version && $0.isEnd == isEnded } ?? false }

    mutating func admit(_ call: StateAdmission<[UInt8]>, now: Int64) -> (StoreReply<[UInt8]>, Expiry) {
        if let departures {
            var reply = StoreReply<[UInt8]>(.departures)
            reply.departures = departures
            return (reply, .unchanged)
        }
        var expiry = Expiry.unchanged
        let isFirstToken = token == nil
        if let registration = call.registration, token?.isSame(as: registration) != true,
            retiredToken?.isSame(as: registration) != true, takeIfNewer(registration)
        {
            expiry = .renewed
            if call.isReadAgain, isFirstToken { lastTimestamp = max(lastTimestamp, now / 1_000) }
            beginLife(at: now)
        }
        if let verdict = refusal(call) { return (refusalReply(call, verdict), expiry) }
        if call.isTooOld, version == nil { return (StoreReply(.expired), expiry) }
        if !call.isEnd, pace?.hasEnded(at: now) ?? false { return (StoreReply(.tooOld), expiry) }

        let isSameVersion = version == call.version && isEnded == call.isEnd
        if let alert = call.carriedAlert, let acceptedAlertVersion, alert <= acceptedAlertVersion {
            return (StoreReply<[UInt8]>(.alertAlreadyAccepted), expiry)
        }
        let isHeldAgain = isSameVersion && holdsNewest
        if let heldCommand, heldCommand.carriesAlert, !call.carriesAlert, token != nil || !isHeldAgain {
            var reply = StoreReply<[UInt8]>(.alertHeld)
            reply.heldCommand = heldCommand.command
            return (reply, expiry)
        }
        beginLife(at: now)
        if !call.isEnd, audiences.currentDigests.isEmpty, shownDigest == Self.storedDigest(call.digest) {
            heldCommand = nil
            advance(to: call, .settled)
            return (StoreReply(.unchanged), .renewed)
        }
        guard let token else {
            if isSameVersion && !holdsNewest { return (StoreReply(.noToken), expiry) }
            advance(to: call, isSameVersion ? .held : .waiting)
            return (StoreReply<[UInt8]>(isSameVersion ? .held : .noToken), .renewed)
        }
        let since = now - lastSendMilliseconds
        let wait = (pace?.spacing(call.pace, at: now) ?? 0) - since
        if since >= 0 && wait > 0 {
            if !isSameVersion {
                advance(to: call, .waiting)
                expiry = .renewed
            }
            var reply = StoreReply<[UInt8]>(.wait)
            reply.waitMilliseconds = wait
            return (reply, expiry)
        }
        if !isSameVersion || versionState != .sending { assignTimestamp(call.version) }
        let heldBefore = heldCommand
        advance(to: call, .sending)
        if heldCommand != heldBefore { expiry = .renewed }
        if lastSendMilliseconds / 1_000_000 != now / 1_000_000 { expiry = .renewed }
        lastSendMilliseconds = now
        shownDigest = nil
        var reply = StoreReply<[UInt8]>(.send)
        reply.timestamp = lastTimestamp
        reply.registration = token
        draw(call, now: now, into: &reply)
        return (reply, expiry)
    }

    /// Returns why an update or an end is refused; nil if it may become the newest version, or repeats it. (R11)
    private func refusal(_ call: StateAdmission<[UInt8]>) -> StoreVerdict? {
        guard let newest = version else { return nil }
        if isEnded {
            if call.isEnd {
                if newest == call.version { return versionState.isSettled ? .duplicate : nil }
                return versionState == .notShown && newest < call.version ? nil : .ended
            }
            return awaitsCarrier(call, newest: newest) ? .alertAwaitsCarrier : .ended
        }
        if call.isEnd { return nil }
        if newest == call.version { return versionState.isSettled || versionState == .startSending ? .duplicate : nil }
        if newest < call.version { return nil }
        return awaitsCarrier(call, newest: newest) ? .alertAwaitsCarrier : .superseded
    }

    /// Whether the command has an alert, and a newer version that is not settled yet can carry this alert. A
    /// start cannot carry the alert, because the alert belongs to the activity's previous life.
    private func awaitsCarrier(_ call: StateAdmission<[UInt8]>, newest: Version) -> Bool {
        call.carriesAlert && call.version < newest && !versionState.isSettled && versionState != .startSending
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

    mutating func admitStart(
        _ version: Version,
        claim: UInt64,
        previousClaim: UInt64?,
        now: Int64
    ) -> (StoreReply<[UInt8]>, Expiry) {
        if let start {
            if start.version == version { return repeatStart(start, claim: claim, previousClaim: previousClaim) }
            if start.version > version { return (StoreReply(.superseded), .unchanged) }
        }
        if let newest = self.version, newest >= version {
            if newest == version && versionState.isSettled && !isEnded { return (StoreReply(.duplicate), .unchanged) }
            if isEnded || token != nil || lastTimestamp >= version.timestamp {
                return (StoreReply(.superseded), .unchanged)
            }
        } else {
            heldCommand = nil
            token = nil
            acceptedAlertVersion = nil
            versionState = .startSending
            self.version = version
            isEnded = false
        }
        assignTimestamp(version)
        lastSendMilliseconds = now
        shownDigest = nil
        hasDrawn = false
        pace = ActivityPace(beganAtMilliseconds: now)
        let start = Start(version: version, isSettled: false, timestamp: lastTimestamp, claim: claim)
        self.start = start
        return (sendReply(start), .renewed)
    }

    /// Answers a start that has already got a send verdict. The call may come for the same record after a lost
    /// reply, for this record after it was deferred (then it names the previous claim), or for another record.
    private mutating func repeatStart(
        _ start: Start,
        claim: UInt64,
        previousClaim: UInt64?
    ) -> (StoreReply<[UInt8]>, Expiry) {
        guard let claimed = start.claim, claimed == claim || claimed == previousClaim else {
            return (StoreReply<[UInt8]>(start.isSettled ? .duplicate : .unknown), .unchanged)
        }
        if isEnded || token != nil && versionState != .startSending { return (StoreReply(.superseded), .unchanged) }
        guard claimed != claim else { return (sendReply(start), .unchanged) }
        self.start?.claim = claim
        return (sendReply(start), .renewed)
    }

    private func sendReply(_ start: Start) -> StoreReply<[UInt8]> {
        var reply = StoreReply<[UInt8]>(.send)
        reply.timestamp = start.timestamp
        return reply
    }

    mutating func hold(_ version: Version, _ command: [UInt8], carriesAlert: Bool) -> (StoreReply<[UInt8]>, Expiry) {
        guard self.version == version else { return (StoreReply(.superseded), .unchanged) }
        if versionState.isSettled { return (StoreReply(.duplicate), .unchanged) }
        if token != nil { return (StoreReply(.retry), .unchanged) }
        versionState = .held
        heldCommand = HeldCommand(version: version, isEnd: isEnded, command: command, carriesAlert: carriesAlert)
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
            } else if let retiredToken, retiredToken.isSame(as: registration) {
                return (StoreReply(.stale), .unchanged)
            }
        }
        var reply = StoreReply<[UInt8]>(.stale)
        guard registration.registeredAtMilliseconds >= registeredAtMilliseconds ?? 0 else {
            if list != nil { reply.departures = departures }
            return (reply, .unchanged)
        }
        reply.wasMemberOfAll = audiences.isInAll(of: list)
        if let list, !changeAudiences(to: list) { return (StoreReply(.full), .unchanged) }
        _ = takeIfNewer(registration)
        if source == .readAgain { lastTimestamp = max(lastTimestamp, now / 1_000) }
        beginLife(at: now)
        if let frequentUpdates { pace?.allowsFrequentUpdates = frequentUpdates }
        reply.verdict = .registered
        if list != nil { reply.departures = departures }
        guard let heldCommand, holdsNewest else { return (reply, .renewed) }
        if let shows, shows >= heldCommand.version {
            if versionState == .held { versionState = .settled }
            self.heldCommand = nil
        } else if reply.departures == nil {
            reply.heldCommand = heldCommand.command
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

    /// Performs `settle`, `throttle` or `retire`. If more than the state and the digest changes, renews the expiry.
    mutating func settle(_ operation: StoreCall<[UInt8]>.Operation, now: Int64) -> (StoreReply<[UInt8]>, Expiry) {
        switch operation {
        case .throttle(_, let numbers):
            let isRecorded = pace?.recordLimit(numbers, sentAt: lastSendMilliseconds, at: now) ?? false
            return (StoreReply(.settled), isRecorded ? .renewed : .unchanged)
        case .settle(let version, let settlement, let digest, let retirement, let alert):
            var expiry = settle(version, settlement, digest: digest)
            if settlement == .accepted, let alert, acceptedAlertVersion.map({ $0 < alert }) ?? true {
                acceptedAlertVersion = alert
                expiry = .renewed
            }
            var reply = StoreReply<[UInt8]>(.settled)
            reply.hasRetiredToken = retirement.map { retire(by: $0) } ?? false
            if settlement == .accepted, self.version == version, isEnded, !audiences.currentDigests.isEmpty {
                expiry = .renewed
                leaveAtEnd()
            }
            reply.departures = departures
            return (reply, reply.hasRetiredToken ? .renewed : expiry)
        case .retire(_, let retirement):
            var reply = StoreReply<[UInt8]>(.settled)
            reply.hasRetiredToken = retire(by: retirement)
            reply.departures = departures
            return (reply, reply.hasRetiredToken ? .renewed : .unchanged)
        default:
            preconditionFailure("no settlement")
        }
    }

    private mutating func settle(_ version: Version, _ settlement: Settlement, digest: UInt64) -> Expiry {
        var expiry = Expiry.unchanged
        let heldBefore = heldCommand
        if self.version == version { settleNewest(settlement, digest: digest) }
        if let start, start.version == version, start.claim != nil {
            expiry = .renewed
            self.start?.isSettled = true
            if settlement == .accepted { self.start?.claim = nil }
        }
        return heldCommand == heldBefore ? expiry : .renewed
    }

    /// Retires the token and makes its registration stale. False if there is no token, another one, or a later one.
    private mutating func retire(by retirement: TokenRetirement<[UInt8]>) -> Bool {
        guard let token, token.isRetired(by: retirement) else { return false }
        retiredToken = RetiredToken(token)
        self.token = nil
        registeredAtMilliseconds = min(token.registeredAtMilliseconds + 1, StoredTime.millisecondsMax)
        leaveAllAudiences()
        return true
    }

    /// Returns the 48 bits of a digest that are stored. 0 means no digest, so 0 is stored as 1.
    private static func storedDigest(_ digest: UInt64) -> UInt64 { max(1, digest % (1 << 48)) }

    private mutating func settleNewest(_ settlement: Settlement, digest: UInt64) {
        if settlement == .accepted {
            heldCommand = nil
            versionState = .settled
            self.shownDigest = Self.storedDigest(digest)
        } else if !versionState.isSettled {
            heldCommand = nil
            versionState = settlement == .notShown ? .notShown : .settled
        }
    }

    /// Begins the activity's life, with the first command or registration that names the activity.
    private mutating func beginLife(at now: Int64) {
        if pace == nil { pace = ActivityPace(beganAtMilliseconds: now) }
    }

    private mutating func takeIfNewer(_ registration: TokenRegistration<[UInt8]>) -> Bool {
        guard registration.registeredAtMilliseconds >= registeredAtMilliseconds ?? 0 else { return false }
        token = registration
        registeredAtMilliseconds = registration.registeredAtMilliseconds
        return true
    }

    /// Makes the command the newest version. Drops a held older command that has no alert.
    private mutating func advance(to call: StateAdmission<[UInt8]>, _ versionState: VersionState) {
        if version != call.version || isEnded != call.isEnd {
            if let heldCommand, !heldCommand.carriesAlert { self.heldCommand = nil }
            hasDrawn = false
        }
        version = call.version
        isEnded = call.isEnd
        self.versionState = versionState
    }

    /// Assigns the version's own timestamp, or one second above the last assigned one if its own is not higher.
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
