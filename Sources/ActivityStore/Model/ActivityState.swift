import LiveActivity

/// What Redis stores about an activity, in the model of the scripts.
public struct ActivityState: Hashable, Sendable, ExpiringState {
    /// The phase of the newest version. The scripts divide some of these phases further by what is held (`admit.lua`).
    public enum VersionPhase: Sendable {
        case waiting
        case sending
        case startSending
        case held
        case settled
        case notShown

        var isSettled: Bool { self == .settled || self == .notShown }
    }

    public struct HeldCommand: Hashable, Sendable {
        /// Usually the activity's newest version. Exception: an older command stays held while the newest version
        /// carries its alert.
        public var version: Version
        public var isEnd: Bool
        public var command: [UInt8]
        public var hasAlert: Bool

        /// The timestamp of the command from which the held alert comes: the held command itself, or an older one whose
        /// alert it carries.
        fileprivate var alertTimestamp: Int64 {
            HeldRecord.number("alertTimestamp", in: command) ?? version.timestamp
        }
    }

    public struct Start: Hashable, Sendable {
        public var version: Version
        public var isSettled: Bool
        /// Whether Redis knows the start only from a record that was read again after a loss of data. False once the
        /// start is admitted or settled.
        public var isRecordedAgain = false
        /// The `aps.timestamp` that Redis assigned to the start, UNIX seconds.
        public var assignedTimestamp: Int64
        /// The claim of the record that Redis allowed to be sent. Without such a record, it is:
        /// - 0 while `isRecordedAgain`: Redis has allowed none since it lost its data.
        /// - nil after APNs has accepted the start: every further record of the start gets `duplicate`.
        /// - nil in an `ActivityState` that was made from an inspection.
        public var claim: UInt64?
    }

    /// The newest version that was admitted; nil if there is none.
    public internal(set) var newestVersion: Version?
    public internal(set) var versionPhase = VersionPhase.waiting
    /// Whether the newest version is an end.
    public internal(set) var newestIsEnd = false
    /// Whether the newest version has drawn on the budget for pushes of priority 10.
    public internal(set) var hasDrawnOnBudget = false
    /// The last `aps.timestamp` that Redis assigned to a push, UNIX seconds; 0 if there was none (R11).
    ///
    /// Phones ignore a push with a lower timestamp than the last push. So each registration raises this value to the
    /// timestamp of the version that the app shows. A record that is read again after a loss of data (R25) also raises
    /// it: a token to the present second, a start to the start's own timestamp.
    public internal(set) var lastAssignedTimestamp: Int64 = 0
    /// When Redis last allowed a push, UNIX milliseconds; 0 if never.
    public internal(set) var lastSendAtMilliseconds: Int64 = 0
    /// The digest of the state that the activity shows; nil if the state is not known.
    public internal(set) var shownDigest: UInt64?
    public internal(set) var token: TokenRegistration<[UInt8]>?
    public internal(set) var registeredAtMilliseconds: Int64?
    /// The last token that was retired, because APNs called it dead or did not know it; nil if there is none.
    public internal(set) var retiredToken: RetiredToken?
    public internal(set) var heldCommand: HeldCommand?
    /// The version of the newest command whose alert APNs has accepted.
    public internal(set) var acceptedAlertVersion: Version?
    public internal(set) var start: Start?
    public internal(set) var pace: ActivityPace?
    public internal(set) var audiences = MemberAudiences()
    public internal(set) var expiresAtMilliseconds: Int64?

    /// Whether the newest version itself is held.
    public var newestIsHeld: Bool {
        heldCommand.map { $0.version == newestVersion && $0.isEnd == newestIsEnd } ?? false
    }

    /// Keeps a command until a token registers, and replies `held`. With any other reply, nothing changes: the command
    /// is not the newest version or is settled, or the activity has a token and does not hold this command.
    mutating func hold(_ version: Version, _ command: [UInt8], hasAlert: Bool) -> (
        StoreReply<[UInt8]>, ExpiryChange
    ) {
        guard newestVersion == version else { return (StoreReply(.superseded), .unchanged) }
        if versionPhase.isSettled { return (StoreReply(.duplicate), .unchanged) }
        if token != nil {
            // If the activity already holds this command, the reply to an earlier call was lost, and the token came
            // later. The worker that registered the token gets the command, so the caller must not send it too.
            guard newestIsHeld, heldCommand?.command == command else { return (StoreReply(.retry), .unchanged) }
            return (StoreReply(.held), .renewed)
        }
        versionPhase = .held
        heldCommand = HeldCommand(version: version, isEnd: newestIsEnd, command: command, hasAlert: hasAlert)
        return (StoreReply(.held), .renewed)
    }

    /// Stores a registration: its token, its audiences and whether it allows frequent updates. Stores nothing if the
    /// reply is `stale` or `full` (``StoreVerdict``).
    mutating func register(
        _ registration: TokenRegistration<[UInt8]>,
        allowsFrequentUpdates: Bool?,
        shownVersion: Version?,
        source: RegistrationSource,
        audiences namedAudiences: [UInt8]?,
        nowMilliseconds: Int64
    ) -> (StoreReply<[UInt8]>, ExpiryChange) {
        var registration = registration
        if source == .command {
            if let token, token.isSameToken(as: registration) {
                registration = token
            } else if let retiredToken, retiredToken.isSameToken(as: registration) {
                return (StoreReply(.stale), .unchanged)
            }
        }
        var reply = StoreReply<[UInt8]>(.stale)
        guard !isOlder(registration.registeredAtMilliseconds, nowMilliseconds: nowMilliseconds) else {
            if namedAudiences != nil { reply.departures = encodedDepartures }
            return (reply, .unchanged)
        }
        // A registration may need several calls, of which only the first names audiences. Since then, another record
        // with the same time may have stored another token, or removed the token. Then a later call must change
        // nothing. The check leaves out the time 0, which means that no registration has come yet, and tokens of
        // commands, which never name audiences.
        let isReplacedSinceFirstCall =
            namedAudiences == nil && source != .command && registration.registeredAtMilliseconds > 0
            && registration.registeredAtMilliseconds == registeredAtMilliseconds
            && token?.isSameToken(as: registration) != true
        if isReplacedSinceFirstCall { return (reply, .unchanged) }
        reply.wasMemberOfAllAudiences = audiences.isMemberOfAll(of: namedAudiences)
        if let namedAudiences, !changeAudiences(to: namedAudiences) {
            (reply.verdict, reply.wasMemberOfAllAudiences, reply.departures) = (.full, false, encodedDepartures)
            return (reply, .unchanged)
        }
        var writtenAtMilliseconds: Int64?
        if case .reread(_, let milliseconds) = source { writtenAtMilliseconds = milliseconds }
        _ = storeTokenUnlessOlder(
            registration,
            nowMilliseconds: nowMilliseconds,
            writtenAtMilliseconds: writtenAtMilliseconds
        )
        if let shownVersion { noteShownVersion(shownVersion) }
        if case .reread(let alertsReleasedUntilMilliseconds, _) = source {
            lastAssignedTimestamp = max(lastAssignedTimestamp, nowMilliseconds / 1_000)
            forgetHeldAlert(releasedUntilMilliseconds: alertsReleasedUntilMilliseconds)
        }
        if let allowsFrequentUpdates { pace?.allowsFrequentUpdates = allowsFrequentUpdates }
        reply.verdict = .registered
        if namedAudiences != nil { reply.departures = encodedDepartures }
        if let heldCommand, newestIsHeld, reply.departures == nil { reply.heldCommand = heldCommand.command }
        return (reply, .renewed)
    }

    /// Settles the version that the app shows already, as its registration says: Redis has lost this version, has never
    /// known it, or could not send it without a token. Also raises the last assigned timestamp to this version's.
    ///
    /// A shown version that is newer than the newest one becomes the newest, except in two cases:
    /// - The newest version is an end. Only a start opens the activity again, so a held end also stays held (R13).
    /// - Redis has allowed a push with the same or a higher timestamp. By now, the app may show this push instead.
    private mutating func noteShownVersion(_ shownVersion: Version) {
        let mayShowLaterPush = lastSendAtMilliseconds > 0 && shownVersion.timestamp <= lastAssignedTimestamp
        let mayChangeNewest = !newestIsEnd && !mayShowLaterPush
        let comesAfterNewest = newestVersion.map { $0 < shownVersion } ?? true
        lastAssignedTimestamp = max(lastAssignedTimestamp, shownVersion.timestamp)
        if comesAfterNewest, mayChangeNewest {
            newestVersion = shownVersion
            versionPhase = .settled
            hasDrawnOnBudget = false
        } else if newestIsHeld, !newestIsEnd, comesAfterNewest || shownVersion == newestVersion {
            if versionPhase == .held { versionPhase = .settled }
        } else if shownVersion == newestVersion, mayChangeNewest, versionPhase == .waiting {
            versionPhase = .settled
        } else {
            return
        }
        heldCommand = nil
        shownDigest = nil
    }

    /// Forgets the held alert if it may have rung already: before Redis lost data, the registration that is now read
    /// again may have released it (R25). No later command then gets the alert. An older command that is held only for
    /// this alert is removed.
    private mutating func forgetHeldAlert(releasedUntilMilliseconds: Int64) {
        guard let heldCommand, heldCommand.alertTimestamp <= releasedUntilMilliseconds / 1_000 else { return }
        if newestIsHeld { self.heldCommand?.hasAlert = false } else { self.heldCommand = nil }
    }

    /// Removes the token and leaves all audiences, unless a later registration or unregistration is stored.
    mutating func unregister(at milliseconds: Int64, nowMilliseconds: Int64) -> (StoreReply<[UInt8]>, ExpiryChange) {
        let isStale = isOlder(milliseconds, nowMilliseconds: nowMilliseconds)
        var reply = StoreReply<[UInt8]>(isStale ? .stale : .unregistered)
        if !isStale {
            token = nil
            registeredAtMilliseconds = milliseconds
            leaveAllAudiences()
        }
        reply.departures = encodedDepartures
        return (reply, isStale ? .unchanged : .renewed)
    }

    /// Performs a settlement: `settle`, `throttle` or `retire`. A settlement that changes only the newest version's
    /// phase and the shown digest does not renew the expiry.
    mutating func settle(_ operation: StoreCall<[UInt8]>.Operation, nowMilliseconds: Int64) -> (
        StoreReply<[UInt8]>, ExpiryChange
    ) {
        switch operation {
        case .throttle(_, let policyPace):
            let isRecorded =
                pace?.noteThrottle(policyPace, sentAtMilliseconds: lastSendAtMilliseconds, at: nowMilliseconds)
                ?? false
            return (StoreReply(.settled), isRecorded ? .renewed : .unchanged)
        case .settle(let version, let settlement, let digest, let retirement, let alert):
            var expiryChange = settle(version, settlement, digest: digest)
            if settlement == .accepted, let alert, acceptedAlertVersion.map({ $0 < alert }) ?? true {
                acceptedAlertVersion = alert
                expiryChange = .renewed
            }
            var reply = StoreReply<[UInt8]>(.settled)
            reply.hasRetiredToken = retirement.map { retireToken(by: $0, nowMilliseconds: nowMilliseconds) } ?? false
            if settlement == .accepted, newestVersion == version, newestIsEnd, !audiences.currentDigests.isEmpty {
                expiryChange = .renewed
                leaveAudiencesAtEnd()
            }
            reply.departures = encodedDepartures
            return (reply, reply.hasRetiredToken ? .renewed : expiryChange)
        case .retire(_, let retirement):
            var reply = StoreReply<[UInt8]>(.settled)
            reply.hasRetiredToken = retireToken(by: retirement, nowMilliseconds: nowMilliseconds)
            reply.departures = encodedDepartures
            return (reply, reply.hasRetiredToken ? .renewed : .unchanged)
        default:
            preconditionFailure("no settlement")
        }
    }

    private mutating func settle(_ version: Version, _ settlement: Settlement, digest: UInt64) -> ExpiryChange {
        var expiryChange = ExpiryChange.unchanged
        let previousHeldCommand = heldCommand
        if newestVersion == version { settleNewestVersion(settlement, digest: digest) }
        if let start, start.version == version, start.claim != nil {
            expiryChange = .renewed
            self.start?.isSettled = true
            self.start?.isRecordedAgain = false
            if settlement == .accepted { self.start?.claim = nil }
        }
        return heldCommand == previousHeldCommand ? expiryChange : .renewed
    }

    /// Lets the newest version be admitted again, if it was settled but never shown. Otherwise changes nothing.
    mutating func reopen(_ version: Version) -> (StoreReply<[UInt8]>, ExpiryChange) {
        guard newestVersion == version else { return (StoreReply(.superseded), .unchanged) }
        if versionPhase == .settled || start?.version == version { return (StoreReply(.duplicate), .unchanged) }
        guard versionPhase == .notShown else { return (StoreReply(.retry), .unchanged) }
        versionPhase = .waiting
        return (StoreReply(.retry), .renewed)
    }

    /// Retires the token, and leaves all audiences. If the registration of the retired token is read again, this
    /// registration is `stale`.
    ///
    /// - Returns: false, without a change, in three cases: the activity has no token; it has another token than
    ///   `retirement`; or the token was registered at `retirement.invalidAtMilliseconds` or later.
    private mutating func retireToken(by retirement: TokenRetirement<[UInt8]>, nowMilliseconds: Int64) -> Bool {
        guard let token, token.isRetired(by: retirement, nowMilliseconds: nowMilliseconds) else { return false }
        retiredToken = RetiredToken(token)
        self.token = nil
        registeredAtMilliseconds = min(token.registeredAtMilliseconds + 1, StoredTime.millisecondsMax)
        leaveAllAudiences()
        return true
    }

    /// Returns the 48 bits of a digest that are stored (``StoredDigest``). Returns 1 instead of 0, because a stored 0
    /// means that the state is not known.
    static func storedDigest(_ digest: UInt64) -> UInt64 { max(1, digest % (1 << 48)) }

    private mutating func settleNewestVersion(_ settlement: Settlement, digest: UInt64) {
        // The scripts decide the same: search for `decision: acceptance`.
        if settlement == .accepted {
            heldCommand = nil
            versionPhase = .settled
            self.shownDigest = Self.storedDigest(digest)
        } else if !versionPhase.isSettled {
            heldCommand = nil
            versionPhase = settlement == .notShown ? .notShown : .settled
        }
    }

    /// Whether the activity's life has begun: a start or a token has come.
    ///
    /// Former releases also stored a beginning when a command found no token. Such a beginning does not count. It can
    /// be recognized: the activity has no start, no token and no time of a registration.
    var hasLifeBegun: Bool {
        // The scripts decide the same: search for `decision: eight hours`.
        pace != nil && (token != nil || start != nil || (registeredAtMilliseconds ?? 0) > 0)
    }

    /// Begins the activity's life with a token, or with a start that is read again. Does nothing if a life has begun
    /// and `mayBeLaterLife` is false.
    ///
    /// - Parameters:
    ///   - writtenAtMilliseconds: if the record is read again (R25), when the life began: when the token's record was
    ///     written, or the start's timestamp. Otherwise nil: the life begins now. A time in the future, or longer ago
    ///     than Redis keeps an activity, counts as nil.
    ///   - mayBeLaterLife: whether the record may belong to a later life than the one that has begun. If so, the later
    ///     of both beginnings counts.
    mutating func beginLife(writtenAtMilliseconds: Int64?, mayBeLaterLife: Bool, nowMilliseconds: Int64) {
        // The scripts decide the same: search for `decision: eight hours`.
        let earliestMilliseconds = nowMilliseconds - StoreLimits.activityExpiryMilliseconds
        var beganAtMilliseconds = nowMilliseconds
        if let writtenAtMilliseconds, (earliestMilliseconds..<nowMilliseconds).contains(writtenAtMilliseconds) {
            beganAtMilliseconds = writtenAtMilliseconds
        }
        if hasLifeBegun, let pace {
            guard mayBeLaterLife else { return }
            beganAtMilliseconds = max(pace.beganAtMilliseconds, beganAtMilliseconds)
        }
        if pace == nil { pace = ActivityPace(beganAtMilliseconds: beganAtMilliseconds) }
        pace?.beganAtMilliseconds = beganAtMilliseconds
    }

    /// Stores a token, and returns true. If a later registration or unregistration is stored, changes nothing and
    /// returns false.
    ///
    /// The first token begins the activity's life. A different token that is read again may belong to a later life
    /// whose start is too old to be read again.
    ///
    /// - Parameter writtenAtMilliseconds: when the token's record was written; nil if it is not read again.
    mutating func storeTokenUnlessOlder(
        _ registration: TokenRegistration<[UInt8]>,
        nowMilliseconds: Int64,
        writtenAtMilliseconds: Int64?
    ) -> Bool {
        guard !isOlder(registration.registeredAtMilliseconds, nowMilliseconds: nowMilliseconds) else { return false }
        let isOtherToken = token?.isSameToken(as: registration) != true
        beginLife(
            writtenAtMilliseconds: writtenAtMilliseconds,
            mayBeLaterLife: writtenAtMilliseconds != nil && isOtherToken,
            nowMilliseconds: nowMilliseconds
        )
        token = registration
        registeredAtMilliseconds = registration.registeredAtMilliseconds
        return true
    }

    /// Whether a registration or unregistration at this time is older than the stored one.
    private func isOlder(_ milliseconds: Int64, nowMilliseconds: Int64) -> Bool {
        RegistrationTime.isOlder(milliseconds, than: registeredAtMilliseconds ?? 0, nowMilliseconds: nowMilliseconds)
    }
}

/// A token that was retired (R17). Only a registration record brings it back.
public struct RetiredToken: Hashable, Sendable {
    public let token: [UInt8]
    public let environment: APNsEnvironment

    init(_ registration: TokenRegistration<[UInt8]>) {
        (token, environment) = (registration.token, registration.environment)
    }

    func isSameToken(as registration: TokenRegistration<[UInt8]>) -> Bool {
        token == registration.token && environment == registration.environment
    }
}

extension TokenRegistration<[UInt8]> {
    /// Whether both registrations have the same token, in the same environment. Their times do not matter.
    func isSameToken(as other: Self) -> Bool { token == other.token && environment == other.environment }

    func isRetired(by retirement: TokenRetirement<[UInt8]>, nowMilliseconds: Int64) -> Bool {
        guard token == retirement.token, environment == retirement.environment else { return false }
        guard let invalidAtMilliseconds = retirement.invalidAtMilliseconds else { return true }
        return !RegistrationTime.isRegistered(
            registeredAtMilliseconds,
            sinceInvalidAt: invalidAtMilliseconds,
            nowMilliseconds: nowMilliseconds
        )
    }
}
