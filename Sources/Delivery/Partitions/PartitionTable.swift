/// A partition that is assigned to a lane.
struct Partition: ~Copyable {
    enum Phase {
        /// Records are received and worked on.
        case assigned
        /// No record is begun, and records under way settle. The partition is released when none is left or the time is up.
        case revoking
    }

    var ledger: PartitionLedger
    var receipts = ReceiptTimes()
    var phase = Phase.assigned
    let epoch: UInt32
    let topic: RecordTopic
    let number: Int32
    var settledBefore = SettledBefore()
    /// Records of this assignment that are not settled.
    var outstanding = 0
    var lag = ReadAhead.Lag()

    init(topic: RecordTopic, number: Int32, epoch: UInt32, windowOffsets: Int) {
        self.topic = topic
        self.number = number
        self.epoch = epoch
        ledger = PartitionLedger(windowOffsets: windowOffsets)
    }
}

/// The partitions of a lane. A place is used again after a release. The epoch distinguishes a place's assignments, so that work
/// which finishes after a release does not count for the next assignment.
///
/// Partitions are lent as pointers, which are valid until the next release. Records name their partitions all the time, and a
/// reference would be counted each time.
struct PartitionTable: ~Copyable {
    /// The maximum number of partitions of a lane at a time.
    static let limit = 4_096

    private var places: [UnsafeMutablePointer<Partition>?] = []
    private var nextEpoch: UInt32 = 1

    init() {}

    deinit {
        for case let partition? in places { Self.destroy(partition) }
    }

    private static func destroy(_ partition: UnsafeMutablePointer<Partition>) {
        partition.deinitialize(count: 1)
        partition.deallocate()
    }

    mutating func assign(topic: RecordTopic, number: Int32, windowOffsets: Int) -> UInt32? {
        let free = places.firstIndex { $0 == nil }
        guard free != nil || places.count < Self.limit else { return nil }
        let partition = UnsafeMutablePointer<Partition>.allocate(capacity: 1)
        partition.initialize(
            to: Partition(topic: topic, number: number, epoch: nextEpoch, windowOffsets: windowOffsets)
        )
        nextEpoch &+= 1
        guard let free else {
            places.append(partition)
            return UInt32(places.count - 1)
        }
        places[free] = partition
        return UInt32(free)
    }

    mutating func release(_ place: UInt32) {
        guard let partition = places[Int(place)] else { return }
        places[Int(place)] = nil
        Self.destroy(partition)
    }

    subscript(_ place: UInt32) -> UnsafeMutablePointer<Partition>? {
        Int(place) < places.count ? places[Int(place)] : nil
    }

    /// Whether a partition's unsettled records span more than this many offsets.
    func spansMore(than offsets: Int) -> Bool {
        places.contains { partition in
            guard let partition else { return false }
            return partition.pointee.ledger.span > Int64(offsets)
        }
    }

    func contains(where isWanted: (UnsafeMutablePointer<Partition>) -> Bool) -> Bool {
        places.contains { $0.map(isWanted) ?? false }
    }

    /// The partition at `place`, if `epoch` is still its assignment.
    func current(_ place: UInt32, epoch: UInt32) -> UnsafeMutablePointer<Partition>? {
        guard let partition = self[place], partition.pointee.epoch == epoch else { return nil }
        return partition
    }
}
