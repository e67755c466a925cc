/// A partition that is assigned to a lane.
struct Partition: AssignedPartition, ~Copyable {
    enum Phase {
        /// The lane receives the partition's records and works on them.
        case assigned
        /// The lane begins no record, and records under way continue. The partition is released when all its received
        /// records are settled or dropped, or when the drain time is over.
        case revoking
    }

    var ledger: PartitionLedger
    var receiptTimes = ReceiptTimes()
    var phase = Phase.assigned
    let assignmentEpoch: UInt32
    let topic: RecordTopic
    let number: Int32
    var rereadOffsets = RereadOffsets()
    /// The number of records that were received in this assignment (`Delivery+Receive`), and are neither settled nor
    /// dropped (`Delivery+Settling`).
    var unsettledRecordCount = 0
    var lag = ReadAhead.Lag()
    /// Set only if ``topic`` is the deferred topic.
    var deferredBacklog = DeferredBacklog()

    /// When the oldest unsettled record was received, an approximate monotonic time; nil if all received records are
    /// settled or dropped, or if the time is unknown.
    var oldestUnsettledSinceMilliseconds: Int64? {
        unsettledRecordCount > 0
            ? receiptTimes.receivedAtMonotonicMilliseconds(of: ledger.committableOffset) : nil
    }

    init(topic: RecordTopic, number: Int32, assignmentEpoch: UInt32, spanOffsetCount: Int) {
        self.topic = topic
        self.number = number
        self.assignmentEpoch = assignmentEpoch
        ledger = PartitionLedger(spanOffsetCount: spanOffsetCount)
    }
}
