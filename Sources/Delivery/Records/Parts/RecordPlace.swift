/// The place from which this lane read the record, and whose offset is settled at the end. All records have it from
/// their receipt on, and it does not change. It differs from the `RecordSource` only for a deferred command, which was
/// first read elsewhere.
struct RecordPlace: BitwiseCopyable {
    /// The index of the record's partition in the lane's `PartitionTable`.
    let partitionIndex: UInt32
    /// The number of the partition's assignment in which the record was read. A later assignment has another number, so
    /// a record of this assignment settles no offset of a later one.
    let assignmentEpoch: UInt32
    /// The offset in the partition.
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
