import Delivery
import LiveActivity

/// Invariants that are checked at the end of a run, when no work is left. The invariants of tokens are checked at each
/// call that Redis performs.
extension Simulation {
    func check() {
        checkAudiences()
        for (activity, finalCommand) in finalCommands.sorted(by: { $0.key < $1.key }) {
            guard let phone = phones[activity] else { continue }
            checkFinalCommand(activity, finalCommand, phone)
            // A held start may have two records: its own, and the registration that released it. Then one of them may
            // report `unknown`, while the other one sends the start. So if the run loses no response, worker or
            // partition, an `unknown` start must also reach its phone. There is an exception: if the activity ends
            // while the start waits for a retry, the start is not sent.
            let outcomes = results[lastStart(of: activity)] ?? []
            let isStartUnknown = outcomes.contains(.unknown) && !(finalCommand.isEnd && outcomes.contains(.superseded))
            if phone.device != nil, !hasStarted(phone), isStartUnknown, doesAdmittedRecordFinishEachStart {
                violations.append(
                    "\(activity): its start was not sent, though no response, worker or partition was lost"
                )
            }
            for (version, count) in phone.startCounts where count > 1 && !mayRepeatAfterLoss {
                violations.append("\(activity): the start \(version) came \(count) times")
            }
        }
        if !wasRedisWiped { checkPace() }
        checkAlerts()
        checkOutcomes()
        checkResultsAreWrittenOnce()
        checkCounts()
        for (command, outcomes) in results.sorted(by: { $0.key < $1.key })
        where outcomes.isEmpty && !mayBeCountedInNewerResult(command) {
            violations.append("\(command): no result")
        }
        for (command, outcomes) in results.sorted(by: { $0.key < $1.key }) {
            for outcome in outcomes where outcome == .invalid || outcome == .failed && isFailureViolation {
                violations.append("\(command): \(outcome)")
            }
        }
    }

    /// Whether a command with the outcome `failed` violates an invariant. False if APNs may refuse a push for good, or
    /// if a device may have more starts than Redis holds.
    private var isFailureViolation: Bool {
        parameters.connections?.unknownReasonPerMille ?? 0 == 0
            && parameters.activitiesPerDevice <= parameters.heldStartsMax
    }

    /// Whether the record with which Redis admits a start also finishes this start. True if the run loses no response,
    /// worker, partition or data of Redis, because a start then stays with its record, even during a short failure of
    /// Redis.
    private var doesAdmittedRecordFinishEachStart: Bool {
        // A start's deferral may be written twice: two records with the same claim. Suppose that a worker reads the
        // first one, and the start is admitted and deferred again, with a new claim. When a worker reads the second
        // one, the start gets the outcome `unknown`.
        let mayDeferTwice = parameters.deferrals != nil && parameters.produceFailurePerMille > 0
        return !mayDeferTwice && parameters.pushLossPerMille == 0 && parameters.crashPerMille == 0
            && parameters.rebalancePerMille == 0 && parameters.connections == nil && parameters.lossesMax == 0
    }

    /// Checks that Redis permits no update or end to a token that a tombstone has removed. After the token is
    /// registered again, Redis may permit them.
    func checkUnregisteredTokens(_ call: StoreCall<[UInt8]>, _ view: RecordView, _ reply: StoreReply<[UInt8]>) {
        let activity = String(decoding: view.activity, as: UTF8.self)
        let registeredAtMilliseconds = view.registeredAtWallMilliseconds
        if call.ticket.purpose == .unregisterActivity, reply.verdict == .unregistered {
            for (token, owner) in activitiesByToken
            where owner == activity && tokenReceivedAtMilliseconds[token] ?? 0 <= registeredAtMilliseconds {
                tokenUnregisteredAtMilliseconds[token] = registeredAtMilliseconds
            }
        }
        let isUpdate = call.ticket.purpose == .admit && !view.isStart
        if isUpdate && call.admission?.registration != nil
            || call.ticket.purpose == .registerToken && reply.verdict == .registered
        {
            let token = String(decoding: view.token, as: UTF8.self)
            if let since = tokenUnregisteredAtMilliseconds[token], registeredAtMilliseconds >= since {
                tokenUnregisteredAtMilliseconds[token] = nil
            }
        }
        if isUpdate, reply.verdict == .send, let token = reply.registration,
            tokenUnregisteredAtMilliseconds[String(decoding: token.token, as: UTF8.self)] != nil
        {
            violations.append("\(activity): admitted to a token that was unregistered")
        }
    }

    func noteAppendedRecord(_ kind: OutgoingRecord.Kind, _ view: RecordView) {
        switch kind {
        case .result: noteResult(view)
        case .deferral: noteDeferral(view)
        case .invalidation: invalidatedTokens.insert(String(decoding: view.token, as: UTF8.self))
        case .deadLetter, .traceOnly: break
        }
    }

    /// Checks that Redis permits no update or end to a token that it has retired, not even if a command brings the
    /// token again. Also checks that Kafka has a token's invalidation before Redis retires the token (R17).
    func checkRetiredTokens(_ call: StoreCall<[UInt8]>, _ view: RecordView, _ reply: StoreReply<[UInt8]>) {
        let activity = String(decoding: view.activity, as: UTF8.self)
        if let token = call.retirement?.token, !invalidatedTokens.contains(String(decoding: token, as: UTF8.self)) {
            violations.append("\(activity): its token was retired before it was invalidated")
        }
        if reply.hasRetiredToken, case .retire(_, let retirement) = call.operation {
            retiredTokens[activity] = String(decoding: retirement.token, as: UTF8.self)
        }
        // After a loss, the registration of a retired token may be read again, and brings the token back.
        if reply.verdict == .send, !view.isStart, losses.count == 0, let token = reply.registration,
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
        // A start whose response was lost is not sent again. Then the phone has no activity that could show the last
        // state.
        let hasNoStart = phone.device != nil && !hasStarted(phone)
        let startOutcomes = results[lastStart(of: activity)] ?? []
        if hasNoStart, startOutcomes.contains(.unknown) || startOutcomes.contains(.failed) { return }
        // The start expired while it waited, for example for its device's budget.
        if hasNoStart, startOutcomes.contains(.expired) { return }
        // The start expired, and its worker died after it had settled the start in Redis and before it wrote the
        // result.
        if hasNoStart, parameters.crashPerMille > 0, startOutcomes.contains(.duplicate) { return }
        if hasNoStart, mayHaveLostHeldStart(startOutcomes) { return }
        if mayMissAfterLoss(finalCommand.version, of: activity) { return }
        // If the core reads the activity's end before the start's turn comes, it does not send the start.
        if hasNoStart, finalCommand.isEnd { return }
        if mayLastStartHaveBeenMissingInRedis(activity) { return }
        if mayHaveLostFinalCommand(activity) || hasCommandExpired(activity, finalCommand.version) { return }
        // The last update came after the activity's eight hours, so it is not sent. Only an end would still be sent.
        if activitiesWithOldUpdate.contains(activity), !finalCommand.isEnd { return }
        if phone.shownState?.content != finalCommand.content {
            violations.append(
                "\(activity): shows \(phone.shownState?.content ?? -1), not \(finalCommand.content); \(outcomesText(of: activity))"
            )
        }
        if finalCommand.isEnd, !phone.hasEnded {
            violations.append("\(activity): has not ended; \(outcomesText(of: activity))")
        }
    }

    private func lastStart(of activity: String) -> String { lastStarts[activity] ?? "\(activity)#1" }

    /// Whether the phone got the start of the activity's last life.
    func hasStarted(_ phone: SimulatedPhone) -> Bool {
        versions[lastStart(of: phone.activity)].map { phone.startCounts[$0] != nil } ?? false
    }

    private func hasCommandExpired(_ activity: String, _ version: Version) -> Bool {
        results["\(activity)#\(version.sequence)"]?.contains(.expired) ?? false
    }

    func hasNewerCommandExpired(_ activity: String, after sequence: Int) -> Bool {
        versions.contains { command, version in
            version.sequence > sequence && command.hasPrefix("\(activity)#")
                && results[command]?.contains(.expired) ?? false
        }
    }

    func outcomesText(of activity: String) -> String {
        results.filter { $0.key.hasPrefix(activity + "#") }
            .sorted { $0.key < $1.key }
            .map { "\($0.key)=\($0.value.map { "\($0.name)" })" }
            .joined(separator: " ")
    }

    /// Whether the phone may miss the activity's last command: APNs refused a push for good, a token was removed, or
    /// Redis lost its data.
    func mayHaveLostFinalCommand(_ activity: String) -> Bool {
        activitiesRefusedForGood.contains(activity) || wasRedisWiped && parameters.wipesRedis
            || activitiesWithoutToken.contains(activity)
    }
}
