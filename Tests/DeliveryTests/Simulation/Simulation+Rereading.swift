import Delivery
import Kafka
import LiveActivity
import Numbers
import Testbed

@testable import CausewayWorker

/// What a worker knows about its partitions and their rereadings. The types that decide are those of `CausewayWorker`:
/// `MarkAction`, `RereadingStart`, `AssignmentTable` and `MemberCompleteness`. The functions below replace only the
/// parts of `StoreWatch` and `Intake` that do I/O.
struct SimulatedRereading {
    struct DrainingPartition {
        var request: RereadingRequest
        var startPosition: SeekPosition
        var drainEndMilliseconds: Int64
    }

    /// The time between two looks at the assignments, and between two iterations of the Kafka thread.
    static let stepMilliseconds: Int64 = 100
    static let pollMilliseconds = StoreWatch.pollInterval.components.seconds * 1_000
    /// As `redis.rereadMinutes` says by default. No run takes that long.
    static let commandAgeMillisecondsMax: Int64 = 720 * 60_000

    var assignments = AssignmentTable()
    /// Where each partition's assignment, or its last rereading, began to read.
    var startOffsets: [SimulatedLog.Partition: Int64] = [:]
    /// What the group had committed for each partition at its assignment.
    var committedOffsets: [SimulatedLog.Partition: CommittedOffset] = [:]
    /// What each partition's lane last reported, if it may be committed.
    var storedProgress: [SimulatedLog.Partition: PartitionProgress] = [:]
    /// The partitions' states as the Kafka thread last published them. A poll may use a state that has changed since.
    var publishedStatuses: [PartitionRereadingStatus] = []
    var checkedAssignmentNumbers: Set<UInt32> = []
    /// For each assignment: the identifier of a rereading that was requested and perhaps has not begun yet.
    var requestedIdentifiers: [UInt32: UInt64] = [:]
    var waitingRequests: [RereadingRequest] = []
    var drainingPartitions: [DrainingPartition] = []
    var nextPollAtMilliseconds = Int64.min

    /// Whether the partition still has the assignment that it had when its rereading was requested.
    func isCurrent(_ request: RereadingRequest) -> Bool {
        assignments[request.topicPartition]?.assignmentNumber == request.assignmentNumber
    }
}

extension SimulatedLog.Partition {
    fileprivate init(_ request: RereadingRequest) {
        self.init(topic: Int(request.topic), number: Int(request.partition))
    }

    fileprivate var topicPartition: TopicPartition {
        TopicPartition(topic: TopicIdentifier(index: Int32(topic)), partition: Int32(number))
    }
}

/// Notices that Redis has lost data, and reads old records again, as `StoreWatch` and `Intake` do.
extension Simulation {
    // MARK: - What the Kafka thread notes

    func noteAssignment(of partition: SimulatedLog.Partition, to worker: SimulatedWorker, from offset: Int64) {
        guard parameters.lossesMax > 0 else { return }
        worker.rereading.assignments.insert(partition.topicPartition, lane: 0)
        worker.rereading.startOffsets[partition] = offset
        worker.rereading.committedOffsets[partition] = log.commits[partition]
            .map { CommittedOffset(offset: $0.offset, metadata: $0.metadata) }
        worker.rereading.storedProgress[partition] = nil
    }

    func noteRelease(of partition: SimulatedLog.Partition, by worker: SimulatedWorker) {
        worker.rereading.assignments.remove(partition.topicPartition)
    }

    func noteDealtRecord(_ offset: Int64, of partition: SimulatedLog.Partition, to worker: SimulatedWorker) {
        guard parameters.lossesMax > 0 else { return }
        let (topic, number) = (Int32(partition.topic), Int32(partition.number))
        worker.rereading.assignments.noteDealtRecord(topic, number, offset: offset)
    }

    /// Whether the offset that the lane reports may be committed: false while a rereading is below its end.
    func mayCommit(_ partition: SimulatedLog.Partition, of worker: SimulatedWorker) -> Bool {
        parameters.lossesMax == 0 || applyReport(of: partition, by: worker)
    }

    /// Gives the lane's report about a partition to the Kafka thread. Returns whether the reported offset may be
    /// committed.
    @discardableResult
    private func applyReport(of partition: SimulatedLog.Partition, by worker: SimulatedWorker) -> Bool {
        guard let position = worker.positions[partition],
            let entry = worker.rereading.assignments[partition.topicPartition]
        else { return false }
        let progress = worker.delivery.composeProgress(position.indexInCore)
        let isBeingRevoked = position.nextOffset == .max
        let report = PartitionReport(
            topic: Int32(partition.topic),
            partition: Int32(partition.number),
            assignmentNumber: entry.assignmentNumber,
            progress: nil,
            isDrained: isBeingRevoked && worker.delivery.isDrained(position.indexInCore)
        )
        let isCommittable = worker.rereading.assignments.applyAndPermitCommit(report, of: progress)
        if isCommittable, let progress { worker.rereading.storedProgress[partition] = progress }
        return isCommittable
    }

    private func findSettledEndOffset(
        of partition: SimulatedLog.Partition,
        _ entry: AssignmentTable.Entry,
        _ worker: SimulatedWorker
    ) -> Int64 {
        entry.computeSettledEndOffset(startOffset: worker.rereading.startOffsets[partition] ?? 0)
    }

    private func findKnownProgress(of partition: SimulatedLog.Partition, _ worker: SimulatedWorker)
        -> PartitionProgress?
    {
        worker.rereading.storedProgress[partition]
            ?? log.commits[partition]
            .map { PartitionProgress(committableOffset: $0.offset, metadata: $0.metadata) }
    }

    private func publishStatuses(of worker: SimulatedWorker) {
        var statuses: [PartitionRereadingStatus] = []
        for partition in worker.positions.keys.sorted() {
            applyReport(of: partition, by: worker)
            guard let entry = worker.rereading.assignments[partition.topicPartition] else { continue }
            statuses.append(
                PartitionRereadingStatus(
                    topic: Int32(partition.topic),
                    partition: Int32(partition.number),
                    assignmentNumber: entry.assignmentNumber,
                    startOffset: worker.rereading.startOffsets[partition],
                    settledEndOffset: findSettledEndOffset(of: partition, entry, worker),
                    rereading: entry.rereading.map { ($0.identifier, $0.isComplete) },
                    hasSettledRecordsAtStart: worker.rereading.startOffsets[partition] == 0
                        && CommitMetadata.namesSettledRecords(worker.rereading.committedOffsets[partition])
                )
            )
        }
        worker.rereading.publishedStatuses = statuses
    }

    // MARK: - Watching the marks

    /// Lets each worker read the marks when a poll is due, and continue its rereadings. Repeats itself until the faults
    /// are over and all marks are complete.
    func watchStore() {
        for case let worker? in workers {
            let hasNewAssignment = worker.rereading.publishedStatuses.contains {
                !worker.rereading.checkedAssignmentNumbers.contains($0.assignmentNumber)
            }
            let isPollDue = hasNewAssignment || now >= worker.rereading.nextPollAtMilliseconds
            if isPollDue, now >= redisOutageEndMilliseconds {
                pollMarks(worker)
                worker.rereading.nextPollAtMilliseconds = now + SimulatedRereading.pollMilliseconds
            }
            seekDrainedPartitions(worker)
            beginRereadings(worker)
            publishStatuses(of: worker)
        }
        guard now < faultsEndMilliseconds || !isRereadingOver else { return }
        scheduledEvents.append((now + SimulatedRereading.stepMilliseconds, { [self] in watchStore() }))
    }

    private var isRereadingOver: Bool {
        var completeness = MemberCompleteness()
        let marks = log.allPartitions.map { losses.marks[$0].flatMap { PartitionMark($0) } }
        let status = completeness.updateStatus(
            [(runIdentifier: losses.runIdentifier, marks: marks)],
            nowMilliseconds: now
        )
        let isAnyWaiting = workers.contains { worker in
            guard let worker else { return false }
            return !worker.rereading.waitingRequests.isEmpty || !worker.rereading.drainingPartitions.isEmpty
        }
        return status == .complete && !isAnyWaiting
    }

    private func pollMarks(_ worker: SimulatedWorker) {
        let statuses = worker.rereading.publishedStatuses
        worker.rereading.checkedAssignmentNumbers.formIntersection(statuses.map(\.assignmentNumber))
        let checkedNumbers = worker.rereading.checkedAssignmentNumbers
        worker.rereading.requestedIdentifiers = worker.rereading.requestedIdentifiers.filter {
            checkedNumbers.contains($0.key)
        }
        for publishedStatus in statuses {
            var status = publishedStatus
            if let identifier = worker.rereading.requestedIdentifiers[status.assignmentNumber],
                status.rereading?.identifier != identifier
            {
                status.rereading = (identifier, isComplete: false)
            }
            let partition = SimulatedLog.Partition(topic: Int(status.topic), number: Int(status.partition))
            let mark = losses.marks[partition].flatMap { PartitionMark($0) }
            let action = MarkAction.next(
                for: status,
                primaries: [(runIdentifier: losses.runIdentifier, mark: mark)],
                isFirstCheck: !checkedNumbers.contains(status.assignmentNumber)
            )
            perform(action, of: status, partition, mark, worker)
        }
        worker.rereading.checkedAssignmentNumbers.formUnion(statuses.map(\.assignmentNumber))
    }

    private func perform(
        _ action: MarkAction,
        of status: PartitionRereadingStatus,
        _ partition: SimulatedLog.Partition,
        _ mark: PartitionMark?,
        _ worker: SimulatedWorker
    ) {
        var newMark = PartitionMark(
            runIdentifier: losses.runIdentifier,
            storedEndOffset: status.settledEndOffset
        )
        switch action {
        case .nothing: return
        case .writeFirstMarks:
            let nextOffset = worker.rereading.assignments[partition.topicPartition]?.nextOffset ?? -1
            if losses.count > 0, nextOffset > 0 { losses.wasUnnoticed = true }
        case .advance, .complete, .lower: break
        case .reread(_, let firstMissingOffset, let isPrimaryEmptied):
            let identifier = random.nextNonzero()
            worker.rereading.requestedIdentifiers[status.assignmentNumber] = identifier
            (newMark.storedEndOffset, newMark.rereadingIdentifier) = (mark?.storedEndOffset, identifier)
            if isPrimaryEmptied { losses.emptiedCount += 1 } else { losses.replacedCount += 1 }
            worker.rereading.waitingRequests.append(
                RereadingRequest(
                    topic: status.topic,
                    partition: status.partition,
                    assignmentNumber: status.assignmentNumber,
                    firstMissingOffset: firstMissingOffset,
                    rereadingIdentifier: identifier,
                    isPrimaryEmptied: isPrimaryEmptied
                )
            )
        }
        losses.marks[partition] = newMark.text
    }

    // MARK: - Reading again

    /// Lets the lane drain each partition that must be read again. A rereading without records is complete at once.
    private func beginRereadings(_ worker: SimulatedWorker) {
        let requests = worker.rereading.waitingRequests.filter { worker.rereading.isCurrent($0) }
        worker.rereading.waitingRequests = []
        for request in requests {
            let partition = SimulatedLog.Partition(request)
            guard let entry = worker.rereading.assignments[request.topicPartition],
                let position = worker.positions[partition]
            else { continue }
            // The partition is moving to another worker. During a rebalance, the Kafka thread begins no rereading.
            let isDraining = worker.rereading.drainingPartitions.contains {
                $0.request.assignmentNumber == request.assignmentNumber
            }
            guard position.nextOffset != .max || isDraining else {
                worker.rereading.waitingRequests.append(request)
                continue
            }
            let writtenEndOffset = entry.computeWrittenEndOffset(
                startOffset: worker.rereading.startOffsets[partition] ?? 0,
                progress: findKnownProgress(of: partition, worker)
            )
            guard let startPosition = findStartPosition(request, partition, entry, worker),
                writtenEndOffset > max(0, startPosition.rawOffset)
            else {
                worker.rereading.assignments.markRereadingUnneeded(
                    of: request.topicPartition,
                    identifier: request.rereadingIdentifier
                )
                continue
            }
            trace?("\(now % 1_000_000) \(partition) will be read again from \(startPosition)")
            if startPosition.rawOffset > 0 { losses.laterBeginningCount += 1 }
            worker.positions[partition]?.nextOffset = .max
            worker.delivery.beginRevoking(position.indexInCore, now: worker.moment(now))
            worker.rereading.drainingPartitions.append(
                .init(
                    request: request,
                    startPosition: startPosition,
                    drainEndMilliseconds: now + RereadingState.drainMillisecondsMax
                )
            )
        }
    }

    /// Returns where the rereading begins; nil if no record must be read again.
    private func findStartPosition(
        _ request: RereadingRequest,
        _ partition: SimulatedLog.Partition,
        _ entry: AssignmentTable.Entry,
        _ worker: SimulatedWorker
    ) -> SeekPosition? {
        let records = log.records[partition, default: []]
        let oldestMilliseconds = now - SimulatedRereading.commandAgeMillisecondsMax
        let firstRecentOffset = records.firstIndex { $0.timestampMilliseconds >= oldestMilliseconds }
        let recentCommands = RereadingStart.RecentRecords(
            firstRecentOffset: firstRecentOffset.map { Int64($0) },
            firstTimedOffset: records.isEmpty ? nil : 0
        )
        let result = RereadingStart.findPosition(
            firstMissingOffset: request.firstMissingOffset,
            recentRecords: partition.holdsCommands ? recentCommands : .all,
            logOffsets: 0..<Int64(records.count),
            settledEndOffset: findSettledEndOffset(of: partition, entry, worker),
            settledOffsetAboveLogEnd: nil
        )
        switch result {
        case .success(let position): return position
        case .failure(let error):
            violations.append("\(partition) is not read again: \(error.reason)")
            return nil
        }
    }

    /// Begins the rereadings of all partitions together, when each of them is drained or its drain time is over.
    private func seekDrainedPartitions(_ worker: SimulatedWorker) {
        let drainingPartitions = worker.rereading.drainingPartitions.filter { worker.rereading.isCurrent($0.request) }
        worker.rereading.drainingPartitions = drainingPartitions
        for drainingPartition in drainingPartitions {
            applyReport(of: SimulatedLog.Partition(drainingPartition.request), by: worker)
        }
        let isReady = drainingPartitions.allSatisfy {
            worker.rereading.assignments[$0.request.topicPartition]?.isDrained == true
                || now >= $0.drainEndMilliseconds
        }
        guard isReady, !drainingPartitions.isEmpty else { return }
        // The group commits what the lane reported before the rereading, also if the partition moves during it.
        commit(worker)
        for drainingPartition in drainingPartitions { assignAgain(drainingPartition, worker) }
        worker.rereading.drainingPartitions = []
    }

    /// Ends the partition's assignment and begins another, in which the lane also processes the settled records.
    private func assignAgain(_ drainingPartition: SimulatedRereading.DrainingPartition, _ worker: SimulatedWorker) {
        let request = drainingPartition.request
        let partition = SimulatedLog.Partition(request)
        guard let entry = worker.rereading.assignments[request.topicPartition],
            let position = worker.positions[partition]
        else { return }
        let settledEndOffset = findSettledEndOffset(of: partition, entry, worker)
        let progress = findKnownProgress(of: partition, worker)
        let metadata = progress?.committableOffset == settledEndOffset ? progress?.metadata ?? [] : []
        let nextOffset: Int64
        switch drainingPartition.startPosition.limited(to: settledEndOffset) {
        case .beginning: nextOffset = 0
        case .offset(let offset): nextOffset = offset
        case .end: return violations.append("\(partition): a rereading begins at the log's end")
        }
        worker.delivery.release(partition: position.indexInCore, now: worker.moment(now))
        let topic: RecordTopic = partition.holdsCommands ? .commands : .registrations
        guard let indexInCore = worker.delivery.assign(topic: topic, number: request.partition) else {
            return violations.append("\(partition) was not assigned again")
        }
        worker.rereading.assignments.insert(request.topicPartition, lane: 0)
        worker.rereading.assignments.beginRereading(
            of: request.topicPartition,
            identifier: request.rereadingIdentifier,
            endOffset: settledEndOffset,
            hasSettledRecordsAboveEnd: !metadata.isEmpty
        )
        metadata.withUnsafeBytes {
            worker.delivery.noteRereadRecords(indexInCore, below: settledEndOffset, metadata: $0)
        }
        worker.rereading.startOffsets[partition] = nextOffset
        worker.positions[partition] = .init(indexInCore: indexInCore, nextOffset: nextOffset)
        trace?("\(now % 1_000_000) \(partition) is read again from \(nextOffset) to \(settledEndOffset)")
    }
}
