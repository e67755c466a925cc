/// The result of the check of a push's topic and device token. `success` means that APNs accepts both.
struct TokenCheckResult {
    var response: SimulatedResponse
    /// For a 410: when the token became invalid, UNIX milliseconds; 0 for any other response.
    var tokenRetiredAtMilliseconds: Int64 = 0
}

extension DeviceModel {
    /// Decides whether APNs accepts a push for a token on an app's topic.
    ///
    /// - Parameters:
    ///   - token: the token's bytes, not its digits.
    ///   - appIndex: nil if the topic is not one for Live Activities.
    /// - Returns: the decision, and a `tokenReference` to pass to `deliver`. The reference is the token's index in
    ///   `tokens`; for a compact phone, a number with ``compactPhoneBit``; -1 for an unknown token.
    mutating func checkToken(
        token: UnsafeRawBufferPointer,
        appIndex: Int?,
        nowMilliseconds: Int64
    ) -> (checkResult: TokenCheckResult, tokenReference: Int) {
        if let compact = checkTokenOfCompactPhone(token: token, appIndex: appIndex, nowMilliseconds: nowMilliseconds) {
            return compact
        }
        guard let index = tokens.find(token) else { return (TokenCheckResult(response: .badDeviceToken), -1) }
        let owner = tokens.entries[index].owner
        if case .activity(let activity) = owner { advance(activity, nowMilliseconds: nowMilliseconds) }
        let entry = tokens.entries[index]
        if entry.state == .otherEnvironment { return (TokenCheckResult(response: .badDeviceToken), index) }
        guard entry.appIndex == appIndex else { return (TokenCheckResult(response: .deviceTokenNotForTopic), index) }
        if case .retired(let reason, let retiredAtMilliseconds) = entry.state,
            nowMilliseconds >= retiredAtMilliseconds + graceMilliseconds(reason)
        {
            return (TokenCheckResult(response: reason, tokenRetiredAtMilliseconds: retiredAtMilliseconds), index)
        }
        return (TokenCheckResult(response: .success), index)
    }

    private func graceMilliseconds(_ reason: SimulatedResponse) -> Int64 {
        reason == .expiredToken ? rules.retiredTokenGraceMilliseconds : 0
    }

    /// Delivers an accepted push to the phone, and returns the push's effect.
    ///
    /// - Parameters:
    ///   - tokenReference: the one that `checkToken` returned.
    ///   - tape: scratch memory, which the caller reuses for every push.
    @discardableResult
    mutating func deliver(
        _ body: UnsafeRawBufferPointer,
        tokenReference: Int,
        priority: UInt8,
        tape: inout JSONTape,
        nowMilliseconds: Int64
    ) -> PushEffect {
        if tokenReference >= Self.compactPhoneBit {
            return deliverToCompactPhone(
                body,
                tokenReference: tokenReference,
                priority: priority,
                tape: &tape,
                nowMilliseconds: nowMilliseconds
            )
        }
        let entry = tokens.entries[tokenReference]
        if case .activity(let activity) = entry.owner {
            activities[activity].pushStatistics.addPush(priority: priority, atMilliseconds: nowMilliseconds)
        }
        if !isOnline(entry.owner) { return noteEffect(.missed, for: entry.owner) }
        if entry.state == .acceptedWithoutEffect {
            acceptedForDeadTokenCount += 1
            return .acceptedForDeadToken
        }
        let payload: PushPayload
        do throws(PushPayload.Fault) {
            payload = try PushPayload(body, tape: &tape)
        } catch {
            return noteEffect(.malformed, for: entry.owner, problem: "\(error)")
        }
        switch entry.owner {
        case .activity(let activity):
            return apply(payload, tape, to: activity, priority: priority, nowMilliseconds: nowMilliseconds)
        case .pushToStart(let index, let type):
            return start(payload, tape, on: index, type: type, priority: priority, nowMilliseconds: nowMilliseconds)
        }
    }

    private func isOnline(_ owner: TokenTable.Owner) -> Bool {
        switch owner {
        case .activity(let activity): installations[activities[activity].installationIndex].isOnline
        case .pushToStart(let installation, _): installations[installation].isOnline
        }
    }

    private mutating func noteEffect(
        _ effect: PushEffect,
        for owner: TokenTable.Owner,
        problem: String? = nil
    ) -> PushEffect {
        switch owner {
        case .activity(let activity):
            activities[activity].effects[effect] += 1
            if let problem { activities[activity].lastProblem = problem }
            if effect == .ignoredOld { senderFaults.ignoredOldUpdateCount += 1 }
            markChanged(installation: activities[activity].installationIndex)
        case .pushToStart(let installation, _):
            installations[installation].effects[effect] += 1
            markChanged(installation: installation)
            if let problem { installations[installation].lastProblem = problem }
        }
        return effect
    }

    /// Applies an update or an end by ActivityKit's rules, and returns its effect. If a rule drops the push, the Lock
    /// Screen does not change.
    @discardableResult
    mutating func apply(
        _ payload: PushPayload,
        _ tape: borrowing JSONTape,
        to index: Int,
        priority: UInt8,
        nowMilliseconds: Int64
    ) -> PushEffect {
        let owner = TokenTable.Owner.activity(index)
        guard activities[index].isActive else { return noteEffect(.ignoredAfterEnd, for: owner) }
        guard payload.event != .start else {
            return noteEffect(.wrongToken, for: owner, problem: "start on an update token")
        }
        if priority == 10, !activities[index].budget.draw(from: rules.updateBudget, nowMilliseconds: nowMilliseconds) {
            return noteEffect(.overBudget, for: owner)
        }
        if payload.event == .update {
            if payload.timestamp < activities[index].shownTimestamp { return noteEffect(.ignoredOld, for: owner) }
            guard payload.timestamp <= nowMilliseconds / 1_000 + DeviceRules.timestampAheadSecondsMax else {
                return noteEffect(.ignoredFuture, for: owner)
            }
            guard payload.contentStateIndex != nil else {
                return noteEffect(.undecodable, for: owner, problem: "update without content-state")
            }
        }
        if let contentState = payload.contentStateIndex {
            let shape = types[activities[index].typeIndex].contentState
            let decoding = shape.decode(tape, at: contentState, nowMilliseconds: nowMilliseconds)
            if let mismatch = decoding.mismatch {
                return noteEffect(.undecodable, for: owner, problem: shape.describe(mismatch))
            }
            activities[index].suspiciousDateCount += decoding.suspiciousDateCount
        }
        show(payload, tape, on: index, priority: priority, nowMilliseconds: nowMilliseconds)
        guard payload.event == .end else { return noteEffect(.shown, for: owner) }
        activities[index]
            .end(
                atMilliseconds: nowMilliseconds,
                dismissalAtMilliseconds: payload.dismissalDateSeconds.map(Self.milliseconds)
            )
        retireToken(of: index, as: .expiredToken)
        return noteEffect(.ended, for: owner)
    }

    /// Shows a push's content and rings its alert. If an end is older than the shown content, only its alert rings.
    private mutating func show(
        _ payload: PushPayload,
        _ tape: borrowing JSONTape,
        on index: Int,
        priority: UInt8,
        nowMilliseconds: Int64
    ) {
        if payload.timestamp >= activities[index].shownTimestamp {
            if let contentState = payload.contentStateIndex {
                activities[index]
                    .show(
                        tape.bytes(contentState),
                        timestamp: payload.timestamp,
                        nowMilliseconds: nowMilliseconds
                    )
            } else {
                activities[index].raiseShownTimestamp(to: payload.timestamp)
            }
            activities[index].staleDateSeconds = payload.staleDateSeconds
            if let score = payload.relevanceScore { activities[index].relevanceScore = score }
        }
        if let alert = payload.alertIndex, tape[alert].kind == .object {
            ring(
                tape.bytes(alert),
                on: index,
                timestamp: payload.timestamp,
                priority: priority,
                nowMilliseconds: nowMilliseconds
            )
        }
    }

    private mutating func ring(
        _ alert: UnsafeRawBufferPointer,
        on index: Int,
        timestamp: Int64,
        priority: UInt8,
        nowMilliseconds: Int64
    ) {
        activities[index].alertCount += 1
        if let earlier = activities[index].latestAlert(equalTo: alert) {
            activities[index].repeatedAlertCount += 1
            countRepeatedAlert(of: earlier)
        }
        guard activities[index].alerts.count < Activity.keptAlertsMax else { return }
        activities[index].alerts
            .append(
                Alert(rangAtMilliseconds: nowMilliseconds, priority: priority, timestamp: timestamp, json: Array(alert))
            )
    }

    /// Applies a push for a push-to-start token. The push creates an activity, or the phone drops the push.
    private mutating func start(
        _ payload: PushPayload,
        _ tape: borrowing JSONTape,
        on installation: Int,
        type: Int,
        priority: UInt8,
        nowMilliseconds: Int64
    ) -> PushEffect {
        let owner = TokenTable.Owner.pushToStart(installation: installation, type: type)
        guard payload.event == .start else {
            return noteEffect(.wrongToken, for: owner, problem: "\(payload.event) on a push-to-start token")
        }
        guard PushPayload.isCompleteAlert(tape, at: payload.alertIndex) else {
            return noteEffect(.incompleteAlert, for: owner, problem: "start without a complete alert")
        }
        guard let name = payload.attributesTypeIndex, tape[name].kind == .string, tape.string(name) == types[type].name
        else {
            return noteEffect(.wrongAttributesType, for: owner, problem: "attributes-type is not \(types[type].name)")
        }
        guard let attributes = payload.attributesIndex, let contentState = payload.contentStateIndex else {
            return noteEffect(.undecodable, for: owner, problem: "start without attributes or content-state")
        }
        let (suspiciousDateCount, problem) = decode(
            tape,
            attributes: attributes,
            contentState: contentState,
            type: type,
            nowMilliseconds: nowMilliseconds
        )
        if let problem { return noteEffect(.undecodable, for: owner, problem: problem) }
        var channel: Int?
        if let channelIndex = payload.inputPushChannelIndex {
            let identifier = tape[channelIndex].kind == .string ? tape.string(channelIndex) : ""
            channel = channels.find(identifier, appIndex: installations[installation].appIndex)
            if channel == nil {
                let problem = "input-push-channel is not registered: \(identifier)"
                return noteEffect(.unknownChannel, for: owner, problem: problem)
            }
        }
        guard activities.count < Self.activitiesMax,
            installations[installation].startBudget.draw(from: rules.startBudget, nowMilliseconds: nowMilliseconds)
        else { return noteEffect(.overBudget, for: owner) }
        if advanceAndFindDuplicateStart(
            payload,
            tape,
            attributes: attributes,
            on: installation,
            type: type,
            nowMilliseconds: nowMilliseconds
        ) {
            installations[installation].duplicateStartCount += 1
            senderFaults.duplicateStartCount += 1
        }
        let identifier = activityIdentifier(tape, attributes: attributes, installation: installation, type: type)
        let index = addActivity(
            installation: installation,
            type: type,
            identifier: identifier,
            attributes: Array(tape.bytes(attributes)),
            contentState: tape.bytes(contentState),
            timestamp: payload.timestamp,
            isStartedByPush: true,
            audiences: installations[installation].audiences,
            nowMilliseconds: nowMilliseconds
        )
        activities[index].suspiciousDateCount += suspiciousDateCount
        completeStart(index, payload, tape, on: channel, priority: priority, nowMilliseconds: nowMilliseconds)
        activities[index].effects[.started] += 1
        return noteEffect(.started, for: owner)
    }

    /// Applies the rest of a start by push to the new activity: dates, relevance and alert. Then subscribes the
    /// activity to its channel or issues its update token.
    private mutating func completeStart(
        _ index: Int,
        _ payload: PushPayload,
        _ tape: borrowing JSONTape,
        on channel: Int?,
        priority: UInt8,
        nowMilliseconds: Int64
    ) {
        activities[index].staleDateSeconds = payload.staleDateSeconds
        activities[index].relevanceScore = payload.relevanceScore
        activities[index].pushStatistics.addPush(priority: priority, atMilliseconds: nowMilliseconds)
        if let alert = payload.alertIndex {
            ring(
                tape.bytes(alert),
                on: index,
                timestamp: payload.timestamp,
                priority: priority,
                nowMilliseconds: nowMilliseconds
            )
        }
        if let channel {
            subscribe(index, to: channel)
        } else {
            issueAndPostToken(of: index, nowMilliseconds: nowMilliseconds)
        }
    }

    /// Decodes a start's attributes and content as the app's types. If the decoding fails, returns 0 and the problem.
    private func decode(
        _ tape: borrowing JSONTape,
        attributes: Int,
        contentState: Int,
        type: Int,
        nowMilliseconds: Int64
    ) -> (suspiciousDateCount: Int, problem: String?) {
        let attributesDecoding = types[type].attributes.decode(tape, at: attributes, nowMilliseconds: nowMilliseconds)
        if let mismatch = attributesDecoding.mismatch {
            return (0, "attributes: " + types[type].attributes.describe(mismatch))
        }
        let contentDecoding = types[type].contentState.decode(tape, at: contentState, nowMilliseconds: nowMilliseconds)
        if let mismatch = contentDecoding.mismatch { return (0, types[type].contentState.describe(mismatch)) }
        return (attributesDecoding.suspiciousDateCount + contentDecoding.suspiciousDateCount, nil)
    }

    /// The greatest difference between the timestamps of a start and of its repetition. They can differ, because a
    /// worker raises a timestamp that is not above the last one sent (R11).
    private static let duplicateStartTimestampDifferenceSecondsMax: Int64 = 5

    /// Returns whether a start repeats the start of an activity that is still active. First brings each activity that
    /// it compares up to the present (``advance(_:nowMilliseconds:)``).
    ///
    /// Two starts are the same if their attributes and alerts are equal, and their timestamps differ by at most
    /// `duplicateStartTimestampDifferenceSecondsMax`. Equal attributes alone do not suffice, because an app may start
    /// two activities with them. The content states may differ, because a repeated start may have a newer one.
    private mutating func advanceAndFindDuplicateStart(
        _ payload: PushPayload,
        _ tape: borrowing JSONTape,
        attributes: Int,
        on installation: Int,
        type: Int,
        nowMilliseconds: Int64
    ) -> Bool {
        var otherTape = JSONTape()
        for index in installations[installation].activityIndices
        where activities[index].typeIndex == type && activities[index].isStartedByPush {
            advance(index, nowMilliseconds: nowMilliseconds)
            // The activity was started by a push, and every start has an alert. So the activity's first alert is the
            // alert of its start.
            guard activities[index].isActive, let startAlert = activities[index].alerts.first,
                let alert = payload.alertIndex
            else { continue }
            // A payload may have any timestamp, so the subtraction can overflow.
            let (seconds, isTooLarge) = startAlert.timestamp.subtractingReportingOverflow(payload.timestamp)
            guard !isTooLarge, seconds.magnitude <= Self.duplicateStartTimestampDifferenceSecondsMax else { continue }
            if isSame(tape, at: attributes, asJSON: activities[index].attributes, &otherTape),
                isSame(tape, at: alert, asJSON: startAlert.json, &otherTape)
            {
                return true
            }
        }
        return false
    }

    private func isSame(_ tape: borrowing JSONTape, at index: Int, asJSON json: [UInt8], _ otherTape: inout JSONTape)
        -> Bool
    {
        json.withUnsafeBytes { bytes in
            do throws(JSONTape.Fault) {
                try otherTape.read(bytes)
            } catch {
                return false
            }
            return isSameJSON(tape, at: index, otherTape, at: 0)
        }
    }

    /// Returns the id of an activity that a push started: the value of the attribute that the app has declared for the
    /// id. If it is missing, or is no text or number, makes an id from the phone, the type and the activity count.
    private func activityIdentifier(_ tape: borrowing JSONTape, attributes: Int, installation: Int, type: Int) -> String
    {
        if var name = types[type].identifierAttribute,
            let value = name.withUTF8({ tape.member(UnsafeRawBufferPointer($0), of: attributes) })
        {
            if tape[value].kind == .string { return tape.string(value) }
            if tape[value].kind == .number { return String(decoding: tape.bytes(value), as: UTF8.self) }
        }
        return
            "\(installations[installation].device)-\(types[type].name)-\(installations[installation].activityIndices.count)"
    }

    /// Converts seconds to milliseconds. A result that is out of range becomes `Int64.min` or `Int64.max`.
    static func milliseconds(seconds: Int64) -> Int64 {
        let (product, overflow) = seconds.multipliedReportingOverflow(by: 1_000)
        return overflow ? (seconds < 0 ? .min : .max) : product
    }
}
