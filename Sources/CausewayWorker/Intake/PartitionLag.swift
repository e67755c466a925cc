import Kafka

/// A partition's lag, as the metrics show it: how far the first unsettled record is behind the end of the log.
enum PartitionLag {
    /// Returns the number of records from a partition's first unsettled one to the log's end. Nil means that the number
    /// is unknown, which is not zero.
    ///
    /// - Parameters:
    ///   - firstUnsettledOffset: the first unsettled offset; -1 before the first record of this assignment.
    ///   - startPosition: where reading began. Without an unsettled offset, the lag is counted from here.
    ///   - logStartOffset: the oldest offset in the log; negative if it is not known.
    ///   - logEndOffset: the end of the log that the brokers last reported; negative if it is not known.
    ///   - reachedLogEnd: where reading has reached the log's end. With this value, `startPosition`, `logStartOffset`
    ///     and `logEndOffset` have no effect: they also count transaction markers, which are no lag. Nil: reading has
    ///     not reached the log's end, or another record has been dealt since.
    static func countRecords(
        firstUnsettledOffset: Int64,
        startPosition: SeekPosition?,
        logStartOffset: Int64,
        logEndOffset: Int64,
        reachedLogEnd: ReachedLogEnd? = nil
    ) -> Int64? {
        if let reachedLogEnd {
            // If all dealt records are settled, the lag is 0: only transaction markers or an open transaction can
            // follow them.
            let isSettled = firstUnsettledOffset < 0 || firstUnsettledOffset == reachedLogEnd.nextOffset
            return isSettled ? 0 : max(0, reachedLogEnd.offset - firstUnsettledOffset)
        }
        guard logEndOffset >= 0 else { return nil }
        let nextOffset: Int64
        switch startPosition {
        case _ where firstUnsettledOffset >= 0: nextOffset = firstUnsettledOffset
        case .offset(let offset): nextOffset = offset
        case .beginning: nextOffset = max(0, logStartOffset)
        case .end: nextOffset = logEndOffset
        case nil: return nil
        }
        // The lag is unknown if the log ends below `nextOffset`. The log has then lost records: for example, the topic
        // was deleted and created again.
        return nextOffset <= logEndOffset ? logEndOffset - max(nextOffset, logStartOffset, 0) : nil
    }

    /// The positions of a partition that was read to the end of its log.
    struct ReachedLogEnd {
        /// One above the last record that was dealt; -1: no record yet.
        var nextOffset: Int64
        /// The offset at which reading has reached the log's end (`AssignmentTable.Entry.logEndReachedAtOffset`).
        var offset: Int64
    }
}
