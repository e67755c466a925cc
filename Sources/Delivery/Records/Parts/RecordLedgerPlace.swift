/// The partition and offset from which this lane read the record. They do not change, and the offset is settled when
/// the record has ended. A deferred command has its place in the deferred topic, and `RecordSource` says where it was
/// first read. For all other records, the place and the source are the same.
struct RecordLedgerPlace: BitwiseCopyable {
    /// The index of the record's partition in the lane's `PartitionTable`.
    let partitionIndex: UInt32
    /// The number of the partition's assignment in which the record was read. If the partition is revoked and assigned
    /// again, the new assignment has another number, and the record settles no offset in it.
    let assignmentEpoch: UInt32
    let offset: Int64
}

extension RecordLedgerPlace {
    @inline(__always)
    init(_ record: IncomingRecord, _ partition: UnsafeMutablePointer<Partition>) {
        self.init(
            partitionIndex: record.partitionIndex,
            assignmentEpoch: partition.pointee.assignmentEpoch,
            offset: record.offset
        )
    }
}

extension PartitionTable<Partition> {
    /// Returns the partition from which a record was read; nil if the assignment in which it was read has ended.
    @inline(__always)
    func partition(of place: RecordLedgerPlace) -> UnsafeMutablePointer<Partition>? {
        partition(place.partitionIndex, assignmentEpoch: place.assignmentEpoch)
    }
}
