import CRdkafka
import Glibc

/// The offset and the metadata that the group has committed for a partition.
public struct CommittedOffset: Sendable {
    public var offset: Int64
    /// The bytes that the partition's owner committed with the offset.
    public var metadata: [UInt8]
    /// The end of the log at the assignment: the offset that the partition's next record gets. Requested only if there
    /// is metadata. Nil if it was not requested, or if the request failed.
    public var logEndOffset: Int64?

    public init(offset: Int64, metadata: [UInt8]) {
        self.offset = offset
        self.metadata = metadata
    }

    init(_ element: rd_kafka_topic_partition_t) {
        offset = element.offset
        metadata = [UInt8](UnsafeRawBufferPointer(start: element.metadata, count: element.metadata_size))
    }
}

/// The offsets that a consumer has stored, and whether each was sent to the group's coordinator. An offset that the
/// coordinator refuses counts as unsent again.
///
/// At most one commit is in flight. Exception: `commit(until:)` also sends its commit if the one before it is still not
/// acknowledged at the deadline.
struct OffsetCommits {
    private struct StoredOffset {
        var nextOffset: Int64
        var metadata: [UInt8]
        var isSent = false
    }

    private var storedOffsets: [TopicPartition: StoredOffset] = [:]
    private(set) var isCommitInFlight = false
    private var nextCommitDueMilliseconds: Int64 = 0
    /// Whether the broker has refused metadata because of its length (`offset.metadata.max.bytes`). From then on,
    /// commits have no metadata.
    private(set) var omitsMetadata = false
    /// The error of the last acknowledgement, if the coordinator refused offsets because of a rebalance; else nil. The
    /// next commit sends these offsets again.
    private(set) var rebalanceRefusal: KafkaError?
    /// Whether the last acknowledgement refused metadata because of its length. The next commit sends the offsets
    /// without metadata.
    private var wasMetadataRefused = false
    /// The queue that gets the acknowledgements of commits, because `rd_kafka_commit` would wait for them without a
    /// time limit. It has no other events, so that `commit(until:)` handles no rebalance while it waits.
    let acknowledgementQueue: OpaquePointer
    private let intervalMilliseconds: Int64

    init(client: OpaquePointer) {
        acknowledgementQueue = rd_kafka_queue_new(client)
        var value = [CChar](repeating: 0, count: 16)
        var size = value.count
        let hasInterval =
            rd_kafka_conf_get(rd_kafka_conf(client), "auto.commit.interval.ms", &value, &size) == RD_KAFKA_CONF_OK
        // This conversion cannot fail: the consumer's defaults set the property, and librdkafka accepts only numbers
        // for it.
        intervalMilliseconds = hasInterval ? Int64(strtoll(value, nil, 10)) : 0
    }

    func destroyAcknowledgementQueue() { rd_kafka_queue_destroy(acknowledgementQueue) }

    mutating func store(_ partition: TopicPartition, nextOffset: Int64, metadata: [UInt8]) {
        if let known = storedOffsets[partition], known.nextOffset == nextOffset, known.metadata == metadata { return }
        storedOffsets[partition] = StoredOffset(nextOffset: nextOffset, metadata: metadata)
    }

    /// Removes partitions that this consumer gives up.
    mutating func remove(_ partitions: [TopicPartition]) {
        for partition in partitions { storedOffsets[partition] = nil }
    }

    /// Returns whether a commit is due. If true, also begins the interval until the commit after this one.
    mutating func beginNextIntervalIfDue(nowMilliseconds: Int64) -> Bool {
        guard nowMilliseconds >= nextCommitDueMilliseconds else { return false }
        nextCommitDueMilliseconds = nowMilliseconds + intervalMilliseconds
        return true
    }

    /// Sends the offsets that are neither committed nor in flight.
    ///
    /// - Returns: why sending failed; nil if it succeeded or there was nothing to send.
    mutating func send(_ client: OpaquePointer, topics: ClientTopics) -> KafkaError? {
        let unsentOffsets = storedOffsets.filter { !$0.value.isSent }
        guard !unsentOffsets.isEmpty else { return nil }
        let list = PartitionList(capacity: unsentOffsets.count)
        for (partition, storedOffset) in unsentOffsets {
            list.add(
                topics.name(of: partition.topic),
                partition.partition,
                offset: storedOffset.nextOffset,
                metadata: omitsMetadata ? [] : storedOffset.metadata
            )
            storedOffsets[partition]?.isSent = true
        }
        let code = list.withPointer { rd_kafka_commit_queue(client, $0, acknowledgementQueue, { _, _, _, _ in }, nil) }
        guard code == RD_KAFKA_RESP_ERR_NO_ERROR else {
            for partition in unsentOffsets.keys { storedOffsets[partition]?.isSent = false }
            return KafkaError(code)
        }
        isCommitInFlight = true
        return nil
    }

    /// Whether the last acknowledgement refused offsets that the next commit sends again: because of a rebalance, or
    /// because their metadata is too long (it is then left out).
    var mustRetry: Bool { rebalanceRefusal != nil || wasMetadataRefused }

    /// Handles the acknowledgement of a commit. The next commit sends refused offsets again.
    ///
    /// - Returns: why the commit failed; nil if it succeeded, or if it failed only because of a rebalance (then
    ///   `rebalanceRefusal` has the error).
    mutating func handleAcknowledgement(_ event: OpaquePointer, topics: ClientTopics) -> KafkaError? {
        isCommitInFlight = false
        rebalanceRefusal = nil
        wasMetadataRefused = false
        var failure: KafkaError?
        let code = rd_kafka_event_error(event)
        if Self.isTemporary(code) {
            rebalanceRefusal = KafkaError(code)
        } else if code != RD_KAFKA_RESP_ERR_NO_ERROR {
            failure = KafkaError(code)
        }
        guard let list = rd_kafka_event_topic_partition_list(event) else { return failure }
        for element in UnsafeBufferPointer(start: list.pointee.elems, count: Int(list.pointee.cnt)) {
            let refusal = element.err != RD_KAFKA_RESP_ERR_NO_ERROR ? element.err : code
            guard refusal != RD_KAFKA_RESP_ERR_NO_ERROR,
                let topic = element.topic.flatMap({ topics.identifier(named: $0) })
            else { continue }
            let partition = TopicPartition(topic: topic, partition: element.partition)
            storedOffsets[partition]?.isSent = false
            // A refusal because of a rebalance is no failure of the commit. The next commit sends the offset again, at
            // the latest when the partition is revoked.
            if Self.isTemporary(refusal) {
                rebalanceRefusal = KafkaError(refusal, partition: partition)
                continue
            }
            if refusal == RD_KAFKA_RESP_ERR_OFFSET_METADATA_TOO_LARGE, !omitsMetadata {
                omitsMetadata = true
                wasMetadataRefused = true
            }
            failure = KafkaError(refusal, partition: partition)
        }
        return failure
    }

    /// Whether a refusal is temporary. During a rebalance, the coordinator refuses commits from the time when the
    /// members have joined until the group's leader has assigned the partitions.
    private static func isTemporary(_ code: rd_kafka_resp_err_t) -> Bool {
        code == RD_KAFKA_RESP_ERR_REBALANCE_IN_PROGRESS
    }
}

extension Consumer {
    /// Notes that all records before `nextOffset` are done. A later `commitIfDue` or `commitStoredOffsets` commits the
    /// offset. If the partition is revoked first, and is not lost, the consumer itself commits the offset.
    ///
    /// - Parameter metadata: committed with the offset, for the partition's next owner (`committedOffsets`). Brokers
    ///   accept 4,096 bytes by default.
    /// - Returns: an error if this consumer does not have the partition. The offset is then not stored, because its
    ///   commit could overwrite the commits of the partition's owner. Nil if the offset was stored.
    public func storeOffset(
        topic: TopicIdentifier,
        partition: Int32,
        nextOffset: Int64,
        metadata: [UInt8] = []
    ) -> KafkaError? {
        precondition(isOpen && nextOffset >= 0)
        let topicPartition = TopicPartition(topic: topic, partition: partition)
        guard assignment.contains(topicPartition) else {
            return KafkaError(RD_KAFKA_RESP_ERR__STATE, partition: topicPartition)
        }
        offsetCommits.store(topicPartition, nextOffset: nextOffset, metadata: metadata)
        return nil
    }

    /// Commits the stored offsets, at most once in `auto.commit.interval.ms`, and only if no earlier commit is in
    /// flight. Does not wait.
    ///
    /// - Returns: why the commit could not be sent, or why an earlier commit was refused; nil if there is no such
    ///   error. A refusal because of a rebalance is no error. The next commit sends refused offsets again.
    public func commitIfDue(nowMilliseconds: Int64) -> KafkaError? {
        precondition(isOpen)
        guard offsetCommits.beginNextIntervalIfDue(nowMilliseconds: nowMilliseconds) else { return nil }
        let failure = takeCommitAcknowledgements()
        guard !offsetCommits.isCommitInFlight else { return failure }
        return offsetCommits.send(client, topics: topics) ?? failure
    }

    /// Commits the stored offsets that are not committed, and waits for the acknowledgement, at most
    /// `requestTimeoutMilliseconds`.
    ///
    /// - Returns: why the commit failed; nil if it succeeded or there was nothing to commit.
    /// - Warning: Do not call this method between the notice of a rebalance and the new assignment: librdkafka before
    ///   2.10 can then lose the assignment. When partitions are revoked, the consumer itself commits.
    public func commitStoredOffsets() -> KafkaError? {
        precondition(isOpen)
        return commit(until: Deadline(afterMilliseconds: Int64(Self.requestTimeoutMilliseconds)))
    }

    /// Commits the stored offsets, and waits for the acknowledgement until the deadline. Returns why this failed; nil
    /// if it succeeded or there was nothing to commit.
    ///
    /// If the coordinator refuses the commit because of a rebalance, or because its metadata is too long, the commit is
    /// repeated until the deadline: a consumer that leaves the group has no later opportunity.
    func commit(until deadline: Deadline) -> KafkaError? {
        var failure = awaitCommitAcknowledgements(until: deadline)
        while true {
            if let error = offsetCommits.send(client, topics: topics) { return error }
            guard offsetCommits.isCommitInFlight else { return failure }
            failure = awaitCommitAcknowledgements(until: deadline)
            guard offsetCommits.mustRetry, !deadline.hasPassed else {
                return failure ?? offsetCommits.rebalanceRefusal
            }
            if offsetCommits.rebalanceRefusal != nil { pauseBeforeNextCommit(until: deadline) }
        }
    }

    /// Waits a short time before a refused commit is sent again, because no event says when the coordinator accepts
    /// commits again. The wait ends early if an acknowledgement of an earlier commit arrives.
    private func pauseBeforeNextCommit(until deadline: Deadline) {
        let waitMilliseconds = deadline.remainingMilliseconds(atMost: Self.commitRetryPauseMilliseconds)
        if let event = rd_kafka_queue_poll(offsetCommits.acknowledgementQueue, waitMilliseconds) {
            _ = handleAcknowledgement(event)
        }
    }

    private static var commitRetryPauseMilliseconds: Int32 { 50 }

    private func takeCommitAcknowledgements() -> KafkaError? {
        var failure: KafkaError?
        while let event = rd_kafka_queue_poll(offsetCommits.acknowledgementQueue, 0) {
            failure = handleAcknowledgement(event) ?? failure
        }
        return failure
    }

    /// Waits until no commit is in flight. Returns why a commit failed, or a timeout error if the deadline passes
    /// first; nil if no commit failed.
    private func awaitCommitAcknowledgements(until deadline: Deadline) -> KafkaError? {
        var failure: KafkaError?
        while offsetCommits.isCommitInFlight {
            let waitMilliseconds = deadline.remainingMilliseconds(atMost: .max)
            guard let event = rd_kafka_queue_poll(offsetCommits.acknowledgementQueue, waitMilliseconds) else {
                guard deadline.hasPassed else { continue }
                return KafkaError(RD_KAFKA_RESP_ERR__TIMED_OUT, "the broker did not acknowledge the commit in time")
            }
            failure = handleAcknowledgement(event) ?? failure
        }
        return failure
    }

    private func handleAcknowledgement(_ event: OpaquePointer) -> KafkaError? {
        defer { rd_kafka_event_destroy(event) }
        guard rd_kafka_event_type(event) == RD_KAFKA_EVENT_OFFSET_COMMIT else { return nil }
        return offsetCommits.handleAcknowledgement(event, topics: topics)
    }
}
