import Delivery
import LiveActivity

/// The invariants of pace, budget and alerts.
extension Simulation {
    /// Records Redis' verdict on a call, even if the reply never arrives.
    func noteVerdict(_ call: StoreCall<[UInt8]>, _ view: RecordView, _ reply: StoreReply<[UInt8]>) {
        let activity = String(decoding: view.activity, as: UTF8.self)
        noteActivityAge(call, view, reply, of: activity)
        switch (call.ticket.purpose, reply.verdict) {
        case (.takeStartToken, .tokenFound):
            pace.lastStartDrawAtMilliseconds[identifier(view)] = now
        case (.admit, .alertAwaitsCarrier):
            phones[activity]?.alertsAwaitingCarrier.insert(alertSequence(of: view))
        case (.admit, .send) where view.isStart:
            // If a record asks again, Redis repeats the verdict `send`. Only the first verdict fills the activity's
            // budget.
            guard pace.startPermittedAtMilliseconds[activity]?[view.version] == nil else {
                return noteRepeatedStartDraw(view)
            }
            pace.startPermittedAtMilliseconds[activity, default: [:]][view.version] = now
            let device = String(decoding: view.device, as: UTF8.self)
            let drawnAtMilliseconds = pace.lastStartDrawAtMilliseconds[identifier(view)] ?? now
            pace.startDraws[device, default: []]
                .append(.init(atMilliseconds: drawnAtMilliseconds, command: identifier(view)))
            pace.lastPermittedPushes[activity] = .init(atMilliseconds: now, version: view.version)
        case (.settle, .settled):
            if case .settle(_, .accepted, _, _, let alert?) = call.operation { noteAcceptedAlert(alert, of: activity) }
        case (.admit, .send):
            pace.admittedAtMilliseconds[activity, default: [:]][view.version] = now
            checkSpacing(&pace.lastPermittedPushes, of: activity, .init(atMilliseconds: now, version: view.version))
            let isDrawn = pace.draws[activity]?.contains { $0.version == view.version } ?? false
            guard reply.priority == 10, !isDrawn else { return }
            let draw = PaceHistory.Draw(
                atMilliseconds: now,
                version: view.version,
                mayUseReserve: call.admission?.mayUseReserve ?? false
            )
            pace.draws[activity, default: []].append(draw)
        default: return
        }
    }

    private func noteAcceptedAlert(_ alert: Version, of activity: String) {
        let sequence = Int(alert.sequence)
        if pace.alertAcceptedAtMilliseconds[activity]?[sequence] == nil {
            pace.alertAcceptedAtMilliseconds[activity, default: [:]][sequence] = now
        }
    }

    /// Checks that an alert does not ring again after Redis knew that APNs had accepted it. Only a push that Redis
    /// admitted before that may still ring the alert again.
    func checkAlertRing(_ alert: Int, with view: RecordView, of activity: String) {
        guard alert >= 0, !mayRepeatAfterLoss, !wasHeldInCopy(alert, of: activity),
            !isUnsettledAfterLoss(alert, with: view, of: activity), !view.isStart,
            phones[activity]?.rungAlerts.contains(alert) ?? false,
            let acceptedAtMilliseconds = pace.alertAcceptedAtMilliseconds[activity]?[alert],
            let admittedAtMilliseconds = pace.admittedAtMilliseconds[activity]?[view.version],
            admittedAtMilliseconds > acceptedAtMilliseconds
        else { return }
        violations.append(
            "\(activity): the alert of #\(alert) rang again with \(view.version); \(outcomesText(of: activity))"
        )
    }

    /// Records a push. If the same worker also sent the activity's previous push, checks the spacing between the two.
    /// Pushes of two workers may follow each other sooner, because only Redis' verdicts keep the spacing between
    /// workers.
    func noteSentPush(_ view: RecordView, by worker: SimulatedWorker) {
        let activity = String(decoding: view.activity, as: UTF8.self)
        checkStartAndAlertAge(view, by: worker)
        let timedPush = PaceHistory.TimedPush(atMilliseconds: now, version: view.version, worker: worker.number)
        guard let last = pace.lastSentPushes[activity], last.worker == timedPush.worker,
            last.version != timedPush.version, !view.isStart
        else {
            pace.lastSentPushes[activity] = timedPush
            return
        }
        checkSpacing(&pace.lastSentPushes, of: activity, timedPush)
    }

    private func checkSpacing(
        _ last: inout [String: PaceHistory.TimedPush],
        of activity: String,
        _ timedPush: PaceHistory.TimedPush
    ) {
        if let previousPush = last[activity], !wasRedisWiped,
            timedPush.atMilliseconds - previousPush.atMilliseconds < parameters.policy.spacingMilliseconds
        {
            let gapMilliseconds = timedPush.atMilliseconds - previousPush.atMilliseconds
            violations.append(
                "\(activity): \(timedPush.version) goes \(gapMilliseconds) ms after \(previousPush.version)"
            )
        }
        last[activity] = timedPush
    }

    /// Checks three rules of budgets: each push of priority 10 has a draw; each draw found enough in the activity's
    /// budget; no device got more starts than its budget allows.
    func checkPace() {
        for (activity, phone) in phones.sorted(by: { $0.key < $1.key }) {
            let draws = pace.draws[activity, default: []].filter { phone.highPriorityVersions.contains($0.version) }
            if draws.count < phone.highPriorityVersions.count {
                violations.append("\(activity): a push of priority 10 was not drawn")
            }
            checkBudget(of: activity, draws)
        }
        for (device, draws) in pace.startDraws.sorted(by: { $0.key < $1.key }) {
            let arrivalMilliseconds = draws.filter { pace.arrivedStarts.contains($0.command) }.map(\.atMilliseconds)
                .sorted()
            if PaceHistory.pushesLeft(in: parameters.policy.startBudget, after: arrivalMilliseconds, at: now) == nil {
                violations.append("\(device): more starts than its budget holds")
            }
        }
    }

    /// Checks that each draw found enough in the budget. `draws` has only the draws of pushes that arrived. Other
    /// pushes may have drawn too, so the real budget never had more than the calculated one. So each violation is real.
    private func checkBudget(of activity: String, _ draws: [PaceHistory.Draw]) {
        // Before its first registration an activity has the budget without frequent updates. In these runs it may hold
        // more, and refill faster, than the budget for frequent updates. So the check takes the larger numbers of both.
        let (usualBudget, frequentBudget) = (parameters.policy.budget, parameters.policy.frequentBudget)
        var bucket = usualBudget
        if activitiesWithFrequentUpdates.contains(activity) {
            bucket.pushes = max(usualBudget.pushes, frequentBudget.pushes)
            bucket.refillPerHour = max(usualBudget.refillPerHour, frequentBudget.refillPerHour)
            bucket.reservedForAlerts = min(usualBudget.reservedForAlerts, frequentBudget.reservedForAlerts)
        }
        let birth = pace.startPermittedAtMilliseconds[activity]?.max { $0.value < $1.value }
        var drawTimes: [Int64] = []
        for draw in draws where birth.map({ draw.atMilliseconds >= $0.value && draw.version > $0.key }) ?? true {
            let remainingPushes = PaceHistory.pushesLeft(in: bucket, after: drawTimes, at: draw.atMilliseconds) ?? 0
            if remainingPushes <= (draw.mayUseReserve ? 0 : bucket.reservedForAlerts) {
                violations.append("\(activity): \(draw.version) of priority 10 with \(remainingPushes) left")
            }
            drawTimes.append(draw.atMilliseconds)
        }
    }

    /// Checks each alert: it rang, or a newer alert rang instead, or a fault of the run explains why it did not ring.
    ///
    /// Checks nothing after a loss: a command that is read again, or was held, may be sent without its alert (K11).
    func checkAlerts() {
        guard losses.count == 0 else { return }
        for (activity, sequences) in alertSequences.sorted(by: { $0.key < $1.key }) {
            guard let phone = phones[activity], !mayHaveLostFinalCommand(activity),
                !canNewerStateOvertakeDeferredAlert(activity), !mayLastStartHaveBeenMissingInRedis(activity),
                phone.device == nil || hasStarted(phone)
            else {
                continue
            }
            let newestRungAlert = phone.rungAlerts.max() ?? -1
            for sequence in sequences where sequence > newestRungAlert {
                let command = "\(activity)#\(sequence)"
                let outcomesOfCommand = results[command] ?? []
                // The alert may be lost if a newer state carried it and expired. Redis had held or admitted this newer
                // state. After it has admitted a state, Redis permits no older one, because a phone may have shown the
                // newer one. The outcome `duplicate` belongs to a second record of the command, and says nothing about
                // the alert.
                let withoutDuplicates = outcomesOfCommand.filter { $0 != .duplicate }
                let isReplacedByNewerState =
                    withoutDuplicates.allSatisfy { $0 == .held || $0 == .superseded }
                    && (!withoutDuplicates.isEmpty || mayBeCountedInNewerResult(command))
                if isReplacedByNewerState, hasNewerCommandExpired(activity, after: sequence) { continue }
                if mayAlertBeTooOld(command) { continue }
                violations.append(
                    "\(activity): the alert of #\(sequence) was lost \(outcomesOfCommand.map { "\($0.name)" }); \(outcomesText(of: activity))"
                )
            }
        }
    }
}
