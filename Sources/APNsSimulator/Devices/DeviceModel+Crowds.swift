/// Crowds of compact phones (`CompactCrowd`). Unlike other phones, they accept any content and have no
/// budgets.
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
        let initialPhone = CompactPhone(shownStateIndex: compactPhones.internState([], timestamp: crowd.timestamp))
        compactPhones.append(
            CompactPhones.Crowd(
                definition: crowd,
                appIndex: appIndex,
                phones: Array(repeating: initialPhone, count: crowd.phoneCount)
            )
        )
    }

    /// Dismisses the activities of some phones, as their users would.
    public mutating func dismiss(_ numbers: Range<Int>, of name: String, app: String, nowMilliseconds: Int64)
        throws(Fault)
    {
        let crowd = try crowdIndex(name, app: app, numbers)
        for number in numbers { compactPhones.crowds[crowd].phones[number].activityState = .gone }
        compactPhones.crowds[crowd].tokensRetiredAtMilliseconds = nowMilliseconds
    }

    /// Gives the activities of some phones a new update token. `registrations` returns the new tokens.
    public mutating func rotateTokens(_ numbers: Range<Int>, of name: String, app: String, nowMilliseconds: Int64)
        throws(Fault)
    {
        let crowd = try crowdIndex(name, app: app, numbers)
        for number in numbers { compactPhones.crowds[crowd].phones[number].tokenGeneration &+= 1 }
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
        of name: String,
        app: String,
        nowMilliseconds: Int64
    ) throws(Fault) -> [RegistrationRecord] {
        let crowd = compactPhones.crowds[try crowdIndex(name, app: app, 0..<0)]
        let end = min(crowd.phones.count, from.addingReportingOverflow(limit).partialValue)
        return (from..<max(from, end))
            .map { number in
                crowd.definition.registration(
                    number,
                    generation: Int(crowd.phones[number].tokenGeneration),
                    registeredAtMilliseconds: nowMilliseconds
                )
            }
    }

    func crowdIndex(_ name: String, app: String, _ numbers: Range<Int>) throws(Fault) -> Int {
        guard
            let crowd = compactPhones.crowds.firstIndex(where: {
                $0.definition.app == app && $0.definition.name == name
            })
        else { throw .unknownCrowd(name) }
        guard numbers.lowerBound >= 0, numbers.upperBound <= compactPhones.crowds[crowd].phones.count else {
            throw .unknownDevice("\(name): \(numbers) of \(compactPhones.crowds[crowd].phones.count)")
        }
        return crowd
    }

    // MARK: - Pushes

    /// `checkToken` sets this bit in the `token` that it returns for a compact phone. The other bits are then the
    /// numbers of the crowd and of the phone. A `token` without this bit is an index in `TokenTable`, or -1: there is
    /// no such token.
    static let compactTokenBit = 1 << 48

    /// Decides whether APNs accepts a push for the token of a compact phone. Returns nil if no compact phone
    /// has the token.
    mutating func checkCompactToken(
        token: UnsafeRawBufferPointer,
        appIndex: Int?,
        nowMilliseconds: Int64
    ) -> (checkResult: TokenCheckResult, token: Int)? {
        guard let (crowd, number, generation) = compactPhones.find(token) else { return nil }
        let compactToken = Self.compactTokenBit | crowd << 32 | number
        guard compactPhones.crowds[crowd].definition.environment == environment else {
            return (TokenCheckResult(reason: .badDeviceToken), compactToken)
        }
        guard compactPhones.crowds[crowd].appIndex == appIndex else {
            return (TokenCheckResult(reason: .deviceTokenNotForTopic), compactToken)
        }
        let phone = compactPhones.crowds[crowd].phones[number]
        guard phone.activityState == .active, phone.tokenGeneration == generation else {
            compactPhones.crowds[crowd].phones[number].refusedPushes += phone.refusedPushes < .max ? 1 : 0
            let retiredAtMilliseconds = compactPhones.crowds[crowd].tokensRetiredAtMilliseconds
            return (
                TokenCheckResult(reason: .expiredToken, tokenRetiredAtMilliseconds: retiredAtMilliseconds), compactToken
            )
        }
        return (TokenCheckResult(reason: .success), compactToken)
    }

    /// Delivers an accepted push to a compact phone.
    ///
    /// - Parameter compactToken: the `token` that `checkCompactToken` returned.
    mutating func deliverToCompactPhone(
        _ body: UnsafeRawBufferPointer,
        compactToken: Int,
        priority: UInt8,
        tape: inout JSONTape,
        nowMilliseconds: Int64
    ) -> PushEffect {
        let (crowd, number) = ((compactToken & ~Self.compactTokenBit) >> 32, compactToken & 0xFFFF_FFFF)
        if priority == 10 { compactPhones.crowds[crowd].priority10PushCount += 1 }
        compactPhones.crowds[crowd].phones[number].pushes &+= 1
        let effect =
            compactPhones.decode(body, tape: &tape)
            .map { apply($0, to: number, of: crowd, nowMilliseconds: nowMilliseconds) } ?? .malformed
        compactPhones.crowds[crowd].effects[effect] += 1
        return effect
    }

    private mutating func apply(
        _ decodedBody: CompactPhones.DecodedBody,
        to number: Int,
        of crowd: Int,
        nowMilliseconds: Int64
    ) -> PushEffect {
        var phone = compactPhones.crowds[crowd].phones[number]
        defer { compactPhones.crowds[crowd].phones[number] = phone }
        guard decodedBody.event != .start else { return .wrongToken }
        let shown = compactPhones.states[Int(phone.shownStateIndex)].timestamp
        if decodedBody.timestamp < shown { phone.outdatedPushes += phone.outdatedPushes < .max ? 1 : 0 }
        if decodedBody.timestamp == shown { phone.repeatedPushes += phone.repeatedPushes < .max ? 1 : 0 }
        if decodedBody.event == .update {
            if decodedBody.timestamp < shown { return .ignoredOld }
            guard decodedBody.timestamp <= nowMilliseconds / 1_000 + DeviceRules.timestampAheadSecondsMax else {
                return .ignoredFuture
            }
            guard decodedBody.state != nil else { return .undecodable }
        }
        if let state = decodedBody.state, decodedBody.timestamp >= shown {
            phone.shownStateIndex = state
            compactPhones.countShown(state, atMilliseconds: nowMilliseconds)
        }
        if decodedBody.alert != 0 { _ = phone.countAlert(decodedBody.alert) }
        guard decodedBody.event == .end else { return .shown }
        phone.activityState = .ended
        compactPhones.crowds[crowd].tokensRetiredAtMilliseconds = nowMilliseconds
        return .ended
    }

    // MARK: - Queries

    /// Writes sums over the phones of a crowd as one JSON object: what they show and what they have received.
    public func crowdJSON(_ name: String, app: String) throws(Fault) -> [UInt8] {
        let crowd = compactPhones.crowds[try crowdIndex(name, app: app, 0..<0)]
        let tally = CompactTally(crowd.phones)
        var writer = JSONWriter()
        writer.object { writer in
            writer.member("app", app)
            writer.member("name", name)
            writer.member("phones", crowd.phones.count)
            writer.member("bytesPerPhone", MemoryLayout<CompactPhone>.stride)
            writer.member("ended", tally.endedPhones)
            writer.member("gone", tally.gonePhones)
            writer.member("pushes", tally.pushes)
            writer.member("priority10", crowd.priority10PushCount)
            writer.member("pushesMax", tally.mostPushesToOnePhone)
            writer.member("unreached", tally.unreachedPhones)
            writer.member("reversed", tally.phonesWithOutdatedPush)
            writer.member("repeatedPushes", tally.repeatedPushes)
            writer.member("refused", tally.refusedPushes)
            writer.member("alerts", tally.alerts)
            writer.member("alertedTwice", tally.phonesAlertedTwice)
            write(crowd.effects, to: &writer)
            writer.member("shown", array: { writer in writeShown(tally.phonesByState, to: &writer) })
        }
        return writer.bytes
    }

    /// Writes the content states that phones show, newest first.
    private func writeShown(_ phonesByState: [UInt32: Int], to writer: inout JSONWriter) {
        let numbersNewestFirst = phonesByState.keys.sorted {
            (compactPhones.states[Int($0)].timestamp, $0) > (compactPhones.states[Int($1)].timestamp, $1)
        }
        for number in numbersNewestFirst {
            let state = compactPhones.states[Int(number)]
            writer.object { writer in
                writer.member("timestamp", state.timestamp)
                writer.key("contentState")
                writer.raw(state.content.isEmpty ? Array("null".utf8) : state.content)
                writer.member("phones", phonesByState[number] ?? 0)
                writer.member("pushes", state.pushes)
                if state.pushes > 0 {
                    writer.member("firstMilliseconds", state.firstShownAtMilliseconds)
                    writer.member("lastMilliseconds", state.lastShownAtMilliseconds)
                }
            }
        }
    }
}

/// Sums over the phones of a crowd.
private struct CompactTally {
    var (endedPhones, gonePhones, unreachedPhones) = (0, 0, 0)
    var (pushes, repeatedPushes, refusedPushes, alerts) = (0, 0, 0, 0)
    /// The number of pushes to the phone that got the most.
    var mostPushesToOnePhone = 0
    /// Phones that got a push older than the content that they showed.
    var phonesWithOutdatedPush = 0
    /// Phones that got a repeated alert: one equal to one of the last four different alerts of the phone.
    var phonesAlertedTwice = 0
    var phonesByState: [UInt32: Int] = [:]

    init(_ phones: [CompactPhone]) {
        // Neighbours often show the same state. The phones of such a group are added at once.
        var group: (state: UInt32, phones: Int) = (.max, 0)
        for phone in phones {
            switch phone.activityState {
            case .active: break
            case .ended: endedPhones += 1
            case .gone: gonePhones += 1
            }
            if phone.pushes == 0 { unreachedPhones += 1 }
            pushes += Int(phone.pushes)
            mostPushesToOnePhone = max(mostPushesToOnePhone, Int(phone.pushes))
            if phone.outdatedPushes > 0 { phonesWithOutdatedPush += 1 }
            repeatedPushes += Int(phone.repeatedPushes)
            refusedPushes += Int(phone.refusedPushes)
            alerts += Int(phone.alerts)
            if phone.repeatedAlerts > 0 { phonesAlertedTwice += 1 }
            guard phone.activityState != .gone else { continue }
            if phone.shownStateIndex != group.state {
                if group.phones > 0 { phonesByState[group.state, default: 0] += group.phones }
                group = (phone.shownStateIndex, 0)
            }
            group.phones += 1
        }
        if group.phones > 0 { phonesByState[group.state, default: 0] += group.phones }
    }
}
