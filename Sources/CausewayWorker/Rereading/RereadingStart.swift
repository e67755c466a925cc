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
        ///   - firstTimedOffset: the first record that has any time; nil if the brokers name none. If no record has a
        ///     time, the brokers name no recent record either, although any record may be recent.
        init(firstRecentOffset: Int64?, firstTimedOffset: Int64?) {
            if let firstRecentOffset {
                self = .from(firstRecentOffset)
            } else {
                self = firstTimedOffset == nil ? .all : .noRecords
            }
        }
    }

    /// Returns where a rereading begins: at the first record that Redis may lack, but not before the log's first
    /// record, and only with records that are recent enough. Nil if there is no such record. A failure if the partition
    /// must stay stopped until an operator sets another offset.
    ///
    /// - Parameters:
    ///   - firstMissingOffset: as in ``RereadingRequest``.
    ///   - logOffsets: the offsets that the log has now.
    ///   - settledEndOffset: the offset below which all records of the partition are settled.
    ///   - wasAboveLogEnd: whether an earlier attempt found this settled offset above the log's end, or the partition
    ///     has stopped for this reason.
    static func findPosition(
        firstMissingOffset: Int64?,
        recentRecords: RecentRecords,
        logOffsets: Range<Int64>,
        settledEndOffset: Int64,
        wasAboveLogEnd: Bool
    ) -> Result<SeekPosition?, KafkaError> {
        // If the settled offset is above the log's end, the topic was created again, or Kafka has lost the log's last
        // records. Nothing shows which records of this log are settled, and Redis may lack what they wrote. So the
        // request waits until an operator has set another offset. Meanwhile the partition must stay stopped: a
        // rereading would begin to read it, and would take its new records for settled ones, also when the log has
        // grown beyond the settled offset.
        guard !wasAboveLogEnd, settledEndOffset <= logOffsets.upperBound else {
            return .failure(
                .offsetOutOfRange(
                    "records below offset \(settledEndOffset) are settled, but the log ended before this offset: the "
                        + "partition is not read again for Redis until an operator has set the group's offset"
                )
            )
        }
        // A mark above the log's end is about an earlier log: the topic was deleted and created again. So any record of
        // this log may be missing. Known issue (K28): if this log is already longer than the earlier one, the mark does
        // not show this.
        let isFromEarlierLog = firstMissingOffset ?? 0 > logOffsets.upperBound
        let firstOffset = isFromEarlierLog ? 0 : firstMissingOffset ?? 0
        switch recentRecords {
        case .all:
            // Seek to the beginning, without an offset, if possible: Kafka may delete the log's first records before
            // the rereading begins, and a seek to the offset of a deleted record would stop the partition. But if Kafka
            // has already deleted unsettled records, the partition must stay stopped. Then name an offset:
            // `SeekPosition.limited` lowers it to the settled offset, which is not in the log.
            let beginsWithLog = firstMissingOffset == nil && settledEndOffset >= logOffsets.lowerBound
            return .success(beginsWithLog ? .beginning : .offset(max(firstOffset, logOffsets.lowerBound)))
        case .from(let recentOffset): return .success(.offset(max(firstOffset, recentOffset)))
        case .noRecords: return .success(nil)
        }
    }
}
