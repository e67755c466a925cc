import Audiences
import Delivery
import Kafka
import Logging
import Observability
import Reactor

/// Handles the Kafka thread's orders about partitions. The core for audiences gets the partitions of the
/// fan-out topic. The core for single activities gets all others.
extension Lane {
    func assign(_ order: LaneOrder) {
        let committedOffset = order.committedOffset?.takeBoxedValue()
        let assignedIndex =
            order.topic == Intake.fanoutTopicIndex
            ? audiences.assign(number: order.partition)
            : delivery.assign(topic: findTopic(of: order), number: order.partition)
        guard let indexInCore = assignedIndex else {
            preconditionFailure("the Kafka thread assigns only partitions for which the core has room")
        }
        if let committedOffset, order.topic == Intake.registrationsTopicIndex, !order.rereadsSettledRecords {
            audiences.continueJoinerWaits(
                ofRegistrationsPartition: order.partition,
                from: committedOffset.offset,
                areLaterRecordsSettled: !committedOffset.metadata.isEmpty,
                now: now
            )
        }
        if let committedOffset, order.rereadsSettledRecords {
            committedOffset.metadata.withUnsafeBytes {
                delivery.noteRereadRecords(indexInCore, below: committedOffset.offset, metadata: $0)
            }
        } else if let committedOffset {
            restoreSettledOffsets(indexInCore, at: committedOffset, order)
        }
        if order.topic == Intake.deferredTopicIndex {
            delivery.awaitDeferredBacklog(indexInCore, from: committedOffset?.offset ?? 0, now: now)
        }
        insert(order, indexInCore: indexInCore)
    }

    private func findTopic(of order: LaneOrder) -> RecordTopic {
        switch order.topic {
        case Intake.commandsTopicIndex: .commands
        case Intake.registrationsTopicIndex: .registrations
        default: .deferred
        }
    }

    private func insert(_ order: LaneOrder, indexInCore: UInt32) {
        partitions.insert(
            .init(
                indexInCore: indexInCore,
                assignmentNumber: order.assignmentNumber,
                topic: order.topic,
                partition: order.partition,
                behindAssumptionEndMilliseconds: loop.nowMilliseconds + LanePartitions.assumedBehindMilliseconds
            )
        )
    }

    /// Lets the core skip the records that previous owners have settled above the committed offset. If the metadata of
    /// the committed offset cannot be used, logs this, and the core reads these records again.
    private func restoreSettledOffsets(_ indexInCore: UInt32, at committedOffset: CommittedOffset, _ order: LaneOrder) {
        guard !committedOffset.metadata.isEmpty else { return }
        let skippedRecordCount = committedOffset.logEndOffset.flatMap { logEndOffset in
            committedOffset.metadata.withUnsafeBytes {
                order.topic == Intake.fanoutTopicIndex
                    ? audiences.restoreSettledOffsets(
                        indexInCore,
                        at: committedOffset.offset,
                        metadata: $0,
                        logEndOffset: logEndOffset
                    )
                    : delivery.restoreSettledOffsets(
                        indexInCore,
                        at: committedOffset.offset,
                        metadata: $0,
                        logEndOffset: logEndOffset
                    )
            }
        }
        if skippedRecordCount == nil {
            let cause =
                committedOffset.logEndOffset == nil ? "the log's end is not known" : "no Causeway worker wrote it"
            writeLog(
                .settledOffsetsRefused,
                ["partition": "\(order.partition)", "offset": "\(committedOffset.offset)", "cause": "\(cause)"]
            )
        }
    }

    func revoke(_ order: LaneOrder) {
        guard let entryIndex = partitions.entryIndex(topic: order.topic, partition: order.partition),
            partitions[entryIndex].assignmentNumber == order.assignmentNumber
        else { return }
        partitions[entryIndex].isBeingRevoked = true
        let indexInCore = partitions[entryIndex].indexInCore
        guard !partitions[entryIndex].isFanout else { return audiences.beginRevoking(indexInCore, now: now) }
        delivery.beginRevoking(indexInCore, now: now)
        dropWaitingAudienceCommands()
    }

    func release(_ order: LaneOrder) {
        guard let entryIndex = partitions.entryIndex(topic: order.topic, partition: order.partition),
            partitions[entryIndex].assignmentNumber == order.assignmentNumber
        else { return }
        let indexInCore = partitions[entryIndex].indexInCore
        if partitions[entryIndex].isFanout {
            audiences.release(partition: indexInCore, now: now)
        } else {
            // If the consumer group has lost the partition, no `revoke` came before. So drop the waiting commands here,
            // while `delivery` still knows the assignment.
            delivery.beginRevoking(indexInCore, now: now)
            dropWaitingAudienceCommands()
            if order.topic == Intake.registrationsTopicIndex, !order.rereadsSettledRecords {
                audiences.limitJoinerWaits(
                    ofRegistrationsPartition: order.partition,
                    settledEndOffset: order.settledEndOffset,
                    now: now
                )
            }
            delivery.release(partition: indexInCore, now: now)
        }
        partitions.remove(at: entryIndex)
    }

    func noteLogEnd(_ order: LaneOrder) {
        guard let entryIndex = partitions.entryIndex(topic: order.topic, partition: order.partition),
            partitions[entryIndex].assignmentNumber == order.assignmentNumber
        else { return }
        if partitions[entryIndex].logEndOffset < 0 {
            partitions[entryIndex].behindAssumptionEndMilliseconds =
                loop.nowMilliseconds + LanePartitions.assumedBehindWithLogEndMilliseconds
        }
        partitions[entryIndex].logEndOffset = order.logEndOffset
        if order.topic == Intake.deferredTopicIndex {
            delivery.noteDeferredLogEnd(partitions[entryIndex].indexInCore, order.logEndOffset)
        }
    }

    // MARK: - What the cores say about a partition

    func findProgress(of entry: LanePartitions.Entry) -> PartitionProgress? {
        entry.isFanout ? audiences.composeProgress(entry.indexInCore) : delivery.composeProgress(entry.indexInCore)
    }

    func findProgressRevision(of entry: LanePartitions.Entry) -> UInt64 {
        entry.isFanout ? audiences.progressRevision(entry.indexInCore) : delivery.progressRevision(entry.indexInCore)
    }

    func findCommittableOffset(of entry: LanePartitions.Entry) -> Int64? {
        entry.isFanout ? audiences.committableOffset(entry.indexInCore) : delivery.committableOffset(entry.indexInCore)
    }

    func isDrained(_ entry: LanePartitions.Entry) -> Bool {
        entry.isFanout ? audiences.isDrained(entry.indexInCore) : delivery.isDrained(entry.indexInCore)
    }

    /// Whether the partition's ledger has room for a record. The core for audiences takes every record: if it has no
    /// room, it passes over the record, which is read again later (R30).
    func hasRoom(for offset: Int64, _ entry: LanePartitions.Entry) -> Bool {
        entry.isFanout || delivery.hasRoom(for: offset, partition: entry.indexInCore)
    }

    func oldestUnsettledSinceMilliseconds(of entry: LanePartitions.Entry) -> Int64? {
        entry.isFanout
            ? audiences.oldestUnsettledSinceMilliseconds(entry.indexInCore)
            : delivery.oldestUnsettledSinceMilliseconds(entry.indexInCore)
    }

    /// Whether a full ledger will probably stay full for long: its oldest record has been unsettled for at least
    /// `LanePartitions.ledgerWaitMillisecondsMax`, or it is unknown for how long. If not, the next record waits in the
    /// lane, because a rewind would take seconds.
    ///
    /// In a compacted topic, a few records may fill a ledger for milliseconds, because a ledger counts offsets.
    func isBlockedByOldRecord(_ entry: LanePartitions.Entry) -> Bool {
        guard let sinceMilliseconds = oldestUnsettledSinceMilliseconds(of: entry) else { return true }
        return loop.nowMilliseconds - sinceMilliseconds >= partitions.ledgerWaitMillisecondsMax
    }
}
