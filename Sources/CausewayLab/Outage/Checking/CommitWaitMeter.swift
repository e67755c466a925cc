import Kafka

/// Measures how long records wait until the group's committed offset passes them. The caller polls the committed offset
/// and the log end of each partition.
///
/// The wait counts from the poll that first saw the record. A record that is written and committed between two polls
/// counts as no wait.
struct CommitWaitMeter {
    /// By partition: the log ends that polls have found, oldest first. A log end that the committed offset has reached
    /// is removed.
    private var uncommittedLogEnds: [Int: [(seenAtMilliseconds: Int64, endOffset: Int64)]] = [:]
    private(set) var longestWaitMilliseconds: Int64 = 0

    /// Returns the longest wait that was found since the last call of this method.
    mutating func takeLongestWaitMilliseconds() -> Int64 {
        defer { longestWaitMilliseconds = 0 }
        return longestWaitMilliseconds
    }

    /// Records one poll.
    ///
    /// - Parameter positions: the positions of all partitions, by partition number.
    mutating func addPoll(_ positions: [GroupPositionReader.Position], atMilliseconds: Int64) {
        for (partition, position) in positions.enumerated() {
            var waitingEnds = uncommittedLogEnds[partition] ?? []
            waitingEnds.append((atMilliseconds, position.logEndOffset))
            waitingEnds.removeAll { $0.endOffset <= position.committedOffset ?? 0 }
            if let oldest = waitingEnds.first {
                longestWaitMilliseconds = max(longestWaitMilliseconds, atMilliseconds - oldest.seenAtMilliseconds)
            }
            uncommittedLogEnds[partition] = waitingEnds
        }
    }
}
