import Delivery
import Foundation
import LiveActivity
import Testbed

/// The events of a run: which activities start, which commands are sent, and what the phones do.
extension Simulation {
    func makeScenario() {
        for number in 0..<parameters.activityCount {
            let (activity, device) = ("match-\(number)", "device-\(number / parameters.activitiesPerDevice)")
            if parameters.livesPerActivityMax > 0 {
                makeActivityWithLives(activity, device: device)
            } else {
                makeActivity(activity, device: device)
            }
        }
        if parameters.audienceCount > 0 { makeAudienceCommands() }
        makeLosses()
    }

    private func makeActivity(_ activity: String, device: String) {
        if parameters.frequentUpdatesPerMille > 0, random.chance(parameters.frequentUpdatesPerMille) {
            activitiesWithFrequentUpdates.insert(activity)
        }
        let isStartedByServer = random.chance(500)
        let registersNoFirstToken =
            parameters.appWithoutFirstRegistrationPerMille > 0 && !isStartedByServer
            && random.chance(parameters.appWithoutFirstRegistrationPerMille)
        let getsTokenLate =
            registersNoFirstToken && parameters.lateTokenPerMille > 0 && random.chance(parameters.lateTokenPerMille)
        var time = now + Int64(random.number(0...500))
        let bornAtMilliseconds = time
        var sequence: UInt64 = 0
        if !parameters.agesSeconds.isEmpty {
            agesSeconds[activity] = parameters.agesSeconds.randomElement(using: &random)
        }
        if isStartedByServer {
            phones[activity] = SimulatedPhone(activity: activity, device: device)
            registerPushToStartToken(
                device,
                at: time + Int64(random.chance(parameters.lateStartTokenPerMille) ? random.number(0...9_000) : -100)
            )
            sequence += 1
            send(activity, .start, sequence: sequence, content: 0, device: device, at: time)
        } else if registersNoFirstToken {
            phones[activity] = SimulatedPhone(activity: activity, device: nil)
            scheduledEvents.append((time - 100, { [self] in giveToken(activity) }))
        } else {
            phones[activity] = SimulatedPhone(activity: activity, device: nil)
            // The app may register its token long after the first update was sent.
            let delayMilliseconds = random.chance(300) ? random.number(0...9_000) : -100
            scheduledEvents.append((time + Int64(delayMilliseconds), { [self] in registerActivity(activity) }))
        }
        let commandCount = random.number(1...parameters.commandsPerActivity)
        var content = 0
        for number in 1...commandCount {
            time +=
                parameters.hasLongLives
                ? chooseLongGapMilliseconds(bornAtMilliseconds: bornAtMilliseconds, atMilliseconds: time)
                : Int64(random.number(0...parameters.commandGapMillisecondsMax))
            sequence += 1
            let isLast = number == commandCount
            if parameters.sameContentPerMille == 0 || !random.chance(parameters.sameContentPerMille) {
                content = number
            }
            let isEnd = isLast && random.chance(800)
            if isLast {
                finalCommands[activity] = (version(of: activity, at: time, sequence), content, isEnd)
            }
            let bringsOwnToken =
                registersNoFirstToken && !getsTokenLate
                && (number == 1 || random.chance(parameters.suppliedTokenPerMille))
            let event = isEnd ? Event.end : .update
            send(activity, event, sequence: sequence, content: content, hasOwnToken: bringsOwnToken, at: time)
        }
        if getsTokenLate {
            resendWithToken(activity, among: Int(sequence), at: time + Int64(random.number(-2_000...4_000)))
        }
    }

    /// At `time`, sends one of the activity's commands a second time, with the token that the phone has then.
    private func resendWithToken(_ activity: String, among commandCount: Int, at time: Int64) {
        let identifier = "\(activity)#\(random.number(1...commandCount))"
        scheduledEvents.append(
            (
                time,
                { [self] in
                    // Perhaps the command has not been written for the first time yet. Then its second record waits
                    // for another second.
                    guard let value = recordTexts[identifier] else {
                        return resendWithToken(activity, among: commandCount, at: now + 1_000)
                    }
                    guard let token = phones[activity]?.token else { return }
                    let recordWithToken = "{\"token\":\"\(token)\",\"environment\":\"production\"," + value.dropFirst()
                    append(identifier, of: activity, recordWithToken, at: now)
                }
            )
        )
    }

    func send(
        _ activity: String,
        _ event: Event,
        sequence: UInt64,
        content: Int,
        hasOwnToken: Bool = false,
        device: String = "",
        mayRing: Bool = true,
        at time: Int64
    ) {
        // If Redis lost what the first of two records wrote, the second one would be sent too.
        let recordCount = random.chance(50) && parameters.lossesMax == 0 ? 2 : 1
        let identifier = "\(activity)#\(sequence)"
        results[identifier] = []
        let version = version(of: activity, at: time, sequence)
        versions[identifier] = version
        if event == .start { startCommands.insert(identifier) }
        let startMembers = """
            "attributes-type":"Match","attributes":{"id":"\(activity)"},\
            "alert":{"title":"Start","body":"\(activity)"},
            """
        var optionalMembers = ""
        if parameters.priorityPerMille > 0, event == .update, random.chance(parameters.priorityPerMille) {
            optionalMembers = "\"priority\":\(random.chance(500) ? 5 : 10),"
        }
        let expiresSoon =
            parameters.shortLivedPerMille > 0 && event == .update && random.chance(parameters.shortLivedPerMille)
        if expiresSoon { optionalMembers += "\"expiration\":\(version.timestamp + Int64(random.number(1...8)))," }
        var alert = ""
        // A command that expires soon has no alert, because the alert could expire with it.
        let mayHaveAlert = parameters.alertPerMille > 0 && mayRing && !expiresSoon && event != .start
        if mayHaveAlert, random.chance(parameters.alertPerMille) {
            alert = ",\"alert\":{\"title\":\"\(sequence)\",\"body\":\"Goal\"}"
            alertSequences[activity, default: []].append(Int(sequence))
        }
        let value = """
            {"app":"\(Simulation.app)","activity":"\(activity)","id":"\(identifier)","sequence":\(sequence),\
            \(event == .start ? "\"device\":\"\(device)\"," : "")\(optionalMembers)\
            "aps":{"event":"\(event.name)","timestamp":\(version.timestamp),\(event == .start ? startMembers : "")\
            "content-state":{"content":\(content)}\(alert)}}
            """
        for _ in 0..<recordCount {
            scheduledEvents.append(
                (
                    time,
                    { [self] in
                        recordTexts[identifier] = value
                        var record = value
                        if let token = tokenOfCommand(of: activity, isSupplied: hasOwnToken) {
                            record = "{\"token\":\"\(token)\",\"environment\":\"production\"," + value.dropFirst()
                        }
                        append(identifier, of: activity, record, at: time)
                    }
                )
            )
        }
    }

    func version(of activity: String, at time: Int64, _ sequence: UInt64) -> Version {
        Version(timestamp: time / 1_000 - (agesSeconds[activity] ?? 0), sequence: sequence)
    }

    /// The token that a producer writes into a command; nil if it writes none. The token is the phone's, or a dead one
    /// that the producer believes to be valid.
    private func tokenOfCommand(of activity: String, isSupplied: Bool) -> String? {
        if parameters.retiredTokenPerMille > 0, let token = retiredTokens[activity],
            random.chance(parameters.retiredTokenPerMille)
        {
            return token
        }
        return isSupplied ? phones[activity]?.token : nil
    }

    private func append(_ command: String, of activity: String, _ value: String, at time: Int64) {
        recordCounts[command, default: 0] += 1
        let (partition, offset) = log.append(topic: SimulatedLog.commandsTopic, key: activity, value: value, at: time)
        counting.commands[partition, default: [:]][offset] = command
    }

    // MARK: - Phones

    func registerPushToStartToken(_ device: String, at time: Int64) {
        scheduledEvents.append(
            (
                time,
                { [self] in
                    lastTokenNumber += 1
                    let token = "ffff" + hex(lastTokenNumber)
                    devicesByStartToken[token] = device
                    lastRegistrationAtMilliseconds += 1
                    let value = """
                        {"app":"\(Simulation.app)","environment":"production","registeredAt":\(nextRegistrationAtMilliseconds()),\
                        "device":"\(device)","attributesType":"Match","token":"\(token)"}
                        """
                    _ = log.append(topic: SimulatedLog.registrationsTopic, key: device, value: value, at: now)
                }
            )
        )
    }

    func registerActivity(_ activity: String) {
        guard let phone = giveToken(activity), let token = phone.token else { return }
        activitiesWithoutToken.remove(activity)
        let value = """
            {"app":"\(Simulation.app)","environment":"production","registeredAt":\(phone.registeredAtMilliseconds),\
            "frequentUpdates":\(activitiesWithFrequentUpdates.contains(activity)),\(chooseNamedAudiences(of: activity))\
            "activity":"\(activity)","token":"\(token)"}
            """
        _ = log.append(topic: SimulatedLog.registrationsTopic, key: activity, value: value, at: now)
    }

    /// Gives the phone a new token, which Redis does not know yet. Returns nil if the activity has ended on the phone.
    @discardableResult private func giveToken(_ activity: String) -> SimulatedPhone? {
        guard var phone = phones[activity], !phone.hasEnded else { return nil }
        lastTokenNumber += 1
        let token = "aaaa" + hex(lastTokenNumber)
        if let oldToken = phone.token { phone.tokenDiedAtMilliseconds[oldToken] = now }
        phone.token = token
        phone.registeredAtMilliseconds = nextRegistrationAtMilliseconds()
        phones[activity] = phone
        activitiesByToken[token] = activity
        tokenReceivedAtMilliseconds[token] = phone.registeredAtMilliseconds
        return phone
    }

    /// Returns a time after all earlier registrations. The times order the tokens of a phone.
    private func nextRegistrationAtMilliseconds() -> Int64 {
        // In a run with audiences, a token may die between two registrations. So they are at least two milliseconds
        // apart.
        let gapMilliseconds: Int64 = parameters.audienceCount > 0 ? 2 : 1
        lastRegistrationAtMilliseconds = max(lastRegistrationAtMilliseconds + gapMilliseconds, now)
        return lastRegistrationAtMilliseconds
    }

    private func hex(_ number: Int) -> String {
        let digits = String(number, radix: 16)
        return String(repeating: "0", count: 12 - digits.count) + digits
    }

    /// The sequence of the command whose alert a push has; negative if the push has none, or is a start.
    func alertSequence(of view: RecordView) -> Int {
        findNumber("title\":\"", after: "\"alert\":{", in: String(decoding: view.body, as: UTF8.self))
    }

    /// Responds to a push as APNs does, and lets the phone handle it.
    func deliverPush(_ view: RecordView) -> (disposition: PushResult.Disposition, status: UInt16, invalidAt: Int64?) {
        let token = String(decoding: view.token, as: UTF8.self)
        let body = String(decoding: view.body, as: UTF8.self)
        let shownState = SimulatedPhone.ShownState(
            timestamp: view.sentTimestamp,
            version: versions[identifier(view)] ?? view.version,
            content: findNumber("content\":", after: "content-state", in: body),
            alertSequence: alertSequence(of: view)
        )
        if shownState.alertSequence >= 0, (try? JSONSerialization.jsonObject(with: Data(body.utf8))) == nil {
            violations.append("a body that carries an alert is not JSON: \(body)")
        }
        guard findNumber("timestamp\":", after: "{\"aps\"", in: body) == view.sentTimestamp else {
            violations.append("a body does not carry the timestamp that was admitted: \(body)")
            return (.rejected, 400, nil)
        }
        if devicesByStartToken[token] != nil {
            return deliverStart(String(decoding: view.activity, as: UTF8.self), shownState, view)
        }
        guard let activity = activitiesByToken[token], var phone = phones[activity] else {
            violations.append("a push to a token that was never given out")
            return (.rejected, 400, nil)
        }
        if let deadSince = phone.tokenDiedAtMilliseconds[token] { return (.tokenDead, 410, deadSince) }
        checkUpdateAge(view, of: activity)
        checkAlertRing(shownState.alertSequence, with: view, of: activity)
        noteIfIgnored(shownState, by: phone)
        phone.receive(view.event, shownState)
        if view.priority == 10 { phone.highPriorityVersions.insert(view.version) }
        // After Redis has lost data, a push may be repeated with another timestamp. An older state may come if the lane
        // has no room to read ahead (`RereadTests` checks that the lane reads ahead). The phone still shows the right
        // state at the end.
        if !wasRedisWiped { violations.append(contentsOf: phone.violations) }
        phone.violations = []
        phones[activity] = phone
        return (.accepted, 200, nil)
    }

    private func deliverStart(
        _ activity: String,
        _ shownState: SimulatedPhone.ShownState,
        _ view: RecordView
    ) -> (disposition: PushResult.Disposition, status: UInt16, invalidAt: Int64?) {
        guard view.isStart else {
            violations.append("\(activity): a push-to-start token was sent something else than a start")
            return (.rejected, 400, nil)
        }
        phones[activity]?.start(shownState, now: now)
        pace.noteArrivedStart(identifier(view))
        let delayMilliseconds = Int64(random.number(0...3_000))
        scheduledEvents.append((now + delayMilliseconds, { [self] in registerActivity(activity) }))
        return (.accepted, 200, nil)
    }

    /// Returns the number after the text `key`, in the part of the body after the text `anchor`; -1 if there is none.
    func findNumber(_ key: String, after anchor: String, in body: String) -> Int {
        guard let part = body.range(of: anchor), let found = body.range(of: key, in: part.upperBound..<body.endIndex)
        else { return -1 }
        return Int(body[found.upperBound...].prefix { $0.isNumber }) ?? -1
    }
}

extension String {
    fileprivate func range(of text: String, in range: Range<Index>? = nil) -> Range<Index>? {
        self[range ?? startIndex..<endIndex].firstRange(of: text)
    }
}
