import Delivery
import Kafka

/// Partitions that have perhaps no marks yet (R24). Until `StoreWatch` has written the first marks of such a partition,
/// each commit of the partition has a note about this (``CommitMetadata``).
extension Intake {
    /// Notes a newly assigned partition if it has perhaps no marks.
    func noteIfUnmarked(_ partition: TopicPartition) {
        guard Self.hasMarks(partition.topic) else { return }
        let mayLackMarks = CommitMetadata.mayLackMarks(
            startPosition: consumer.startPositions[partition],
            committedOffset: consumer.committedOffsets[partition]
        )
        if mayLackMarks { rereading.unmarkedPartitions.insert(partition) }
    }

    /// Returns what the group had committed for a partition at its assignment, without the note about marks.
    func findCommittedOffset(of partition: TopicPartition) -> CommittedOffset? {
        guard var committedOffset = consumer.committedOffsets[partition] else { return nil }
        committedOffset.metadata = CommitMetadata.extractSettledOffsetsText(from: committedOffset.metadata)
        return committedOffset
    }

    /// Gives librdkafka the offset and the metadata that the next commit writes for a partition.
    func storeOffset(_ progress: PartitionProgress, of partition: TopicPartition) {
        let error = consumer.storeOffset(
            topic: partition.topic,
            partition: partition.partition,
            nextOffset: progress.committableOffset,
            metadata: CommitMetadata.compose(
                settledOffsetsText: progress.metadata,
                isUnmarked: rereading.unmarkedPartitions.contains(partition)
            )
        )
        if let error { reportError(error) }
    }

    /// Forgets the unmarked partitions that `StoreWatch` has marked meanwhile. Commits their offsets again, without the
    /// note that they are unmarked.
    func noteWrittenMarks() {
        guard !rereading.unmarkedPartitions.isEmpty else { return }
        let markedAssignmentNumbers = setup.storeWatchMailbox.markedAssignmentNumbers
        for partition in rereading.unmarkedPartitions {
            guard let assignmentNumber = assignments[partition]?.assignmentNumber,
                markedAssignmentNumbers.contains(assignmentNumber)
            else { continue }
            rereading.unmarkedPartitions.remove(partition)
            let committedProgress = findCommittedOffset(of: partition)
                .map { PartitionProgress(committableOffset: $0.offset, metadata: $0.metadata) }
            if let progress = rereading.storedProgress[partition] ?? committedProgress {
                storeOffset(progress, of: partition)
            }
        }
    }
}
