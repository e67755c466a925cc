import Kafka

/// A partition's lag, as the metrics show it: how far the first unsettled record is behind the end of the log.
enum PartitionLag {
    /// Returns the number of records from a partition's first unsettled one to the log's end. Nil means
    /// unknown, which is not zero.
    ///
    /// - Parameters:
    ///   - firstUnsettledOffset: the first unsettled offset; -1 before the first record of this assignment.
    ///   - startPosition: where reading began. Without an unsettled offset, the lag is counted from here.
    ///   - lowWatermark: the oldest offset in the log; negative if it is not known.
    ///   - highWatermark: the end of the log that the brokers last reported; negative if it is not known.
    ///   - logEnd: the end of the log, if reading has reached the end and no record was dealt afterwards; else nil.
    ///     Replaces the watermarks, because the offsets below the end may be only transaction markers.
    static func countRecords(
        firstUnsettledOffset: Int64,
        startPosition: SeekPosition?,
        lowWatermark: Int64,
        highWatermark: Int64,
        logEnd: LogEnd? = nil
    ) -> Int64? {
        if let logEnd {
            // If all dealt records are settled, the lag is 0: after them, the log has no record for a reader, only for
            // example transaction markers.
            let isSettled = firstUnsettledOffset < 0 || firstUnsettledOffset == logEnd.nextOffset
            return isSettled ? 0 : max(0, logEnd.endOffset - firstUnsettledOffset)
        }
        guard highWatermark >= 0 else { return nil }
        let nextOffset: Int64
        switch startPosition {
        case _ where firstUnsettledOffset >= 0: nextOffset = firstUnsettledOffset
        case .offset(let offset): nextOffset = offset
        case .beginning: nextOffset = max(0, lowWatermark)
        case .end: nextOffset = highWatermark
        case nil: return nil
        }
        // The lag is unknown if the log ends below `nextOffset`. The log has then lost records: for example, the topic
        // was deleted and created again.
        return nextOffset <= highWatermark ? highWatermark - max(nextOffset, lowWatermark, 0) : nil
    }

    /// The positions of a partition that was read to the end of its log.
    struct LogEnd {
        /// One above the last record that was dealt; -1: no record yet.
        var nextOffset: Int64
        var endOffset: Int64
    }
}
