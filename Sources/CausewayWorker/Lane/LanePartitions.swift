import Delivery

/// Which place in the core each assigned partition has, found by topic and number without hashing.
struct LanePartitions {
    struct Entry {
        var place: UInt32
        var assignment: UInt32
        var topic: Int32
        var partition: Int32
        var reportedOffset: Int64 = -1
        var isRevoking = false
        var isReportedDrained = false
    }

    private(set) var entries: [Entry] = []
    /// By topic, then by partition: the position in `entries`, or -1.
    private var positions: [[Int]] = [[], []]

    func position(topic: Int32, partition: Int32) -> Int? {
        let row = positions[Int(topic)]
        guard partition >= 0, Int(partition) < row.count, row[Int(partition)] >= 0 else { return nil }
        return row[Int(partition)]
    }

    subscript(_ position: Int) -> Entry {
        get { entries[position] }
        set { entries[position] = newValue }
    }

    mutating func insert(_ entry: Entry) {
        let topic = Int(entry.topic)
        let partition = Int(entry.partition)
        if positions[topic].count <= partition {
            positions[topic].append(contentsOf: repeatElement(-1, count: partition + 1 - positions[topic].count))
        }
        precondition(positions[topic][partition] < 0, "a partition was assigned twice")
        positions[topic][partition] = entries.count
        entries.append(entry)
    }

    mutating func remove(at position: Int) {
        let entry = entries[position]
        positions[Int(entry.topic)][Int(entry.partition)] = -1
        let last = entries.removeLast()
        guard position < entries.count else { return }
        entries[position] = last
        positions[Int(last.topic)][Int(last.partition)] = position
    }
}
