import Delivery
import LiveActivity

/// The invariants of pace, budget and alerts.
extension Simulation {
    /// Records Redis' verdict on a call, even if the reply never arrives.
    func noteVerdict(_ call: StoreCall<[UInt8]>, _ view: RecordView, _ reply: StoreReply<[UInt8]>) {
        let activity = String(decoding: view.activity, as: UTF8.self)
        noteAge(call, view, reply, of: activity)
        switch (call.ticket.purpose, reply.verdict) {
        case (.lookUpToken, .tokenFound):
            pace.lastStartDraws[activity] = now
        case (.admit, .alertAwaitsCarrier):
            phones[activity]?.alertsAwaitingCarrier.insert(alert(of: view))
        case (.admit, .send) where view.isStart:
            // Redis repeats its verdict to the same record. Only the first verdict fills the activity's
            // budget.
            guard pace.births[activity]?[view.version] == nil else { return noteDrawAgain(view, of: activity) }
            pace.births[activity, default: [:]][view.version] = now
            let device = String(decoding: view.device, as: UTF8.self)
            let drawn = pace.lastStartDraws[activity] ?? now
            pace.startDraws[device, default: []].append(.init(at: drawn, activity: activity))
            pace.lastVerdicts[activity] = .init(at: now, version: view.version)
        case (.settle, .settled):
            if case .settle(_, .accepted, _, _, let alert?) = call.operation { noteAnswered(alert, of: activity) }
        case (.admit, .send):
            pace.admissions[activity, default: [:]][view.version] = now
            checkSpacing(&pace.lastVerdicts, of: activity, .init(at: now, version: view.version))
            let isDrawn = pace.draws[activity]?.contains { $0.version == view.version } ?? false
            guard reply.priority == 10, !isDrawn else { return }
            let draw = SimulatedPace.Draw(
                at: now,
                version: view.version,
                mayUseReserve: call.admission?.mayUseReserve ?? false
            )
            pace.draws[activity, default: []].append(draw)
        default: return
        }
    }

    private func noteAnswered(_ alert: Version, of activity: String) {
        let sequence = Int(alert.sequence)
        if pace.alertAcceptances[activity]?[sequence] == nil {
            pace.alertAcceptances[activity, default: [:]][sequence] = now
        }
    }

    /// Checks that Redis admits no push with an alert after it has learned that APNs accepted this alert.
    func checkRing(_ alert: Int, with view: RecordView, of activity: String) {
        guard alert >= 0, !wasWiped, !view.isStart, phones[activity]?.alerts.contains(alert) ?? false,
            let answered = pace.alertAcceptances[activity]?[alert],
            let admitted = pace.admissions[activity]?[view.version],
            admitted > answered
        else { return }
        violations.append("\(activity): the alert of #\(alert) rang again with \(view.version)")
    }

    /// Records a push, and checks the spacing after the last push of the same worker. The pushes of two
    /// workers may come closer; only Redis' verdicts keep their spacing.
    func noteSending(_ view: RecordView, by worker: SimulatedWorker) {
        let activity = String(decoding: view.activity, as: UTF8.self)
        checkAges(view, by: worker)
        let sending = SimulatedPace.Sending(at: now, version: view.version, worker: worker.number)
        guard let last = pace.lastSendings[activity], last.worker == sending.worker, last.version != sending.version
        else {
            pace.lastSendings[activity] = sending
            return
        }
        checkSpacing(&pace.lastSendings, of: activity, sending)
    }

    private func checkSpacing(
        _ last: inout [String: SimulatedPace.Sending],
        of activity: String,
        _ sending: SimulatedPace.Sending
    ) {
        if let before = last[activity], !wasWiped, sending.at - before.at < parameters.policy.spacingMilliseconds {
            violations.append(
                "\(activity): \(sending.version) goes \(sending.at - before.at) ms after \(before.version)"
            )
        }
        last[activity] = sending
    }

    /// Checks that each push of priority 10 was drawn from its activity's budget, that each draw found the budget
    /// sufficient, and that no device got more starts than its budget allows.
    func checkPace() {
        for (activity, phone) in phones.sorted(by: { $0.key < $1.key }) {
            let draws = pace.draws[activity, default: []].filter { phone.urgentVersions.contains($0.version) }
            if draws.count < phone.urgentVersions.count {
                violations.append("\(activity): a push of priority 10 was not drawn")
            }
            checkBudget(of: activity, draws)
        }
        for (device, draws) in pace.startDraws.sorted(by: { $0.key < $1.key }) {
            let arrived = draws.filter { pace.startsArrived.contains($0.activity) }.map(\.at).sorted()
            if SimulatedPace.pushesLeft(in: parameters.policy.startBudget, after: arrived, at: now) == nil {
                violations.append("\(device): more starts than its budget holds")
            }
        }
    }

    /// Calculates the budget only from draws whose push arrived. The real budget never has more than this.
    private func checkBudget(of activity: String, _ draws: [SimulatedPace.Draw]) {
        // Before its first registration an activity has the usual budget, which may be larger and refill
        // faster than the budget for frequent updates. So the check takes the larger numbers of both.
        let (usual, frequentUpdates) = (parameters.policy.budget, parameters.policy.frequentBudget)
        var bucket = usual
        if frequent.contains(activity) {
            bucket.pushes = max(usual.pushes, frequentUpdates.pushes)
            bucket.refillPerHour = max(usual.refillPerHour, frequentUpdates.refillPerHour)
            bucket.reservedForAlerts = min(usual.reservedForAlerts, frequentUpdates.reservedForAlerts)
        }
        let born = pace.births[activity]?.values.max() ?? 0
        var times: [Int64] = []
        for draw in draws where draw.at >= born {
            let left = SimulatedPace.pushesLeft(in: bucket, after: times, at: draw.at) ?? 0
            if left <= (draw.mayUseReserve ? 0 : bucket.reservedForAlerts) {
                violations.append("\(activity): \(draw.version) of priority 10 with \(left) left")
            }
            times.append(draw.at)
        }
    }

    /// Checks that each alert rang, that a newer alert rang in place of it, or that there is a reason for its silence.
    func checkAlerts() {
        for (activity, sequences) in alerts.sorted(by: { $0.key < $1.key }) {
            guard let phone = phones[activity], !mayHaveLostFinal(activity), !mayHavePassedAlert(activity),
                phone.device == nil || phone.starts > 0
            else {
                continue
            }
            let newest = phone.alerts.max() ?? -1
            for sequence in sequences where sequence > newest {
                let command = "\(activity)#\(sequence)"
                let reported = results[command] ?? []
                // A newer state that expires may take the alert with it: the state was held with the alert, or was
                // admitted. In the second case Redis permits no older state, even if the newer one fails, because a
                // phone may have shown the newer one. The result `duplicate` is of a second record and says nothing
                // about the alert.
                let withoutDuplicates = reported.filter { $0 != .duplicate }
                let isPassed =
                    withoutDuplicates.allSatisfy { $0 == .held || $0 == .superseded }
                    && (!withoutDuplicates.isEmpty || isReplaced(command))
                if isPassed, hasExpired(activity, after: sequence) { continue }
                if mayBeOld(command) { continue }
                violations.append(
                    "\(activity): the alert of #\(sequence) was lost \(reported.map { "\($0.name)" }); \(outcomes(activity))"
                )
            }
        }
    }
}
