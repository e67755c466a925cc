import Kafka
import Reactor

/// Asks the brokers about the logs of partitions that must be read again. ``RereadingStart`` decides by their responses
/// where each rereading begins.
extension Intake {
    /// Returns where the rereading of each partition begins. Waits for the brokers, at most three times
    /// `Consumer.requestTimeoutMilliseconds`.
    ///
    /// - Returns: nil for a partition without a record that must be read again. A failure for a partition whose offsets
    ///   the brokers did not name, or whose settled offset is above its log's end and perhaps wrong.
    func fetchRereadingStartPositions(
        of requests: [RereadingRequest]
    ) throws(KafkaError) -> [Result<SeekPosition?, KafkaError>] {
        let commands = requests.filter { $0.topic == Self.commandsTopicIndex }.map(\.topicPartition)
        let recentRecords = try fetchRecentRecords(of: commands)
        let logOffsets = try consumer.fetchLogOffsets(of: requests.map(\.topicPartition))
        return requests.map { request in
            let topicPartition = request.topicPartition
            guard let entry = assignments[topicPartition], let logOffsetsOrError = logOffsets[topicPartition] else {
                return .failure(.noBroker("no broker has named the offsets of the log"))
            }
            // All registrations are recent enough: their topic is compacted, and even its oldest record may have a
            // valid token.
            let recentRecordsOrError = recentRecords[topicPartition] ?? .success(.all)
            let settledEndOffset = findSettledEndOffset(of: topicPartition, entry)
            return recentRecordsOrError.flatMap { recentRecords in
                logOffsetsOrError.flatMap { logOffsets in
                    RereadingStart.findPosition(
                        firstMissingOffset: request.firstMissingOffset,
                        recentRecords: recentRecords,
                        logOffsets: logOffsets,
                        settledEndOffset: settledEndOffset,
                        settledOffsetAboveLogEnd: judgeSettledOffset(
                            of: topicPartition,
                            logOffsets: logOffsets,
                            settledEndOffset: settledEndOffset
                        )
                    )
                }
            }
        }
    }

    /// Returns what the worker knows about a settled offset that is above the log's end, or was above it when the
    /// partition stopped; nil for any other settled offset. Notes when the worker first found the offset there.
    private func judgeSettledOffset(
        of partition: TopicPartition,
        logOffsets: Range<Int64>,
        settledEndOffset: Int64
    ) -> RereadingStart.SettledOffsetAboveLogEnd? {
        // A stopped partition's position is not in the log. If its settled offset is not before the log's first record,
        // this offset was above the log's end. It may be within the log now: the log may have grown, or records in
        // flight may have settled.
        let isStopped =
            unfetchedPartitions.partitionsWithOffsetOutOfRange.contains(partition)
            && settledEndOffset >= logOffsets.lowerBound
            || rereading.settledOffsetsAboveLogEnd[partition] == settledEndOffset
        // Without a position, the partition is about to stop, even if the log has grown meanwhile.
        let isAboutToStop =
            partitionsWithoutPosition.errors[partition] != nil && settledEndOffset >= logOffsets.lowerBound
        guard isStopped || isAboutToStop || settledEndOffset > logOffsets.upperBound else {
            rereading.firstFoundAboveLogEndAtMilliseconds[partition] = nil
            return nil
        }
        // Only fetching can show that the partition's position is not in the log. So while the partition is paused or
        // about to stop, the wait of `waitMilliseconds` begins again at each check.
        let isFetchingUnclear = isAboutToStop || consumer.pausedPartitions.contains(partition)
        let firstFoundAtMilliseconds =
            isFetchingUnclear ? nil : rereading.firstFoundAboveLogEndAtMilliseconds[partition]
        let finding = RereadingStart.SettledOffsetAboveLogEnd(
            isStopped: isStopped,
            fetchedLogEndOffset: consumer.watermarks(of: partition)?.logEndOffset ?? -1,
            settledEndOffset: settledEndOffset,
            foundForMilliseconds: firstFoundAtMilliseconds.map { loop.nowMilliseconds - $0 }
        )
        // Forget the time when the settled offset is found to be right, so that a later finding waits again.
        rereading.firstFoundAboveLogEndAtMilliseconds[partition] =
            finding == .isRight ? nil : firstFoundAtMilliseconds ?? loop.nowMilliseconds
        return finding
    }

    /// Returns which commands of each partition are recent enough to be read again (`rereadCommandAgeMillisecondsMax`).
    private func fetchRecentRecords(
        of partitions: [TopicPartition]
    ) throws(KafkaError) -> [TopicPartition: Result<RereadingStart.RecentRecords, KafkaError>] {
        let recentOffsets = try consumer.fetchOffsets(
            of: partitions,
            atOrAfterWallMilliseconds: loop.wallMilliseconds - setup.rereadCommandAgeMillisecondsMax
        )
        let timedOffsets = try consumer.fetchOffsets(
            of: partitions.filter { recentOffsets[$0] == .success(nil) },
            atOrAfterWallMilliseconds: 0
        )
        var recentRecords: [TopicPartition: Result<RereadingStart.RecentRecords, KafkaError>] = [:]
        for (partition, recentOffsetOrError) in recentOffsets {
            let timedOffsetOrError = timedOffsets[partition] ?? .success(nil)
            recentRecords[partition] = recentOffsetOrError.flatMap { recentOffset in
                timedOffsetOrError.map { timedOffset in
                    RereadingStart.RecentRecords(firstRecentOffset: recentOffset, firstTimedOffset: timedOffset)
                }
            }
        }
        return recentRecords
    }
}
