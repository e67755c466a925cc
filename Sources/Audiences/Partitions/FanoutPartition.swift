import Delivery

/// One assigned partition of the fan-out topic.
struct FanoutPartition: ~Copyable {
    enum Phase { case assigned, revoking }

    var ledger: PartitionLedger
    var receipts = ReceiptTimes()
    var phase = Phase.assigned
    let epoch: UInt32
    let number: Int32
    /// Records of this assignment that are held and not settled.
    var outstanding = 0
    var passedOver: PassedOverRecords
    /// When the partition was last read again. Monotonic milliseconds.
    var rereadMilliseconds = Int64.min
    /// When the partition's last record was received. Monotonic milliseconds.
    var receivedMilliseconds = Int64.min

    init(number: Int32, epoch: UInt32, windowOffsets: Int) {
        self.number = number
        self.epoch = epoch
        ledger = PartitionLedger(windowOffsets: windowOffsets)
        passedOver = PassedOverRecords(windowOffsets: windowOffsets)
    }
}

/// The partitions of the fan-out topic that a lane owns.
///
/// The epoch distinguishes the assignments of one slot: what completes after its partition was released is not counted for the next
/// partition in that slot. A pointer is valid until the next release.
struct FanoutPartitions: ~Copyable {
    static let limit = 4_096

    private var places: [UnsafeMutablePointer<FanoutPartition>?] = []
    private var nextEpoch: UInt32 = 1

    init() {}

    deinit {
        for case let partition? in places {
            partition.deinitialize(count: 1)
            partition.deallocate()
        }
    }

    mutating func assign(number: Int32, windowOffsets: Int) -> UInt32? {
        let free = places.firstIndex { $0 == nil }
        guard free != nil || places.count < Self.limit else { return nil }
        let partition = UnsafeMutablePointer<FanoutPartition>.allocate(capacity: 1)
        partition.initialize(to: FanoutPartition(number: number, epoch: nextEpoch, windowOffsets: windowOffsets))
        nextEpoch &+= 1
        guard let free else {
            places.append(partition)
            return UInt32(places.count - 1)
        }
        places[free] = partition
        return UInt32(free)
    }

    mutating func release(_ place: UInt32) {
        guard let partition = self[place] else { return }
        places[Int(place)] = nil
        partition.deinitialize(count: 1)
        partition.deallocate()
    }

    subscript(_ place: UInt32) -> UnsafeMutablePointer<FanoutPartition>? {
        Int(place) < places.count ? places[Int(place)] : nil
    }

    func forEachAssigned(_ body: (borrowing FanoutPartition) -> Void) {
        for case let partition? in places where partition.pointee.phase == .assigned { body(partition.pointee) }
    }

    func current(_ place: UInt32, epoch: UInt32) -> UnsafeMutablePointer<FanoutPartition>? {
        guard let partition = self[place], partition.pointee.epoch == epoch else { return nil }
        return partition
    }
}
