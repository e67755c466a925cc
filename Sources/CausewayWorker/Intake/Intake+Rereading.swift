import Delivery
import Kafka
import Logging
import Observability
import Reactor

/// What the Kafka thread notes about the partitions that are read again (``Intake/rereadPartitions()``).
struct RereadingState {
    /// How long a lane may take to settle what is in flight in a partition. The time is long, because the lane's
    /// connection to Redis may return seconds after the connection of `StoreWatch`, which found the loss.
    static let drainMillisecondsMax: Int64 = 10_000
    /// The time between two attempts to begin rereadings, or to seek to their starting offsets. If no broker has
    /// responded, or if a request waits for an operator, the next attempt to begin comes after
    /// `brokerRequestIntervalMilliseconds`.
    static let retryIntervalMilliseconds: Int64 = 1_000
    /// The time between two requests to the brokers for committed offsets and the number of partitions.
    /// `brokerRequestTimeoutMilliseconds` limits how long the Kafka thread waits for each request.
    static let brokerRequestIntervalMilliseconds: Int64 = 5_000
    static let brokerRequestTimeoutMilliseconds: Int32 = 500
    /// How often the Kafka thread publishes the state of the partitions for `StoreWatch`: several times between two
    /// polls of `StoreWatch`, so that each poll sees new offsets.
    static let publicationIntervalMilliseconds: Int64 = 200

    /// A partition that its lane is draining (settling its records in flight) before a rereading. The rereading of all
    /// such partitions begins together, when each of them is drained or its `drainEndMilliseconds` has passed.
    fileprivate struct DrainingPartition {
        var request: RereadingRequest
        var startPosition: SeekPosition
        var drainEndMilliseconds: Int64
    }

    /// For each partition: the progress (which records are settled) that was last stored for a commit. The lane gets it
    /// back when a rereading begins.
    var storedProgress: [TopicPartition: PartitionProgress] = [:]
    /// The starting offsets of partitions whose assignment did not name one, usually because the group coordinator had
    /// not responded. They are the committed offsets, fetched later; 0: nothing is committed.
    fileprivate var fetchedStartOffsets: [TopicPartition: Int64] = [:]
    /// The partitions that perhaps have no marks in Redis yet (R24). Each of their commits has a note about this
    /// (``CommitMetadata``).
    var unmarkedPartitions: Set<TopicPartition> = []
    /// For each partition: a settled offset that is wrong, because it is above the end of the log. The partition is not
    /// read again as long as its settled offset stays the same (``RereadingStart``).
    fileprivate(set) var settledOffsetsAboveLogEnd: [TopicPartition: Int64] = [:]
    /// For each partition whose settled offset is above its log's end: when this was first found, monotonic
    /// milliseconds.
    var firstFoundAboveLogEndAtMilliseconds: [TopicPartition: Int64] = [:]
    /// The number of partitions of the registrations topic; nil: not known yet.
    fileprivate var registrationPartitionCount: Int?
    fileprivate var needsPartitionCount = true
    fileprivate var waitingRequests: [RereadingRequest] = []
    fileprivate var drainingPartitions: [DrainingPartition] = []
    fileprivate var rereadingAttemptDueMilliseconds: Int64 = 0
    fileprivate var seekAttemptDueMilliseconds: Int64 = 0
    /// When the next requests for offsets, or for the number of partitions, may be sent.
    fileprivate var brokerRequestDueMilliseconds: Int64 = 0
    fileprivate var publicationDueMilliseconds: Int64 = 0

    /// Makes the Kafka thread publish the partitions' states in its next iteration, without waiting for the end of
    /// ``publicationIntervalMilliseconds``. `StoreWatch` must write the marks of a new partition before many of its
    /// records are settled.
    mutating func requestPublicationSoon() { publicationDueMilliseconds = 0 }

    /// Makes the Kafka thread ask again for the number of partitions of the registrations topic. Call this after each
    /// assignment, because new partitions of this topic may have caused the assignment.
    mutating func requestPartitionCountSoon() { (needsPartitionCount, brokerRequestDueMilliseconds) = (true, 0) }

    /// Forgets a partition that was revoked.
    mutating func remove(_ partition: TopicPartition) {
        storedProgress[partition] = nil
        fetchedStartOffsets[partition] = nil
        unmarkedPartitions.remove(partition)
        settledOffsetsAboveLogEnd[partition] = nil
        firstFoundAboveLogEndAtMilliseconds[partition] = nil
    }
}

extension RereadingRequest {
    var topicPartition: TopicPartition {
        TopicPartition(topic: TopicIdentifier(index: topic), partition: partition)
    }
}

/// The Kafka thread's work on the partitions that are read again, because Redis has lost some of what their records
/// wrote.
///
/// First the lane settles the records in flight (for at most `drainMillisecondsMax`), so that nothing is sent twice.
/// Then the partition is assigned to its lane again, as after a rebalance; other partitions continue. If the partition
/// gets another owner before the rereading is complete, the new owner finds incomplete marks and reads the partition
/// again.
///
/// The lane treats the reread records as a backlog: if it has room, it reads ahead and keeps only the newest states.
/// New records wait behind them.
extension Intake {
    /// Continues all rereadings, and publishes the state of the partitions for `StoreWatch`. The Kafka thread calls
    /// this in each iteration.
    func rereadPartitions() {
        let requests = setup.storeWatchMailbox.takeRequests()
        countRedisLosses(in: requests)
        rereading.waitingRequests += requests
        if !rereading.drainingPartitions.isEmpty { seekDrainedPartitions() }
        if !rereading.waitingRequests.isEmpty, isAnyBrokerUp == true,
            loop.nowMilliseconds >= rereading.rereadingAttemptDueMilliseconds
        {
            beginRereadings()
        }
        guard loop.nowMilliseconds >= rereading.publicationDueMilliseconds else { return }
        rereading.publicationDueMilliseconds =
            loop.nowMilliseconds + RereadingState.publicationIntervalMilliseconds
        if loop.nowMilliseconds >= rereading.brokerRequestDueMilliseconds, isAnyBrokerUp == true {
            fetchStartOffsetsAndPartitionCount()
        }
        noteWrittenMarks()
        publishStatus()
    }

    private func countRedisLosses(in requests: [RereadingRequest]) {
        for loss in RedisLoss.allCases {
            let hasHappened = requests.contains { $0.isPrimaryEmptied == (loss == .emptied) }
            if hasHappened { metrics.add(.redisLosses, Int(loss.rawValue)) }
        }
    }

    /// The number of partitions that are being read again or wait for a rereading.
    var rereadingPartitionCount: Int {
        let requestedPartitions = Set(
            rereading.waitingRequests.map(\.topicPartition) + rereading.drainingPartitions.map(\.request.topicPartition)
        )
        return assignments.assignedPartitions.count {
            requestedPartitions.contains($0) || assignments[$0]?.rereading?.isComplete == false
        }
    }

    // MARK: - Status of the partitions for `StoreWatch`

    /// The partitions that have marks: those of the topics of commands and registrations. A partition without a lane
    /// has none, because its records are discarded.
    ///
    /// The deferred and the fan-out topic need no marks, because their commands are also in the commands topic, and are
    /// read again there. Known issue (K12): if Redis loses only what a deferred command wrote after its return, no mark
    /// shows this loss, and the command is not read again.
    ///
    /// A command that is read again may also have a deferred record. If this lane has deferred it, the lane waits for
    /// this record, and sends the command with its alert. Otherwise the lane does not know about the record, and sends
    /// the state at once, without the alert (R25). Known issue (K26): the record is then a duplicate, so the alert
    /// never rings.
    private var markedPartitions: [TopicPartition] {
        assignments.assignedPartitions.filter { Self.hasMarks($0.topic) && assignments[$0]?.lane != nil }
    }

    /// Whether the partitions of a topic have marks.
    static func hasMarks(_ topic: TopicIdentifier) -> Bool {
        topic.index == commandsTopicIndex || topic.index == registrationsTopicIndex
    }

    /// Publishes the state of the marked partitions. Leaves out a partition whose starting offset is unknown. Without
    /// this offset, `StoreWatch` cannot distinguish a lost mark from a mark that was never written.
    private func publishStatus() {
        setup.storeWatchMailbox.publish(
            markedPartitions.compactMap { partition in
                guard let entry = assignments[partition], let startOffset = findStartOffset(of: partition) else {
                    return nil
                }
                return PartitionRereadingStatus(
                    topic: partition.topic.index,
                    partition: partition.partition,
                    assignmentNumber: entry.assignmentNumber,
                    startOffset: startOffset,
                    settledEndOffset: findSettledEndOffset(of: partition, entry),
                    rereading: entry.rereading.map { ($0.identifier, $0.isComplete) },
                    mayBeUnmarked: rereading.unmarkedPartitions.contains(partition),
                    hasSettledRecordsAtStart: startOffset == 0
                        && CommitMetadata.namesSettledRecords(consumer.committedOffsets[partition])
                )
            },
            registrationPartitionCount: rereading.registrationPartitionCount
        )
    }

    /// Returns where this assignment of the partition, or its last rereading, began to read; nil: not known yet.
    private func findStartOffset(of partition: TopicPartition) -> Int64? {
        switch consumer.startPositions[partition] {
        case .offset(let offset)?: offset
        case .beginning?: 0
        case .end?, nil: rereading.fetchedStartOffsets[partition]
        }
    }

    /// Returns the offset below which all records of a partition are settled.
    func findSettledEndOffset(of partition: TopicPartition, _ entry: AssignmentTable.Entry) -> Int64 {
        entry.computeSettledEndOffset(startOffset: findStartOffset(of: partition) ?? 0)
    }

    /// Asks the brokers for the starting offsets that are not known yet, and if necessary for the number of partitions
    /// of the registrations topic. The Kafka thread waits for the brokers.
    private func fetchStartOffsetsAndPartitionCount() {
        let partitionsWithUnknownStart = markedPartitions.filter { findStartOffset(of: $0) == nil }
        guard !partitionsWithUnknownStart.isEmpty || rereading.needsPartitionCount else { return }
        let timeoutMilliseconds = RereadingState.brokerRequestTimeoutMilliseconds
        noteBlocking(milliseconds: 4 * Int64(timeoutMilliseconds))
        if !partitionsWithUnknownStart.isEmpty,
            let committedOffsets = try? consumer.fetchCommittedOffsets(
                of: partitionsWithUnknownStart,
                timeoutMilliseconds: timeoutMilliseconds
            )
        {
            for (partition, offsetOrError) in zip(partitionsWithUnknownStart, committedOffsets) {
                switch offsetOrError {
                case .success(let offset): rereading.fetchedStartOffsets[partition] = offset ?? 0
                case .failure(let error): reportError(error)
                }
            }
        }
        let registrations = TopicIdentifier(index: Self.registrationsTopicIndex)
        if rereading.needsPartitionCount,
            let count = try? consumer.fetchPartitionCount(of: registrations, timeoutMilliseconds: timeoutMilliseconds)
        {
            (rereading.registrationPartitionCount, rereading.needsPartitionCount) = (count, false)
        }
        loop.refreshClock()
        rereading.brokerRequestDueMilliseconds = loop.nowMilliseconds + RereadingState.brokerRequestIntervalMilliseconds
    }

    // MARK: - Reading again

    /// Begins to handle the waiting requests to read partitions again. If a partition has records that must be read
    /// again, its lane first drains it. Otherwise its rereading is complete at once.
    ///
    /// A request waits for the next attempt after an error about its partition, or while its settled offset is above
    /// the log's end and perhaps wrong. All requests wait if no broker responds. Meanwhile the marks stay incomplete,
    /// so a next owner would request the rereading again.
    private func beginRereadings() {
        var retryIntervalMilliseconds = RereadingState.retryIntervalMilliseconds
        let requests = rereading.waitingRequests.filter {
            assignments[$0.topicPartition]?.assignmentNumber == $0.assignmentNumber
        }
        rereading.waitingRequests = []
        guard !requests.isEmpty else { return }
        noteBlocking(milliseconds: 3 * Int64(Consumer.requestTimeoutMilliseconds))
        do throws(KafkaError) {
            let startPositions = try fetchRereadingStartPositions(of: requests)
            loop.refreshClock()
            for (request, startPositionOrError) in zip(requests, startPositions) {
                guard let entry = assignments[request.topicPartition] else { continue }
                let foundPosition: SeekPosition?
                switch startPositionOrError {
                case .success(let position): foundPosition = position
                case .failure(let error):
                    // The request failed only for this partition, so continue with the other partitions.
                    rereading.waitingRequests.append(request)
                    if error.isOffsetOutOfRange {
                        // The settled offset is wrong, and only an operator can set another one. So ask the brokers
                        // rarely.
                        retryIntervalMilliseconds = RereadingState.brokerRequestIntervalMilliseconds
                    }
                    reportStartFailure(error, of: request.topicPartition, entry)
                    continue
                }
                let writtenEndOffset = entry.computeWrittenEndOffset(
                    startOffset: findStartOffset(of: request.topicPartition) ?? 0,
                    progress: findKnownProgress(of: request.topicPartition)
                )
                guard let startPosition = foundPosition, writtenEndOffset > max(0, startPosition.rawOffset) else {
                    assignments.markRereadingUnneeded(
                        of: request.topicPartition,
                        identifier: request.rereadingIdentifier
                    )
                    continue
                }
                sendLaneOrder(.revoke, request.topicPartition)
                let endMilliseconds = loop.nowMilliseconds + RereadingState.drainMillisecondsMax
                rereading.drainingPartitions.append(
                    .init(request: request, startPosition: startPosition, drainEndMilliseconds: endMilliseconds)
                )
            }
            if !rereading.drainingPartitions.isEmpty {
                writeLog(.rereadingBegan, ["partitions": "\(rereading.drainingPartitions.count)"])
            }
        } catch {
            rereading.waitingRequests = requests
            reportError(error)
            loop.refreshClock()
            retryIntervalMilliseconds = RereadingState.brokerRequestIntervalMilliseconds
        }
        // Count the time until the next attempt from the responses: the thread may have waited longer than this for the
        // brokers.
        rereading.rereadingAttemptDueMilliseconds = loop.nowMilliseconds + retryIntervalMilliseconds
        publishStatus()
    }

    /// Reports why a partition's rereading cannot begin yet. A wrong settled offset, whose wait only an operator can
    /// end, is noted for `judgeSettledOffset`, and is reported once, not at each attempt.
    private func reportStartFailure(
        _ error: KafkaError,
        of partition: TopicPartition,
        _ entry: AssignmentTable.Entry
    ) {
        if error.isOffsetOutOfRange {
            let settledEndOffset = findSettledEndOffset(of: partition, entry)
            guard rereading.settledOffsetsAboveLogEnd[partition] != settledEndOffset else { return }
            rereading.settledOffsetsAboveLogEnd[partition] = settledEndOffset
        }
        var reportedError = error
        reportedError.reason = "\(name(of: partition)): \(error.reason)"
        reportError(reportedError)
    }

    /// Does nothing until each partition that must be read again is drained or its drain time is over. Then seeks these
    /// partitions to their starting offsets, and assigns them to their lanes again. After a failed seek, the remaining
    /// partitions wait for the next attempt.
    ///
    /// The partitions must begin together. Otherwise a lane that still drains one partition would take the records of
    /// another partition for the whole backlog, and would send old states.
    private func seekDrainedPartitions() {
        let drainingPartitions = rereading.drainingPartitions.filter {
            assignments[$0.request.topicPartition]?.assignmentNumber == $0.request.assignmentNumber
        }
        rereading.drainingPartitions = drainingPartitions
        let isReady = drainingPartitions.allSatisfy {
            assignments[$0.request.topicPartition]?.isDrained == true || loop.nowMilliseconds >= $0.drainEndMilliseconds
        }
        guard isReady, loop.nowMilliseconds >= rereading.seekAttemptDueMilliseconds else { return }
        let undrainedCount = drainingPartitions.count { assignments[$0.request.topicPartition]?.isDrained != true }
        if undrainedCount > 0 {
            writeLog(.drainTimeOver, ["partitions": "\(undrainedCount)", "cause": "Redis has lost writes"])
        }
        noteBlocking(milliseconds: 2 * Int64(Consumer.requestTimeoutMilliseconds))
        for (index, drainingPartition) in drainingPartitions.enumerated() {
            let topicPartition = drainingPartition.request.topicPartition
            guard let entry = assignments[topicPartition] else { continue }
            // Read the settled offset before the seek: this offset depends on the consumer's start position, which the
            // seek overwrites.
            let settledEndOffset = findSettledEndOffset(of: topicPartition, entry)
            if let error = consumer.seek(
                topicPartition,
                to: drainingPartition.startPosition.limited(to: settledEndOffset)
            ) {
                reportError(error)
                // Try again later with this partition and the partitions after it. If a broker does not respond now,
                // the requests for the next partitions would probably fail too.
                loop.refreshClock()
                rereading.seekAttemptDueMilliseconds = loop.nowMilliseconds + RereadingState.retryIntervalMilliseconds
                rereading.drainingPartitions = Array(drainingPartitions[index...])
                return
            }
            assignAgain(drainingPartition.request, settledEndOffset: settledEndOffset)
        }
        rereading.drainingPartitions = []
    }

    /// Ends the partition's assignment and begins another, in which the lane also processes records that were settled
    /// before. Does nothing if this worker has lost the partition.
    private func assignAgain(_ request: RereadingRequest, settledEndOffset: Int64) {
        guard let lane = assignments[request.topicPartition]?.lane else { return }
        sendLaneOrder(.release, request.topicPartition, rereadsSettledRecords: true)
        assignments.insert(request.topicPartition, lane: lane)
        let settledOffset = CommittedOffset(
            offset: settledEndOffset,
            metadata: makeSettledOffsetsText(above: settledEndOffset, of: request.topicPartition)
        )
        assignments.beginRereading(
            of: request.topicPartition,
            identifier: request.rereadingIdentifier,
            endOffset: settledEndOffset,
            hasSettledRecordsAboveEnd: !settledOffset.metadata.isEmpty
        )
        sendLaneOrder(
            .assign,
            request.topicPartition,
            rereadsSettledRecords: true,
            committedOffset: settledOffset
        )
    }

    /// Returns the settled offsets above `endOffset`, in the form of a commit's metadata, from the last known progress.
    /// Empty if this progress has another offset than `endOffset`.
    private func makeSettledOffsetsText(above endOffset: Int64, of partition: TopicPartition) -> [UInt8] {
        guard let progress = findKnownProgress(of: partition), progress.committableOffset == endOffset else {
            return []
        }
        return progress.metadata
    }

    /// Returns the progress that was last stored for a commit since this worker got the partition or, before that, what
    /// the previous owner committed. Nil if neither is known.
    func findKnownProgress(of partition: TopicPartition) -> PartitionProgress? {
        rereading.storedProgress[partition]
            ?? findCommittedOffset(of: partition)
            .map { PartitionProgress(committableOffset: $0.offset, metadata: $0.metadata) }
    }
}

extension SeekPosition {
    /// Limits this position to the settled offset, so that no unsettled record is skipped, even if a mark names a
    /// higher offset.
    func limited(to settledEndOffset: Int64) -> SeekPosition {
        if case .offset(let offset) = self { .offset(min(offset, settledEndOffset)) } else { self }
    }
}
