import Kafka

/// A partition's lag, as the metrics show it: how far the first unsettled record is behind the end of the log.
enum PartitionLag {
    /// Returns the number of offsets from a partition's first unsettled record to the log's end; nil: unknown. The
    /// number includes the unsettled records, and the settled records and transaction markers between them.
    ///
    /// - Parameters:
    ///   - firstUnsettledOffset: the first unsettled offset; nil before the first record of this assignment.
    ///   - startPosition: where reading began. Without an unsettled offset, the lag is counted from here.
    ///   - logStartOffset: the oldest offset in the log; nil if it is not known.
    ///   - logEndOffset: the end of the log that the brokers last reported; nil if it is not known.
    ///   - logEndReading: where reading has reached the log's end. Nil if it has not, or if another record has been
    ///     dealt since. Replaces the three values above, because the brokers' log end also counts the transaction
    ///     markers after the last record.
    static func countRecords(
        firstUnsettledOffset: Int64?,
        startPosition: SeekPosition?,
        logStartOffset: Int64?,
        logEndOffset: Int64?,
        logEndReading: LogEndReading? = nil
    ) -> Int64? {
        if let logEndReading {
            // If all dealt records are settled, the lag is 0: only transaction markers or an open transaction can
            // follow them.
            guard let firstUnsettledOffset, firstUnsettledOffset != logEndReading.dealtEndOffset else { return 0 }
            return max(0, logEndReading.reachedAtOffset - firstUnsettledOffset)
        }
        guard let logEndOffset else { return nil }
        let logStartOffset = max(0, logStartOffset ?? 0)
        let firstCountedOffset: Int64
        if let firstUnsettledOffset {
            firstCountedOffset = firstUnsettledOffset
        } else {
            switch startPosition {
            case .offset(let offset): firstCountedOffset = offset
            case .beginning: firstCountedOffset = logStartOffset
            case .end: firstCountedOffset = logEndOffset
            case nil: return nil
            }
        }
        // The lag is unknown if the log ends below `firstCountedOffset`. The log has then lost records: for example,
        // the topic was deleted and created again.
        return firstCountedOffset <= logEndOffset ? logEndOffset - max(firstCountedOffset, logStartOffset) : nil
    }

    /// How far a partition was read when reading reached the end of its log.
    struct LogEndReading {
        /// One above the offset of the last dealt record; nil: no record yet.
        var dealtEndOffset: Int64?
        /// The offset at which reading has reached the log's end (`AssignmentTable.Entry.logEndReachedAtOffset`).
        var reachedAtOffset: Int64
    }
}
