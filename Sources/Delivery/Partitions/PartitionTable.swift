/// A partition of one of a lane's two cores, as a ``PartitionTable`` stores it.
public protocol AssignedPartition: ~Copyable {
    /// The number of the partition's assignment. Each assignment in a table has a different number.
    var assignmentEpoch: UInt32 { get }
}

/// The partitions of a lane's core. A record names its partition by the index in this table. A released index is used
/// again, but each assignment has another number, its epoch. So work that finishes after a release does not change the
/// next assignment with the same index.
///
/// Partitions are returned as pointers, which are valid until the partition is released. If partitions were objects,
/// Swift would count references at each access, and every record accesses its partition.
///
/// The methods that run for each record are public: Swift specializes only public generic code in other modules.
public struct PartitionTable<Assigned: AssignedPartition & ~Copyable>: ~Copyable {
    /// The maximum number of partitions of a core at a time. (R4)
    package static var partitionsMax: Int { 4_096 }

    private var assignedPartitions: [UnsafeMutablePointer<Assigned>?] = []
    private var nextAssignmentEpoch: UInt32 = 1

    package init() {}

    deinit {
        for case let partition? in assignedPartitions { Self.destroy(partition) }
    }

    private static func destroy(_ partition: UnsafeMutablePointer<Assigned>) {
        partition.deinitialize(count: 1)
        partition.deallocate()
    }

    /// Adds a partition at the first free index.
    ///
    /// - Parameter makePartition: makes the partition with the given epoch.
    /// - Returns: the partition's index; nil if the table is full.
    package mutating func assign(_ makePartition: (_ assignmentEpoch: UInt32) -> Assigned) -> UInt32? {
        let freeIndex = assignedPartitions.firstIndex { $0 == nil }
        guard freeIndex != nil || assignedPartitions.count < Self.partitionsMax else { return nil }
        let newPartition = UnsafeMutablePointer<Assigned>.allocate(capacity: 1)
        newPartition.initialize(to: makePartition(nextAssignmentEpoch))
        nextAssignmentEpoch &+= 1
        guard let freeIndex else {
            assignedPartitions.append(newPartition)
            return UInt32(assignedPartitions.count - 1)
        }
        assignedPartitions[freeIndex] = newPartition
        return UInt32(freeIndex)
    }

    /// Ends an assignment. Pointers to its partition are not valid afterwards. Does nothing if the index has none.
    package mutating func release(_ index: UInt32) {
        guard let partition = self[index] else { return }
        assignedPartitions[Int(index)] = nil
        Self.destroy(partition)
    }

    public subscript(_ index: UInt32) -> UnsafeMutablePointer<Assigned>? {
        Int(index) < assignedPartitions.count ? assignedPartitions[Int(index)] : nil
    }

    /// Returns the partition at `index`; nil if the assignment with this epoch has ended.
    public func partition(_ index: UInt32, assignmentEpoch: UInt32) -> UnsafeMutablePointer<Assigned>? {
        guard let partition = self[index], partition.pointee.assignmentEpoch == assignmentEpoch else { return nil }
        return partition
    }

    public func contains(where isWanted: (UnsafeMutablePointer<Assigned>) -> Bool) -> Bool {
        assignedPartitions.contains { $0.map(isWanted) ?? false }
    }

    package func forEachAssigned(_ body: (UnsafeMutablePointer<Assigned>) -> Void) {
        for case let partition? in assignedPartitions { body(partition) }
    }
}
