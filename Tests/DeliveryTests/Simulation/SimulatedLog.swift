import Delivery

/// The topics that workers read, and the offsets that the group has committed.
struct SimulatedLog {
    static let commandsTopic = 0
    static let registrationsTopic = 1
    static let deferredTopic = 2

    struct Record {
        var timestampMilliseconds: Int64
        var key: [UInt8]
        var value: [UInt8]?
        /// For a deferred command: its deferral, and when the command may be read; nil for other records.
        var deferral: (Deferral, dueMilliseconds: Int64)?
    }

    struct Partition: Hashable, Comparable {
        /// `commandsTopic`, `registrationsTopic` or `deferredTopic`.
        var topic: Int
        var number: Int

        init(topic: Int, number: Int) { (self.topic, self.number) = (topic, number) }

        /// The partition of the commands or registrations from which the record was first read.
        init(of view: RecordView) {
            let topic = view.sourceTopic == .commands ? SimulatedLog.commandsTopic : SimulatedLog.registrationsTopic
            self.init(topic: topic, number: Int(view.sourcePartition))
        }

        var holdsCommands: Bool { topic == SimulatedLog.commandsTopic }
        var holdsDeferredCommands: Bool { topic == SimulatedLog.deferredTopic }

        static func < (left: Self, right: Self) -> Bool {
            (left.topic, left.number) < (right.topic, right.number)
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
            for number in 0..<partitionCount { records[Partition(topic: topic, number: number)] = [] }
        }
    }

    var allPartitions: [Partition] { records.keys.sorted() }

    mutating func append(topic: Int, key: String, value: String?, at milliseconds: Int64) -> (Partition, Int64) {
        let hash = key.utf8.reduce(7) { ($0 &* 31 &+ Int($1)) & 0xFFFF }
        let partition = Partition(topic: topic, number: hash % partitionCount)
        let record = Record(
            timestampMilliseconds: milliseconds,
            key: Array(key.utf8),
            value: value.map { Array($0.utf8) }
        )
        records[partition, default: []].append(record)
        return (partition, Int64(records[partition, default: []].count - 1))
    }

    /// Appends a deferred command. Its partition gets the number of the partition from which the command was first
    /// read. So all deferred commands of an activity are in one partition.
    mutating func append(_ value: [UInt8], _ deferral: Deferral, dueMilliseconds: Int64) -> (Partition, Int64) {
        let partition = Partition(topic: Self.deferredTopic, number: Int(deferral.sourcePartition))
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
