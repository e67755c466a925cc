import Audiences
import Delivery
import LiveActivity
import Testbed

/// Faults, each with its chance in a step: crashes, moved and added partitions, and outages of a host or of the store.
extension Simulation {
    func injectFaults() {
        if random.chance(parameters.crashPerMille) { crash(random.number(0...workers.count - 1)) }
        if random.chance(parameters.rebalancePerMille) { movePartition(random.number(0...log.count - 1)) }
        if random.chance(parameters.partitionAdditionPerMille), log.count < Self.partitionsMax { addPartition() }
        if random.chance(parameters.outagePerMille) {
            let untilMilliseconds = nowMilliseconds + Int64(random.number(100...parameters.outageMillisecondsMax))
            switch random.number(0...2) {
            case 0: hostsUnavailableUntilMilliseconds[0] = untilMilliseconds
            case 1: hostsUnavailableUntilMilliseconds[1] = untilMilliseconds
            default: storeUnavailableUntilMilliseconds = untilMilliseconds
            }
        }
    }

    private static let partitionsMax = 6

    /// Adds a partition to the fan-out topic. So the next records of some ranges go to another partition. The old owner
    /// of such a range continues to send until it learns that the new owner has claimed the range.
    private func addPartition() {
        (hadForcedMove, hadPartitionAddition) = (true, true)
        trace?("\(nowMilliseconds % 1_000_000) partition \(log.count) is added")
        log.append([])
        committedProgress.append(PartitionProgress(committableOffset: 0, metadata: []))
        owners.append(0)
        assign(log.count - 1, to: random.number(0...workers.count - 1))
    }

    func assign(_ partition: Int, to owner: Int) {
        owners[partition] = owner
        let worker = workers[owner]
        guard let indexInCore = worker.core.assign(number: Int32(partition)) else { return }
        let commit = committedProgress[partition]
        let skippedRecordCount = commit.metadata.withUnsafeBytes {
            worker.core.restoreSettledOffsets(
                indexInCore,
                at: commit.committableOffset,
                metadata: $0,
                logEndOffset: Int64(log[partition].count)
            )
        }
        if skippedRecordCount == nil { violations.append("the metadata of \(partition) cannot be read") }
        trace?(
            "\(nowMilliseconds % 1_000_000) partition \(partition) to \(worker.number) at \(commit.committableOffset), \(skippedRecordCount ?? -1) more"
        )
        worker.assignments[partition] = .init(indexInCore: indexInCore, nextOffset: commit.committableOffset)
        worker.lastBroadcastAtMilliseconds = [:]
    }

    /// Kills a worker as SIGKILL does. Chance decides which calls, pushes and records of the worker arrive.
    /// Another process continues from the committed offsets.
    private func crash(_ number: Int) {
        hadCrash = true
        let worker = workers[number]
        trace?("\(nowMilliseconds % 1_000_000) crash of \(worker.number)")
        for entry in worker.storeCalls where random.chance(500) {
            // The network may deliver a call after later calls of other workers.
            guard random.chance(300) else {
                performStoreCall(entry.call, worker)
                continue
            }
            scheduledEvents.append(
                (
                    nowMilliseconds + Int64(random.number(1...300)),
                    { [unowned self] in performStoreCall(entry.call, worker) }
                )
            )
        }
        for push in worker.pushes where random.chance(500) { deliverPush(push, worker) }
        for outgoingRecord in worker.outgoingRecords where random.chance(500) {
            if let record = outgoingRecord.simulatedRecord { write(record) }
        }
        let partitions = worker.assignments.keys.sorted()
        workers[number] = makeWorker()
        if commandWorkerIndex == number {
            commandsInCore.removeAll()
            for index in changes.indices { changes[index].isGivenToCore = false }
            wipe.commandRecordsInCore.removeAll()
        }
        for partition in partitions where owners[partition] == number { assign(partition, to: number) }
    }

    /// Moves a partition to another worker, or to the same one again. Chance decides whether the old owner may finish
    /// its work first.
    private func movePartition(_ partition: Int) {
        let worker = workers[owners[partition]]
        guard let entry = worker.assignments[partition], !entry.isBeingRevoked else { return }
        worker.assignments[partition]?.isBeingRevoked = true
        worker.core.beginRevoking(entry.indexInCore, now: worker.moment(nowMilliseconds))
        // The partition's channels may lose their slots now, and with them the times of their last broadcasts. The
        // worker may still broadcast for records of another partition.
        worker.lastBroadcastAtMilliseconds = [:]
        let isForced = random.chance(parameters.forcedMovePerMille)
        trace?(
            "\(nowMilliseconds % 1_000_000) partition \(partition) leaves \(worker.number)\(isForced ? " by force" : "")"
        )
        if isForced {
            let delayMilliseconds = Int64(random.number(0...500))
            scheduledEvents.append(
                (
                    nowMilliseconds + delayMilliseconds,
                    { [unowned self] in release(partition, of: worker, entry.indexInCore, isForced: true) }
                )
            )
        } else {
            releaseWhenDrained(partition, of: worker, entry.indexInCore)
        }
    }

    private func releaseWhenDrained(_ partition: Int, of worker: SimulatedWorker, _ indexInCore: UInt32) {
        scheduledEvents.append(
            (
                nowMilliseconds + 5,
                { [unowned self] in
                    guard workers.contains(where: { $0 === worker }) else { return }
                    guard worker.core.isDrained(indexInCore) else {
                        return releaseWhenDrained(partition, of: worker, indexInCore)
                    }
                    release(partition, of: worker, indexInCore, isForced: false)
                }
            )
        )
    }

    private func release(_ partition: Int, of worker: SimulatedWorker, _ indexInCore: UInt32, isForced: Bool) {
        guard workers.contains(where: { $0 === worker }) else { return }
        if isForced { hadForcedMove = true }
        if let progress = worker.core.composeProgress(indexInCore),
            progress.committableOffset >= committedProgress[partition].committableOffset
        {
            committedProgress[partition] = progress
        }
        worker.core.release(partition: indexInCore, now: worker.moment(nowMilliseconds))
        worker.assignments[partition] = nil
        assign(partition, to: random.number(0...workers.count - 1))
    }
}
