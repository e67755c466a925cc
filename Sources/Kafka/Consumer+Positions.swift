import CRdkafka
import Glibc

/// The two ends of a partition's log: librdkafka calls them low and high watermark. An offset that is not known yet is
/// `RD_KAFKA_OFFSET_INVALID` (-1001).
public struct Watermarks: Hashable, Sendable {
    /// The oldest offset that can be read.
    public var logStartOffset: Int64
    /// The offset that the next record will get.
    public var logEndOffset: Int64
}

extension Consumer {
    /// Makes librdkafka fetch these partitions at once if its queue has room. Needed only if `mustWakeFetching` is
    /// true: before release 2.2, a thread that has stopped because the queue was full may notice the room a second too
    /// late.
    ///
    /// Any request to a broker wakes the broker's thread. So this method requests the ends of the partitions' logs, and
    /// does not wait for the responses.
    public func wakeFetching(of partitions: [TopicPartition]) {
        precondition(isOpen)
        guard !partitions.isEmpty else { return }
        let list = PartitionList(capacity: partitions.count)
        for partition in partitions {
            list.add(topics.name(of: partition.topic), partition.partition, offset: SeekPosition.end.rawOffset)
        }
        // Ignore the error. Usually it says only that the timeout of 0 has passed, and the queued requests have already
        // woken the threads. After any other error, the threads notice the room within a second by themselves.
        _ = list.withPointer { rd_kafka_offsets_for_times(client, $0, 0) }
    }

    /// Stops fetching these partitions. Skips partitions that are not assigned or already paused. Frequent pauses are
    /// expensive: records that were fetched and not polled are discarded, and are fetched again after `resume`.
    public func pause(_ partitions: [TopicPartition]) {
        precondition(isOpen)
        let unpausedPartitions = Set(partitions).intersection(assignment).subtracting(pausedPartitions)
        guard !unpausedPartitions.isEmpty else { return }
        let list = PartitionList(unpausedPartitions, of: topics)
        list.withPointer { _ = rd_kafka_pause_partitions(client, $0) }
        for (isPaused, partition) in zip(list.map { $0.err == RD_KAFKA_RESP_ERR_NO_ERROR }, unpausedPartitions)
        where isPaused {
            pausedPartitions.insert(partition)
        }
    }

    /// Stops fetching a partition. After `resume`, `poll` returns the partition's records again, from `offset` on. So
    /// the caller can release these records now, and so free the memory of the batches in which they were fetched. Does
    /// nothing if the partition is not assigned.
    public func pause(_ partition: TopicPartition, rewindingTo offset: Int64) {
        precondition(isOpen && offset >= 0)
        guard assignment.contains(partition) else { return }
        rewoundOffsets[partition] = offset
        pause([partition])
    }

    /// Starts fetching again, after the last polled record or at the offset of `pause(_:rewindingTo:)`. Partitions that
    /// are not paused are skipped.
    public func resume(_ partitions: [TopicPartition]) {
        precondition(isOpen)
        let resumedPartitions = Set(partitions).intersection(pausedPartitions)
        guard !resumedPartitions.isEmpty else { return }
        PartitionList(resumedPartitions, of: topics).withPointer { _ = rd_kafka_resume_partitions(client, $0) }
        pausedPartitions.subtract(resumedPartitions)
        seekToWakeFetching(resumedPartitions)
    }

    /// Wakes the threads that fetch the resumed partitions, with a seek: to the offset that `pause(_:rewindingTo:)`
    /// set, or else to the partition's present position, which changes nothing.
    ///
    /// Without the seek, an idle thread may notice the resume up to a second too late, because
    /// `rd_kafka_resume_partitions` of librdkafka 2.0.2 usually does not wake the thread.
    private func seekToWakeFetching(_ partitions: Set<TopicPartition>) {
        for partition in partitions {
            let list = readPositions(of: CollectionOfOne(partition))
            // The position is unknown if no record was polled since reading began or since the last seek. A seek is
            // then not possible, so an idle thread may notice the resume up to a second late.
            guard let position = list.map({ $0.offset }).first, position >= 0 else { continue }
            continuationOffsets[partition] = position
            // Ignore the error. With the timeout 0, the call only queues the seek, and fails only for an empty list or
            // a client that is no consumer.
            rd_kafka_error_destroy(list.withPointer { rd_kafka_seek_partitions(client, $0, 0) })
        }
    }

    /// Returns the offsets at which reading continues, including those that `pause(_:rewindingTo:)` set. An offset is
    /// negative if no record of its partition was polled since reading began or since the last seek.
    private func readPositions(of partitions: some Collection<TopicPartition>) -> PartitionList {
        let list = PartitionList(partitions, of: topics)
        list.withPointer { pointer in
            _ = rd_kafka_position(client, pointer)
            for (index, partition) in partitions.enumerated() {
                if let offset = rewoundOffsets[partition] { pointer.pointee.elems[index].offset = offset }
            }
        }
        return list
    }

    /// Continues reading a partition at `position`, and discards records that were fetched but not polled. Also starts
    /// a partition that has stopped after an error; with the eager protocol, librdkafka then fetches the unpolled
    /// records of all partitions again. Waits for the seek, at most `requestTimeoutMilliseconds`.
    ///
    /// - Returns: why the seek failed; nil if it succeeded.
    public func seek(_ partition: TopicPartition, to position: SeekPosition) -> KafkaError? {
        precondition(isOpen)
        rewoundOffsets[partition] = nil
        let error = performSeek(partition, to: position)
        guard error == nil else { return error }
        (startPositions[partition], continuationOffsets[partition]) = (position, nil)
        partitionsWithUnknownOffset.remove(partition)
        return nil
    }

    /// Notes where partitions that are not read will begin. The caller then calls `seek` for each of them. With the
    /// eager protocol, the first `seek` assigns all partitions again, and so starts the others too.
    public func prepareSeeks(to positions: [TopicPartition: SeekPosition]) {
        startPositions.merge(positions) { _, newPosition in newPosition }
    }

    /// Seeks. If librdkafka refuses because the partition has stopped after an error, assigns the partition again: with
    /// the eager protocol, together with all others.
    private func performSeek(_ partition: TopicPartition, to position: SeekPosition) -> KafkaError? {
        let list = PartitionList(capacity: 1)
        list.add(topics.name(of: partition.topic), partition.partition, offset: position.rawOffset)
        let error = list.withPointer { rd_kafka_seek_partitions(client, $0, Self.requestTimeoutMilliseconds) }
        if let error { return KafkaError(consuming: error) }
        let code = list.withPointer { $0.pointee.elems.pointee.err }
        switch code {
        case RD_KAFKA_RESP_ERR_NO_ERROR: return nil
        case RD_KAFKA_RESP_ERR__STATE where assignment.contains(partition):
            return isCooperative ? reassign(list) : reassignAllPartitions(moving: partition, to: position)
        default: return KafkaError(code, partition: partition)
        }
    }

    /// Removes the partition in the list from the assignment, and adds it again at the offset in the list.
    private func reassign(_ list: borrowing PartitionList) -> KafkaError? {
        if let error = list.withPointer({ rd_kafka_incremental_unassign(client, $0) }) {
            return KafkaError(consuming: error)
        }
        return list.withPointer { rd_kafka_incremental_assign(client, $0) }.map { KafkaError(consuming: $0) }
    }

    /// Assigns all partitions again: `partition` at `position`, the other partitions at their present positions.
    ///
    /// Paused partitions are resumed first, and paused again afterwards. Otherwise librdkafka would forget the pause
    /// without starting the partition, and a later `resume` could not start it.
    private func reassignAllPartitions(moving partition: TopicPartition, to position: SeekPosition) -> KafkaError? {
        let allPositions = readContinuationPositions(of: assignment.subtracting([partition]))
        allPositions.add(topics.name(of: partition.topic), partition.partition, offset: position.rawOffset)
        let formerlyPausedPartitions = pausedPartitions
        if !formerlyPausedPartitions.isEmpty {
            PartitionList(formerlyPausedPartitions, of: topics)
                .withPointer { _ = rd_kafka_resume_partitions(client, $0) }
            pausedPartitions = []
        }
        let assignCode = allPositions.withPointer { rd_kafka_assign(client, $0) }
        pause(Array(formerlyPausedPartitions))
        return assignCode == RD_KAFKA_RESP_ERR_NO_ERROR ? nil : KafkaError(assignCode, partition: partition)
    }

    /// Returns where partitions continue in a new assignment. librdkafka knows this only after it has returned a record
    /// of the partition; its answer is noted in `continuationOffsets`. Otherwise the position is the one of the last
    /// `resume`, `seek` or assignment.
    ///
    /// A position that is unknown there too stays unset. librdkafka then asks the coordinator for the committed offset.
    private func readContinuationPositions(of partitions: Set<TopicPartition>) -> PartitionList {
        let list = readPositions(of: partitions)
        list.withPointer { pointer in
            for (index, partition) in partitions.enumerated() {
                let position = pointer.pointee.elems[index].offset
                if position >= 0 {
                    continuationOffsets[partition] = position
                } else if let knownOffset = continuationOffsets[partition] ?? startPositions[partition]?.rawOffset {
                    pointer.pointee.elems[index].offset = knownOffset
                }
            }
        }
        return list
    }

    /// Returns the ends of the log that the last fetch reported, without asking a broker. Nil if librdkafka does not
    /// know the partition. The caller can compute the lag: `logEndOffset` minus the offset of the next record to
    /// settle.
    public func watermarks(of partition: TopicPartition) -> Watermarks? {
        precondition(isOpen)
        var watermarks = Watermarks(
            logStartOffset: Int64(RD_KAFKA_OFFSET_INVALID),
            logEndOffset: Int64(RD_KAFKA_OFFSET_INVALID)
        )
        let code = rd_kafka_get_watermark_offsets(
            client,
            topics.name(of: partition.topic),
            partition.partition,
            &watermarks.logStartOffset,
            &watermarks.logEndOffset
        )
        return code == RD_KAFKA_RESP_ERR_NO_ERROR ? watermarks : nil
    }

    /// Asks the brokers where the logs of these partitions end, and waits for the brokers. For a partition that is not
    /// fetched, `watermarks` has no end, or an old one.
    ///
    /// - Returns: the log ends of those partitions whose leader has named the end.
    public func fetchLogEndOffsets(
        of partitions: [TopicPartition],
        timeoutMilliseconds: Int32
    ) throws(KafkaError) -> [TopicPartition: Int64] {
        var logEndOffsets: [TopicPartition: Int64] = [:]
        let responses = try lookUpOffsets(
            of: partitions,
            at: SeekPosition.end.rawOffset,
            timeoutMilliseconds: timeoutMilliseconds
        )
        for response in responses where response.code == RD_KAFKA_RESP_ERR_NO_ERROR && response.offset >= 0 {
            logEndOffsets[response.partition] = response.offset
        }
        return logEndOffsets
    }

    /// Asks the leaders of partitions for the offsets at `timestamp`, and waits for the responses. `timestamp` is UNIX
    /// milliseconds, or a logical position such as the log's end.
    ///
    /// Leaves out partitions without a leader: for one of them, `rd_kafka_offsets_for_times` would wait for its whole
    /// timeout, and would then fail for all.
    ///
    /// - Returns: the response for each partition that has a leader; a negative offset if no record is that new.
    /// - Throws: if a broker does not respond in time.
    private func lookUpOffsets(
        of partitions: [TopicPartition],
        at timestamp: Int64,
        timeoutMilliseconds: Int32
    ) throws(KafkaError) -> [(partition: TopicPartition, code: rd_kafka_resp_err_t, offset: Int64)] {
        precondition(isOpen)
        let deadline = Deadline(afterMilliseconds: Int64(timeoutMilliseconds))
        let partitionsWithLeader = try findPartitionsWithLeader(among: partitions, until: deadline)
        guard !partitionsWithLeader.isEmpty else { return [] }
        let list = PartitionList(capacity: partitionsWithLeader.count)
        for partition in partitionsWithLeader {
            list.add(topics.name(of: partition.topic), partition.partition, offset: timestamp)
        }
        let remainingMilliseconds = deadline.remainingMilliseconds(atMost: timeoutMilliseconds)
        let code = list.withPointer { rd_kafka_offsets_for_times(client, $0, remainingMilliseconds) }
        guard code == RD_KAFKA_RESP_ERR_NO_ERROR else { throw KafkaError(code) }
        return zip(partitionsWithLeader, list.map { (code: $0.err, offset: $0.offset) })
            .map { (partition: $0, code: $1.code, offset: $1.offset) }
    }

    /// Asks a broker which of these partitions have a leader now.
    private func findPartitionsWithLeader(
        among partitions: [TopicPartition],
        until deadline: Deadline
    ) throws(KafkaError) -> [TopicPartition] {
        guard !partitions.isEmpty else { return [] }
        var metadata: UnsafePointer<rd_kafka_metadata>?
        // No topic is given, so librdkafka asks for all topics of this consumer.
        let code = rd_kafka_metadata(client, 0, nil, &metadata, deadline.remainingMilliseconds(atMost: .max))
        guard code == RD_KAFKA_RESP_ERR_NO_ERROR, let metadata else { throw KafkaError(code) }
        defer { rd_kafka_metadata_destroy(metadata) }
        var partitionsWithLeader: Set<TopicPartition> = []
        for topic in UnsafeBufferPointer(start: metadata.pointee.topics, count: Int(metadata.pointee.topic_cnt)) {
            guard let identifier = topic.topic.flatMap({ topics.identifier(named: $0) }) else { continue }
            for partition in UnsafeBufferPointer(start: topic.partitions, count: Int(topic.partition_cnt))
            where partition.leader >= 0 {
                partitionsWithLeader.insert(TopicPartition(topic: identifier, partition: partition.id))
            }
        }
        return partitions.filter { partitionsWithLeader.contains($0) }
    }

    /// Asks the brokers how many partitions a topic has, and waits for the brokers. 0 if the topic does not exist, or
    /// if this client is not allowed to see it.
    ///
    /// - Throws: if the brokers do not respond, or report another error of the topic, which may be temporary.
    public func fetchPartitionCount(of topic: TopicIdentifier, timeoutMilliseconds: Int32) throws(KafkaError) -> Int {
        precondition(isOpen)
        var metadata: UnsafePointer<rd_kafka_metadata>?
        let code = rd_kafka_metadata(client, 0, topics.handle(of: topic), &metadata, timeoutMilliseconds)
        guard code == RD_KAFKA_RESP_ERR_NO_ERROR, let metadata else { throw KafkaError(code) }
        defer { rd_kafka_metadata_destroy(metadata) }
        var count = 0
        for topic in UnsafeBufferPointer(start: metadata.pointee.topics, count: Int(metadata.pointee.topic_cnt)) {
            count += try topic.partitionCount() ?? 0
        }
        return count
    }

    /// Asks the brokers, for each of these partitions, for the offset of the first record with this time or a later
    /// one. Waits for the brokers.
    ///
    /// - Parameter atOrAfterWallMilliseconds: UNIX milliseconds.
    /// - Returns: for each of `partitions` its offset, or nil if it has no such record. If the partition has no leader,
    ///   or its leader refused the request, its value is a failure.
    /// - Throws: if a broker does not respond within `requestTimeoutMilliseconds`.
    public func fetchOffsets(
        of partitions: [TopicPartition],
        atOrAfterWallMilliseconds: Int64
    ) throws(KafkaError) -> [TopicPartition: Result<Int64?, KafkaError>] {
        // `rd_kafka_offsets_for_times` takes -1 as the end of the log and -2 as its beginning. So replace a negative
        // time by 0.
        let offsets = try fetchRawOffsets(
            of: partitions,
            at: max(0, atOrAfterWallMilliseconds),
            until: Deadline(afterMilliseconds: Int64(Self.requestTimeoutMilliseconds))
        )
        return offsets.mapValues { result in result.map { offset in offset >= 0 ? offset : nil } }
    }

    /// Asks the brokers which offsets the logs of these partitions have now. Waits for the brokers.
    ///
    /// - Returns: for each of `partitions` the range from its log's first offset to its log's end. If the partition has
    ///   no leader, or its leader refused a request, its value is a failure.
    /// - Throws: if a broker does not respond within `requestTimeoutMilliseconds`.
    public func fetchLogOffsets(
        of partitions: [TopicPartition]
    ) throws(KafkaError) -> [TopicPartition: Result<Range<Int64>, KafkaError>] {
        let deadline = Deadline(afterMilliseconds: Int64(Self.requestTimeoutMilliseconds))
        let startOffsets = try fetchRawOffsets(of: partitions, at: SeekPosition.beginning.rawOffset, until: deadline)
        let endOffsets = try fetchRawOffsets(of: partitions, at: SeekPosition.end.rawOffset, until: deadline)
        var logOffsets: [TopicPartition: Result<Range<Int64>, KafkaError>] = [:]
        for (partition, startOffset) in startOffsets {
            guard let endOffset = endOffsets[partition] else { continue }
            logOffsets[partition] = startOffset.flatMap { start in
                endOffset.map { end in max(0, start)..<max(0, start, end) }
            }
        }
        return logOffsets
    }

    /// Asks the leader of each partition for its offset at `timestamp`. The value is a failure if the partition has no
    /// leader, or if the leader refused the request; a negative offset if no record is that new.
    ///
    /// - Parameter timestamp: UNIX milliseconds, or the raw offset of `SeekPosition.beginning` or `SeekPosition.end`.
    private func fetchRawOffsets(
        of partitions: [TopicPartition],
        at timestamp: Int64,
        until deadline: Deadline
    ) throws(KafkaError) -> [TopicPartition: Result<Int64, KafkaError>] {
        var offsets: [TopicPartition: Result<Int64, KafkaError>] = [:]
        for partition in partitions {
            offsets[partition] = .failure(KafkaError(RD_KAFKA_RESP_ERR_LEADER_NOT_AVAILABLE, partition: partition))
        }
        let responses = try lookUpOffsets(
            of: partitions,
            at: timestamp,
            timeoutMilliseconds: deadline.remainingMilliseconds(atMost: Self.requestTimeoutMilliseconds)
        )
        for response in responses {
            offsets[response.partition] =
                response.code == RD_KAFKA_RESP_ERR_NO_ERROR
                ? .success(response.offset) : .failure(KafkaError(response.code, partition: response.partition))
        }
        return offsets
    }

    /// Asks the coordinator for the offsets that the group has committed, and waits for the coordinator.
    ///
    /// - Returns: for each of `partitions`, in their order, its offset, or nil if nothing is committed. If the
    ///   coordinator refused the request for a partition, its element is a failure.
    public func fetchCommittedOffsets(
        of partitions: [TopicPartition],
        timeoutMilliseconds: Int32 = Consumer.requestTimeoutMilliseconds
    ) throws(KafkaError) -> [Result<Int64?, KafkaError>] {
        precondition(isOpen)
        let list = PartitionList(partitions, of: topics)
        let code = list.withPointer { rd_kafka_committed(client, $0, timeoutMilliseconds) }
        guard code == RD_KAFKA_RESP_ERR_NO_ERROR else { throw KafkaError(code) }
        return zip(partitions, list.map { (code: $0.err, offset: $0.offset) })
            .map { partition, element in
                element.code == RD_KAFKA_RESP_ERR_NO_ERROR
                    ? .success(element.offset >= 0 ? element.offset : nil)
                    : .failure(KafkaError(element.code, partition: partition))
            }
    }
}

/// Where to read in a partition's log.
public enum SeekPosition: Hashable, Sendable {
    case beginning
    case end
    case offset(Int64)

    package var rawOffset: Int64 {
        switch self {
        case .beginning: -2
        case .end: -1
        case .offset(let offset): max(0, offset)
        }
    }
}
