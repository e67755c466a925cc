import Kafka

/// Decides where the rereading of a partition begins. `Intake` asks the brokers for the offsets, and reads. (R24)
enum RereadingStart {
    /// Which records of a partition are recent enough to be read again.
    enum RecentRecords: Equatable {
        case all
        /// The records from this offset on.
        case from(Int64)
        case noRecords

        /// - Parameters:
        ///   - firstRecentOffset: the first record whose time is recent enough; nil if the brokers name none.
        ///   - firstTimedOffset: the first record that has any time; nil if the brokers name none. Without any time,
        ///     each record counts as recent.
        init(firstRecentOffset: Int64?, firstTimedOffset: Int64?) {
            if let firstRecentOffset {
                self = .from(firstRecentOffset)
            } else {
                self = firstTimedOffset == nil ? .all : .noRecords
            }
        }
    }

    /// What the worker knows about a partition whose settled offset is above the log's end that the brokers name.
    ///
    /// The settled offset may be right: a broker that has just become the leader may name an end that is too low, until
    /// the other replicas have responded to it. Or it is wrong, and fetching stops: the topic was created again, or
    /// Kafka has lost the log's last records.
    enum SettledOffsetAboveLogEnd {
        /// The worker must ask the brokers again. It first found the settled offset above the log's end less than
        /// ``waitMilliseconds`` ago, and fetching may still stop.
        case isNew
        /// Fetching has stopped. Or it has continued for ``waitMilliseconds`` but, according to the last fetch, the log
        /// ends below the settled offset.
        case isWrong
        /// Fetching has continued for ``waitMilliseconds`` and, according to the last fetch, the log reaches the
        /// settled offset.
        case isRight

        /// How long the worker waits for fetching to stop, after it has first found the settled offset above the log's
        /// end. A fetch takes at most `fetch.wait.max.ms`, usually 500 ms.
        static let waitMilliseconds: Int64 = 1_000

        /// - Parameters:
        ///   - isStopped: whether the partition is not fetched, because its position is not in the log.
        ///   - fetchedLogEndOffset: the log's end according to the last successful fetch.
        ///   - foundForMilliseconds: how long ago the worker first found the settled offset above the log's end. Nil if
        ///     the worker finds this for the first time, or if librdkafka has no valid position in the partition.
        init(
            isStopped: Bool,
            fetchedLogEndOffset: Int64,
            settledEndOffset: Int64,
            foundForMilliseconds: Int64?
        ) {
            if isStopped {
                self = .isWrong
            } else if let foundForMilliseconds, foundForMilliseconds >= Self.waitMilliseconds {
                self = fetchedLogEndOffset >= settledEndOffset ? .isRight : .isWrong
            } else {
                self = .isNew
            }
        }
    }

    /// Returns where a rereading begins: at the first record in the log that is recent enough, and whose writes Redis
    /// may lack. Nil if there is no such record. A failure if the worker must ask the brokers again, or if the
    /// partition must stay stopped until an operator sets another offset.
    ///
    /// - Parameters:
    ///   - firstMissingOffset: the offset of the first record whose writes Redis may lack; nil: this may be any record.
    ///   - logOffsets: the offsets that the log has now.
    ///   - settledEndOffset: the offset below which all records of the partition are settled.
    ///   - settledOffsetAboveLogEnd: what the worker knows about a settled offset that is above the log's end, or was
    ///     above it when the partition stopped. Nil for any other settled offset.
    static func findPosition(
        firstMissingOffset: Int64?,
        recentRecords: RecentRecords,
        logOffsets: Range<Int64>,
        settledEndOffset: Int64,
        settledOffsetAboveLogEnd: SettledOffsetAboveLogEnd?
    ) -> Result<SeekPosition?, KafkaError> {
        var logEndOffset = logOffsets.upperBound
        switch settledOffsetAboveLogEnd {
        case nil: break
        case .isNew?:
            return .failure(
                .logEndUnclear(
                    "records below offset \(settledEndOffset) are settled, but the brokers say that the log ends at "
                        + "\(logEndOffset): the worker asks again before it reads the partition again for Redis"
                )
            )
        case .isWrong?:
            // The settled offset does not fit this log, so nothing shows which of its records are settled. The request
            // waits until an operator has set another offset. Meanwhile the partition must stay stopped: a rereading
            // would take its new records for settled ones, also when the log has grown beyond the settled offset.
            return .failure(
                .offsetOutOfRange(
                    "records below offset \(settledEndOffset) are settled, but the log ended before this offset: the "
                        + "partition is not read again for Redis until an operator has set the group's offset"
                )
            )
        case .isRight?: logEndOffset = settledEndOffset
        }
        // A mark above the log's end is about an earlier log: the topic was deleted and created again. So Redis may
        // lack the writes of any record of this log. Known issue (K28): if this log is already longer than the earlier
        // one, the mark does not show this.
        let isFromEarlierLog = firstMissingOffset ?? 0 > logEndOffset
        let firstOffset = isFromEarlierLog ? 0 : firstMissingOffset ?? 0
        switch recentRecords {
        case .all: return .success(makePosition(max(firstOffset, logOffsets.lowerBound), logOffsets, settledEndOffset))
        case .from(let recentOffset):
            return .success(makePosition(max(firstOffset, recentOffset), logOffsets, settledEndOffset))
        case .noRecords:
            // Brokers that name an end that is too low have looked for recent records only below this end. So all
            // records from this end on count as recent.
            guard settledOffsetAboveLogEnd == .isRight else { return .success(nil) }
            return .success(makePosition(max(firstOffset, logOffsets.upperBound), logOffsets, settledEndOffset))
        }
    }

    /// Returns the log's beginning, not an offset, if the rereading begins with the log's first record. Kafka may
    /// delete this record before the rereading begins, and a seek to its offset would then stop the partition.
    ///
    /// But if Kafka has already deleted unsettled records, the partition must stay stopped. Then this method returns an
    /// offset, which `SeekPosition.limited` lowers to the settled offset, and that is no longer in the log.
    private static func makePosition(
        _ offset: Int64,
        _ logOffsets: Range<Int64>,
        _ settledEndOffset: Int64
    ) -> SeekPosition {
        offset <= logOffsets.lowerBound && settledEndOffset >= logOffsets.lowerBound ? .beginning : .offset(offset)
    }
}
