/// A record from Kafka. Its pointers are valid only while the method runs that gets the record.
public struct IncomingRecord {
    /// The partition's index in the core's table, as `assign` returned it: not the partition's number in Kafka.
    public var partitionIndex: UInt32
    public var offset: Int64
    /// Kafka's timestamp of the record, UNIX milliseconds; -1: none.
    public var timestampMilliseconds: Int64
    public var key: UnsafeRawBufferPointer?
    /// Nil if the record has no value. On the registrations topic, such a record is a tombstone.
    public var value: UnsafeRawBufferPointer?
    /// The trace header of the record; empty if there is none. The core keeps it for `RecordView.trace`, without
    /// decoding it.
    public var trace: UnsafeRawBufferPointer

    public init(
        partitionIndex: UInt32,
        offset: Int64,
        timestampMilliseconds: Int64,
        key: UnsafeRawBufferPointer?,
        value: UnsafeRawBufferPointer?,
        trace: UnsafeRawBufferPointer = UnsafeRawBufferPointer(start: nil, count: 0)
    ) {
        self.trace = trace
        self.partitionIndex = partitionIndex
        self.offset = offset
        self.timestampMilliseconds = timestampMilliseconds
        self.key = key
        self.value = value
    }
}
