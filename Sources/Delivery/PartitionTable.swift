/// One assigned partition of a lane. An instance lives as long as an assignment, not as long as a message.
final class Partition {
    enum Phase {
        /// Records are received and worked on.
        case assigned
        /// Nothing new is begun; what is under way settles. The partition is released when nothing is left, or time is up.
        case revoking
    }

    var ledger: PartitionLedger
    var receipts = ReceiptTimes()
    var phase = Phase.assigned
    let epoch: UInt32
    let topic: RecordTopic
    let number: Int32
    /// Records of this assignment that are not settled.
    var outstanding = 0
    /// Records that the lane had not received when it was last asked.
    var recordsBehind: Int64 = 0

    init(topic: RecordTopic, number: Int32, epoch: UInt32, windowOffsets: Int) {
        self.topic = topic
        self.number = number
        self.epoch = epoch
        ledger = PartitionLedger(windowOffsets: windowOffsets)
    }
}

/// The partitions of a lane. A place is used again after a release; the epoch tells its assignments apart, so that what completes
/// after its partition was given up is not counted for the next one.
struct PartitionTable {
    /// The most partitions of one lane at a time.
    static let limit = 4_096

    private var places: [Partition?] = []
    private var nextEpoch: UInt32 = 1

    mutating func assign(topic: RecordTopic, number: Int32, windowOffsets: Int) -> UInt32? {
        let partition = Partition(topic: topic, number: number, epoch: nextEpoch, windowOffsets: windowOffsets)
        nextEpoch &+= 1
        if let place = places.firstIndex(where: { $0 == nil }) {
            places[place] = partition
            return UInt32(place)
        }
        guard places.count < Self.limit else { return nil }
        places.append(partition)
        return UInt32(places.count - 1)
    }

    mutating func release(_ place: UInt32) { places[Int(place)] = nil }

    subscript(_ place: UInt32) -> Partition? { Int(place) < places.count ? places[Int(place)] : nil }

    /// Whether a partition has records that are not settled over more than so many offsets.
    func spansMore(than offsets: Int) -> Bool {
        places.contains { partition in
            guard let partition else { return false }
            return partition.ledger.nextOffset - partition.ledger.committableOffset > Int64(offsets)
        }
    }

    /// The partition at `place` if it is still the assignment that `epoch` names.
    func current(_ place: UInt32, epoch: UInt32) -> Partition? {
        guard let partition = self[place], partition.epoch == epoch else { return nil }
        return partition
    }
}
