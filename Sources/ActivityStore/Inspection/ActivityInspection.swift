public import LiveActivity

/// The content of an activity's value in readable form. Times are UNIX milliseconds by the clock of the Redis server,
/// except the time of a registration: this is the time in the registration's record. Lanes do not use this type,
/// because it allocates.
public struct ActivityInspection: Sendable, Equatable {
    /// How far the newest admitted version has come.
    public enum VersionPhase: String, Sendable, CaseIterable {
        /// The version is admitted, but must not be sent yet. One of these is true:
        /// - The activity's pace allows no push yet.
        /// - There is no token. When a worker gives Redis the command to hold it, the phase becomes `held`.
        /// - The version was settled but never shown, and `causeway replay` has asked Redis to admit it again.
        case waiting
        /// A worker was allowed to send the version. Redis does not have APNs' response yet.
        case sending
        /// A worker was allowed to send the start. Redis does not have APNs' response yet.
        case startSending
        /// Redis holds the version until a token registers.
        case held
        case settled
        /// The version is settled, but the activity still shows its previous state.
        case notShown
    }

    public struct NewestVersion: Sendable, Equatable {
        public var version: Version
        public var isEnd: Bool
        public var phase: VersionPhase
    }

    public struct LastPush: Sendable, Equatable {
        /// The `aps.timestamp` that Redis assigned to the push, UNIX seconds. It may be higher than that of the last
        /// push, because registrations and records that are read again may raise it
        /// (``ActivityState/lastAssignedTimestamp``).
        public var timestamp: Int64
        public var sentAtMilliseconds: Int64
    }

    public struct HeldCommand: Sendable, Equatable {
        /// Usually the newest version. Exception: an older command stays held while the newest version carries its
        /// alert.
        public var version: Version
        public var command: [UInt8]
        public var hasAlert: Bool
    }

    /// The newest start that a worker was allowed to send, or that was read again after a loss of data.
    public struct Start: Sendable, Equatable {
        public var version: Version
        public var isSettled: Bool
        /// Whether Redis knows the start only from a record that was read again after a loss of data.
        public var isRecordedAgain: Bool
    }

    public private(set) var token: InspectedToken?
    /// When ``token`` was registered. Without a token: the time of the last registration or unregistration; nil if
    /// there was neither.
    ///
    /// It is a millisecond later if Redis has retired the token, or removed the activity from audiences after an
    /// accepted end. So if the same registration is read again, it is older than this time and has no effect.
    public private(set) var registeredAtMilliseconds: Int64?
    public private(set) var allowsFrequentUpdates = false
    public private(set) var newestVersion: NewestVersion?
    /// The last push that Redis allowed; nil if there was none.
    public private(set) var lastPush: LastPush?
    /// The last `aps.timestamp` that Redis assigned to a push, UNIX seconds; 0 for none. The next version gets a higher
    /// timestamp. ``ActivityState/lastAssignedTimestamp`` says which records raise this number.
    private(set) var lastAssignedTimestamp: Int64 = 0
    /// The lowest 48 bits of the digest of the state that the activity shows; nil if the state is not known.
    public private(set) var shownDigest: UInt64?
    public private(set) var heldCommand: HeldCommand?
    public private(set) var start: Start?
    /// The version of the newest command whose alert APNs has accepted; nil if there is none.
    public private(set) var acceptedAlertVersion: Version?
    public private(set) var audiences: [AudienceDigest] = []
    /// The audiences that the activity has left, and whose pages may still list it. A worker removes the activity from
    /// these pages and then confirms the departures, so that Redis forgets the audiences here.
    public private(set) var formerAudiences: [AudienceDigest] = []
    /// The last millisecond of the activity's first eight hours. Redis admits no update after this time. Nil if the
    /// activity's life has not begun (``ActivityState/hasLifeBegun``).
    public private(set) var updatesUntilMilliseconds: Int64?
    /// When the budget for pushes of priority 10 will be full, UNIX milliseconds.
    private var budgetFullAtMilliseconds: Int64 = 0
    /// How often the spacing was doubled when the last 429 was recorded. Since then, some doublings may have ended: see
    /// ``spacingDoublingCount(_:nowMilliseconds:)``.
    private var recordedDoublingCount: Int64 = 0
    private var throttledAtMilliseconds: Int64?

    /// Decodes an activity's value.
    ///
    /// - Parameter value: the reply to GET; empty if there is no value.
    public init(value: [UInt8]) throws(InspectionError) {
        if value.isEmpty { return }
        var unread = InspectedField(name: "record", bytes: value[...])
        let updatesUntilSeconds = Int64(try unread.readNumber(byteCount: 4))
        if updatesUntilSeconds > 0 { updatesUntilMilliseconds = updatesUntilSeconds * 1_000 + 999 }
        let tokenByteCountAndFlags = Int(try unread.readNumber(byteCount: 2))
        let tokenByteCount = tokenByteCountAndFlags & ~StoredActivity.followBitsInTokenByteCount
        let flags = try unread.readByte()
        allowsFrequentUpdates = flags & StoredActivity.Flag.allowsFrequentUpdatesBit != 0
        let phaseLetter = try readNewestVersionAndPhaseLetter(&unread)
        registeredAtMilliseconds = try unread.readBinaryMilliseconds()
        token = try InspectedToken(form: flags & 7, try unread.readPart("token", count: tokenByteCount))
        if registeredAtMilliseconds == 0 && token == nil { registeredAtMilliseconds = nil }
        if tokenByteCountAndFlags >= StoredActivity.acceptedAlertFollowsBit {
            unread = unread.renamed("alert")
            acceptedAlertVersion = try unread.readVersion()
        }
        if tokenByteCountAndFlags & StoredActivity.audiencesFollowBit != 0 { try readAudiences(&unread) }
        try readOptionalParts(&unread, flags)
        if token == nil, start == nil, registeredAtMilliseconds == nil { updatesUntilMilliseconds = nil }
        try readHeldCommand(unread.renamed("held"), phaseLetter)
    }

    /// Reads bytes 8 to 44 of the value: the newest version, its phase, the last push, and other numbers.
    ///
    /// - Returns: the phase's letter in lower case.
    private mutating func readNewestVersionAndPhaseLetter(
        _ unread: inout InspectedField
    ) throws(InspectionError) -> UInt8 {
        let digest = try unread.readNumber(byteCount: StoredDigest.byteCount)
        if digest > 0 { shownDigest = digest }
        let phaseByte = try unread.readByte()
        let sentAtMilliseconds = try unread.readBinaryMilliseconds()
        let version = try unread.readVersion()
        budgetFullAtMilliseconds = try unread.readBinaryMilliseconds()
        let isOwnTimestamp = phaseByte & StoredActivity.PhaseBit.ownTimestampBit != 0
        var assignedTimestamp = try unread.readPart(unread.name, count: StoredActivity.secondsBytes)
        if isOwnTimestamp {
            lastAssignedTimestamp = version.timestamp
        } else {
            lastAssignedTimestamp = try assignedTimestamp.readBinarySeconds()
        }
        if sentAtMilliseconds > 0 {
            lastPush = LastPush(timestamp: lastAssignedTimestamp, sentAtMilliseconds: sentAtMilliseconds)
        }
        // An upper-case letter (bit 0x20 is 0) says that the version is an end.
        let letter = phaseByte & ~StoredActivity.PhaseBit.hasDrawnBit | StoredActivity.PhaseBit.ownTimestampBit
        let lowerCaseLetter = letter | 0x20
        if letter != UInt8(ascii: "n") {
            guard let phase = VersionPhase(letter: lowerCaseLetter) else { throw unread.error }
            newestVersion = NewestVersion(version: version, isEnd: letter < UInt8(ascii: "a"), phase: phase)
        }
        return lowerCaseLetter
    }

    /// Reads the parts that only few values have: about a retired token, a 429 and a start.
    private mutating func readOptionalParts(_ unread: inout InspectedField, _ flags: UInt8) throws(InspectionError) {
        if flags & StoredActivity.Flag.hasRetiredTokenBit != 0 {
            _ = try unread.readPart("retired", count: StoredActivity.retiredTokenDigestBytes)
        }
        if flags & StoredActivity.Flag.hasThrottleBit != 0 {
            unread = unread.renamed("limit")
            recordedDoublingCount = Int64(try unread.readByte())
            throttledAtMilliseconds = try unread.readBinaryMilliseconds()
        }
        if flags & StoredActivity.Flag.hasStartBit != 0 {
            unread = unread.renamed("start")
            let version = try unread.readVersion()
            // A start without a claim is settled: Redis removes the claim when APNs accepts the start.
            let isClaimed = flags & StoredActivity.Flag.hasClaimBit != 0
            let letter = isClaimed ? try unread.readPart("start", count: 14).unreadBytes.first : nil
            start = Start(
                version: version,
                isSettled: letter == nil || letter == UInt8(ascii: "s"),
                isRecordedAgain: letter == UInt8(ascii: "r")
            )
        }
    }

    private mutating func readAudiences(_ unread: inout InspectedField) throws(InspectionError) {
        unread = unread.renamed("audiences")
        let (currentCount, formerCount) = (try unread.readByte(), try unread.readByte())
        for _ in 0..<currentCount { audiences.append(AudienceDigest(value: try unread.readNumber(byteCount: 8))) }
        for _ in 0..<formerCount { formerAudiences.append(AudienceDigest(value: try unread.readNumber(byteCount: 8))) }
    }

    private mutating func readHeldCommand(_ part: InspectedField, _ letter: UInt8) throws(InspectionError) {
        var part = part
        let hasAlert =
            [UInt8(ascii: "i"), UInt8(ascii: "l"), UInt8(ascii: "x"), UInt8(ascii: "y")].contains(letter)
        if hasAlert || letter == UInt8(ascii: "h") || letter == UInt8(ascii: "k") {
            heldCommand = HeldCommand(
                version: try part.readDecimalVersion(),
                command: part.unreadBytes,
                hasAlert: hasAlert
            )
            if part.unreadBytes.isEmpty { throw part.error }
        } else if !part.unreadBytes.isEmpty {
            throw part.error
        }
    }

    // MARK: - What a policy's pace permits now

    /// Returns how often the spacing is doubled now because of 429s.
    public func spacingDoublingCount(_ pace: Policy.Pace, nowMilliseconds: Int64) -> Int {
        guard let throttledAtMilliseconds, nowMilliseconds >= throttledAtMilliseconds else { return 0 }
        let undoneDoublingCount = (nowMilliseconds &- throttledAtMilliseconds) / pace.throttleRecoveryMilliseconds
        return Int(clamping: max(0, recordedDoublingCount &- undoneDoublingCount))
    }

    /// Returns the shortest time between two pushes that Redis allows now: the policy's spacing, doubled for recent
    /// 429s.
    public func spacingMilliseconds(_ pace: Policy.Pace, nowMilliseconds: Int64) -> Int64 {
        let doublingCount = spacingDoublingCount(pace, nowMilliseconds: nowMilliseconds)
        let shift = min(doublingCount, StoreLimits.spacingDoublingsMax)
        let throttledSpacingMilliseconds = doublingCount == 0 ? 0 : pace.spacingMilliseconds << shift
        return max(pace.spacingMilliseconds, min(throttledSpacingMilliseconds, pace.throttledSpacingMillisecondsMax))
    }

    /// Returns the time at which the spacing allows the next push; nil if the spacing allows a push now.
    public func spacingEndMilliseconds(_ pace: Policy.Pace, nowMilliseconds: Int64) -> Int64? {
        guard let lastPush, lastPush.sentAtMilliseconds <= nowMilliseconds else { return nil }
        let endMilliseconds =
            lastPush.sentAtMilliseconds &+ spacingMilliseconds(pace, nowMilliseconds: nowMilliseconds)
        return endMilliseconds > nowMilliseconds ? endMilliseconds : nil
    }

    /// Returns what is left now of the budget for pushes of priority 10.
    public func remainingBudget(_ pace: Policy.Pace, nowMilliseconds: Int64) -> InspectedBudget {
        let bucket = allowsFrequentUpdates ? pace.frequentBudget : pace.budget
        return InspectedBudget(bucket, fullAtMilliseconds: budgetFullAtMilliseconds, nowMilliseconds: nowMilliseconds)
    }
}

extension ActivityInspection.VersionPhase {
    fileprivate init?(letter: UInt8) {
        switch letter {
        case UInt8(ascii: "w"), UInt8(ascii: "x"): self = .waiting
        case UInt8(ascii: "a"), UInt8(ascii: "k"), UInt8(ascii: "l"), UInt8(ascii: "y"): self = .sending
        case UInt8(ascii: "b"): self = .startSending
        case UInt8(ascii: "h"), UInt8(ascii: "i"): self = .held
        case UInt8(ascii: "s"): self = .settled
        case UInt8(ascii: "f"): self = .notShown
        default: return nil
        }
    }
}
