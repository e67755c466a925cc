/// Crowds of compact phones (`CompactCrowd`). Unlike other phones, they accept any content, and have no budgets. They
/// also have no grace time: a compact phone has no room for the time when its token became invalid, so APNs responds
/// with 410 at once.
extension DeviceModel {
    /// Creates a crowd. Its app must exist.
    public mutating func create(_ crowd: CompactCrowd) throws(Fault) {
        let appIndex = try appIndex(crowd.app)
        guard
            !compactPhones.crowds.contains(where: { $0.definition.app == crowd.app && $0.definition.name == crowd.name }
            )
        else { throw .crowdExists(crowd.name) }
        guard compactPhones.crowds.count < CompactPhones.crowdsMax,
            (1...CompactCrowd.phonesMax).contains(crowd.phoneCount),
            compactPhones.phoneCount + crowd.phoneCount <= CompactPhones.phonesMax
        else { throw .tooMany("compact phones") }
        let initialPhone = CompactPhone(shownStateIndex: compactPhones.findOrAddState([], timestamp: crowd.timestamp))
        compactPhones.append(
            CompactPhones.Crowd(
                definition: crowd,
                appIndex: appIndex,
                phones: Array(repeating: initialPhone, count: crowd.phoneCount)
            )
        )
    }

    /// Dismisses the activities of some phones, as their users would.
    public mutating func dismiss(_ phoneNumbers: Range<Int>, ofCrowd name: String, app: String, nowMilliseconds: Int64)
        throws(Fault)
    {
        let crowd = try crowdIndex(name, app: app, containing: phoneNumbers)
        for number in phoneNumbers { compactPhones.crowds[crowd].phones[number].activityState = .gone }
        compactPhones.crowds[crowd].tokensRetiredAtMilliseconds = nowMilliseconds
    }

    /// Gives the activities of some phones a new update token. `registrations` returns the new tokens.
    public mutating func rotateTokens(
        _ phoneNumbers: Range<Int>,
        ofCrowd name: String,
        app: String,
        nowMilliseconds: Int64
    ) throws(Fault) {
        let crowd = try crowdIndex(name, app: app, containing: phoneNumbers)
        for number in phoneNumbers { compactPhones.crowds[crowd].phones[number].tokenGeneration &+= 1 }
        compactPhones.crowds[crowd].tokensRetiredAtMilliseconds = nowMilliseconds
    }

    /// Returns the registrations that the apps of some phones post, with the current tokens.
    ///
    /// - Parameters:
    ///   - from: the number of the first phone.
    ///   - limit: the maximum number of phones. The result has fewer at the end of the crowd.
    public func registrations(
        from: Int,
        limit: Int,
        ofCrowd name: String,
        app: String,
        nowMilliseconds: Int64
    ) throws(Fault) -> [RegistrationRecord] {
        let crowd = compactPhones.crowds[try crowdIndex(name, app: app)]
        let endNumber = min(crowd.phones.count, from.addingReportingOverflow(limit).partialValue)
        return (from..<max(from, endNumber))
            .map { number in
                crowd.definition.registration(
                    number,
                    generation: Int(crowd.phones[number].tokenGeneration),
                    registeredAtMilliseconds: nowMilliseconds
                )
            }
    }

    /// Returns the index of a crowd. Throws if the app has no crowd with this name, or if the crowd has fewer phones
    /// than `phoneNumbers` needs.
    func crowdIndex(_ name: String, app: String, containing phoneNumbers: Range<Int> = 0..<0) throws(Fault) -> Int {
        guard
            let crowd = compactPhones.crowds.firstIndex(where: {
                $0.definition.app == app && $0.definition.name == name
            })
        else { throw .unknownCrowd(name) }
        guard phoneNumbers.lowerBound >= 0, phoneNumbers.upperBound <= compactPhones.crowds[crowd].phones.count else {
            throw .unknownDevice("\(name): \(phoneNumbers) of \(compactPhones.crowds[crowd].phones.count)")
        }
        return crowd
    }

    // MARK: - Pushes to a crowd

    /// If this bit is set in the `tokenReference` of a token (`checkToken`), the token belongs to a compact phone. Bits
    /// 32 to 47 are then the crowd's index, and the lower bits are the phone's number.
    static let compactPhoneBit = 1 << 48

    /// Decides whether APNs accepts a push for the token of a compact phone. If the token is no longer valid, counts
    /// the refusal. Returns nil if no compact phone has the token.
    mutating func checkTokenOfCompactPhone(
        token: UnsafeRawBufferPointer,
        appIndex: Int?,
        nowMilliseconds: Int64
    ) -> (checkResult: TokenCheckResult, tokenReference: Int)? {
        guard let (crowd, number, generation) = compactPhones.find(token) else { return nil }
        let tokenReference = Self.compactPhoneBit | crowd << 32 | number
        guard compactPhones.crowds[crowd].definition.environment == environment else {
            return (TokenCheckResult(response: .badDeviceToken), tokenReference)
        }
        guard compactPhones.crowds[crowd].appIndex == appIndex else {
            return (TokenCheckResult(response: .deviceTokenNotForTopic), tokenReference)
        }
        let phone = compactPhones.crowds[crowd].phones[number]
        guard phone.activityState == .active, phone.tokenGeneration == generation else {
            compactPhones.crowds[crowd].phones[number].refusedPushCount += phone.refusedPushCount < .max ? 1 : 0
            let retiredAtMilliseconds = compactPhones.crowds[crowd].tokensRetiredAtMilliseconds
            return (
                TokenCheckResult(response: .expiredToken, tokenRetiredAtMilliseconds: retiredAtMilliseconds),
                tokenReference
            )
        }
        return (TokenCheckResult(response: .success), tokenReference)
    }

    /// Delivers an accepted push to a compact phone, and returns the push's effect.
    ///
    /// - Parameter tokenReference: the one that `checkTokenOfCompactPhone` returned.
    mutating func deliverToCompactPhone(
        _ body: UnsafeRawBufferPointer,
        tokenReference: Int,
        priority: UInt8,
        tape: inout JSONTape,
        nowMilliseconds: Int64
    ) -> PushEffect {
        let (crowd, number) = ((tokenReference & ~Self.compactPhoneBit) >> 32, tokenReference & 0xFFFF_FFFF)
        if priority == 10 { compactPhones.crowds[crowd].priority10PushCount += 1 }
        compactPhones.crowds[crowd].phones[number].pushCount &+= 1
        let effect =
            compactPhones.decode(body, tape: &tape)
            .map { apply($0, to: number, of: crowd, nowMilliseconds: nowMilliseconds) } ?? .malformed
        compactPhones.crowds[crowd].effects[effect] += 1
        return effect
    }

    /// Applies a push to a compact phone: shows its content, counts its alert, and ends the activity if the push is an
    /// end. A push that the phone ignores changes only counts. Returns the push's effect.
    private mutating func apply(
        _ decodedBody: CompactPhones.DecodedBody,
        to number: Int,
        of crowd: Int,
        nowMilliseconds: Int64
    ) -> PushEffect {
        var phone = compactPhones.crowds[crowd].phones[number]
        defer { compactPhones.crowds[crowd].phones[number] = phone }
        guard decodedBody.event != .start else { return .wrongToken }
        let shownTimestamp = compactPhones.states[Int(phone.shownStateIndex)].timestamp
        if decodedBody.timestamp < shownTimestamp {
            phone.outdatedPushCount += phone.outdatedPushCount < .max ? 1 : 0
        }
        if decodedBody.timestamp == shownTimestamp {
            phone.equalTimestampPushCount += phone.equalTimestampPushCount < .max ? 1 : 0
        }
        if decodedBody.event == .update {
            if decodedBody.timestamp < shownTimestamp { return .ignoredOld }
            guard decodedBody.timestamp <= nowMilliseconds / 1_000 + DeviceRules.timestampAheadSecondsMax else {
                return .ignoredFuture
            }
            guard decodedBody.stateIndex != nil else { return .undecodable }
        }
        if let stateIndex = decodedBody.stateIndex, decodedBody.timestamp >= shownTimestamp {
            phone.shownStateIndex = stateIndex
            compactPhones.countPush(showing: stateIndex, atMilliseconds: nowMilliseconds)
        }
        if decodedBody.alertNumber != 0 { phone.countAlert(decodedBody.alertNumber) }
        guard decodedBody.event == .end else { return .shown }
        phone.activityState = .ended
        compactPhones.crowds[crowd].tokensRetiredAtMilliseconds = nowMilliseconds
        return .ended
    }

    // MARK: - Queries about a crowd

    /// Writes sums over the phones of a crowd as one JSON object: what they show and what they have received.
    public func crowdJSON(_ name: String, app: String) throws(Fault) -> [UInt8] {
        let crowd = compactPhones.crowds[try crowdIndex(name, app: app)]
        let tally = CrowdTally(crowd.phones)
        var writer = SimulatorJSONWriter()
        writer.object { writer in
            writer.member("app", app)
            writer.member("name", name)
            writer.member("phones", crowd.phones.count)
            writer.member("bytesPerPhone", MemoryLayout<CompactPhone>.stride)
            writer.member("ended", tally.endedPhoneCount)
            writer.member("gone", tally.gonePhoneCount)
            writer.member("pushes", tally.pushCount)
            writer.member("priority10", crowd.priority10PushCount)
            writer.member("pushesMax", tally.busiestPhonePushCount)
            writer.member("unreached", tally.unreachedPhoneCount)
            writer.member("reversed", tally.outdatedPushPhoneCount)
            writer.member("repeatedPushes", tally.equalTimestampPushCount)
            writer.member("refused", tally.refusedPushCount)
            writer.member("alerts", tally.alertCount)
            writer.member("alertedTwice", tally.repeatedAlertPhoneCount)
            write(crowd.effects, to: &writer)
            writer.member("shown", array: { writer in writeShownStates(tally.phoneCountsByState, to: &writer) })
        }
        return writer.bytes
    }

    /// Writes the content states that phones show, newest first.
    private func writeShownStates(_ phoneCountsByState: [UInt32: Int], to writer: inout SimulatorJSONWriter) {
        let indicesNewestFirst = phoneCountsByState.keys.sorted {
            (compactPhones.states[Int($0)].timestamp, $0) > (compactPhones.states[Int($1)].timestamp, $1)
        }
        for stateIndex in indicesNewestFirst {
            let state = compactPhones.states[Int(stateIndex)]
            writer.object { writer in
                writer.member("timestamp", state.timestamp)
                writer.key("contentState")
                writer.raw(state.content.isEmpty ? Array("null".utf8) : state.content)
                writer.member("phones", phoneCountsByState[stateIndex] ?? 0)
                writer.member("pushes", state.pushCount)
                if state.pushCount > 0 {
                    writer.member("firstMilliseconds", state.firstShownAtMilliseconds)
                    writer.member("lastMilliseconds", state.lastShownAtMilliseconds)
                }
            }
        }
    }
}

/// Sums over the phones of a crowd.
private struct CrowdTally {
    var (endedPhoneCount, gonePhoneCount, unreachedPhoneCount) = (0, 0, 0)
    var (pushCount, equalTimestampPushCount, refusedPushCount, alertCount) = (0, 0, 0, 0)
    /// The largest number of pushes to one phone.
    var busiestPhonePushCount = 0
    /// Phones that got a push older than the content that they showed.
    var outdatedPushPhoneCount = 0
    /// Phones that got the same alert twice. A phone compares an alert only with the last four different alerts that it
    /// got.
    var repeatedAlertPhoneCount = 0
    var phoneCountsByState: [UInt32: Int] = [:]

    init(_ phones: [CompactPhone]) {
        // Neighbouring phones often show the same state. So count them in `group`, and add the whole group to the
        // dictionary: an access for each phone would be slow.
        var group: (stateIndex: UInt32, phoneCount: Int) = (.max, 0)
        for phone in phones {
            switch phone.activityState {
            case .active: break
            case .ended: endedPhoneCount += 1
            case .gone: gonePhoneCount += 1
            }
            if phone.pushCount == 0 { unreachedPhoneCount += 1 }
            pushCount += Int(phone.pushCount)
            busiestPhonePushCount = max(busiestPhonePushCount, Int(phone.pushCount))
            if phone.outdatedPushCount > 0 { outdatedPushPhoneCount += 1 }
            equalTimestampPushCount += Int(phone.equalTimestampPushCount)
            refusedPushCount += Int(phone.refusedPushCount)
            alertCount += Int(phone.alertCount)
            if phone.repeatedAlertCount > 0 { repeatedAlertPhoneCount += 1 }
            guard phone.activityState != .gone else { continue }
            if phone.shownStateIndex != group.stateIndex {
                if group.phoneCount > 0 { phoneCountsByState[group.stateIndex, default: 0] += group.phoneCount }
                group = (phone.shownStateIndex, 0)
            }
            group.phoneCount += 1
        }
        if group.phoneCount > 0 { phoneCountsByState[group.stateIndex, default: 0] += group.phoneCount }
    }
}
