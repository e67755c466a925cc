import ActivityStore
import LiveActivity
import Numbers
import Testbed

@testable import Delivery

extension Simulation {
    func injectFaults() {
        if random.chance(parameters.rebalance) { moveAPartition() }
        if random.chance(parameters.crash) { crash(random.number(0...parameters.workers - 1)) }
        if random.chance(parameters.tokenRotation) { rotateAToken() }
        if parameters.tombstone > 0, random.chance(parameters.tombstone) { unregisterAnActivity() }
        if let connections = parameters.connections { injectConnectionFaults(connections) }
        if parameters.outage > 0, random.chance(parameters.outage) { beginOutage() }
        if let deferrals = parameters.deferrals { injectOutage(deferrals) }
        if parameters.timeJump > 0, random.chance(parameters.timeJump) { now += Int64(random.number(1...600_000)) }
        if parameters.wipesRedis, !wasWiped, random.chance(100) {
            wasWiped = true
            store.flushAll()
            unregisteredTokens = [:]
            retiredTokens = [:]
        }
    }

    private func beginOutage() {
        let until = min(faultsUntil, now + Int64(random.number(1_000...60_000)))
        if random.chance(500) { redisAwayUntil = until } else { apnsAwayUntil = until }
    }

    private func rotateAToken() {
        guard let activity = phones.keys.sorted().randomElement(using: &random), phones[activity]?.token != nil else {
            return
        }
        registerActivity(activity)
    }

    /// Writes a tombstone. In most cases the app registers again some time later.
    private func unregisterAnActivity() {
        guard let activity = phones.keys.sorted().randomElement(using: &random) else { return }
        _ = log.append(topic: 1, key: activity, value: nil, at: now)
        if random.chance(300) {
            activitiesWithoutToken.insert(activity)
        } else {
            script.append((now + Int64(random.number(1...3_000)), { [self] in registerActivity(activity) }))
        }
    }

    func assign(_ partition: SimulatedLog.Partition, to owner: Int) {
        guard let worker = workers[owner] else { return }
        let topic: RecordTopic = [.commands, .registrations, .deferred][partition.topic]
        guard let number = worker.delivery.assign(topic: topic, number: Int32(partition.partition)) else { return }
        let commit = log.commits[partition] ?? SimulatedLog.Commit()
        trace?("\(now % 1_000_000) \(partition) to \(owner) from \(commit.offset)")
        let skipped = commit.metadata.withUnsafeBytes {
            worker.delivery.resume(
                number,
                at: commit.offset,
                metadata: $0,
                logEnd: Int64(log.records[partition]?.count ?? 0)
            )
        }
        if skipped == nil { violations.append("the metadata of a commit of \(partition) was refused") }
        worker.positions[partition] = .init(coreIndex: number, nextOffset: commit.offset)
        owners[partition] = owner
    }

    /// Moves a partition to another worker, or to the same one again. Its owner has finished its work, or is
    /// in the middle of it, or loses the partition without a revocation.
    private func moveAPartition() {
        guard let partition = log.allPartitions.randomElement(using: &random), let owner = owners[partition],
            let worker = workers[owner], let entry = worker.positions[partition], entry.nextOffset != .max
        else { return }
        worker.positions[partition]?.nextOffset = .max
        if commits.areHandoversOrderly {
            worker.delivery.beginRevoking(entry.coreIndex, now: worker.moment(now))
            return giveWhenDrained(partition, of: worker, entry.coreIndex)
        }
        if random.chance(250) { return give(partition, of: worker, entry.coreIndex) }
        worker.delivery.beginRevoking(entry.coreIndex, now: worker.moment(now))
        let delayMilliseconds = Int64(random.number(0...3_000))
        script.append(
            (
                now + delayMilliseconds,
                { [self] in
                    guard workers[owner] === worker else { return }
                    commit(worker)
                    give(partition, of: worker, entry.coreIndex)
                }
            )
        )
    }

    private func giveWhenDrained(
        _ partition: SimulatedLog.Partition,
        of worker: SimulatedWorker,
        _ number: UInt32
    ) {
        let step = { [self] in
            guard let owner = owners[partition], workers[owner] === worker else { return }
            guard worker.delivery.isDrained(number) else { return giveWhenDrained(partition, of: worker, number) }
            commit(worker)
            give(partition, of: worker, number)
        }
        script.append((now + 20, step))
    }

    private func give(_ partition: SimulatedLog.Partition, of worker: SimulatedWorker, _ number: UInt32) {
        worker.delivery.release(partition: number, now: worker.moment(now))
        worker.positions[partition] = nil
        assign(partition, to: random.number(0...parameters.workers - 1))
    }

    /// Kills a worker as SIGKILL does. Chance decides which calls, pushes and records of the worker arrive.
    /// Another process continues from the committed offsets.
    private func crash(_ number: Int) {
        guard let worker = workers[number] else { return }
        for entry in worker.storeCalls where random.chance(500) {
            perform(entry.call, worker)
        }
        loseAudiences(of: worker)
        for entry in worker.pushes where random.chance(500) {
            trace?("\(now % 1_000_000) \(identifier(worker.delivery.view(entry.record))) arrives, its worker dies")
            _ = push(worker.delivery.view(entry.record))
        }
        for entry in worker.productions where entry.isAppended && entry.production.kind == .result && random.chance(500)
        {
            results[
                String(decoding: worker.delivery.view(entry.production.record).commandIdentifier, as: UTF8.self),
                default: []
            ]
            .append(worker.delivery.view(entry.production.record).outcome)
        }
        for entry in worker.productions where entry.production.kind == .deferral {
            guard entry.isAppended, random.chance(500) else { continue }
            noteDeferral(worker.delivery.view(entry.production.record))
        }
        trace?("\(now % 1_000_000) crash of \(number)")
        let allPartitions = worker.positions.keys.sorted()
        workers[number] = makeWorker()
        for partition in allPartitions { assign(partition, to: number) }
    }

    func commitIfDue(_ worker: SimulatedWorker) {
        guard now >= worker.nextCommitMilliseconds else { return }
        worker.nextCommitMilliseconds = now + commits.intervalMilliseconds
        commit(worker)
    }

    func commit(_ worker: SimulatedWorker) {
        for (partition, entry) in worker.positions {
            guard let progress = worker.delivery.progress(entry.coreIndex) else { continue }
            let before = log.commits[partition] ?? SimulatedLog.Commit()
            if progress.committableOffset < before.offset { continue }
            log.commits[partition] = SimulatedLog.Commit(
                offset: progress.committableOffset,
                metadata: commits.keepMetadata ? progress.metadata : []
            )
            guard partition.topic == 0 else { continue }
            for settled in before.offset..<progress.committableOffset { checkCommitted(settled, of: partition) }
            for settled in settledAbove(progress, of: partition).joined() {
                checkCommitted(settled, of: partition)
            }
        }
    }

    private func settledAbove(_ progress: PartitionProgress, of partition: SimulatedLog.Partition) -> [Range<
        Int64
    >] {
        guard commits.keepMetadata else { return [] }
        let ranges = progress.metadata.withUnsafeBytes {
            SettledOffsetsText.decode($0, committedOffset: progress.committableOffset)
        }
        if ranges == nil { violations.append("the metadata of \(partition) cannot be read") }
        return ranges ?? []
    }

    private func checkCommitted(_ offset: Int64, of partition: SimulatedLog.Partition) {
        guard !(acknowledgedOffsets[partition]?.contains(offset) ?? false), !isCountedSafely(offset, of: partition)
        else { return }
        violations.append("offset \(offset) of \(partition) was committed without an acknowledged result")
    }
}

extension Array {
    func randomElement(using random: inout SplitMix64) -> Element? {
        isEmpty ? nil : self[random.number(0...count - 1)]
    }
}
