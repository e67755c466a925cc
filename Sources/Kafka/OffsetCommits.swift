import CRdkafka
import Glibc

/// What the group has committed of a partition.
public struct CommittedOffset: Sendable {
    public var offset: Int64
    /// What its owner wrote beside the offset.
    public var metadata: [UInt8]
    /// The offset that the partition's next record will get; nil: the brokers did not say. Known only where there is metadata.
    public var logEnd: Int64?

    public init(offset: Int64, metadata: [UInt8]) {
        self.offset = offset
        self.metadata = metadata
    }

    init(_ element: rd_kafka_topic_partition_t) {
        offset = element.offset
        metadata = [UInt8](UnsafeRawBufferPointer(start: element.metadata, count: element.metadata_size))
    }
}

/// The offsets that a consumer has stored, and which of them the group has not committed yet.
///
/// At most one commit is on its way at a time, but for the one that waits for its answer when partitions are revoked: that one comes
/// behind it, on the same connection.
struct OffsetCommits {
    private struct Stored {
        var nextOffset: Int64
        var metadata: [UInt8]
        var isCommitted = false
    }

    private var stored: [TopicPartition: Stored] = [:]
    private(set) var isUnderWay = false
    private var dueMilliseconds: Int64 = 0
    /// The broker takes no metadata of this length (`offset.metadata.max.bytes`): then offsets are committed alone.
    private(set) var leavesOutMetadata = false
    /// Why the newest answer refuses offsets for now: a rebalance is in progress. They are sent again.
    private(set) var refusal: KafkaError?
    /// The newest answer refuses the metadata; the offsets are taken without it.
    private var refusesMetadata = false
    /// Where commits are answered.
    let replies: OpaquePointer
    private let intervalMilliseconds: Int64

    init(client: OpaquePointer) {
        replies = rd_kafka_queue_new(client)
        var value = [CChar](repeating: 0, count: 16)
        var size = value.count
        let isKnown =
            rd_kafka_conf_get(rd_kafka_conf(client), "auto.commit.interval.ms", &value, &size) == RD_KAFKA_CONF_OK
        // The consumer's properties have a default for it, and librdkafka takes none but a number.
        intervalMilliseconds = isKnown ? Int64(strtoll(value, nil, 10)) : 0
    }

    func destroyQueue() { rd_kafka_queue_destroy(replies) }

    mutating func store(_ partition: TopicPartition, nextOffset: Int64, metadata: [UInt8]) {
        if let known = stored[partition], known.nextOffset == nextOffset, known.metadata == metadata { return }
        stored[partition] = Stored(nextOffset: nextOffset, metadata: metadata)
    }

    /// They are another member's now.
    mutating func forget(_ partitions: [TopicPartition]) {
        for partition in partitions { stored[partition] = nil }
    }

    mutating func isDue(nowMilliseconds: Int64) -> Bool {
        guard nowMilliseconds >= dueMilliseconds else { return false }
        dueMilliseconds = nowMilliseconds + intervalMilliseconds
        return true
    }

    /// Sends what is not committed.
    /// - Returns: why not; nil as well if there is nothing to send.
    mutating func send(_ client: OpaquePointer, topics: SubscribedTopics) -> KafkaError? {
        let pending = stored.filter { !$0.value.isCommitted }
        guard !pending.isEmpty else { return nil }
        let list = PartitionList(capacity: pending.count)
        for (partition, entry) in pending {
            list.add(
                topics.name(of: partition.topic),
                partition.partition,
                offset: entry.nextOffset,
                metadata: leavesOutMetadata ? [] : entry.metadata
            )
            stored[partition]?.isCommitted = true
        }
        let code = list.withPointer { rd_kafka_commit_queue(client, $0, replies, { _, _, _, _ in }, nil) }
        guard code == RD_KAFKA_RESP_ERR_NO_ERROR else {
            for partition in pending.keys { stored[partition]?.isCommitted = false }
            return KafkaError(code)
        }
        isUnderWay = true
        return nil
    }

    /// Sent again at once, or after a pause, what the newest answer has refused may be taken.
    var isWorthAnotherTry: Bool { refusal != nil || refusesMetadata }

    /// Takes the answer to a commit. What it refuses is sent again with the next one.
    /// - Returns: an error that does not pass by itself. A rebalance does (`refusal`).
    mutating func take(_ answer: OpaquePointer, topics: SubscribedTopics) -> KafkaError? {
        isUnderWay = false
        refusal = nil
        refusesMetadata = false
        var failure: KafkaError?
        let code = rd_kafka_event_error(answer)
        if Self.passes(code) {
            refusal = KafkaError(code)
        } else if code != RD_KAFKA_RESP_ERR_NO_ERROR {
            failure = KafkaError(code)
        }
        guard let list = rd_kafka_event_topic_partition_list(answer) else { return failure }
        for element in UnsafeBufferPointer(start: list.pointee.elems, count: Int(list.pointee.cnt)) {
            let refusal = element.err != RD_KAFKA_RESP_ERR_NO_ERROR ? element.err : code
            guard refusal != RD_KAFKA_RESP_ERR_NO_ERROR,
                let topic = element.topic.flatMap({ topics.identifier(named: $0) })
            else { continue }
            let partition = TopicPartition(topic: topic, partition: element.partition)
            stored[partition]?.isCommitted = false
            // The next commit has it, or the one that the revocation makes.
            if Self.passes(refusal) {
                self.refusal = KafkaError(refusal, partition: partition)
                continue
            }
            if refusal == RD_KAFKA_RESP_ERR_OFFSET_METADATA_TOO_LARGE, !leavesOutMetadata {
                leavesOutMetadata = true
                refusesMetadata = true
            }
            failure = KafkaError(refusal, partition: partition)
        }
        return failure
    }

    /// Between the joining of the members and the leader's assignment a coordinator refuses commits with this error.
    private static func passes(_ code: rd_kafka_resp_err_t) -> Bool { code == RD_KAFKA_RESP_ERR_REBALANCE_IN_PROGRESS }
}

extension Consumer {
    /// Notes that everything before `nextOffset` is done, to be committed within `auto.commit.interval.ms`.
    ///
    /// - Parameter metadata: goes with the offset, for the partition's next owner (`committedOffsets`). Brokers take 4,096 bytes.
    /// - Returns: nil, or why not: above all that the partition is no longer assigned, which fences late completions.
    public func storeOffset(
        topic: TopicIdentifier,
        partition: Int32,
        nextOffset: Int64,
        metadata: [UInt8] = []
    ) -> KafkaError? {
        precondition(isOpen && nextOffset >= 0)
        let place = TopicPartition(topic: topic, partition: partition)
        guard assignment.contains(place) else { return KafkaError(RD_KAFKA_RESP_ERR__STATE, partition: place) }
        commits.store(place, nextOffset: nextOffset, metadata: metadata)
        return nil
    }

    /// Commits what is stored, when `auto.commit.interval.ms` have passed since the last time. Waits for nothing.
    ///
    /// - Returns: why an earlier commit failed, or this one: it is made again with the next.
    public func commitIfDue(nowMilliseconds: Int64) -> KafkaError? {
        precondition(isOpen)
        guard commits.isDue(nowMilliseconds: nowMilliseconds) else { return nil }
        let failure = takeCommitReplies()
        guard !commits.isUnderWay else { return failure }
        return commits.send(handle, topics: topics) ?? failure
    }

    /// Commits what is stored and has not been committed yet, and waits for the answer, for `requestLimitMilliseconds` at most.
    ///
    /// - Warning: Not between the notice of a rebalance and its new assignment: librdkafka before 2.10 can lose the
    ///   assignment then. The commit that belongs there is made by the consumer itself, when partitions are revoked.
    public func commitStored() -> KafkaError? {
        precondition(isOpen)
        return commit(until: Deadline(afterMilliseconds: Int64(Self.requestLimitMilliseconds)))
    }

    /// `rd_kafka_commit` has no time limit, so this asks through a queue of its own, and waits there.
    ///
    /// A refusal that passes is asked for again until the deadline: a coordinator that shares the partitions among its members takes no
    /// commit before the leader has answered, and a member that leaves meanwhile has no later commit.
    func commit(until deadline: Deadline) -> KafkaError? {
        var failure = awaitCommitReplies(until: deadline)
        while true {
            if let error = commits.send(handle, topics: topics) { return error }
            guard commits.isUnderWay else { return failure }
            failure = awaitCommitReplies(until: deadline)
            guard commits.isWorthAnotherTry, !deadline.hasPassed else { return failure ?? commits.refusal }
            if commits.refusal != nil { pauseBeforeNextCommit(until: deadline) }
        }
    }

    /// No event tells that the coordinator takes commits again. Answers that come meanwhile end the pause.
    private func pauseBeforeNextCommit(until deadline: Deadline) {
        let wait = deadline.wait(atMostMilliseconds: Self.commitPauseMilliseconds)
        if let answer = rd_kafka_queue_poll(commits.replies, wait) { _ = take(answer) }
    }

    private static var commitPauseMilliseconds: Int32 { 50 }

    private func takeCommitReplies() -> KafkaError? {
        var failure: KafkaError?
        while let answer = rd_kafka_queue_poll(commits.replies, 0) { failure = take(answer) ?? failure }
        return failure
    }

    private func awaitCommitReplies(until deadline: Deadline) -> KafkaError? {
        var failure: KafkaError?
        while commits.isUnderWay {
            guard let answer = rd_kafka_queue_poll(commits.replies, deadline.wait(atMostMilliseconds: .max)) else {
                guard deadline.hasPassed else { continue }
                return KafkaError(RD_KAFKA_RESP_ERR__TIMED_OUT, "the commit was not answered in time")
            }
            failure = take(answer) ?? failure
        }
        return failure
    }

    private func take(_ answer: OpaquePointer) -> KafkaError? {
        defer { rd_kafka_event_destroy(answer) }
        guard rd_kafka_event_type(answer) == RD_KAFKA_EVENT_OFFSET_COMMIT else { return nil }
        return commits.take(answer, topics: topics)
    }
}
