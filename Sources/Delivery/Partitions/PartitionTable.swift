/// An element of a ``PartitionTable``.
public protocol AssignedPartition: ~Copyable {
    /// A number that differs between all assignments.
    var epoch: UInt32 { get }
}

/// The partitions of a lane. A *place* is an index in this table, and a record names its partition by it. A
/// place is used again after its release. Each assignment has an epoch of its own, so work that finishes
/// after a release does not change the next assignment of the place.
///
/// Partitions are returned as pointers, which are valid until the next release. Swift would count references
/// to an object at each access, and every record accesses its partition.
///
/// The methods that run for each record are public: Swift specializes only public generic code in other
/// modules.
public struct PartitionTable<Assigned: AssignedPartition & ~Copyable>: ~Copyable {
    /// The maximum number of partitions of a lane at a time.
    package static var limit: Int { 4_096 }

    private var places: [UnsafeMutablePointer<Assigned>?] = []
    private var nextEpoch: UInt32 = 1

    package init() {}

    deinit {
        for case let partition? in places { Self.destroy(partition) }
    }

    private static func destroy(_ partition: UnsafeMutablePointer<Assigned>) {
        partition.deinitialize(count: 1)
        partition.deallocate()
    }

    /// Adds a partition to the first free place.
    /// - Parameter partition: makes the partition with the given epoch.
    /// - Returns: the partition's place; nil if the table is full.
    package mutating func assign(_ partition: (_ epoch: UInt32) -> Assigned) -> UInt32? {
        let free = places.firstIndex { $0 == nil }
        guard free != nil || places.count < Self.limit else { return nil }
        let memory = UnsafeMutablePointer<Assigned>.allocate(capacity: 1)
        memory.initialize(to: partition(nextEpoch))
        nextEpoch &+= 1
        guard let free else {
            places.append(memory)
            return UInt32(places.count - 1)
        }
        places[free] = memory
        return UInt32(free)
    }

    package mutating func release(_ place: UInt32) {
        guard let partition = self[place] else { return }
        places[Int(place)] = nil
        Self.destroy(partition)
    }

    public subscript(_ place: UInt32) -> UnsafeMutablePointer<Assigned>? {
        Int(place) < places.count ? places[Int(place)] : nil
    }

    /// Returns the partition at `place`; nil if the assignment with this epoch has ended.
    public func current(_ place: UInt32, epoch: UInt32) -> UnsafeMutablePointer<Assigned>? {
        guard let partition = self[place], partition.pointee.epoch == epoch else { return nil }
        return partition
    }

    public func contains(where isWanted: (UnsafeMutablePointer<Assigned>) -> Bool) -> Bool {
        places.contains { $0.map(isWanted) ?? false }
    }

    package func forEachAssigned(_ body: (UnsafeMutablePointer<Assigned>) -> Void) {
        for case let partition? in places { body(partition) }
    }
}
