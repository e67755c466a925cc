/// A partition that is assigned to a lane.
struct Partition: AssignedPartition, ~Copyable {
    enum Phase {
        /// Records are received and worked on.
        case assigned
        /// No record is begun, and records under way settle. The partition is released when no record is left
        /// or the stop's time is over.
        case revoking
    }

    var ledger: PartitionLedger
    var receipts = ReceiptTimes()
    var phase = Phase.assigned
    let epoch: UInt32
    let topic: RecordTopic
    let number: Int32
    var settledBefore = SettledBefore()
    /// The number of this assignment's records that are not settled.
    var outstanding = 0
    var lag = ReadAhead.Lag()

    init(topic: RecordTopic, number: Int32, epoch: UInt32, windowOffsets: Int) {
        self.topic = topic
        self.number = number
        self.epoch = epoch
        ledger = PartitionLedger(windowOffsets: windowOffsets)
    }
}
