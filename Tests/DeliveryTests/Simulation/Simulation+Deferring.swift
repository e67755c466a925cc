import Delivery
import LiveActivity
import Testbed

/// The outage of APNs in runs with deferrals. Runs of kind `old` have `Simulation.apnsOutageEndMilliseconds`.
struct SimulatedPoolOutage {
    var endMilliseconds: Int64 = 0
    /// Whether APNs was away in the previous step.
    var wasAway = false
}

/// Outages of APNs, and the deferred topic.
extension Simulation {
    /// Whether APNs accepts no pushes now, in runs with deferrals.
    var isPoolAway: Bool { now < min(poolOutage.endMilliseconds, faultsEndMilliseconds) }

    func beginPoolOutageAtRandom(_ deferrals: SimulationParameters.Deferrals) {
        guard !isPoolAway, random.chance(deferrals.outagePerMille) else { return }
        poolOutage.endMilliseconds = now + Int64(random.number(1...deferrals.outageMillisecondsMax))
        trace?("\(now % 1_000_000) APNs is away until \(poolOutage.endMilliseconds % 1_000_000)")
    }

    /// When an outage of APNs has just ended, lets each worker's pool open a connection.
    func connectPoolsAfterOutage() {
        defer { poolOutage.wasAway = isPoolAway }
        guard poolOutage.wasAway, !isPoolAway else { return }
        for case let worker? in workers { worker.delivery.noteOpenedConnection(of: Self.pool) }
    }

    /// Whether a worker has an unread record that may be read now. A deferred record may be read only when it is due.
    var hasUnreadRecords: Bool {
        workers.contains { worker in
            worker?.positions
                .contains { partition, position in log.hasRecord(partition, at: position.nextOffset, now: now) }
                ?? false
        }
    }

    /// When the next deferred record that no worker has read is due; `.max` if there is none.
    var nextDeferralDueMilliseconds: Int64 {
        guard parameters.deferrals != nil else { return .max }
        var due = Int64.max
        for case let worker? in workers {
            for (partition, position) in worker.positions where partition.holdsDeferredCommands {
                guard let records = log.records[partition], position.nextOffset < records.count,
                    let deferral = records[Int(position.nextOffset)].deferral
                else { continue }
                due = min(due, deferral.dueMilliseconds)
            }
        }
        return due
    }

    /// When a worker's pool accepts pushes again, makes the deferred commands of its partitions due at once.
    func readDeferredEarly(_ worker: SimulatedWorker) {
        guard worker.delivery.takeDuePoolRecoveryReport(now: worker.moment(now)) else { return }
        for partition in worker.positions.keys where partition.holdsDeferredCommands {
            log.makeAllDeferredDue(of: partition, now: now)
        }
    }

    /// Appends a command to the deferred topic. From then on, the offset of its record in the commands topic may be
    /// committed.
    func noteDeferral(_ view: RecordView) {
        let identifier = identifier(view)
        guard let deferrals = parameters.deferrals else {
            return violations.append(
                "\(identifier) was deferred (\(view.deferralCause)), though nothing is in this kind"
            )
        }
        trace?("\(now % 1_000_000) \(identifier) deferred \(view.deferralCause) \(view.deferral.count)")
        deferredActivities.insert(String(decoding: view.activity, as: UTF8.self))
        var writer = JSONWriter()
        Array(Simulation.app.utf8).withUnsafeBytes { view.deferredCommand(app: $0).write(to: &writer) }
        let dueMilliseconds = now + deferrals.deferredDelayMilliseconds
        let (partition, offset) = log.append(Array(writer.bytes), view.deferral, dueMilliseconds: dueMilliseconds)
        counting.commands[partition, default: [:]][offset] = identifier
        guard view.sourceTopic == .commands else { return }
        let source = SimulatedLog.Partition(topic: SimulatedLog.commandsTopic, number: Int(view.sourcePartition))
        acknowledgedOffsets[source, default: []].insert(view.sourceOffset)
    }

    /// Replaces the time of a start's draw by that of its second draw. When the start was deferred, its first draw was
    /// refunded.
    func noteRepeatedStartDraw(_ view: RecordView) {
        let command = identifier(view)
        guard parameters.deferrals != nil, let drawnAtMilliseconds = pace.lastStartDrawAtMilliseconds[command]
        else { return }
        let device = String(decoding: view.device, as: UTF8.self)
        guard let index = pace.startDraws[device]?.firstIndex(where: { $0.command == command }) else { return }
        pace.startDraws[device]?[index].atMilliseconds = drawnAtMilliseconds
    }

    /// Whether a newer state without an alert may have been sent before the activity's deferred alert. Newer states
    /// wait for the alert only in the lane that deferred it.
    func canNewerStateOvertakeDeferredAlert(_ activity: String) -> Bool {
        deferredActivities.contains(activity) && !hasOneLane
    }

    /// Whether one lane reads all records of an activity, and forgets nothing.
    private var hasOneLane: Bool {
        parameters.workerCount == 1 && parameters.crashPerMille == 0 && parameters.rebalancePerMille == 0
    }

    /// Whether commands that came after the activity's last start may have the outcome `ended`, because Redis did not
    /// have this start yet. There are three cases:
    /// - Another lane deferred the start.
    /// - The start was held.
    /// - The deferred topic had two records of the start, and an end superseded only one of them.
    func mayLastStartHaveBeenMissingInRedis(_ activity: String) -> Bool {
        guard let start = lastStarts[activity] else { return false }
        let startOutcomes = results[start] ?? []
        return deferredActivities.contains(activity) && !hasOneLane || startOutcomes.contains(.held)
            || startOutcomes.contains(.superseded) && startOutcomes.contains(.accepted)
    }

    /// Checks that no record of the commands topic stays unsettled for long, even during an outage of APNs. Leaves out
    /// runs with other faults or a high latency.
    func checkOldestUnsettled(_ worker: SimulatedWorker) {
        guard let deferrals = parameters.deferrals, parameters.redisLossPerMille == 0,
            parameters.produceFailurePerMille == 0,
            parameters.connections == nil, parameters.pushFailurePerMille == 0, parameters.rateLimitPerMille == 0,
            parameters.latencyMillisecondsMax < 100
        else { return }
        // A record waits twice: until it is deferred, and until it is read again. A command behind it first waits for
        // this record as long, and then waits twice itself. So the factor is 2.
        let waitMillisecondsMax = 2 * (deferrals.deferAfterMilliseconds + deferrals.deferredDelayMilliseconds) + 15_000
        for (partition, position) in worker.positions where partition.holdsCommands {
            guard let since = worker.delivery.oldestUnsettledSinceMilliseconds(position.indexInCore),
                now - since > waitMillisecondsMax
            else {
                continue
            }
            violations.append("\(partition): a record has not been settled for \(now - since) ms")
        }
    }
}
