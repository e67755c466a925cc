import Delivery
import LiveActivity

/// Most of these invariants are checked at the end of a run, when no work is left. Those of tokens are checked at each
/// call that Redis performs.
extension Simulation {
    func check() {
        checkAudiences()
        for (activity, finalCommand) in finalCommands.sorted(by: { $0.key < $1.key }) {
            guard let phone = phones[activity] else { continue }
            checkFinalCommand(activity, finalCommand, phone)
            // A held start may have two records: its own, and the registration that released it. One of them may have
            // the result `unknown` while the other sends the start. So if the run loses no response, worker or
            // partition, the start must still reach its phone. The exception is a start that waits for a retry while
            // its activity ends. This start is not sent.
            let outcomes = results[lastStart(of: activity)] ?? []
            let isStartUnknown = outcomes.contains(.unknown) && !(finalCommand.isEnd && outcomes.contains(.superseded))
            if phone.device != nil, !hasStarted(phone), isStartUnknown, isEveryStartKnown {
                violations.append("\(activity): its start was not sent, though no response was lost and no worker")
            }
            for (version, count) in phone.startCounts where count > 1 && !wasRedisWiped {
                violations.append("\(activity): the start \(version) came \(count) times")
            }
        }
        if !wasRedisWiped { checkPace() }
        checkAlerts()
        checkOutcomes()
        checkHandovers()
        checkCounts()
        for (command, outcomes) in results.sorted(by: { $0.key < $1.key })
        where outcomes.isEmpty && !isReplaced(command) {
            violations.append("\(command): no result")
        }
        for (command, outcomes) in results.sorted(by: { $0.key < $1.key }) {
            for outcome in outcomes where outcome == .invalid || outcome == .failed && isCalm {
                violations.append("\(command): \(outcome)")
            }
        }
    }

    /// Whether nothing in the run makes a command fail: APNs refuses no push for good, and no device has more
    /// starts than Redis holds.
    private var isCalm: Bool {
        parameters.connections?.unknownReasonPerMille ?? 0 == 0
            && parameters.activitiesPerDevice <= parameters.heldStartsMax
    }

    /// Whether each start is finished by the record that Redis admitted. This holds if the run loses no response, no
    /// worker and no partition. A short failure of Redis does not move a start to another record.
    private var isEveryStartKnown: Bool {
        // A deferral that is written twice has two records with the same claim. If the second one is read when the
        // first one has been admitted and deferred again, the start is `unknown`.
        let mayDeferTwice = parameters.deferrals != nil && parameters.produceFailurePerMille > 0
        return !mayDeferTwice && parameters.pushLossPerMille == 0 && parameters.crashPerMille == 0
            && parameters.rebalancePerMille == 0 && parameters.connections == nil
    }

    /// Checks that Redis permits no update or end to a token that a tombstone has removed, unless the token is
    /// registered again.
    func checkUnregistered(_ call: StoreCall<[UInt8]>, _ view: RecordView, _ reply: StoreReply<[UInt8]>) {
        let activity = String(decoding: view.activity, as: UTF8.self)
        let at = view.registeredAtMilliseconds
        if call.ticket.purpose == .unregisterActivity, reply.verdict == .unregistered {
            for (token, owner) in activitiesByToken
            where owner == activity && tokenReceiptMilliseconds[token] ?? 0 <= at {
                unregisteredTokens[token] = at
            }
        }
        let isUpdate = call.ticket.purpose == .admit && !view.isStart
        if isUpdate && call.admission?.registration != nil
            || call.ticket.purpose == .registerToken && reply.verdict == .registered
        {
            let token = String(decoding: view.token, as: UTF8.self)
            if let since = unregisteredTokens[token], at >= since { unregisteredTokens[token] = nil }
        }
        if isUpdate, reply.verdict == .send, let token = reply.registration,
            unregisteredTokens[String(decoding: token.token, as: UTF8.self)] != nil
        {
            violations.append("\(activity): admitted to a token that was unregistered")
        }
    }

    /// Checks that Redis permits no update or end to a token that it has retired, also if a command brings the token
    /// again.
    func checkRetired(_ call: StoreCall<[UInt8]>, _ view: RecordView, _ reply: StoreReply<[UInt8]>) {
        let activity = String(decoding: view.activity, as: UTF8.self)
        if reply.hasRetiredToken, case .retire(_, let retirement) = call.operation {
            retiredTokens[activity] = String(decoding: retirement.token, as: UTF8.self)
        }
        if reply.verdict == .send, !view.isStart, let token = reply.registration,
            retiredTokens[activity] == String(decoding: token.token, as: UTF8.self)
        {
            violations.append("\(activity): admitted to a token that was retired")
        }
    }

    private func checkFinalCommand(
        _ activity: String,
        _ finalCommand: (version: Version, content: Int, isEnd: Bool),
        _ phone: SimulatedPhone
    ) {
        // A start whose response was lost is not sent again, so the phone may have no activity that can show
        // the last state.
        let hasNoStart = phone.device != nil && !hasStarted(phone)
        let startOutcomes = results[lastStart(of: activity)] ?? []
        if hasNoStart, startOutcomes.contains(.unknown) || startOutcomes.contains(.failed) { return }
        // The start expired while it waited, for example for its device's budget.
        if hasNoStart, startOutcomes.contains(.expired) { return }
        // The start expired. Its worker settled it in Redis, and died before it wrote the result.
        if hasNoStart, parameters.crashPerMille > 0, startOutcomes.contains(.duplicate) { return }
        // If the core reads the activity's end before the start's turn comes, it does not send the start.
        if hasNoStart, finalCommand.isEnd { return }
        if mayHavePassedStart(activity) { return }
        if mayHaveLostFinalCommand(activity) || mayHaveExpired(activity, finalCommand.version) { return }
        // The last update came after the activity's eight hours, so it is not sent. Only an end would still be sent.
        if activitiesWithOldUpdate.contains(activity), !finalCommand.isEnd { return }
        if phone.shownState?.content != finalCommand.content {
            violations.append(
                "\(activity): shows \(phone.shownState?.content ?? -1), not \(finalCommand.content); \(outcomes(activity))"
            )
        }
        if finalCommand.isEnd, !phone.hasEnded {
            violations.append("\(activity): has not ended; \(outcomes(activity))")
        }
    }

    private func lastStart(of activity: String) -> String { lastStarts[activity] ?? "\(activity)#1" }

    /// Whether the phone got the start of the activity's last life.
    func hasStarted(_ phone: SimulatedPhone) -> Bool {
        versions[lastStart(of: phone.activity)].map { phone.startCounts[$0] != nil } ?? false
    }

    /// Whether the command expired, so that it need not reach its phone.
    func mayHaveExpired(_ activity: String, _ version: Version) -> Bool {
        results["\(activity)#\(version.sequence)"]?.contains(.expired) ?? false
    }

    func hasExpired(_ activity: String, after sequence: Int) -> Bool {
        versions.contains { command, version in
            version.sequence > sequence && command.hasPrefix("\(activity)#")
                && results[command]?.contains(.expired) ?? false
        }
    }

    func outcomes(_ activity: String) -> String {
        results.filter { $0.key.hasPrefix(activity + "#") }
            .sorted { $0.key < $1.key }
            .map { "\($0.key)=\($0.value.map { "\($0.name)" })" }
            .joined(separator: " ")
    }

    /// Whether the phone may miss the last command: a push failed for good, or a token or the data in Redis was lost.
    func mayHaveLostFinalCommand(_ activity: String) -> Bool {
        activitiesRefusedForGood.contains(activity) || wasRedisWiped && parameters.wipesRedis
            || activitiesWithoutToken.contains(activity)
    }
}
