import Delivery
import Kafka
import Logging
import Observability
import Reactor

/// The Kafka thread. It is the worker's member of the consumer group, takes the producer's delivery reports, and
/// exchanges records and reports with the lanes.
///
/// It polls records and deals them to the lanes by partition. It stores the offsets that the lanes report as settled.
/// Four times a second by default, it commits the stored offsets, with the settled offsets above them as metadata
/// (R10). If a lane takes no records, the thread pauses that lane's partitions and polls for the others.
final class Intake: DescriptorHandler, TimerHandler, IterationEndHandler, ConsumerHandler, LoggingThread {
    /// Indices of the topics in the consumer's list.
    static let commandsTopicIndex: Int32 = 0
    static let registrationsTopicIndex: Int32 = 1
    static let deferredTopicIndex: Int32 = 2
    static let fanoutTopicIndex: Int32 = 3
    static let topicCount = 4

    /// The maximum number of records and other events that one iteration polls.
    static let recordsPerIterationMax = LaneMailbox.inboxCapacity
    /// The least time between two iterations of this thread (passes of its event loop). Each iteration polls
    /// librdkafka. Waking the threads costs the same for one record as for a hundred, so fewer iterations with more
    /// records cost less. (`Lane.iterationIntervalMicrosecondsMin` has the figures.)
    static let iterationIntervalMicrosecondsMin: Int64 = 10_000
    /// The thread polls at least this often, even without a signal. librdkafka signals only the first record in an
    /// empty queue, so after a missed signal there may be no other.
    static let pollIntervalMilliseconds: Int64 = 100

    enum Phase {
        /// The thread works as usual. Next: `draining`, by `stop` or `fail`.
        case running
        /// No new work begins. After `stop`, the thread drains all partitions. Next: `closed`, by `close`.
        case draining
        /// `close` has begun: it commits the offsets and leaves the group. No phase follows.
        case closed
    }

    private enum TimerTag: UInt64 {
        case poll, fetching
    }

    let setup: IntakeSetup
    let consumer: Consumer
    private let laneRings: [LaneRings]
    /// The lanes that got an entry or an order since the last `wakeLanes`, one bit each. Lanes whose numbers differ by
    /// a multiple of 64, such as 3 and 67, share a bit and are woken together.
    private var lanesToWake: UInt64 = 0
    /// The intake owns this handler. The handler refers to the intake weakly.
    private let consumerHandler: IntakeConsumerHandler
    /// As `consumerHandler`, for the producer.
    private let producerHandler = IntakeProducerHandler()
    let loop: EventLoop
    let signals: IntakeSignals

    var metrics: ThreadMetrics
    var log: LimitedLog
    /// The index of each error's label in the metrics, by librdkafka's error code.
    let errorLabelIndices: [Int32: Int]
    /// Whether any broker is up; nil: librdkafka has not reported this yet.
    var isAnyBrokerUp: Bool?

    var phase = Phase.running
    var assignments = AssignmentTable()
    private var isIterationEndRequested = false
    var logEndReportDueMilliseconds: Int64 = 0
    private var fetchTrigger = FetchTrigger()
    /// Whether a timer is set that calls `wakeFetchingIfDue` again.
    private var isFetchTimerSet = false
    var partitionsWithoutPosition = PartitionsWithoutPosition()
    var unfetchedPartitions = UnfetchedPartitions()
    var emptyAssignmentCheck = EmptyAssignmentCheck()
    var rereading = RereadingState()
    /// For each lane: the records that did not fit its inbox.
    var laneOverflows: [LaneOverflow]
    /// For each lane: counts and limits the bytes of the records in its inbox.
    private var inboxLimiters: [InboxByteLimiter]
    var pausedPartitions = PausedPartitions()
    /// For each lane: when one of its APNs pools last began to work again, UNIX milliseconds; 0: never. Records that
    /// were deferred before that time are read even if they are not due.
    var poolRecoveredAtWallMillisecondsByLane: [Int64]

    init(loop: EventLoop, setup: IntakeSetup, signals: IntakeSignals) throws {
        self.loop = loop
        loop.iterationIntervalMicrosecondsMin = Self.iterationIntervalMicrosecondsMin
        self.signals = signals
        self.setup = setup
        laneRings = setup.mailboxes.map { LaneRings($0) }
        laneOverflows = setup.mailboxes.map { _ in LaneOverflow() }
        inboxLimiters = setup.mailboxes.map {
            InboxByteLimiter(bytesMax: setup.inboxBytesMax, capacity: $0.inbox.capacity)
        }
        poolRecoveredAtWallMillisecondsByLane = setup.mailboxes.map { _ in 0 }
        metrics = ThreadMetrics(publishingTo: setup.metricRegistry.kafkaThreadMetrics)
        log = LimitedLog(logger: setup.logger, events: setup.metricRegistry.events)
        errorLabelIndices = LabelValues.kafkaErrorIndices
        let consumerHandler = IntakeConsumerHandler()
        consumer = try Consumer(
            properties: setup.consumerProperties,
            topics: setup.topics,
            handler: consumerHandler,
            eventHandler: consumerHandler
        )
        self.consumerHandler = consumerHandler
        consumerHandler.intake = self
        producerHandler.intake = self
        setup.producer.setEventHandler(producerHandler)
        consumer.setWakeup(descriptor: setup.wakeup.descriptor)
        setup.producer.setWakeup(descriptor: setup.wakeup.descriptor)
        try loop.add(descriptor: setup.wakeup.descriptor, interest: .readable, handler: self)
        schedulePoll()
    }

    func descriptorReady(_ events: DescriptorEvents) {
        setup.wakeup.reset()
        requestCallAtIterationEnd()
    }

    func timerFired(tag: UInt64) {
        requestCallAtIterationEnd()
        switch TimerTag(rawValue: tag) {
        case .poll: if phase != .closed { schedulePoll() }
        case .fetching: isFetchTimerSet = false
        case nil: preconditionFailure("a timer that no intake sets")
        }
    }

    private func schedulePoll() {
        _ = loop.schedule(afterMilliseconds: Self.pollIntervalMilliseconds, handler: self, tag: TimerTag.poll.rawValue)
    }

    private func requestCallAtIterationEnd() {
        guard !isIterationEndRequested else { return }
        isIterationEndRequested = true
        loop.callAtIterationEnd(self)
    }

    /// Does the work of one iteration. After a stop has begun, does nothing.
    func iterationEnded() {
        isIterationEndRequested = false
        guard phase == .running else { return }
        takePartitionReports()
        if let error = consumer.commitIfDue(nowMilliseconds: loop.nowMilliseconds) { reportError(error) }
        passDeliveryReports()
        if signals.isStopRequested { return stop() }
        if signals.takeSettingsOffer() { orderLanesToTakeSettings() }
        moveOverflowsToInboxes()
        reportLogEnds()
        resumeDuePartitions()
        pollRecords()
        wakeFetchingIfDue()
        // Each call with this condition may wait for a broker. After the signal to stop, the thread begins none of
        // them.
        if !signals.isStopRequested { recoverPartitionsWithoutPosition() }
        if !signals.isStopRequested { checkEmptyAssignmentIfDue() }
        if !signals.isStopRequested { rereadPartitions() }
        wakeLanes()
        if !signals.isStopRequested { fetchLogEndsIfDue() }
        publishMetricsIfDue()
        if let error = consumer.fatalError ?? setup.producer.fatalError { fail(error) }
    }

    // MARK: - Records from Kafka

    /// Deals fetched records to the lanes, until none is left, a lane has no room, or the iteration has dealt enough.
    private func pollRecords() {
        var pollCount = 0
        var mayContinue = mayPoll
        while pollCount < Self.recordsPerIterationMax, mayContinue {
            switch consumer.poll() {
            case .message(let message):
                pollCount += 1
                if !partitionsWithoutPosition.errors.isEmpty {
                    noteReadingBegan(of: TopicPartition(topic: message.topic, partition: message.partition))
                }
                if let message = takeIfDue(orPausePartitionOf: message), !dealToLane(message) { mayContinue = mayPoll }
            case .none: return
            case .partitionEnd(let partition, let offset):
                pollCount += 1
                noteReadingBegan(of: partition)
                noteReachedLogEnd(of: partition, offset: offset)
            case .error(let error):
                pollCount += 1
                notePollError(error)
            }
        }
        if mayContinue { setup.wakeup.signal() }
    }

    /// Makes librdkafka fetch again before the consumer's queue is empty, so that a backlog is read without pauses.
    private func wakeFetchingIfDue() {
        guard consumer.mustWakeFetching else { return }
        let recordToDealCount = assignments.countRecordsToDeal(of: Self.commandsTopicIndex)
        let isDue = fetchTrigger.triggerIfDue(
            queuedRecordCount: consumer.queuedEventCount,
            recordToDealCount: recordToDealCount,
            nowMilliseconds: loop.nowMilliseconds
        )
        if isDue {
            consumer.wakeFetching(of: assignments.findPartitionsWithRecordsToDeal(of: Self.commandsTopicIndex))
        }
        // A lane in a backlog may produce no results, because newer commands replace older ones. Then no
        // acknowledgement of a result wakes this thread, so a timer does.
        if recordToDealCount > 0, !isFetchTimerSet {
            isFetchTimerSet = true
            _ = loop.schedule(
                afterMilliseconds: FetchTrigger.intervalMilliseconds,
                handler: self,
                tag: TimerTag.fetching.rawValue
            )
        }
    }

    /// Whether the thread may poll records. False while records wait for a lane that is not paused: most waits are
    /// short. After a long wait, the lane is paused, and the thread polls again, unless ``LaneOverflow/entriesMax``
    /// records wait for this lane.
    var mayPoll: Bool {
        laneOverflows.allSatisfy { $0.entries.isEmpty || ($0.isPaused && $0.entries.count < LaneOverflow.entriesMax) }
    }

    /// Deals one record to its partition's lane. Discards a record whose partition has no lane, or whose offset is out
    /// of range.
    ///
    /// - Returns: false if the lane has no room for the record now. The record then waits in the lane's overflow.
    func dealToLane(_ message: consuming Message) -> Bool {
        let topic = message.topic.index
        let (partition, offset) = (message.partition, message.offset)
        guard let assignment = assignments[topic, partition], let lane = assignment.lane else { return true }
        guard AssignmentTable.validOffsets.contains(offset) else {
            // The offset is negative or far too large. Report and discard the record: if a lane settled it, the lane
            // could no longer commit any offset of the partition.
            let topicPartition = TopicPartition(topic: message.topic, partition: partition)
            let reason = "\(name(of: topicPartition)): the record's offset \(offset) is out of range"
            reportError(KafkaError(code: KafkaError.badRecordCode, reason: reason, partition: topicPartition))
            return true
        }
        let recordByteCount = InboxByteLimiter.computeRecordByteCount(of: message)
        let entry = InboxEntry(
            messageAddress: UInt(bitPattern: message.releaseOwnership()),
            assignmentNumber: assignment.assignmentNumber,
            rewindRequestCount: assignment.rewindRequestCount,
            topic: topic,
            partition: partition,
            recordByteCount: UInt32(clamping: recordByteCount)
        )
        noteLaneToWake(lane)
        assignments.noteDealtRecord(topic, partition, offset: offset)
        if topic == Self.commandsTopicIndex, assignment.reportedLogEndOffset < 0 {
            // Send the log's end before the partition's first record. A lane that is far behind must know its backlog
            // before it begins to send.
            reportLogEnd(of: TopicPartition(topic: TopicIdentifier(index: topic), partition: partition))
        }
        // Push the record only if no other waits for the lane. The records of a partition must stay in order.
        if laneOverflows[lane].entries.isEmpty, push(entry, to: lane) { return true }
        laneOverflows[lane].append(entry, nowMilliseconds: loop.nowMilliseconds)
        // Pause a partition of a paused lane only now, after its first record. While librdkafka begins to read a
        // partition, it can lose a pause, or never read the partition.
        if isPaused(lane: lane) {
            consumer.pause([TopicPartition(topic: TopicIdentifier(index: topic), partition: partition)])
        }
        return false
    }

    /// Puts an entry into a lane's inbox. Returns false if the inbox has no room for another entry or for its bytes.
    private func push(_ entry: InboxEntry, to lane: Int) -> Bool {
        // Do not read the ring's count before this call: `makeRoom` reads it only if the inbox seems to be full.
        let hasRoom = inboxLimiters[lane]
            .makeRoom(for: Int(entry.recordByteCount), untakenEntryCount: setup.mailboxes[lane].inbox.count)
        guard hasRoom, laneRings[lane].push(entry) else { return false }
        inboxLimiters[lane].append(Int(entry.recordByteCount))
        return true
    }

    @inline(__always) private func makeWakeBit(of lane: Int) -> UInt64 { 1 << UInt64(lane & 63) }

    @inline(__always) func noteLaneToWake(_ lane: Int) { lanesToWake |= makeWakeBit(of: lane) }

    func wakeLanes() {
        guard lanesToWake != 0 else { return }
        for (lane, mailbox) in setup.mailboxes.enumerated() where lanesToWake & makeWakeBit(of: lane) != 0 {
            mailbox.wakeup.signal()
        }
        lanesToWake = 0
    }

    /// Whether the partitions of a lane are paused because the lane takes no records.
    func isPaused(lane: Int) -> Bool { laneOverflows[lane].isPaused }

    /// Moves waiting records to the inboxes that have room again. Pauses the partitions of a lane whose records have
    /// waited for ``LaneOverflow/pauseAfterMilliseconds``, and resumes them when no record waits and the inbox is half
    /// empty.
    private func moveOverflowsToInboxes() {
        for lane in laneOverflows.indices {
            let inbox = setup.mailboxes[lane].inbox
            while let entry = laneOverflows[lane].entries.first, push(entry, to: lane) {
                laneOverflows[lane].entries.removeFirst()
                noteLaneToWake(lane)
            }
            if laneOverflows[lane].isPauseDue(nowMilliseconds: loop.nowMilliseconds) {
                writeLog(.partitionsPaused, ["lane": "\(lane)"])
                laneOverflows[lane].isPaused = true
                // Pause only the partitions from which a record has been dealt. `dealToLane` pauses every other
                // partition of the lane at its first record.
                consumer.pause(assignments.findPartitionsWithDealtRecords(of: lane))
            } else if laneOverflows[lane].isPaused, laneOverflows[lane].entries.isEmpty,
                inbox.count < inbox.capacity / 2
            {
                inboxLimiters[lane].removeTakenEntries(untakenEntryCount: inbox.count)
                guard inboxLimiters[lane].isAtMostHalfFull else { continue }
                writeLog(.partitionsResumed, ["lane": "\(lane)"])
                laneOverflows[lane].isPaused = false
                resume(assignments.partitions(of: lane))
            }
        }
    }

    // MARK: - Reports of the lanes and of the producer

    /// Takes the lanes' reports: stores their offsets for the next commit, and rewinds partitions as requested.
    func takePartitionReports() {
        for mailbox in setup.mailboxes {
            while let report = mailbox.partitionReports.pop() {
                let progress = report.progress?.takeBoxedValue()
                if let rewindRequest = report.rewindRequest { pauseForRewind(rewindRequest, report) }
                let topicPartition = TopicPartition(
                    topic: TopicIdentifier(index: report.topic),
                    partition: report.partition
                )
                let isCommittable = assignments.applyAndPermitCommit(report, of: progress)
                // Store no offset below `settledLogEndOffset`, which the lane does not know.
                if isCommittable, let progress,
                    progress.committableOffset >= assignments[topicPartition]?.settledLogEndOffset ?? -1
                {
                    rereading.storedProgress[topicPartition] = progress
                    storeOffset(progress, of: topicPartition)
                }
                storeSettledLogEnd(of: topicPartition)
            }
        }
    }

    /// Passes the producer's delivery reports to the lanes that produced the records, and counts those with an error.
    func passDeliveryReports() {
        setup.producer.pollReports { tag, error, _ in
            if error != 0 { countError(code: error) }
            let lane = ProducerTag.lane(of: tag)
            precondition(lane < laneRings.count, "the delivery report names an existing lane")
            let report = DeliveryReport(tag: ProducerTag.outgoingRecordTag(of: tag), errorCode: error)
            let isPushed = laneRings[lane].push(report)
            precondition(isPushed, "the ring has room for a report of each record of the lane")
            noteLaneToWake(lane)
        }
        wakeLanes()
    }

    private func orderLanesToTakeSettings() {
        for mailbox in setup.mailboxes {
            precondition(mailbox.orders.push(LaneOrder(kind: .takeSettings)), "the lane's ring has room for the order")
            mailbox.wakeup.signal()
        }
    }

    func reportError(_ error: KafkaError) {
        countError(error)
        var fields: Logger.Metadata = ["error": "\(error)"]
        if error.isUnknownTopic { fields["help"] = "create the topic: causeway topics --create" }
        writeLog(.kafkaError, fields)
    }
}
