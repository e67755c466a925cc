/// The place from which this lane read the record, and whose offset is settled at the end. It differs from the
/// `RecordSource` only for a deferred command, which was first read elsewhere. All records have a place from their
/// receipt on, and it does not change.
struct RecordPlace: BitwiseCopyable {
    /// The index of the record's partition in the lane's `PartitionTable`.
    let partitionIndex: UInt32
    /// The number of the partition's assignment in which the record was read. After this assignment has ended, the
    /// `PartitionTable` has another number at `partitionIndex`, or no partition. So a record of an earlier
    /// assignment settles no offset of a later one.
    let assignmentEpoch: UInt32
    /// The offset in the partition. The ledger notes this offset when the record is received, and when it is settled.
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
