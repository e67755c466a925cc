import Delivery
import LiveActivity

@testable import Audiences

/// The invariants of rounds.
extension Simulation {
    func checkInvariants() {
        checkShownStates()
        checkAlerts()
        checkPushCounts()
        checkResults()
        checkTotals()
        checkStarts()
        checkChannels()
    }

    /// Checks that the gauges show no more rounds than the core has, and no oldest round before the first command or in
    /// the future. In a run without faults, also checks that all permanent members show the newest state when the
    /// gauges show no member to reach.
    func checkGauges() {
        var isReached = true
        for worker in workers {
            let gauges = worker.gauges
            let hasPassedOverRecords = worker.hasPassedOverRecords(atMilliseconds: nowMilliseconds)
            if hasPassedOverRecords { isReached = false }
            if gauges.roundCount > worker.core.roundsInProgress {
                violations.append("more rounds are shown than there are")
            }
            for since in [gauges.oldestRoundWaitingSinceWallMilliseconds, gauges.oldestVersionAdmittedAtMilliseconds]
                .compactMap({ $0 })
            {
                if (gauges.roundCount == 0 && !hasPassedOverRecords) || since > nowMilliseconds
                    || since < (commands.first?.atMilliseconds ?? 0)
                {
                    violations.append("the oldest round of \(gauges.roundCount) is of \(since), at \(nowMilliseconds)")
                }
            }
            if gauges.oldestRoundWaitingSinceWallMilliseconds != nil || worker.core.commandsInProgress > 0 {
                isReached = false
            }
        }
        guard parameters.kind == .calm, isReached, commandsInCore.isEmpty, !hasUnreadRecords,
            let last = commands.last(where: { $0.isSent && !$0.isStart })
        else {
            return
        }
        for phone in permanentMembers where phone.shownContent != last.content {
            violations.append(
                "\(phone.identifier.suffix(12)) shows \(phone.shownContent), and no round has members to reach"
            )
        }
    }

    /// Checks in a run without faults that the metrics count as many `delivered`, `unregistered` and `failed` members
    /// as the results of all commands.
    private func checkTotals() {
        guard parameters.kind == .calm, let worker = workers.first else { return }
        let counted = worker.core.memberOutcomeCounts(of: 0)
        for outcome in [MemberOutcome.delivered, .unregistered, .failed] {
            let sum = commandResults.values.reduce(0) { $0 + (counts(in: $1)["\(outcome.name)"] ?? 0) }
            if counted[Int(outcome.rawValue)] != UInt64(sum) {
                violations.append("\(outcome.name): \(counted[Int(outcome.rawValue)]) in metrics, \(sum) in results")
            }
        }
    }

    /// The members that must show the newest state at the end of the run. A new member gets the state by a push of its
    /// own. The core gives up this push after a minute, a crash loses it, and after a start there is no such push. So
    /// new members are included only in runs without these events.
    private var membersWithNewestState: [SimulatedPhone] {
        let areServed =
            (parameters.kind == .calm || parameters.kind == .faults) && parameters.rateLimitPerMille == 0
            && !commands.contains(where: \.isStart)
        return phoneNames.compactMap { phones[$0] }
            .filter { !$0.isDead && !$0.hasLeft && !$0.isDevice && ($0.wasMemberThroughout || areServed) }
    }

    /// The phones, other than devices, that were members from before the first command to the end and kept their token.
    private var permanentMembers: [SimulatedPhone] {
        phoneNames.compactMap { phones[$0] }
            .filter { $0.wasMemberThroughout && !$0.isDead && !$0.hasLeft && !$0.isDevice }
    }

    /// Checks that the members show the newest state at the end, and that no member showed an older state after a newer
    /// one. Leaves out what a fault of the run may have caused.
    private func checkShownStates() {
        // No version supersedes the newest one, so the newest one must be fanned out.
        if commands.last?.isSent == false {
            violations.append("the last command came to \(String(describing: commands.last?.ending))")
        }
        guard let last = commands.last(where: { $0.isSent && !$0.isStart }) else { return }
        for phone in membersWithNewestState where phone.shownContent != last.content {
            // The store has lost the timestamp that it gave to an older state. So the newest state may come with an
            // older timestamp, and the phone then ignores it (R26). Or a range has ended without its members.
            if wipe.count > 0,
                phone.ignoredContents.contains(last.content) || mayHaveEndedWithoutMembers(phone, last.number)
            {
                continue
            }
            // A push that APNs refuses for good is not sent again.
            if parameters.rejectionPerMille == 0 {
                violations.append("\(phone.identifier.suffix(12)) shows \(phone.shownContent), not \(last.content)")
            }
        }
        guard !hadForcedMove else { return }
        for phone in phones.values where !phone.hasGotStateOnJoin {
            guard wipe.count > 0 ? phone.olderStateCount > 0 : !phone.ignoredContents.isEmpty else { continue }
            violations.append("\(phone.identifier.suffix(12)) went back in time")
        }
    }

    /// Checks that each permanent member heard each alert at most once, and heard the newest alert. Leaves out what a
    /// fault of the run may have caused.
    private func checkAlerts() {
        guard !hadCrash, !hadForcedMove else { return }
        let alerts = commands.filter { $0.hasAlert && $0.isSent && !$0.isStart }.map(\.number)
        for phone in permanentMembers where !phone.mayHaveRepeats && parameters.rejectionPerMille == 0 {
            // After the store lost its data, a round continues from its last checkpoint. So members that it
            // reached after this checkpoint get the state again. (R26)
            for (alert, count) in phone.alertCounts where count > 1 && !wipe.unfinishedCommands.contains(alert) {
                violations.append("\(phone.identifier.suffix(12)) heard the alert of \(alert) \(count) times")
            }
            guard let newest = alerts.last, !mayHaveEndedWithoutMembers(phone, newest) else { continue }
            if (phone.alertCounts[newest] ?? 0) == 0, !(phone.alertCounts.keys.contains { $0 > newest }) {
                violations.append(
                    "\(phone.identifier.suffix(12)) did not get the alert of \(newest): \(phone.alertCounts)"
                )
            }
        }
    }

    /// Reports a violation if a worker sends a version to a member that another worker sent it to, although the
    /// checkpoint that this worker claimed marks the member as done: below the watermark, and not parked.
    func checkRepeatedPush(_ phone: SimulatedPhone, _ content: Int, _ worker: SimulatedWorker) {
        guard !hadForcedMove, wipe.count == 0, phone.wasMemberThroughout, !phone.mayHaveRepeats,
            let others = phone.senders[content],
            !others.contains(worker.number), let text = worker.claimedCheckpoints[range(of: phone, commands[content])],
            let checkpoint = text.withUnsafeBytes({ Checkpoint($0) }),
            let entry = checkpoint.entries.first(where: { $0.version == commands[content].version })
        else { return }
        let ordinals = range(of: phone, commands[content]).ordinals
        let length = ordinals.upperBound - ordinals.lowerBound
        var position = entry.startPosition - entry.startPosition % length + phone.location.ordinal - ordinals.lowerBound
        if position < entry.startPosition { position += length }
        if position < checkpoint.watermark, !checkpoint.parkedPositions.contains(position) {
            violations.append(
                "\(phone.identifier.suffix(12)) is sent \(content) again, though done at \(checkpoint.watermark): \(position)"
            )
        }
    }

    /// Checks the number of pushes in a run without faults and without changes of members. A member gets at most one
    /// push for each command. The pushes to a range are limited too: if `completed` versions reached all its members,
    /// each member gets at most `completed + 1` pushes on average.
    private func checkPushCounts() {
        guard parameters.kind == .calm, !hadMembershipChange else { return }
        for phone in phones.values where phone.pushCount > commands.count {
            violations.append("\(phone.identifier.suffix(12)) was sent \(phone.pushCount) states of \(commands.count)")
        }
        for (range, pushes) in pushesByRange {
            let members = phones.values.count { range.ordinals.contains($0.location.ordinal) }
            // If a version's result is `delivered`, its round reached all members before a newer version
            // replaced it.
            let completed = commands.count {
                SimulatedText.contains("\"delivered\"", in: rangeResults[$0.number]?[range] ?? "")
            }
            if pushes > members * (completed + 1) {
                violations.append("\(pushes) pushes to \(members) members in \(completed) completed rounds")
            }
        }
    }

    /// Checks that each command has a result, that each range counts all its members, and that the ranges' counts add
    /// up to the command's counts. Leaves out what a fault of the run may have caused.
    private func checkResults() {
        for command in commands where command.isSent {
            guard let total = commandResults[command.number] else {
                // Partitions were added to the fan-out topic. So the owner of another partition may have
                // claimed a range of this command, and the command's owner never learns the range's counts.
                if hadPartitionAddition { continue }
                // If the store lost its data during the command, the counts of the ranges that had ended are
                // lost. (R26)
                if wipe.unfinishedCommands.contains(command.number) { continue }
                violations.append("\(command.number) has no result")
                continue
            }
            let ranges = rangeResults[command.number] ?? [:]
            var sum: [String: Int] = [:]
            for (range, text) in ranges {
                let counts = counts(in: text)
                for (outcome, count) in counts { sum[outcome, default: 0] += count }
                let members = phones.values.count {
                    range.ordinals.contains($0.location.ordinal) && $0.isDevice == command.isStart
                }
                let counted = counts.values.reduce(0, +)
                guard !hadMembershipChange, !hadForcedMove, !mayHaveEndedWithoutMembers(range, command.number) else {
                    continue
                }
                let isSuperseded = SimulatedText.contains("\"outcome\":\"superseded\"", in: text)
                // A newer version may end an older one before the round has reached all members. This happens while a
                // host does not respond. It also happens after a crash, if the newer version was under way and the next
                // owner has no room for its record.
                let mayEndEarly = parameters.kind == .outages || hadCrash && rereadingCount > 0
                let isPart = mayEndEarly && counted < members
                if counted != members, !(isSuperseded && (counted == 0 || isPart)) {
                    violations.append("\(command.number) counts \(counted) of \(members): \(text)")
                }
            }
            // Counts may be lost. For example, a worker died after a range's counts were recorded and before its result
            // was produced, and then the ranges changed.
            let mayLackCounts =
                hadForcedMove || (hadCrash && parameters.kind == .ranges)
                || wipe.unfinishedCommands.contains(command.number)
                || wipe.commandsFannedOutAgain.contains(command.number)
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
