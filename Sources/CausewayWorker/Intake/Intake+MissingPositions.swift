import Kafka
import Logging
import Observability
import Reactor

/// Partitions that stopped, because librdkafka has no valid position in them, and the time of the next request about
/// them. The Kafka thread asks the brokers for their committed offsets, and for those of the partitions that the
/// consumer's assignment did not start (`Consumer.partitionsWithUnknownOffset`):
///
/// - A partition without a committed offset is then read from its beginning.
/// - A partition that the assignment did not start is read from its committed offset.
/// - In any other partition, the committed offset is no longer in the log. The partition moves to
///   ``UnfetchedPartitions``, and stays stopped until an operator acts.
struct PartitionsWithoutPosition {
    /// The time between two requests to the brokers. If no broker responds, a request may block the Kafka thread for
    /// seconds.
    static let requestIntervalMilliseconds: Int64 = 5_000

    /// The error that stopped each partition.
    private(set) var errors: [TopicPartition: KafkaError] = [:]
    /// When the brokers may be asked again, monotonic.
    private var requestDueMilliseconds: Int64 = 0

    mutating func insert(_ partition: TopicPartition, _ error: KafkaError) { errors[partition] = error }

    /// Removes a partition about which the brokers need not be asked any more, for one of three reasons:
    ///
    /// - The partition is now read again.
    /// - The partition stays stopped, because its committed offset is no longer in the log
    ///   (``UnfetchedPartitions/partitionsWithOffsetOutOfRange``).
    /// - The partition was revoked.
    mutating func remove(_ partition: TopicPartition) { errors[partition] = nil }

    func isRequestDue(nowMilliseconds: Int64) -> Bool { nowMilliseconds >= requestDueMilliseconds }

    /// Delays the next request for all partitions. A broker that does not respond now would probably not respond to a
    /// request for another partition either. After an assignment, librdkafka's own request may still start partitions.
    mutating func postponeRequest(nowMilliseconds: Int64) {
        requestDueMilliseconds = nowMilliseconds + Self.requestIntervalMilliseconds
    }
}

extension Intake {
    /// The partitions that are not read, because they have no valid position, or because the consumer's assignment did
    /// not start them.
    var partitionsAwaitingPosition: Set<TopicPartition> {
        consumer.partitionsWithUnknownOffset.union(partitionsWithoutPosition.errors.keys)
    }

    /// Notes an error that a poll has returned. If the error says that librdkafka has no valid position in a partition,
    /// `recoverPartitionsWithoutPosition` handles the partition later. Any other error is reported at once.
    func notePollError(_ error: KafkaError) {
        guard error.isPositionUnknown, let partition = error.partition, assignments[partition] != nil else {
            return reportError(error)
        }
        partitionsWithoutPosition.insert(partition, error)
    }

    /// Finds the offset where each partition without a position must begin: its committed offset, or without one its
    /// first record, so that nothing is skipped. If the partition has stopped because the committed offset is no longer
    /// in the log, records are lost, and the partition stays stopped until an operator decides.
    ///
    /// One request fetches the committed offsets of all these partitions. If this request or a seek fails, the
    /// remaining partitions wait for the next attempt, so that the thread does not block longer.
    func recoverPartitionsWithoutPosition() {
        guard partitionsWithoutPosition.isRequestDue(nowMilliseconds: loop.nowMilliseconds) else { return }
        let partitions = Array(partitionsAwaitingPosition)
        guard !partitions.isEmpty else { return }
        noteBlocking(milliseconds: 2 * Int64(Consumer.requestTimeoutMilliseconds))
        do throws(KafkaError) {
            let committedOffsets = try consumer.fetchCommittedOffsets(
                of: partitions,
                timeoutMilliseconds: Consumer.requestTimeoutMilliseconds
            )
            var startPositions: [TopicPartition: SeekPosition] = [:]
            for (partition, offsetOrError) in zip(partitions, committedOffsets) {
                let offset: Int64?
                switch offsetOrError {
                case .success(let committedOffset): offset = committedOffset
                case .failure(let error):
                    // The coordinator refuses only this partition, so continue with the other partitions.
                    reportError(error)
                    continue
                }
                if offset != nil, let error = partitionsWithoutPosition.errors[partition] {
                    noteOffsetGone(of: partition, error)
                } else {
                    startPositions[partition] = offset.map(SeekPosition.offset) ?? .beginning
                }
            }
            try beginReading(at: startPositions)
        } catch {
            reportError(error)
        }
        guard !partitionsAwaitingPosition.isEmpty else { return }
        loop.refreshClock()
        partitionsWithoutPosition.postponeRequest(nowMilliseconds: loop.nowMilliseconds)
    }

    /// Notes an event which shows that a partition is read. With the eager protocol, a seek of one partition starts the
    /// others too, and a seek of this one may have failed since.
    func noteReadingBegan(of partition: TopicPartition) { partitionsWithoutPosition.remove(partition) }

    /// Notes that a partition's committed offset is no longer in the log. Only an operator can start the partition.
    private func noteOffsetGone(of partition: TopicPartition, _ error: KafkaError) {
        countError(error)
        unfetchedPartitions.partitionsWithOffsetOutOfRange.insert(partition)
        writeLog(.offsetGone, ["partition": "\(name(of: partition))"])
        partitionsWithoutPosition.remove(partition)
    }

    /// Begins to read partitions. If a seek fails because no broker responded in time, throws, and the remaining
    /// partitions stay unread, so that the thread does not block longer.
    private func beginReading(at startPositions: [TopicPartition: SeekPosition]) throws(KafkaError) {
        consumer.prepareSeeks(to: startPositions)
        for (partition, position) in startPositions {
            if let error = consumer.seek(partition, to: position) {
                guard !error.isRetriable else { throw error }
                reportError(error)
                continue
            }
            if position == .beginning { writeLog(.partitionIsNew, ["partition": "\(name(of: partition))"]) }
            partitionsWithoutPosition.remove(partition)
        }
    }
}
