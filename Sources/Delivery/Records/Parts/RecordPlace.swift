/// The place from which this lane read the record. All records have it from their receipt on, and it does not change.
/// Settling uses it. Results and default ids name the `RecordSource` instead.
struct RecordPlace: BitwiseCopyable {
    /// The index of the record's partition in the lane's `PartitionTable`.
    let partitionIndex: UInt32
    /// The number of the partition's assignment in which the record was read. After this assignment has ended, the
    /// `PartitionTable` has another number at `partitionIndex`, or no partition. So a record of an earlier
    /// assignment settles no offset of a later one.
    let assignmentEpoch: UInt32
    /// The offset in the partition. The ledger counts this offset.
    let offset: Int64
}

extension RecordPlace {
    @inline(__always)
    init(_ record: IncomingRecord, _ partition: UnsafeMutablePointer<Partition>) {
        self.init(
            partitionIndex: record.partition,
            assignmentEpoch: partition.pointee.assignmentEpoch,
            offset: record.offset
        )
    }
}

extension PartitionTable<Partition> {
    /// Returns the partition from which a record was read; nil if the assignment in which it was read has ended.
    @inline(__always)
    func partition(of place: RecordPlace) -> UnsafeMutablePointer<Partition>? {
        partition(place.partitionIndex, assignmentEpoch: place.assignmentEpoch)
    }
}
