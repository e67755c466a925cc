import CRdkafka
import Glibc

/// The offsets that the broker still has of a partition, as far as fetching has told.
public struct Watermarks: Hashable, Sendable {
    /// The oldest offset that can be read; -1001 if not known yet.
    public var low: Int64
    /// The offset that the next record will get; -1001 if not known yet.
    public var high: Int64
}

extension Consumer {
    /// Has the broker threads that lead these partitions look at once for what they may fetch.
    ///
    /// librdkafka before 2.2 stops fetching while its queue is full, and nobody tells its broker threads when that is over: one with
    /// nothing else to do looks again only when its wait of a second is over. Any request wakes it. This one asks where the partitions
    /// end, of which nothing is changed, and waits for no answer; librdkafka lets an answer fall that nobody waits for.
    public func wakeFetching(of partitions: [TopicPartition]) {
        precondition(isOpen)
        guard !partitions.isEmpty else { return }
        let list = PartitionList(capacity: partitions.count)
        for partition in partitions {
            list.add(topics.name(of: partition.topic), partition.partition, offset: SeekPosition.end.rawOffset)
        }
        // Nothing but "timed out" is to be expected; whatever it is, the thread looks by itself within a second.
        _ = list.withPointer { rd_kafka_offsets_for_times(handle, $0, 0) }
    }

    /// Stops fetching. Records of these partitions that were fetched and not handed out are dropped, to be fetched again
    /// after `resume`, so pausing often is dear. What is not assigned, or is paused already, is left alone.
    public func pause(_ partitions: [TopicPartition]) {
        precondition(isOpen)
        let wanted = Set(partitions).intersection(assignment).subtracting(paused)
        guard !wanted.isEmpty else { return }
        let list = PartitionList(wanted, of: topics)
        list.withPointer { _ = rd_kafka_pause_partitions(handle, $0) }
        for (isPaused, partition) in zip(list.map { $0.err == RD_KAFKA_RESP_ERR_NO_ERROR }, wanted) where isPaused {
            paused.insert(partition)
        }
    }

    /// Stops fetching, and gives back the records that were handed out from an offset on: `resume` starts there. Nobody has to keep them
    /// meanwhile, with the batches that they were fetched in.
    ///
    /// - Parameter offset: of the first of them.
    public func pause(_ partition: TopicPartition, rereadingFrom offset: Int64) {
        precondition(isOpen && offset >= 0)
        guard assignment.contains(partition) else { return }
        rewound[partition] = offset
        pause([partition])
    }

    /// Starts fetching again, behind the last record handed out that was not given back. What is not paused is left alone.
    public func resume(_ partitions: [TopicPartition]) {
        precondition(isOpen)
        let wanted = Set(partitions).intersection(paused)
        guard !wanted.isEmpty else { return }
        PartitionList(wanted, of: topics).withPointer { _ = rd_kafka_resume_partitions(handle, $0) }
        paused.subtract(wanted)
        wakeFetching(wanted)
    }

    /// librdkafka 2.0.2 does not tell its broker threads of a resume: one with nothing else to do looks again only when
    /// its wait of a second is over. A seek does wake them. To where we are already, it changes nothing else.
    private func wakeFetching(_ partitions: Set<TopicPartition>) {
        for partition in partitions {
            let list = positions(of: CollectionOfOne(partition))
            // Nothing was handed out since it was started, or sought: then it is left to that look within a second.
            guard let position = list.map({ $0.offset }).first, position >= 0 else { continue }
            // Asynchronous, so there is no error but a wrong argument.
            rd_kafka_error_destroy(list.withPointer { rd_kafka_seek_partitions(handle, $0, 0) })
        }
    }

    /// Where reading goes on; below 0 where nothing was handed out since it began.
    private func positions(of partitions: some Collection<TopicPartition>) -> PartitionList {
        let list = PartitionList(partitions, of: topics)
        list.withPointer { pointer in
            _ = rd_kafka_position(handle, pointer)
            for (place, partition) in partitions.enumerated() {
                if let offset = rewound[partition] { pointer.pointee.elems[place].offset = offset }
            }
        }
        return list
    }

    /// Reads on from there. Records fetched before are dropped. Waits until it is done, for `requestLimitMilliseconds`
    /// at most.
    ///
    /// A partition that stands still after an error is started again. With the eager protocol that takes an assignment of
    /// everything: the others go on from where they are, and what was fetched of them and not handed out is fetched again.
    public func seek(_ partition: TopicPartition, to position: SeekPosition) -> KafkaError? {
        precondition(isOpen)
        rewound[partition] = nil
        let error = sought(partition, to: position)
        if error == nil { startPositions[partition] = position }
        return error
    }

    private func sought(_ partition: TopicPartition, to position: SeekPosition) -> KafkaError? {
        let list = PartitionList(capacity: 1)
        list.add(topics.name(of: partition.topic), partition.partition, offset: position.rawOffset)
        let error = list.withPointer { rd_kafka_seek_partitions(handle, $0, Self.requestLimitMilliseconds) }
        if let error { return KafkaError(consuming: error) }
        let code = list.withPointer { $0.pointee.elems.pointee.err }
        switch code {
        case RD_KAFKA_RESP_ERR_NO_ERROR: return nil
        case RD_KAFKA_RESP_ERR__STATE where assignment.contains(partition):
            return isCooperative ? restart(list) : restartAll(partition, at: position)
        default: return KafkaError(code, partition: partition)
        }
    }

    /// Gives the partition up and takes it again, at the offset in the list.
    private func restart(_ list: borrowing PartitionList) -> KafkaError? {
        if let error = list.withPointer({ rd_kafka_incremental_unassign(handle, $0) }) {
            return KafkaError(consuming: error)
        }
        return list.withPointer { rd_kafka_incremental_assign(handle, $0) }.map { KafkaError(consuming: $0) }
    }

    /// What is paused is so afterwards, but not meanwhile: an assignment would leave it so, and unknown to librdkafka's own book-keeping.
    private func restartAll(_ partition: TopicPartition, at position: SeekPosition) -> KafkaError? {
        // Where nothing was handed out yet the offset stays unset, and librdkafka asks for the committed one.
        let others = positions(of: assignment.subtracting([partition]))
        others.add(topics.name(of: partition.topic), partition.partition, offset: position.rawOffset)
        let wasPaused = paused
        if !wasPaused.isEmpty {
            PartitionList(wasPaused, of: topics).withPointer { _ = rd_kafka_resume_partitions(handle, $0) }
            paused = []
        }
        let assigned = others.withPointer { rd_kafka_assign(handle, $0) }
        pause(Array(wasPaused))
        return assigned == RD_KAFKA_RESP_ERR_NO_ERROR ? nil : KafkaError(assigned, partition: partition)
    }

    /// What the last fetch said; asks nobody. Lag is `high` minus the offset of the next record to settle.
    public func watermarks(of partition: TopicPartition) -> Watermarks? {
        precondition(isOpen)
        var watermarks = Watermarks(low: Int64(RD_KAFKA_OFFSET_INVALID), high: Int64(RD_KAFKA_OFFSET_INVALID))
        let code = rd_kafka_get_watermark_offsets(
            handle,
            topics.name(of: partition.topic),
            partition.partition,
            &watermarks.low,
            &watermarks.high
        )
        return code == RD_KAFKA_RESP_ERR_NO_ERROR ? watermarks : nil
    }

    /// Where the logs of these partitions end, as the brokers say now: what is not fetched from is not heard of otherwise. Waits for them.
    ///
    /// - Returns: those that were answered.
    public func logEnds(
        of partitions: [TopicPartition],
        timeoutMilliseconds: Int32
    ) throws(KafkaError) -> [TopicPartition: Int64] {
        precondition(isOpen)
        let list = PartitionList(capacity: partitions.count)
        for partition in partitions {
            list.add(topics.name(of: partition.topic), partition.partition, offset: SeekPosition.end.rawOffset)
        }
        let code = list.withPointer { rd_kafka_offsets_for_times(handle, $0, timeoutMilliseconds) }
        guard code == RD_KAFKA_RESP_ERR_NO_ERROR else { throw KafkaError(code) }
        var ends: [TopicPartition: Int64] = [:]
        for (partition, element) in zip(partitions, list.map { ($0.err, $0.offset) })
        where element.0 == RD_KAFKA_RESP_ERR_NO_ERROR && element.1 >= 0 {
            ends[partition] = element.1
        }
        return ends
    }

    /// How many partitions a topic has, as the brokers say now; 0: there is no such topic, or it may not be seen. Waits for them.
    public func partitionCount(of topic: TopicIdentifier, timeoutMilliseconds: Int32) throws(KafkaError) -> Int {
        precondition(isOpen)
        var answer: UnsafePointer<rd_kafka_metadata>?
        let code = rd_kafka_metadata(handle, 0, topics.handle(of: topic), &answer, timeoutMilliseconds)
        guard code == RD_KAFKA_RESP_ERR_NO_ERROR, let answer else { throw KafkaError(code) }
        defer { rd_kafka_metadata_destroy(answer) }
        return UnsafeBufferPointer(start: answer.pointee.topics, count: Int(answer.pointee.topic_cnt))
            .reduce(0) { $0 + ($1.err == RD_KAFKA_RESP_ERR_NO_ERROR ? Int($1.partition_cnt) : 0) }
    }

    /// The first offsets of these partitions whose records are of this time or later, as the brokers say. Waits for them.
    ///
    /// - Parameter sinceMilliseconds: UNIX milliseconds.
    /// - Returns: nothing for a partition that has no such record.
    public func offsets(
        of partitions: [TopicPartition],
        sinceMilliseconds: Int64
    ) throws(KafkaError) -> [TopicPartition: Int64] {
        precondition(isOpen)
        let list = PartitionList(capacity: partitions.count)
        for partition in partitions {
            // Below 0 it would ask for an end of the log.
            list.add(topics.name(of: partition.topic), partition.partition, offset: max(0, sinceMilliseconds))
        }
        let code = list.withPointer { rd_kafka_offsets_for_times(handle, $0, Self.requestLimitMilliseconds) }
        guard code == RD_KAFKA_RESP_ERR_NO_ERROR else { throw KafkaError(code) }
        var offsets: [TopicPartition: Int64] = [:]
        for (partition, element) in zip(partitions, list.map { ($0.err, $0.offset) }) {
            guard element.0 == RD_KAFKA_RESP_ERR_NO_ERROR else { throw KafkaError(element.0, partition: partition) }
            if element.1 >= 0 { offsets[partition] = element.1 }
        }
        return offsets
    }

    /// The offsets that the group has committed; nil where there is none. Asks the coordinator, and waits for it.
    public func committed(
        _ partitions: [TopicPartition],
        timeoutMilliseconds: Int32 = Consumer.requestLimitMilliseconds
    ) throws(KafkaError) -> [Int64?] {
        precondition(isOpen)
        let list = PartitionList(partitions, of: topics)
        let code = list.withPointer { rd_kafka_committed(handle, $0, timeoutMilliseconds) }
        guard code == RD_KAFKA_RESP_ERR_NO_ERROR else { throw KafkaError(code) }
        return list.map { $0.offset >= 0 ? $0.offset : nil }
    }
}

/// Where to read on.
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
