import ActivityStore
import Delivery
import LiveActivity
import Testbed

@testable import Audiences

/// The losses of all data in a run, and what the workers read again after the last one.
struct SimulatedWipe {
    static let pollMilliseconds: Int64 = 1_000
    /// Each rereading has its own record numbers. For example, command 7 has the record number 7. If it is read again
    /// after the second loss, it has the record number 2,000,007.
    static let recordNumbersPerWipe: UInt32 = 1_000_000

    /// How many times the store has lost all data.
    var count = 0
    /// The value of `count` when the workers last began to read again.
    var countAtLastRereading = 0
    /// The number of registrations that the workers must still read again.
    var missingMemberCount = 0
    /// Whether the core still has commands that it got before the loss. It gets no other commands until it has given
    /// these back. Then the worker reads commands again.
    var isDraining = false
    /// The commands that the worker must read again after the loss, and that have no new outcome yet.
    var commandsToReread: Set<Int> = []
    /// The commands that had ended before the loss, were read again and were admitted a second time.
    var commandsFannedOutAgain: Set<Int> = []
    /// The records of commands that were read again, as long as the core has them.
    var commandRecordsInCore: Set<UInt32> = []
    var nextPollAtMilliseconds = Int64.min
    /// The commands that a core had got and that had no result when the store lost all data.
    var unfinishedCommands: Set<Int> = []
    /// The commands of `unfinishedCommands`, and those that were admitted before all members were in the store again.
    var affectedCommands: Set<Int> = []
    /// The ranges that a worker claimed after the loss and before it noticed the loss.
    var rangesClaimedBeforeNotice: Set<SegmentRange> = []
    /// When the store last lost all data.
    var happenedAtMilliseconds = Int64.max

    var hasAllMembers: Bool { countAtLastRereading == count && missingMemberCount == 0 }
    var isOver: Bool { hasAllMembers && !isDraining && commandsToReread.isEmpty && commandRecordsInCore.isEmpty }
}

/// The store loses all data. The marks in Redis show the loss, and the shells read the settled records again.
extension Simulation {
    func makeWipes() {
        for _ in 0..<parameters.wipeCount {
            let atMilliseconds =
                nowMilliseconds + Int64(random.number(0...Int(faultsUntilMilliseconds - nowMilliseconds)))
            scheduledEvents.append((atMilliseconds, { [unowned self] in wipeStore() }))
        }
    }

    private func wipeStore() {
        trace?("\(nowMilliseconds % 1_000_000) the store comes back empty")
        store.flushAll()
        wipe.count += 1
        (wipe.missingMemberCount, wipe.commandsToReread) = (0, [])
        let begun = commands.filter { commandsInCore.contains($0.number) || $0.ending != nil }
        wipe.unfinishedCommands.formUnion(begun.map(\.number).filter { commandResults[$0] == nil })
        wipe.affectedCommands.formUnion(wipe.unfinishedCommands)
        wipe.happenedAtMilliseconds = nowMilliseconds
        // In half of the cases an operator has emptied the running server. In the other cases the server restarts
        // without its data, and the workers lose their connections to it.
        guard random.chance(500) else { return }
        storeUnavailableUntilMilliseconds = nowMilliseconds + Int64(random.number(1...3_000))
        for worker in workers { worker.core.storeMayHaveLostDataAtMilliseconds = nowMilliseconds }
    }

    /// Makes each worker read the marks, about once a second. The reply comes a little later. It says whether the store
    /// had all members when the worker began to read the marks.
    func readMarks() {
        guard parameters.kind == .wipes, nowMilliseconds >= wipe.nextPollAtMilliseconds else { return }
        guard nowMilliseconds >= storeUnavailableUntilMilliseconds else {
            wipe.nextPollAtMilliseconds = storeUnavailableUntilMilliseconds
            return
        }
        wipe.nextPollAtMilliseconds = nowMilliseconds + SimulatedWipe.pollMilliseconds
        let (beganAtMilliseconds, hasAllMembers) = (nowMilliseconds, wipe.hasAllMembers)
        for worker in workers {
            let replyAtMilliseconds = nowMilliseconds + Int64(random.number(0...parameters.latencyMillisecondsMax))
            scheduledEvents.append(
                (
                    replyAtMilliseconds,
                    { worker.core.membersLastCompleteAtMilliseconds = hasAllMembers ? beganAtMilliseconds : .min }
                )
            )
        }
        if wipe.countAtLastRereading != wipe.count { beginRereading() }
    }

    private func beginRereading() {
        let wipeNumber = wipe.count
        wipe.countAtLastRereading = wipeNumber
        wipe.missingMemberCount = phoneNames.count
        for name in phoneNames {
            let delayMilliseconds = Int64(random.number(0...parameters.registrationRereadMillisecondsMax))
            let atMilliseconds = nowMilliseconds + delayMilliseconds
            scheduledEvents.append((atMilliseconds, { [unowned self] in registerAgain(name, afterWipe: wipeNumber) }))
        }
        wipe.isDraining = true
        workers[commandWorkerIndex].core
            .dropWaitingCommands { record in
                commandsInCore.contains(Int(record.rawValue)) || wipe.commandRecordsInCore.contains(record.rawValue)
            }
    }

    private func registerAgain(_ name: String, afterWipe wipeNumber: Int) {
        guard wipeNumber == wipe.count else { return }
        guard let phone = phones[name], !phone.hasLeft else { return noteRereadRegistration(afterWipe: wipeNumber) }
        addChange(of: phone, atMilliseconds: phone.registeredAtMilliseconds, rereadAfterWipe: wipeNumber)
    }

    func noteRereadRegistration(afterWipe wipeNumber: Int) {
        if wipeNumber == wipe.count { wipe.missingMemberCount -= 1 }
    }

    func noteAdmitted(_ command: Int) {
        if !wipe.hasAllMembers { wipe.affectedCommands.insert(command) }
        if commands[command].ending != nil { wipe.commandsFannedOutAgain.insert(command) }
    }

    func noteClaim(of range: SegmentRange, _ worker: SimulatedWorker) {
        guard !wipe.hasAllMembers, !worker.core.mayStoreLackMembers,
            worker.core.membersLastCompleteAtMilliseconds <= wipe.happenedAtMilliseconds
        else { return }
        wipe.rangesClaimedBeforeNotice.insert(range)
    }

    /// Whether a range may have ended without its members. This happens if a worker claims the range after the loss and
    /// before the worker notices the loss. A worker notices the restart of a server at once. If an operator empties the
    /// store, a worker notices this within a second.
    func mayHaveEndedWithoutMembers(_ range: SegmentRange, _ command: Int) -> Bool {
        wipe.rangesClaimedBeforeNotice.contains(range) && wipe.affectedCommands.contains(command)
    }

    func mayHaveEndedWithoutMembers(_ phone: SimulatedPhone, _ command: Int) -> Bool {
        mayHaveEndedWithoutMembers(range(of: phone, commands[command]), command)
    }

    /// Reads commands again after a loss. They ring no alert, and wait until all members are in the store again. In
    /// about a fifth of the runs they do not wait, as if the lane were nearly full: only their rounds wait.
    func feedRereadCommands(_ worker: SimulatedWorker) {
        if wipe.isDraining, commandsInCore.isEmpty, wipe.commandRecordsInCore.isEmpty {
            wipe.isDraining = false
            // A start that is read again starts nothing, so the core does not get it.
            wipe.commandsToReread = Set(commands.filter { $0.ending != nil && !$0.isStart }.map(\.number))
        }
        let hasRoomForWait = parameters.memberCount % 5 != 0
        guard !hasRoomForWait || !worker.core.mayStoreLackMembers else { return }
        for number in wipe.commandsToReread.sorted() {
            let record = UInt32(wipe.count) * SimulatedWipe.recordNumbersPerWipe + UInt32(number)
            guard !wipe.commandRecordsInCore.contains(record) else { continue }
            guard worker.core.canReceiveCommand else { return }
            wipe.commandRecordsInCore.insert(record)
            var command = commands[number]
            command.hasAlert = false
            readCommand(command, as: record, by: worker)
        }
    }

    /// - Returns: whether the record is of a command that was read again after a loss.
    func takeReturnedRereadCommand(_ returnedCommand: ReturnedCommand) -> Bool {
        let record = returnedCommand.record.rawValue
        let (wipeNumber, number) = record.quotientAndRemainder(dividingBy: SimulatedWipe.recordNumbersPerWipe)
        guard wipeNumber > 0 else { return false }
        trace?("\(nowMilliseconds % 1_000_000) command \(number) again: \(returnedCommand.handoverResult)")
        wipe.commandRecordsInCore.remove(record)
        if Int(wipeNumber) == wipe.count, returnedCommand.handoverResult != .dropped {
            wipe.commandsToReread.remove(Int(number))
        }
        return true
    }
}
