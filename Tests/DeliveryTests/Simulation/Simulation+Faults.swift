import ActivityStore
import LiveActivity
import Numbers
import Testbed

@testable import Delivery

extension Simulation {
    func injectFaults() {
        if random.chance(parameters.rebalancePerMille) { moveRandomPartition() }
        if random.chance(parameters.crashPerMille) { crash(random.number(0...parameters.workerCount - 1)) }
        if random.chance(parameters.tokenRotationPerMille) { rotateRandomToken() }
        if parameters.tombstonePerMille > 0, random.chance(parameters.tombstonePerMille) { unregisterRandomActivity() }
        if let connections = parameters.connections { injectConnectionFaults(connections) }
        if parameters.outagePerMille > 0, random.chance(parameters.outagePerMille) { beginOutageOfRedisOrAPNs() }
        if let deferrals = parameters.deferrals { beginPoolOutageAtRandom(deferrals) }
        if parameters.timeJumpPerMille > 0, random.chance(parameters.timeJumpPerMille) {
            now += Int64(random.number(1...600_000))
        }
        if parameters.wipesRedis, !wasRedisWiped, random.chance(100) {
            wasRedisWiped = true
            store.flushAll()
            tokenUnregisteredAtMilliseconds = [:]
            retiredTokens = [:]
        }
        copyStore()
    }

    /// Chooses what becomes of a push, at random while faults occur.
    func chooseFate() -> SimulatedWorker.PushFate {
        guard now < faultsEndMilliseconds else { return .processed }
        if random.chance(parameters.pushFailurePerMille) { return .refused(status: random.chance(500) ? 503 : 429) }
        if parameters.rateLimitPerMille > 0, random.chance(parameters.rateLimitPerMille) {
            return .refused(status: 429)
        }
        if random.chance(parameters.pushLossPerMille) {
            return random.chance(500) ? .lostBeforeProcessing : .lostAfterProcessing
        }
        return .processed
    }

    private func beginOutageOfRedisOrAPNs() {
        let until = min(faultsEndMilliseconds, now + Int64(random.number(1_000...60_000)))
        if random.chance(500) { redisOutageEndMilliseconds = until } else { apnsOutageEndMilliseconds = until }
    }

    private func rotateRandomToken() {
        guard let activity = phones.keys.sorted().randomElement(using: &random), phones[activity]?.token != nil else {
            return
        }
        registerActivity(activity)
    }

    /// Writes a tombstone. In most cases the app registers again some time later.
    private func unregisterRandomActivity() {
        guard let activity = phones.keys.sorted().randomElement(using: &random) else { return }
        _ = log.append(topic: SimulatedLog.registrationsTopic, key: activity, value: nil, at: now)
        if random.chance(300) {
            activitiesWithoutToken.insert(activity)
        } else {
            scheduledEvents.append((now + Int64(random.number(1...3_000)), { [self] in registerActivity(activity) }))
        }
    }

    func assign(_ partition: SimulatedLog.Partition, to owner: Int) {
        guard let worker = workers[owner] else { return }
        let topic: RecordTopic = [.commands, .registrations, .deferred][partition.topic]
        guard let indexInCore = worker.delivery.assign(topic: topic, number: Int32(partition.number)) else { return }
        let commit = log.commits[partition] ?? SimulatedLog.Commit()
        trace?("\(now % 1_000_000) \(partition) to \(owner) from \(commit.offset)")
        let skippedCount = commit.metadata.withUnsafeBytes {
            worker.delivery.restoreSettledOffsets(
                indexInCore,
                at: commit.offset,
                metadata: $0,
                logEndOffset: Int64(log.records[partition]?.count ?? 0)
            )
        }
        if topic == .deferred {
            worker.delivery.awaitDeferredBacklog(indexInCore, from: commit.offset, now: worker.moment(now))
            worker.delivery.noteDeferredLogEnd(indexInCore, Int64(log.records[partition]?.count ?? 0))
        }
        if skippedCount == nil { violations.append("the metadata of a commit of \(partition) was refused") }
        worker.positions[partition] = .init(indexInCore: indexInCore, nextOffset: commit.offset)
        noteAssignment(of: partition, to: worker, from: commit.offset)
        partitionOwners[partition] = owner
    }

    /// Moves a partition to a random worker, perhaps back to its owner. There are three cases: the owner has finished
    /// the partition's records; the owner is in the middle of its work; or the owner gets no revocation at all.
    private func moveRandomPartition() {
        guard let partition = log.allPartitions.randomElement(using: &random), let owner = partitionOwners[partition],
            let worker = workers[owner], let position = worker.positions[partition], position.nextOffset != .max
        else { return }
        worker.positions[partition]?.nextOffset = .max
        if commitParameters.drainsPartitionsBeforeMove {
            worker.delivery.beginRevoking(position.indexInCore, now: worker.moment(now))
            return reassignWhenDrained(partition, of: worker, position.indexInCore)
        }
        losses.hadForcedMove = true
        if random.chance(250) { return reassign(partition, of: worker, position.indexInCore) }
        worker.delivery.beginRevoking(position.indexInCore, now: worker.moment(now))
        let delayMilliseconds = Int64(random.number(0...3_000))
        scheduledEvents.append(
            (
                now + delayMilliseconds,
                { [self] in
                    guard workers[owner] === worker else { return }
                    commit(worker)
                    reassign(partition, of: worker, position.indexInCore)
                }
            )
        )
    }

    private func reassignWhenDrained(
        _ partition: SimulatedLog.Partition,
        of worker: SimulatedWorker,
        _ indexInCore: UInt32
    ) {
        let step = { [self] in
            guard let owner = partitionOwners[partition], workers[owner] === worker else { return }
            guard worker.delivery.isDrained(indexInCore) else {
                return reassignWhenDrained(partition, of: worker, indexInCore)
            }
            commit(worker)
            reassign(partition, of: worker, indexInCore)
        }
        scheduledEvents.append((now + 20, step))
    }

    private func reassign(_ partition: SimulatedLog.Partition, of worker: SimulatedWorker, _ indexInCore: UInt32) {
        worker.delivery.release(partition: indexInCore, now: worker.moment(now))
        worker.positions[partition] = nil
        noteRelease(of: partition, by: worker)
        assign(partition, to: random.number(0...parameters.workerCount - 1))
    }

    /// Kills a worker as SIGKILL does. Chance decides which calls, pushes and records of the worker arrive.
    /// Another process continues from the committed offsets.
    private func crash(_ number: Int) {
        guard let worker = workers[number] else { return }
        losses.hadForcedMove = true
        for entry in worker.storeCalls where random.chance(500) {
            perform(entry.call, worker)
        }
        deliverSomeMembershipChanges(of: worker)
        for entry in worker.pushes where random.chance(500) {
            trace?("\(now % 1_000_000) \(identifier(worker.delivery.view(entry.record))) arrives, its worker dies")
            _ = deliverPush(worker.delivery.view(entry.record))
        }
        for entry in worker.outgoingRecords
        where entry.isAppended && entry.outgoingRecord.kind == .result && random.chance(500) {
            results[
                String(decoding: worker.delivery.view(entry.outgoingRecord.record).commandIdentifier, as: UTF8.self),
                default: []
            ]
            .append(worker.delivery.view(entry.outgoingRecord.record).outcome)
        }
        for entry in worker.outgoingRecords where entry.outgoingRecord.kind == .deferral {
            guard entry.isAppended, random.chance(500) else { continue }
            noteDeferral(worker.delivery.view(entry.outgoingRecord.record))
        }
        trace?("\(now % 1_000_000) crash of \(number)")
        let allPartitions = worker.positions.keys.sorted()
        workers[number] = makeWorker()
        for partition in allPartitions { assign(partition, to: number) }
    }

    func commitIfDue(_ worker: SimulatedWorker) {
        guard now >= worker.nextCommitAtMilliseconds else { return }
        worker.nextCommitAtMilliseconds = now + commitParameters.intervalMilliseconds
        commit(worker)
    }

    func commit(_ worker: SimulatedWorker) {
        for (partition, position) in worker.positions {
            guard let progress = worker.delivery.composeProgress(position.indexInCore), mayCommit(partition, of: worker)
            else {
                continue
            }
            let previousCommit = log.commits[partition] ?? SimulatedLog.Commit()
            if progress.committableOffset < previousCommit.offset { continue }
            log.commits[partition] = SimulatedLog.Commit(
                offset: progress.committableOffset,
                metadata: commitParameters.keepsMetadata ? progress.metadata : []
            )
            guard partition.holdsCommands else { continue }
            for settled in previousCommit.offset..<progress.committableOffset { checkCommitted(settled, of: partition) }
            for settled in settledRangesAboveCommit(progress, of: partition).joined() {
                checkCommitted(settled, of: partition)
            }
        }
    }

    private func settledRangesAboveCommit(
        _ progress: PartitionProgress,
        of partition: SimulatedLog.Partition
    ) -> [Range<Int64>] {
        guard commitParameters.keepsMetadata else { return [] }
        let ranges = progress.metadata.withUnsafeBytes {
            SettledOffsetsText.decode($0, committedOffset: progress.committableOffset)
        }
        if ranges == nil { violations.append("the metadata of \(partition) cannot be read") }
        return ranges ?? []
    }

    private func checkCommitted(_ offset: Int64, of partition: SimulatedLog.Partition) {
        guard !(acknowledgedOffsets[partition]?.contains(offset) ?? false),
            !mayCommitWithoutResult(offset, of: partition)
        else { return }
        violations.append("offset \(offset) of \(partition) was committed without an acknowledged result")
    }
}

extension Array {
    func randomElement(using random: inout SplitMix64) -> Element? {
        isEmpty ? nil : self[random.number(0...count - 1)]
    }
}
