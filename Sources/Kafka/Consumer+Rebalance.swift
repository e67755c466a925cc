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
        if let partitions, partitions.pointee.cnt > 0 {
            loadStartPositions(partitions, isCooperative: isCooperative)
        }
        handler?.partitionsAssigned(addedPartitions)
        if isCooperative {
            setPendingErrorIfFailed(rd_kafka_incremental_assign(client, partitions))
        } else {
            setPendingErrorIfFailed(rd_kafka_assign(client, partitions))
        }
    }

    /// Loads the offsets and metadata that the group has committed for these partitions, before their first record
    /// arrives. Waits for the coordinator. If it does not respond, librdkafka itself asks it again.
    ///
    /// With `auto.offset.reset` = `error`, a partition without a committed offset must be read from its beginning. With
    /// the eager protocol, this method sets that position. With the cooperative protocol, the partition stops with an
    /// error, and the caller starts it with `seek`.
    private func loadStartPositions(
        _ partitions: UnsafeMutablePointer<rd_kafka_topic_partition_list_t>,
        isCooperative: Bool
    ) {
        guard let committedList = rd_kafka_topic_partition_list_copy(partitions) else { return }
        defer { rd_kafka_topic_partition_list_destroy(committedList) }
        let timeoutMilliseconds =
            closingDeadline?.remainingMilliseconds(atMost: Self.requestTimeoutMilliseconds)
            ?? Self.requestTimeoutMilliseconds
        let code = rd_kafka_committed(client, committedList, timeoutMilliseconds)
        guard code == RD_KAFKA_RESP_ERR_NO_ERROR else { return setPendingErrorIfFailed(code) }
        let reportsUnknownPositions = reportsUnknownPositions
        for element in UnsafeBufferPointer(start: committedList.pointee.elems, count: Int(committedList.pointee.cnt))
        where element.err == RD_KAFKA_RESP_ERR_NO_ERROR {
            if let topic = element.topic.flatMap({ topics.identifier(named: $0) }) {
                let partition = TopicPartition(topic: topic, partition: element.partition)
                if element.offset >= 0 { committedOffsets[partition] = CommittedOffset(element) }
                if reportsUnknownPositions {
                    startPositions[partition] = element.offset < 0 ? .beginning : .offset(element.offset)
                }
            }
            // With the eager protocol, a later `seek` would need a new assignment of all partitions.
            guard element.offset < 0, reportsUnknownPositions, !isCooperative else { continue }
            _ = rd_kafka_topic_partition_list_set_offset(
                partitions,
                element.topic,
                element.partition,
                SeekPosition.beginning.rawOffset
            )
        }
        loadLogEnds()
    }

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
