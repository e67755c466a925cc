import Delivery

/// The topics that workers read, and the offsets that the group has committed.
struct SimulatedLog {
    struct Record {
        var timestampMilliseconds: Int64
        var key: [UInt8]
        var value: [UInt8]?
        /// The deferral of a deferred command and the time when it is due; nil for other records.
        var deferral: (Deferral, dueMilliseconds: Int64)?
    }

    struct Place: Hashable {
        /// 0: commands, 1: registrations, 2: deferred commands.
        var topic: Int
        var partition: Int
    }

    /// The committed offset and metadata of a partition.
    struct Commit {
        var offset: Int64 = 0
        var metadata: [UInt8] = []
    }

    let partitions: Int
    private(set) var records: [Place: [Record]] = [:]
    var commits: [Place: Commit] = [:]

    init(partitions: Int, topics: Int) {
        self.partitions = partitions
        for topic in 0..<topics {
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

    /// Appends a deferred command to the partition that has the number of its source partition.
    mutating func append(_ value: [UInt8], _ deferral: Deferral, dueMilliseconds: Int64) -> (Place, Int64) {
        let place = Place(topic: 2, partition: Int(deferral.partition))
        records[place, default: []]
            .append(
                Record(timestampMilliseconds: 0, key: [], value: value, deferral: (deferral, dueMilliseconds))
            )
        return (place, Int64(records[place, default: []].count - 1))
    }

    /// Makes all commands that are in the deferred partition readable now.
    mutating func readAllDeferred(of place: Place, now: Int64) {
        for offset in records[place, default: []].indices {
            guard let due = records[place]?[offset].deferral?.dueMilliseconds else { continue }
            records[place]?[offset].deferral?.dueMilliseconds = min(due, now)
        }
    }

    /// Whether a record exists at the offset and may be read now.
    func hasRecord(_ place: Place, at offset: Int64, now: Int64) -> Bool {
        guard let records = records[place], offset < records.count else { return false }
        return records[Int(offset)].deferral.map { $0.dueMilliseconds <= now } ?? true
    }
}
