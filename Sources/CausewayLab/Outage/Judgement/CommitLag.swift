import Kafka

/// How long records wait for their commit, measured by reading the committed offsets and the logs' ends.
///
/// The wait counts from the poll that first saw a record. So a record that comes and is committed between two polls counts as no wait.
struct CommitLag {
    /// For each partition: the readings of its end, oldest first, without those whose records are committed.
    private var ends: [Int: [(milliseconds: Int64, end: Int64)]] = [:]
    private(set) var longestMilliseconds: Int64 = 0

    /// The longest wait since the last call.
    mutating func takeLongest() -> Int64 {
        defer { longestMilliseconds = 0 }
        return longestMilliseconds
    }

    /// A poll of all partitions, in their order.
    mutating func note(_ positions: [GroupPositions.Position], at milliseconds: Int64) {
        for (partition, position) in positions.enumerated() {
            var seen = ends[partition] ?? []
            seen.append((milliseconds, position.end))
            seen.removeAll { $0.end <= position.committed ?? 0 }
            if let oldest = seen.first {
                longestMilliseconds = max(longestMilliseconds, milliseconds - oldest.milliseconds)
            }
            ends[partition] = seen
        }
    }
}
