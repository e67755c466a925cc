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
            let isStopped = unfetchedPartitions.partitionsWithOffsetOutOfRange.contains(topicPartition)
            return recentRecordsOrError.flatMap { recentRecords in
                logOffsetsOrError.flatMap { logOffsets in
                    // A stopped partition whose settled offset is not below the log was above its end when it stopped.
                    // Since then, the log may have grown, or records in flight may have settled.
                    RereadingStart.findPosition(
                        firstMissingOffset: request.firstMissingOffset,
                        recentRecords: recentRecords,
                        logOffsets: logOffsets,
                        settledEndOffset: settledEndOffset,
                        wasAboveLogEnd: rereading.settledOffsetsAboveLogEnd[topicPartition] == settledEndOffset
                            || isStopped && settledEndOffset >= logOffsets.lowerBound
                    )
                }
            }
        }
    }

    /// Returns which commands of each partition are recent enough to be read again (`rereadCommandAgeMillisecondsMax`).
    private func fetchRecentRecords(
        of partitions: [TopicPartition]
    ) throws(KafkaError) -> [TopicPartition: Result<RereadingStart.RecentRecords, KafkaError>] {
        let recentOffsets = try consumer.fetchOffsets(
            of: partitions,
            atOrAfterMilliseconds: loop.wallMilliseconds - setup.rereadCommandAgeMillisecondsMax
        )
        let timedOffsets = try consumer.fetchOffsets(
            of: partitions.filter { recentOffsets[$0] == .success(nil) },
            atOrAfterMilliseconds: 0
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
