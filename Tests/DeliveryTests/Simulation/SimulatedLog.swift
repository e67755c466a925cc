/// The two topics that are read, and what the group has committed.
struct SimulatedLog {
    struct Record {
        var timestampMilliseconds: Int64
        var key: [UInt8]
        var value: [UInt8]?
    }

    struct Place: Hashable {
        /// 0: commands, 1: registrations.
        var topic: Int
        var partition: Int
    }

    /// What the group has committed of a partition.
    struct Commit {
        var offset: Int64 = 0
        var metadata: [UInt8] = []
    }

    let partitions: Int
    private(set) var records: [Place: [Record]] = [:]
    var commits: [Place: Commit] = [:]

    init(partitions: Int) {
        self.partitions = partitions
        for topic in 0...1 {
            for partition in 0..<partitions { records[Place(topic: topic, partition: partition)] = [] }
        }
    }

    var places: [Place] { records.keys.sorted { ($0.topic, $0.partition) < ($1.topic, $1.partition) } }

    mutating func append(topic: Int, key: String, value: String?, at milliseconds: Int64) -> (Place, Int64) {
        let hash = key.utf8.reduce(7) { ($0 &* 31 &+ Int($1)) & 0xFFFF }
        let place = Place(topic: topic, partition: hash % partitions)
        let record = Record(
            timestampMilliseconds: milliseconds,
            key: Array(key.utf8),
            value: value.map { Array($0.utf8) }
        )
        records[place, default: []].append(record)
        return (place, Int64(records[place, default: []].count - 1))
    }
}
