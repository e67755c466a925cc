import Delivery
import LiveActivity

@testable import Audiences

/// The invariants of rounds.
extension Simulation {
    func check() {
        checkShown()
        checkAlerts()
        checkWork()
        checkResults()
        checkTotals()
        checkStarts()
        checkChannels()
    }

    /// The metrics of rounds are right: while they show no round with members to reach, the members show the newest state.
    func checkGauges() {
        var isReached = true
        for worker in workers {
            let gauges = worker.gauges
            let hasPassedOver = worker.hasPassedOver(at: now)
            if hasPassedOver { isReached = false }
            if gauges.rounds > worker.core.roundsHeld { violations.append("more rounds are shown than there are") }
            for since in [gauges.oldestRoundMilliseconds, gauges.oldestVersionMilliseconds].compactMap({ $0 }) {
                if (gauges.rounds == 0 && !hasPassedOver) || since > now
                    || since < (commands.first?.atMilliseconds ?? 0)
                {
                    violations.append("the oldest round of \(gauges.rounds) is of \(since), at \(now)")
                }
            }
            if gauges.oldestRoundMilliseconds != nil || worker.core.commandsHeld > 0 { isReached = false }
        }
        guard swarm.kind == .calm, isReached, taken.isEmpty, !hasUnread,
            let last = commands.last(where: { $0.isSent && !$0.isStart })
        else {
            return
        }
        for phone in throughout where phone.shownContent != last.content {
            violations.append(
                "\(phone.identifier.suffix(12)) shows \(phone.shownContent), and no round has members to reach"
            )
        }
    }

    /// Each member that had its turn is in some command's result, and none is counted twice.
    private func checkTotals() {
        guard swarm.kind == .calm, let worker = workers.first else { return }
        let counted = worker.core.membersCounted(of: 0)
        for outcome in [MemberOutcome.delivered, .unregistered, .failed] {
            let sum = commandResults.values.reduce(0) { $0 + (counts(in: $1)["\(outcome.name)"] ?? 0) }
            if counted[Int(outcome.rawValue)] != UInt64(sum) {
                violations.append("\(outcome.name): \(counted[Int(outcome.rawValue)]) in metrics, \(sum) in results")
            }
        }
    }

    /// The members at the end. A new member is shown the newest state, unless the core gives up after a minute or a crash loses the task.
    private var members: [SimulatedPhone] {
        let areServed =
            (swarm.kind == .calm || swarm.kind == .faults) && swarm.limited == 0 && !commands.contains(where: \.isStart)
        return order.compactMap { phones[$0] }
            .filter { !$0.isDead && !$0.hasLeft && !$0.isDevice && ($0.isThroughout || areServed) }
    }

    /// The phones that were members with a valid token from before the first command to the end.
    private var throughout: [SimulatedPhone] {
        order.compactMap { phones[$0] }.filter { $0.isThroughout && !$0.isDead && !$0.hasLeft && !$0.isDevice }
    }

    /// Every member that is in the audience all the time ends with the newest state, and no member goes back in time.
    private func checkShown() {
        // Nothing supersedes the newest version.
        if commands.last?.isSent == false {
            violations.append("the last command came to \(String(describing: commands.last?.ending))")
        }
        guard let last = commands.last(where: { $0.isSent && !$0.isStart }) else { return }
        for phone in members where phone.shownContent != last.content {
            // The store has lost the timestamp that it gave to an older state, and the phone ignores what has an older one. (R26)
            if wipe.count > 0, phone.ignored.contains(last.content) || isUnnoticed(phone, last.number) { continue }
            // A push that is refused for good is not sent again.
            if swarm.rejected == 0 {
                violations.append("\(phone.identifier.suffix(12)) shows \(phone.shownContent), not \(last.content)")
            }
        }
        guard !hadForced else { return }
        for phone in phones.values where !phone.wasServed {
            guard wipe.count > 0 ? phone.timesBack > 0 : !phone.ignored.isEmpty else { continue }
            violations.append("\(phone.identifier.suffix(12)) went back in time")
        }
    }

    /// Every member gets each alert at most once, and misses one only if it gets a newer one.
    private func checkAlerts() {
        guard !hadCrash, !hadForced else { return }
        let alerts = commands.filter { $0.hasAlert && $0.isSent && !$0.isStart }.map(\.number)
        for phone in throughout where !phone.isUncertain && swarm.rejected == 0 {
            // Members that a lost round had reached since its last checkpoint get the same state once more. (R26)
            for (alert, count) in phone.heard where count > 1 && !wipe.underWay.contains(alert) {
                violations.append("\(phone.identifier.suffix(12)) heard the alert of \(alert) \(count) times")
            }
            guard let newest = alerts.last, !isUnnoticed(phone, newest) else { continue }
            if (phone.heard[newest] ?? 0) == 0, !(phone.heard.keys.contains { $0 > newest }) {
                violations.append("\(phone.identifier.suffix(12)) did not get the alert of \(newest): \(phone.heard)")
            }
        }
    }

    /// Two workers send a version to a member only if the member was not done at the last checkpoint.
    func checkRepeated(_ phone: SimulatedPhone, _ content: Int, _ worker: SimulatedWorker) {
        guard !hadForced, wipe.count == 0, phone.isThroughout, !phone.isUncertain, let others = phone.sentBy[content],
            !others.contains(worker.number), let text = worker.claimed[range(of: phone, commands[content])],
            let checkpoint = text.withUnsafeBytes({ Checkpoint($0) }),
            let entry = checkpoint.entries.first(where: { $0.version == commands[content].version })
        else { return }
        let ordinals = range(of: phone, commands[content]).ordinals
        let length = ordinals.upperBound - ordinals.lowerBound
        var position = entry.start - entry.start % length + phone.place.ordinal - ordinals.lowerBound
        if position < entry.start { position += length }
        if position < checkpoint.watermark, !checkpoint.parked.contains(position) {
            violations.append(
                "\(phone.identifier.suffix(12)) is sent \(content) again, though done at \(checkpoint.watermark): \(position)"
            )
        }
    }

    /// The pushes are at most the members times the laps, and there are at most as many laps as versions.
    private func checkWork() {
        guard swarm.kind == .calm, !hadLeave else { return }
        for phone in phones.values where phone.pushes > commands.count {
            violations.append("\(phone.identifier.suffix(12)) was sent \(phone.pushes) states of \(commands.count)")
        }
        for (range, pushes) in pushesByRange {
            let members = phones.values.count { range.ordinals.contains($0.place.ordinal) }
            // A version that no newer one reached before its round was over has completed a lap.
            let completed = commands.count {
                SimulatedText.contains("\"delivered\"", in: rangeResults[$0.number]?[range] ?? "")
            }
            if pushes > members * (completed + 1) {
                violations.append("\(pushes) pushes to \(members) members in \(completed) completed rounds")
            }
        }
    }

    /// The counts add up.
    private func checkResults() {
        for command in commands where command.isSent {
            guard let total = commandResults[command.number] else {
                // Another partition's worker claimed the range's round, and the first one has nothing to report.
                if hadAddition { continue }
                // The counts of ranges that had ended before the loss are lost. (R26)
                if wipe.underWay.contains(command.number) { continue }
                violations.append("\(command.number) has no result")
                continue
            }
            let ranges = rangeResults[command.number] ?? [:]
            var sum: [String: Int] = [:]
            for (range, text) in ranges {
                let counts = counts(in: text)
                for (outcome, count) in counts { sum[outcome, default: 0] += count }
                let members = phones.values.count {
                    range.ordinals.contains($0.place.ordinal) && $0.isDevice == command.isStart
                }
                let counted = counts.values.reduce(0, +)
                guard !hadLeave, !hadForced, !isUnnoticed(range, command.number) else { continue }
                let isOvertaken = SimulatedText.contains("\"outcome\":\"superseded\"", in: text)
                // While a host is away, a version ends where a newer one takes over.
                let isPart = swarm.kind == .outages && counted < members
                if counted != members, !(isOvertaken && (counted == 0 || isPart)) {
                    violations.append("\(command.number) counts \(counted) of \(members): \(text)")
                }
            }
            // If a worker dies between a range's count and its result, the counts of the old division are lost.
            let mayLackCounts =
                hadForced || (hadCrash && swarm.kind == .ranges) || wipe.underWay.contains(command.number)
                || wipe.fannedOutAgain.contains(command.number)
            if sum != counts(in: total), !mayLackCounts {
                violations.append("\(command.number): \(sum) in ranges, \(total) in all")
            }
        }
    }

    private func counts(in text: String) -> [String: Int] {
        var counts: [String: Int] = [:]
        let text = text.split(separator: ",\"broadcasts\"").first.map { String($0) } ?? text
        for outcome in MemberOutcome.allCases {
            if let count = SimulatedText.number(after: "\"\(outcome.name)\":", in: text) {
                counts["\(outcome.name)"] = count
            }
        }
        return counts
    }
}
