import CRdkafka
import Glibc

/// Receives rebalances from librdkafka. Called inside a poll of the consumer queue, on the polling thread.
func rebalanceCallback(
    _ client: OpaquePointer?,
    _ code: rd_kafka_resp_err_t,
    _ partitions: UnsafeMutablePointer<rd_kafka_topic_partition_list_t>?,
    _ opaque: UnsafeMutableRawPointer?
) {
    guard let opaque else { return }
    let callbackContext = Unmanaged<CallbackContext>.fromOpaque(opaque).takeUnretainedValue()
    callbackContext.consumer?.rebalance(code, partitions)
}

extension Consumer {
    /// Whether the group agreed on the cooperative protocol; false before it agreed on any.
    var isCooperative: Bool { strcmp(rd_kafka_rebalance_protocol(client), "COOPERATIVE") == 0 }

    /// Handles an assignment or a revocation. If the rebalance failed, revokes all partitions.
    ///
    /// - Parameter partitions: with the cooperative protocol, the partitions that are added or removed; with the eager
    ///   protocol, all partitions.
    fileprivate func rebalance(
        _ code: rd_kafka_resp_err_t,
        _ partitions: UnsafeMutablePointer<rd_kafka_topic_partition_list_t>?
    ) {
        let isCooperative = isCooperative
        switch code {
        case RD_KAFKA_RESP_ERR__ASSIGN_PARTITIONS:
            assign(partitions, isCooperative: isCooperative)
        case RD_KAFKA_RESP_ERR__REVOKE_PARTITIONS:
            revoke(partitions, isCooperative: isCooperative)
        default:
            pendingError = KafkaError(code, "rebalance failed: \(String(cString: rd_kafka_err2str(code)))")
            revoke(partitions, isCooperative: false)
        }
    }

    /// Loads the positions of the added partitions, tells the handler, and begins to read.
    private func assign(
        _ partitions: UnsafeMutablePointer<rd_kafka_topic_partition_list_t>?,
        isCooperative: Bool
    ) {
        hasHadAssignment = true
        let addedPartitions = subscribedPartitions(in: partitions)
        assignment.formUnion(addedPartitions)
        let startPositions = partitions.flatMap { $0.pointee.cnt > 0 ? loadStartPositions(of: $0) : nil }
        defer { if let startPositions { rd_kafka_topic_partition_list_destroy(startPositions) } }
        handler?.partitionsAssigned(addedPartitions)
        if isCooperative {
            setPendingErrorIfFailed(rd_kafka_incremental_assign(client, startPositions ?? partitions))
        } else {
            setPendingErrorIfFailed(rd_kafka_assign(client, startPositions ?? partitions))
        }
    }

    /// Loads the offsets and metadata that the group has committed for these partitions, before their first record
    /// arrives. Waits for the coordinator.
    ///
    /// If the returned list has no position for a partition, librdkafka itself asks the coordinator. If the coordinator
    /// refuses, for example because the group has moved to another broker, librdkafka does not ask again, and the
    /// partition is not read until `seek`. So the list must have each position that is known.
    ///
    /// - Returns: the list to assign, with the position at which each partition begins; nil if no position is known.
    ///   With `auto.offset.reset` = `error`, a partition without a committed offset begins at its beginning. The list
    ///   also has the leader epochs of committed offsets: librdkafka 2.1 and later use them to find out whether the log
    ///   was truncated below the offset. The caller destroys the list.
    private func loadStartPositions(
        of partitions: UnsafeMutablePointer<rd_kafka_topic_partition_list_t>
    ) -> UnsafeMutablePointer<rd_kafka_topic_partition_list_t>? {
        guard let list = rd_kafka_topic_partition_list_copy(partitions) else { return nil }
        let code = loadCommittedOffsets(into: list)
        let reportsUnknownPositions = reportsUnknownPositions
        guard code == RD_KAFKA_RESP_ERR_NO_ERROR else {
            rd_kafka_topic_partition_list_destroy(list)
            if reportsUnknownPositions {
                partitionsWithUnknownOffset.formUnion(subscribedPartitions(in: partitions))
            }
            setPendingErrorIfFailed(code)
            return nil
        }
        for index in 0..<Int(list.pointee.cnt) {
            noteStartPosition(&list.pointee.elems[index], reportsUnknownPositions: reportsUnknownPositions)
        }
        loadLogEnds()
        return list
    }

    /// Notes where a partition begins, as the coordinator's response says, and sets this position in the element of the
    /// list. An element without a known position gets none.
    private func noteStartPosition(_ element: inout rd_kafka_topic_partition_t, reportsUnknownPositions: Bool) {
        let code = element.err
        element.err = RD_KAFKA_RESP_ERR_NO_ERROR
        if code != RD_KAFKA_RESP_ERR_NO_ERROR { element.offset = Int64(RD_KAFKA_OFFSET_INVALID) }
        guard let topic = element.topic.flatMap({ topics.identifier(named: $0) }) else { return }
        let partition = TopicPartition(topic: topic, partition: element.partition)
        guard code == RD_KAFKA_RESP_ERR_NO_ERROR else {
            if reportsUnknownPositions { partitionsWithUnknownOffset.insert(partition) }
            let name = "\(String(cString: topics.name(of: topic))) [\(element.partition)]"
            pendingError = KafkaError(code, "\(name): \(String(cString: rd_kafka_err2str(code)))", partition: partition)
            return
        }
        if element.offset >= 0 { committedOffsets[partition] = CommittedOffset(element) }
        // With another `auto.offset.reset`, librdkafka chooses where a partition without a committed offset begins.
        guard reportsUnknownPositions else { return }
        let startPosition: SeekPosition = element.offset < 0 ? .beginning : .offset(element.offset)
        startPositions[partition] = startPosition
        element.offset = startPosition.rawOffset
    }

    /// Asks the coordinator for the committed offsets of the partitions in the list. Asks again after an error that may
    /// end by itself, for at most `requestTimeoutMilliseconds`: the group may just have moved to another broker. While
    /// this consumer closes, asks only once.
    private func loadCommittedOffsets(
        into list: UnsafeMutablePointer<rd_kafka_topic_partition_list_t>
    ) -> rd_kafka_resp_err_t {
        let deadline = closingDeadline ?? Deadline(afterMilliseconds: Int64(Self.requestTimeoutMilliseconds))
        while true {
            let timeoutMilliseconds = deadline.remainingMilliseconds(atMost: Self.requestTimeoutMilliseconds)
            let code = rd_kafka_committed(client, list, timeoutMilliseconds)
            guard code != RD_KAFKA_RESP_ERR_NO_ERROR, KafkaError(code).isRetriable, closingDeadline == nil,
                deadline.remainingMilliseconds > Self.offsetRetryPauseMilliseconds
            else { return code }
            usleep(UInt32(Self.offsetRetryPauseMilliseconds) * 1_000)
        }
    }

    /// The pause before the coordinator is asked again. No event says when it would respond without an error.
    private static let offsetRetryPauseMilliseconds: Int64 = 100

    /// Asks for the log's end (`CommittedOffset.logEndOffset`) of each partition that has commit metadata. The
    /// consumer's owner then checks the settled offsets in the metadata: one at or above the end must be wrong.
    private func loadLogEnds() {
        let partitionsWithMetadata =
            committedOffsets.filter { !$0.value.metadata.isEmpty && $0.value.logEndOffset == nil }
            .map(\.key)
        // A consumer that is closing reads no more records, so it needs no settled offsets and no log ends.
        guard !partitionsWithMetadata.isEmpty, closingDeadline == nil else { return }
        do throws(KafkaError) {
            let ends = try fetchLogEndOffsets(
                of: partitionsWithMetadata,
                timeoutMilliseconds: Self.logEndTimeoutMilliseconds
            )
            for (partition, end) in ends { committedOffsets[partition]?.logEndOffset = end }
        } catch {
            pendingError = error
        }
    }

    /// Whether librdkafka reports an unknown position as an error. If false, librdkafka itself chooses a new position.
    private var reportsUnknownPositions: Bool {
        var value = [CChar](repeating: 0, count: 16)
        var size = value.count
        return rd_kafka_conf_get(rd_kafka_conf(client), "auto.offset.reset", &value, &size) == RD_KAFKA_CONF_OK
            && strcmp(value, "error") == 0
    }

    /// Lets the handler finish its work, commits, and gives the removed partitions up. Does not commit if the group may
    /// already have given these partitions to other members.
    private func revoke(
        _ partitions: UnsafeMutablePointer<rd_kafka_topic_partition_list_t>?,
        isCooperative: Bool
    ) {
        let isLost = rd_kafka_assignment_lost(client) != 0
        let removedPartitions = isCooperative ? subscribedPartitions(in: partitions) : Array(assignment)
        if !removedPartitions.isEmpty {
            handler?.partitionsRevoked(removedPartitions, areLost: isLost)
            let timeoutMilliseconds = min(
                Self.revokeCommitTimeoutMilliseconds,
                closingDeadline?.remainingMilliseconds ?? .max
            )
            if !isLost, let error = commit(until: Deadline(afterMilliseconds: timeoutMilliseconds)) {
                pendingError = error
            }
            offsetCommits.remove(removedPartitions)
            // librdkafka keeps a partition paused even after this consumer has lost it. Without this resume, the
            // partition would not be read when it comes back.
            resume(removedPartitions)
        }
        assignment.subtract(removedPartitions)
        for partition in removedPartitions {
            startPositions[partition] = nil
            committedOffsets[partition] = nil
            partitionsWithUnknownOffset.remove(partition)
            rewoundOffsets[partition] = nil
            continuationOffsets[partition] = nil
        }
        if isCooperative {
            setPendingErrorIfFailed(rd_kafka_incremental_unassign(client, partitions))
        } else {
            setPendingErrorIfFailed(rd_kafka_assign(client, nil))
        }
    }

    /// Returns the partitions in the list that belong to topics of this consumer's subscription.
    private func subscribedPartitions(in partitions: UnsafeMutablePointer<rd_kafka_topic_partition_list_t>?)
        -> [TopicPartition]
    {
        guard let partitions else { return [] }
        return UnsafeBufferPointer(start: partitions.pointee.elems, count: Int(partitions.pointee.cnt))
            .compactMap { element in
                element.topic.flatMap { topics.identifier(named: $0) }
                    .map { TopicPartition(topic: $0, partition: element.partition) }
            }
    }

    private func setPendingErrorIfFailed(_ error: OpaquePointer?) {
        if let error { pendingError = KafkaError(consuming: error) }
    }

    private func setPendingErrorIfFailed(_ code: rd_kafka_resp_err_t) {
        if code != RD_KAFKA_RESP_ERR_NO_ERROR { pendingError = KafkaError(code) }
    }
}
