import Delivery
import LiveActivity

@testable import Audiences

/// The invariants of rounds. A check leaves out what a fault of the run may have caused.
extension Simulation {
    func checkInvariants() {
        checkShownStates()
        checkAlerts()
        checkPushCounts()
        checkResults()
        checkMemberMetrics()
        checkStarts()
        checkChannels()
        checkParkingRoom()
    }

    /// Checks that no room for parked members is taken at the end, when no member is parked.
    private func checkParkingRoom() {
        for worker in workers {
            let app = worker.core.apps[0]
            if worker.core.freeParkingPlaceCount != worker.core.parkedMembers.limit || app.takenParkingPlaceCount != 0
                || app.parkablePushCount != 0
            {
                violations.append("room for parked members was not given up")
            }
        }
    }

    /// Checks the gauges of rounds:
    /// - They show no more rounds than the core has.
    /// - The time of the oldest round is neither before the first command nor in the future.
    /// - In a run without faults: while no round has members to reach, all permanent members show the newest state.
    func checkGauges() {
        var areAllMembersReached = true
        for worker in workers {
            let gauges = worker.gauges
            let hasPassedOverRecords = worker.hasPassedOverRecords(atMilliseconds: nowMilliseconds)
            if hasPassedOverRecords { areAllMembersReached = false }
            if gauges.roundCount > worker.core.roundCount {
                violations.append("more rounds are shown than there are")
            }
            let gaugeMilliseconds = [
                gauges.oldestRoundWaitingSinceWallMilliseconds, gauges.oldestVersionAdmittedAtWallMilliseconds,
            ]
            for since in gaugeMilliseconds.compactMap({ $0 }) {
                if (gauges.roundCount == 0 && !hasPassedOverRecords) || since > nowMilliseconds
                    || since < (commands.first?.producedAtMilliseconds ?? 0)
                {
                    violations.append("the oldest round of \(gauges.roundCount) is of \(since), at \(nowMilliseconds)")
                }
            }
            if gauges.oldestRoundWaitingSinceWallMilliseconds != nil || worker.core.commandCount > 0 {
                areAllMembersReached = false
            }
        }
        guard parameters.kind == .calm, areAllMembersReached, commandsInCore.isEmpty, !hasUnreadRecords,
            let last = commands.last(where: { $0.wasFannedOut && !$0.isStart })
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
    private func checkMemberMetrics() {
        guard parameters.kind == .calm, let worker = workers.first else { return }
        let metricCounts = worker.core.memberOutcomeCounts(of: 0)
        for outcome in [MemberOutcome.delivered, .unregistered, .failed] {
            let sum = commandResults.values.reduce(0) { $0 + (counts(in: $1)["\(outcome.name)"] ?? 0) }
            if metricCounts[Int(outcome.rawValue)] != UInt64(sum) {
                violations.append(
                    "\(outcome.name): \(metricCounts[Int(outcome.rawValue)]) in metrics, \(sum) in results"
                )
            }
        }
    }

    /// The members that must show the newest state at the end of the run. A member that joins later gets the state by a
    /// push of its own. There are exceptions: a crash loses this push (K24), and after a start there is none. In runs
    /// that may have one of these events, only permanent members must show the state.
    private var membersThatMustShowNewestState: [SimulatedPhone] {
        let doAllJoinersGetState =
            [.calm, .faults, .outages].contains(parameters.kind) && !commands.contains(where: \.isStart)
        return phoneNames.compactMap { phones[$0] }
            .filter {
                !$0.isTokenDead && !$0.hasLeft && !$0.isDevice && ($0.wasMemberThroughout || doAllJoinersGetState)
            }
    }

    /// The phones that were members from before the first command to the end and kept their token; no devices.
    private var permanentMembers: [SimulatedPhone] {
        phoneNames.compactMap { phones[$0] }
            .filter { $0.wasMemberThroughout && !$0.isTokenDead && !$0.hasLeft && !$0.isDevice }
    }

    /// Checks that the members show the newest state at the end, and that no member got an older state after a newer
    /// one.
    private func checkShownStates() {
        // No version supersedes the newest one, so the newest one must be fanned out.
        if commands.last?.wasFannedOut == false {
            violations.append("the last command came to \(String(describing: commands.last?.ending))")
        }
        guard let last = commands.last(where: { $0.wasFannedOut && !$0.isStart }) else { return }
        for phone in membersThatMustShowNewestState where phone.shownContent != last.content {
            // If the store has lost the timestamp of an older state, the newest state may come with an older timestamp.
            // Then the phone ignores it (R26). Or a range has ended without its members.
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

    /// Checks that each permanent member heard each alert at most once, and heard the newest alert.
    private func checkAlerts() {
        guard !hadCrash, !hadForcedMove else { return }
        let alerts = commands.filter { $0.hasAlert && $0.wasFannedOut && !$0.isStart }.map(\.number)
        for phone in permanentMembers where !phone.mayHaveRepeats && parameters.rejectionPerMille == 0 {
            // After the store has lost its data, a round continues from its last checkpoint. So members that it reached
            // after this checkpoint get the state again. (R26)
            for (alert, count) in phone.alertCounts where count > 1 && !wipe.unfinishedCommands.contains(alert) {
                violations.append("\(phone.identifier.suffix(12)) heard the alert of \(alert) \(count) times")
            }
            guard let newestAlert = alerts.last, !mayHaveEndedWithoutMembers(phone, newestAlert) else { continue }
            if (phone.alertCounts[newestAlert] ?? 0) == 0, !(phone.alertCounts.keys.contains { $0 > newestAlert }) {
                violations.append(
                    "\(phone.identifier.suffix(12)) did not get the alert of \(newestAlert): \(phone.alertCounts)"
                )
            }
        }
    }

    /// Checks a version that two workers send to the same member. The second worker got a checkpoint with its claim. If
    /// this checkpoint says that the member is done, the second push is wrong. A member is done if it is below the
    /// completed position and not parked.
    func checkRepeatedPush(_ phone: SimulatedPhone, _ content: Int, _ worker: SimulatedWorker) {
        guard !hadForcedMove, wipe.count == 0, phone.wasMemberThroughout, !phone.mayHaveRepeats,
            let earlierSenders = phone.senders[content],
            !earlierSenders.contains(worker.number),
            let text = worker.claimedCheckpoints[range(of: phone, commands[content])],
            let checkpoint = text.withUnsafeBytes({ Checkpoint($0) }),
            let entry = checkpoint.entries.first(where: { $0.version == commands[content].version })
        else { return }
        let ordinals = range(of: phone, commands[content]).ordinals
        let length = ordinals.upperBound - ordinals.lowerBound
        var position = entry.startPosition - entry.startPosition % length + phone.location.ordinal - ordinals.lowerBound
        if position < entry.startPosition { position += length }
        if position < checkpoint.completedPosition, !checkpoint.parkedPositions.contains(position) {
            violations.append(
                "\(phone.identifier.suffix(12)) is sent \(content) again, though done at \(checkpoint.completedPosition): \(position)"
            )
        }
    }

    /// Checks the number of pushes in a run without faults and without changes of members:
    /// - A member gets at most one push for each command.
    /// - A range gets at most `members * (completed rounds + 1)` pushes.
    private func checkPushCounts() {
        guard parameters.kind == .calm, !hadMembershipChange else { return }
        for phone in phones.values where phone.pushCount > commands.count {
            violations.append("\(phone.identifier.suffix(12)) was sent \(phone.pushCount) states of \(commands.count)")
        }
        for (range, pushCount) in pushCountsByRange {
            let memberCount = phones.values.count { range.ordinals.contains($0.location.ordinal) }
            // The result `delivered` means that the round reached all members before a newer version replaced it.
            let completedRoundCount = commands.count {
                SimulatedText.contains("\"delivered\"", in: rangeResults[$0.number]?[range] ?? "")
            }
            if pushCount > memberCount * (completedRoundCount + 1) {
                violations.append(
                    "\(pushCount) pushes to \(memberCount) members in \(completedRoundCount) completed rounds"
                )
            }
        }
    }

    /// Checks that each command has a result, that each range counts all its members, and that the ranges' counts add
    /// up to the command's counts.
    private func checkResults() {
        for command in commands where command.wasFannedOut {
            guard let total = commandResults[command.number] else {
                // The owner of an added partition may have claimed a range of this command. Then the command's owner
                // never learns the range's counts.
                if hadPartitionAddition { continue }
                // If the store lost its data during the command, the counts of its ended ranges are lost. (R26)
                if wipe.unfinishedCommands.contains(command.number) { continue }
                violations.append("\(command.number) has no result")
                continue
            }
            let ranges = rangeResults[command.number] ?? [:]
            var sum: [String: Int] = [:]
            for (range, text) in ranges {
                let counts = counts(in: text)
                for (outcome, count) in counts { sum[outcome, default: 0] += count }
                let memberCount = phones.values.count {
                    range.ordinals.contains($0.location.ordinal) && $0.isDevice == command.isStart
                }
                let countedMemberCount = counts.values.reduce(0, +)
                guard !hadMembershipChange, !hadForcedMove, !mayHaveEndedWithoutMembers(range, command.number) else {
                    continue
                }
                let isSuperseded = SimulatedText.contains("\"outcome\":\"superseded\"", in: text)
                // A newer version may end an older one before the round has reached all members. This happens while a
                // host does not respond. It also happens after a crash, if the newer version was under way and the next
                // owner has no room for its record.
                let mayEndEarly =
                    parameters.kind == .outages || hadCrash && roundsWithoutRoom.contains(roundKey(of: range, command))
                let mayStoreLackMembers =
                    isSuperseded && (countedMemberCount == 0 || mayEndEarly && countedMemberCount < memberCount)
                if countedMemberCount != memberCount, !mayStoreLackMembers {
                    violations.append("\(command.number) counts \(countedMemberCount) of \(memberCount): \(text)")
                }
            }
            // Counts may be lost. For example, a worker dies when a range's counts are recorded and its result is not
            // yet produced; then the ranges change.
            let mayLackCounts =
                hadForcedMove || (hadCrash && parameters.kind == .ranges)
                || wipe.unfinishedCommands.contains(command.number)
                || wipe.commandsFannedOutAgain.contains(command.number)
            if sum != counts(in: total), !mayLackCounts {
                violations.append("\(command.number): \(sum) in ranges, \(total) in all")
            }
        }
    }

    /// Notes the round of a record that a core has just got, if the core had no room for it: it has passed the record
    /// over, or it takes no record from this offset on.
    func noteIfWithoutRoom(
        _ record: SimulatedFanout,
        at offset: Int64,
        of partitionIndex: UInt32,
        _ worker: SimulatedWorker
    ) {
        guard record.instruction.channel == nil, let partition = worker.core.partitions[partitionIndex] else { return }
        let stopOffset = partition.pointee.passedOverRecords.firstOffsetBeyondLedger ?? .max
        guard partition.pointee.hasPassedOver(offset) || offset >= stopOffset,
            let number = SimulatedText.number(after: "\"id\":\"", in: String(decoding: record.value, as: UTF8.self))
        else { return }
        roundsWithoutRoom.insert(roundKey(of: record.instruction.range, commands[number]))
    }

    private func roundKey(of range: SegmentRange, _ command: Command) -> RoundKey {
        RoundKey(appIndex: 0, digest: Self.audienceDigest, range: range, isForStarts: command.isStart)
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
