import LiveActivity

/// What Redis stores about a device in its hash, in the model of the scripts: push-to-start tokens, and the starts that
/// wait for each token.
public struct DeviceState: Hashable, Sendable, ExpiringState {
    public struct AttributesTypeState: Hashable, Sendable {
        public internal(set) var token: TokenRegistration<[UInt8]>?
        public internal(set) var registeredAtMilliseconds: Int64?
        /// The last token that was retired, because APNs called it dead or did not know it; nil if there is none. Only
        /// a registration record can bring the token back.
        public internal(set) var retiredToken: RetiredToken?
        /// The held starts, oldest version first, one for each activity.
        public internal(set) var heldStarts: [Start] = []
        /// The audiences that the registration of this attributes type names.
        public internal(set) var audiences: [UInt64] = []
    }

    public struct Start: Hashable, Sendable {
        public var activity: [UInt8]
        public var version: Version
        public var command: [UInt8]

        fileprivate func isExpired(nowMilliseconds: Int64) -> Bool {
            HeldRecord.number("expiration", in: command).map { $0 < nowMilliseconds / 1_000 } ?? false
        }
    }

    /// The audiences that the device left, but whose pages may still list the device: no worker has confirmed these
    /// departures yet.
    public internal(set) var formerAudiences: [UInt64] = []
    /// The time of the last departure, UNIX milliseconds; 0 if all departures are confirmed.
    public internal(set) var leftAtMilliseconds: Int64 = 0
    /// The tokens and held starts, by attributes type.
    public internal(set) var statesByAttributesType: [String: AttributesTypeState] = [:]
    /// When the budget for starts will be full, UNIX milliseconds. A time in the past means that the budget is full.
    public internal(set) var startBudgetFullAtMilliseconds: Int64 = 0
    /// By how many milliseconds `startBudgetFullAtMilliseconds` was lowered altogether, by refunds and by cuts of a
    /// time that was too far ahead (`Policy.Bucket.fullAtMillisecondsMax`); nil if it never was.
    public internal(set) var refundedMilliseconds: Int64?
    public internal(set) var expiresAtMilliseconds: Int64?

    var registeredAttributesTypes: [String] {
        statesByAttributesType.filter { $0.value.registeredAtMilliseconds != nil }.map(\.key)
    }

    mutating func hold(
        _ start: HeldStart<[UInt8]>,
        _ command: [UInt8],
        startsMax: Int,
        nowMilliseconds: Int64
    ) -> (StoreReply<[UInt8]>, ExpiryChange) {
        let type = String(decoding: start.attributesType, as: UTF8.self)
        let typeState = statesByAttributesType[type, default: AttributesTypeState()]
        var otherStarts = typeState.heldStarts.filter { $0.activity != start.activity }
        if typeState.heldStarts.contains(where: { $0.activity == start.activity && $0.version > start.version }) {
            return (StoreReply(.superseded), .unchanged)
        }
        let newStart = Start(activity: start.activity, version: start.version, command: command)
        // If the start is held already, the reply to an earlier call was lost. If a token has come since, the worker
        // that registered it gets the start, so the caller must not send the start too.
        if typeState.heldStarts.contains(newStart) { return (StoreReply(.held), .renewed) }
        if typeState.token != nil { return (StoreReply(.retry), .unchanged) }
        if otherStarts.count >= startsMax {
            // All places are taken. The new start may replace an expired one, which would not be sent any more (R20)
            // and gets no further result.
            let expiredIndex = otherStarts.firstIndex { $0.isExpired(nowMilliseconds: nowMilliseconds) }
            guard let expiredIndex else { return (StoreReply(.full), .unchanged) }
            otherStarts.remove(at: expiredIndex)
        }
        let olderStarts = otherStarts.filter { $0.version <= start.version }
        statesByAttributesType[type, default: AttributesTypeState()].heldStarts =
            olderStarts + [newStart] + otherStarts.filter { $0.version > start.version }
        return (StoreReply(.held), .renewed)
    }

    mutating func register(
        _ type: String,
        _ registration: TokenRegistration<[UInt8]>,
        _ step: DeviceRegistrationStep<[UInt8]>,
        isFromCommand: Bool,
        nowMilliseconds: Int64
    ) -> (StoreReply<[UInt8]>, ExpiryChange) {
        let namedAudiences = step.audiences
        var registration = registration
        if isFromCommand {
            if let token = statesByAttributesType[type]?.token, token.isSameToken(as: registration) {
                registration = token
            } else if let retiredToken = statesByAttributesType[type]?.retiredToken,
                retiredToken.isSameToken(as: registration)
            {
                return (StoreReply(.stale), .unchanged)
            }
        }
        let registeredAtMilliseconds = statesByAttributesType[type]?.registeredAtMilliseconds
        // A registration may need several calls, of which only the first names audiences. Since then, another record
        // with the same time may have stored another token, or removed the token. Then a later call must not store its
        // token.
        let isReplacedSinceFirstCall =
            namedAudiences == nil && !isFromCommand && registration.registeredAtMilliseconds == registeredAtMilliseconds
            && statesByAttributesType[type]?.token?.isSameToken(as: registration) != true
        let isCurrent =
            !isOlder(registration.registeredAtMilliseconds, type, nowMilliseconds: nowMilliseconds)
            && !isReplacedSinceFirstCall
        let previousAudiences = statesByAttributesType[type]?.audiences ?? []
        if isCurrent, let namedAudiences,
            !changeAudiences(of: type, to: namedAudiences, at: registration.registeredAtMilliseconds)
        {
            var reply = StoreReply<[UInt8]>(.full)
            reply.departures = encodedDepartures
            return (reply, .unchanged)
        }
        let isStored = isCurrent && storeTokenUnlessOlder(type, registration, nowMilliseconds: nowMilliseconds)
        var reply = StoreReply<[UInt8]>(.stale)
        if namedAudiences != nil { reply.departures = encodedDepartures }
        // A stale registration may also get a held start in its reply, which the worker sends with the newer token.
        // Otherwise the start might wait forever: if the newer registration is settled, no worker reads that one again.
        guard isStored || statesByAttributesType[type]?.token != nil else { return (reply, .unchanged) }
        let nextStart = nextHeldStart(statesByAttributesType[type]?.heldStarts ?? [], after: step.previousStart)
        guard isStored || nextStart != nil else { return (reply, .unchanged) }
        reply.verdict = .registered
        if isCurrent, let namedAudiences {
            reply.wasMemberOfAllAudiences = MemberAudiences.isMemberOfAll(
                MemberAudiences.decodeDigests(namedAudiences),
                current: previousAudiences
            )
        }
        if reply.departures == nil { reply.heldCommand = nextStart?.command }
        return (reply, isStored ? .renewed : .unchanged)
    }

    /// Returns the held start after `previous`; the first one if `previous` is nil. If `previous` is no longer held,
    /// returns the first held start that is not older than `previous`.
    private func nextHeldStart(_ heldStarts: [Start], after previous: HeldStart<[UInt8]>?) -> Start? {
        guard let previous else { return heldStarts.first }
        let index = heldStarts.firstIndex { $0.version == previous.version && $0.activity == previous.activity }
        guard let index else { return heldStarts.first { $0.version >= previous.version } }
        return heldStarts.dropFirst(index + 1).first
    }

    mutating func unregister(
        _ types: [String],
        at milliseconds: Int64,
        nowMilliseconds: Int64
    ) -> (StoreReply<[UInt8]>, ExpiryChange) {
        let typesToUnregister = types.filter { !isOlder(milliseconds, $0, nowMilliseconds: nowMilliseconds) }
        var reply = StoreReply<[UInt8]>(typesToUnregister.isEmpty && !types.isEmpty ? .stale : .unregistered)
        for type in typesToUnregister {
            statesByAttributesType[type, default: AttributesTypeState()].token = nil
            statesByAttributesType[type, default: AttributesTypeState()].registeredAtMilliseconds = milliseconds
        }
        leaveAudiences(of: typesToUnregister, at: milliseconds)
        reply.departures = encodedDepartures
        return (reply, typesToUnregister.isEmpty ? .unchanged : .renewed)
    }

    /// Returns the token for a start, and draws on the budget for starts. Draws nothing if there is no token
    /// (`noToken`) or the budget is empty (`wait`).
    ///
    /// - Parameter registration: the token that came with the start. It is stored first, unless it is the one that was
    ///   retired last, or a later registration is stored.
    mutating func takeStartToken(
        _ type: String,
        _ bucket: Policy.Bucket,
        _ registration: TokenRegistration<[UInt8]>?,
        nowMilliseconds: Int64
    )
        -> (StoreReply<[UInt8]>, ExpiryChange)
    {
        var expiryChange = ExpiryChange.unchanged
        if let registration, statesByAttributesType[type]?.token?.isSameToken(as: registration) != true,
            statesByAttributesType[type]?.retiredToken?.isSameToken(as: registration) != true,
            storeTokenUnlessOlder(type, registration, nowMilliseconds: nowMilliseconds)
        {
            expiryChange = .renewed
        }
        guard let token = statesByAttributesType[type]?.token else { return (StoreReply(.noToken), expiryChange) }
        let surplusMilliseconds =
            startBudgetFullAtMilliseconds - bucket.fullAtMillisecondsMax(nowMilliseconds: nowMilliseconds)
        if surplusMilliseconds > 0 {
            startBudgetFullAtMilliseconds -= surplusMilliseconds
            refundedMilliseconds = min((refundedMilliseconds ?? 0) + surplusMilliseconds, StoredTime.millisecondsMax)
            expiryChange = .renewed
        }
        if bucket.pushesLeft(fullAtMilliseconds: startBudgetFullAtMilliseconds, nowMilliseconds: nowMilliseconds) == 0 {
            var reply = StoreReply<[UInt8]>(.wait)
            reply.waitMilliseconds =
                startBudgetFullAtMilliseconds - nowMilliseconds - Int64(bucket.pushes - 1) * bucket.intervalMilliseconds
            return (reply, expiryChange)
        }
        startBudgetFullAtMilliseconds = bucket.fullAfterDrawAtMilliseconds(
            fullAtMilliseconds: startBudgetFullAtMilliseconds,
            nowMilliseconds: nowMilliseconds
        )
        var reply = StoreReply<[UInt8]>(.tokenFound)
        reply.registration = token
        reply.drawIdentifier = min(
            startBudgetFullAtMilliseconds + (refundedMilliseconds ?? 0),
            StoredTime.millisecondsMax
        )
        return (reply, .renewed)
    }

    /// Gives back the draw of a start that was not sent, except the part that time has refilled already. So the budget
    /// is never fuller than it would be without the draw.
    mutating func refundStart(_ bucket: Policy.Bucket, drawIdentifier: Int64, nowMilliseconds: Int64) -> (
        StoreReply<[UInt8]>, ExpiryChange
    ) {
        let previouslyRefundedMilliseconds = refundedMilliseconds ?? 0
        let refundMilliseconds = min(
            bucket.intervalMilliseconds,
            drawIdentifier - previouslyRefundedMilliseconds - nowMilliseconds
        )
        if startBudgetFullAtMilliseconds > 0, refundMilliseconds > 0 {
            startBudgetFullAtMilliseconds = max(0, startBudgetFullAtMilliseconds - refundMilliseconds)
            refundedMilliseconds = min(previouslyRefundedMilliseconds + refundMilliseconds, StoredTime.millisecondsMax)
        }
        return (StoreReply(.settled), .unchanged)
    }

    /// Removes a held start that is finished, and may retire its token. The expiry of the device's key does not change.
    mutating func settle(
        _ start: HeldStart<[UInt8]>,
        _ retirement: TokenRetirement<[UInt8]>?,
        nowMilliseconds: Int64
    ) -> (StoreReply<[UInt8]>, ExpiryChange) {
        var reply = StoreReply<[UInt8]>(.settled)
        let type = String(decoding: start.attributesType, as: UTF8.self)
        guard var typeState = statesByAttributesType[type] else {
            if retirement != nil { reply.departures = encodedDepartures }
            return (reply, .unchanged)
        }
        typeState.heldStarts.removeAll { $0.version == start.version && $0.activity == start.activity }
        if let retirement, let token = typeState.token,
            token.isRetired(by: retirement, nowMilliseconds: nowMilliseconds)
        {
            typeState.retiredToken = RetiredToken(token)
            typeState.token = nil
            typeState.registeredAtMilliseconds = min(token.registeredAtMilliseconds + 1, StoredTime.millisecondsMax)
            reply.hasRetiredToken = true
        }
        // The departure must not be older than the member's last entry in an audience, or the audience would ignore it.
        // The registration of another attributes type, whose token is dead too, may have made that entry. So the
        // departure gets a time after all registrations of the device.
        let registeredAtMilliseconds = statesByAttributesType.values.compactMap(\.registeredAtMilliseconds).max() ?? 0
        statesByAttributesType[type] = typeState
        if reply.hasRetiredToken {
            leaveAudiences(of: [type], at: min(registeredAtMilliseconds + 1, StoredTime.millisecondsMax))
        }
        if retirement != nil { reply.departures = encodedDepartures }
        return (reply, .unchanged)
    }

    /// Whether a registration or unregistration at this time is older than the stored one of the attributes type.
    private func isOlder(_ milliseconds: Int64, _ type: String, nowMilliseconds: Int64) -> Bool {
        RegistrationTime.isOlder(
            milliseconds,
            than: statesByAttributesType[type]?.registeredAtMilliseconds ?? 0,
            nowMilliseconds: nowMilliseconds
        )
    }

    private mutating func storeTokenUnlessOlder(
        _ type: String,
        _ registration: TokenRegistration<[UInt8]>,
        nowMilliseconds: Int64
    ) -> Bool {
        guard !isOlder(registration.registeredAtMilliseconds, type, nowMilliseconds: nowMilliseconds) else {
            return false
        }
        statesByAttributesType[type, default: AttributesTypeState()].token = registration
        statesByAttributesType[type, default: AttributesTypeState()].registeredAtMilliseconds =
            registration.registeredAtMilliseconds
        return true
    }
}
