import Kafka
import Logging
import Observability
import Reactor

/// Partitions that are not read, because librdkafka has no valid position in them. The Kafka thread asks the brokers
/// for their committed offsets:
///
/// - A partition without a committed offset is then read from its beginning.
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
    /// - The partition is now read from its first record.
    /// - The partition stays stopped, because its committed offset is no longer in the log
    ///   (``UnfetchedPartitions/partitionsWithOffsetOutOfRange``).
    /// - The partition was revoked.
    mutating func remove(_ partition: TopicPartition) { errors[partition] = nil }

    func isRequestDue(nowMilliseconds: Int64) -> Bool { !errors.isEmpty && nowMilliseconds >= requestDueMilliseconds }

    /// Delays the next request for all partitions: a broker that does not respond now would probably not respond to a
    /// request for another partition either.
    mutating func postponeRequest(nowMilliseconds: Int64) {
        requestDueMilliseconds = nowMilliseconds + Self.requestIntervalMilliseconds
    }
}

extension Intake {
    /// Notes an error that a poll has returned. If the error says that librdkafka has no valid position in a partition,
    /// `recoverPartitionsWithoutPosition` handles the partition later. Any other error is reported at once.
    func notePollError(_ error: KafkaError) {
        guard error.isPositionUnknown, let partition = error.partition, assignments[partition] != nil else {
            return reportError(error)
        }
        partitionsWithoutPosition.insert(partition, error)
    }

    /// Finds the offset where each partition without a position must begin. Without a committed offset, this is the
    /// partition's first record, so that nothing is skipped. If the committed offset is no longer in the log, records
    /// are lost, and the partition stops until an operator decides.
    ///
    /// One request fetches the committed offsets of all these partitions. If this request or a seek fails, the
    /// remaining partitions wait for the next attempt, so that the thread does not block longer.
    func recoverPartitionsWithoutPosition() {
        guard partitionsWithoutPosition.isRequestDue(nowMilliseconds: loop.nowMilliseconds) else { return }
        noteBlocking(milliseconds: 2 * Int64(Consumer.requestTimeoutMilliseconds))
        let partitions = Array(partitionsWithoutPosition.errors.keys)
        do throws(KafkaError) {
            let committedOffsets = try consumer.fetchCommittedOffsets(
                of: partitions,
                timeoutMilliseconds: Consumer.requestTimeoutMilliseconds
            )
            for (partition, offsetOrError) in zip(partitions, committedOffsets) {
                let offset: Int64?
                switch offsetOrError {
                case .success(let committedOffset): offset = committedOffset
                case .failure(let error):
                    // The coordinator refuses only this partition, so continue with the other partitions.
                    reportError(error)
                    continue
                }
                if offset == nil, let error = consumer.seek(partition, to: .beginning) { throw error }
                if offset != nil, let error = partitionsWithoutPosition.errors[partition] { countError(error) }
                if offset != nil { unfetchedPartitions.partitionsWithOffsetOutOfRange.insert(partition) }
                writeLog(offset == nil ? .partitionIsNew : .offsetGone, ["partition": "\(name(of: partition))"])
                partitionsWithoutPosition.remove(partition)
            }
        } catch {
            reportError(error)
        }
        guard !partitionsWithoutPosition.errors.isEmpty else { return }
        loop.refreshClock()
        partitionsWithoutPosition.postponeRequest(nowMilliseconds: loop.nowMilliseconds)
    }
}
