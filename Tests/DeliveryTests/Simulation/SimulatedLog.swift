import Delivery

/// The topics that workers read, and the offsets that the group has committed.
struct SimulatedLog {
    struct Record {
        var timestampMilliseconds: Int64
        var key: [UInt8]
        var value: [UInt8]?
        /// For a deferred command: its deferral, and when the command may be read; nil for other records.
        var deferral: (Deferral, dueMilliseconds: Int64)?
    }

    struct Partition: Hashable, Comparable {
        /// 0: commands, 1: registrations, 2: deferred commands.
        var topic: Int
        var partition: Int

        init(topic: Int, partition: Int) { (self.topic, self.partition) = (topic, partition) }

        /// The partition of the commands or registrations from which the record was first read.
        init(of view: RecordView) {
            self.init(topic: view.topic == .commands ? 0 : 1, partition: Int(view.sourcePartition))
        }

        static func < (left: Self, right: Self) -> Bool {
            (left.topic, left.partition) < (right.topic, right.partition)
        }
    }

    struct Commit {
        var offset: Int64 = 0
        var metadata: [UInt8] = []
    }

    let partitionCount: Int
    private(set) var records: [Partition: [Record]] = [:]
    var commits: [Partition: Commit] = [:]

    init(partitionCount: Int, topicCount: Int) {
        self.partitionCount = partitionCount
        for topic in 0..<topicCount {
            for partition in 0..<partitionCount { records[Partition(topic: topic, partition: partition)] = [] }
        }
    }

    var allPartitions: [Partition] { records.keys.sorted() }

    mutating func append(topic: Int, key: String, value: String?, at milliseconds: Int64) -> (Partition, Int64) {
        let hash = key.utf8.reduce(7) { ($0 &* 31 &+ Int($1)) & 0xFFFF }
        let partition = Partition(topic: topic, partition: hash % partitionCount)
        let record = Record(
            timestampMilliseconds: milliseconds,
            key: Array(key.utf8),
            value: value.map { Array($0.utf8) }
        )
        records[partition, default: []].append(record)
        return (partition, Int64(records[partition, default: []].count - 1))
    }

    /// Appends a deferred command to the partition with the number of its source partition. So one worker gets all
    /// commands of an activity.
    mutating func append(_ value: [UInt8], _ deferral: Deferral, dueMilliseconds: Int64) -> (Partition, Int64) {
        let partition = Partition(topic: 2, partition: Int(deferral.partition))
        records[partition, default: []]
            .append(
                Record(timestampMilliseconds: 0, key: [], value: value, deferral: (deferral, dueMilliseconds))
            )
        return (partition, Int64(records[partition, default: []].count - 1))
    }

    /// Makes all commands of a deferred partition due now.
    mutating func makeAllDeferredDue(of partition: Partition, now: Int64) {
        for offset in records[partition, default: []].indices {
            guard let due = records[partition]?[offset].deferral?.dueMilliseconds else { continue }
            records[partition]?[offset].deferral?.dueMilliseconds = min(due, now)
        }
    }

    /// Whether a record exists at the offset and may be read now.
    func hasRecord(_ partition: Partition, at offset: Int64, now: Int64) -> Bool {
        guard let records = records[partition], offset < records.count else { return false }
        return records[Int(offset)].deferral.map { $0.dueMilliseconds <= now } ?? true
    }
}
