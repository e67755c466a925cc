import Kafka
import Reactor

/// Asks the brokers about the logs of partitions that must be read again. ``RereadingStart`` decides by their responses
/// where each rereading begins.
extension Intake {
    /// Returns where the rereading of each partition begins. Waits for the brokers, at most three times
    /// `Consumer.requestTimeoutMilliseconds`.
    ///
    /// - Returns: nil for a partition without a record that must be read again; a failure for a partition without a
    ///   leader, or whose settled offset is not in its log.
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
                        settledOffsetAboveLogEnd: checkLogEnd(
                            of: topicPartition,
                            logOffsets: logOffsets,
                            settledEndOffset: settledEndOffset
                        )
                    )
                }
            }
        }
    }

    /// Returns what is known about the partition's settled offset if it is above the log's end. Also notes when this
    /// was found first.
    private func checkLogEnd(
        of partition: TopicPartition,
        logOffsets: Range<Int64>,
        settledEndOffset: Int64
    ) -> RereadingStart.SettledOffsetAboveLogEnd? {
        // A stopped partition whose settled offset is not below the log was above its end when it stopped. Since then,
        // the log may have grown, or records in flight may have settled.
        let isStopped =
            unfetchedPartitions.partitionsWithOffsetOutOfRange.contains(partition)
            && settledEndOffset >= logOffsets.lowerBound
            || rereading.settledOffsetsAboveLogEnd[partition] == settledEndOffset
        guard isStopped || settledEndOffset > logOffsets.upperBound else {
            rereading.firstFoundAboveLogEndAtMilliseconds[partition] = nil
            return nil
        }
        // Without a position, the partition is about to stop.
        let isFetchingUnclear = partitionsWithoutPosition.errors[partition] != nil
        let firstFoundAtMilliseconds = rereading.firstFoundAboveLogEndAtMilliseconds[partition]
        if firstFoundAtMilliseconds == nil {
            rereading.firstFoundAboveLogEndAtMilliseconds[partition] = loop.nowMilliseconds
        }
        return RereadingStart.SettledOffsetAboveLogEnd(
            isStopped: isStopped,
            fetchedLogEndOffset: consumer.watermarks(of: partition)?.logEndOffset ?? -1,
            settledEndOffset: settledEndOffset,
            foundForMilliseconds: isFetchingUnclear ? nil : firstFoundAtMilliseconds.map { loop.nowMilliseconds - $0 }
        )
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
