import Delivery

/// One assigned partition of the fan-out topic.
struct FanoutPartition: AssignedPartition, ~Copyable {
    enum Phase { case assigned, revoking }

    var ledger: PartitionLedger
    var receiptTimes = ReceiptTimes()
    var phase = Phase.assigned
    let assignmentEpoch: UInt32
    let number: Int32
    /// Records of this assignment that are in memory and not settled.
    var unsettledRecordCount = 0
    var passedOverRecords: PassedOverRecords
    /// When the partition was last rewound (monotonic milliseconds); `.min`: not yet. The next rewind to
    /// passed-over records comes at least `rewindIntervalMillisecondsMin` later.
    var lastRewindAtMilliseconds = Int64.min
    /// When the partition's last record was received. Monotonic milliseconds. While records come, one of them may be
    /// the record that a round waits for.
    var lastRecordAtMilliseconds = Int64.min

    init(number: Int32, assignmentEpoch: UInt32, windowOffsetCount: Int) {
        self.number = number
        self.assignmentEpoch = assignmentEpoch
        ledger = PartitionLedger(windowOffsetCount: windowOffsetCount)
        passedOverRecords = PassedOverRecords(windowOffsetCount: windowOffsetCount)
    }

    /// Whether the record at `offset` was passed over and waits to be read again. ``PassedOverRecords`` has bits only
    /// for the offsets in the ledger's window. For an offset outside the window, it would return the bit of another
    /// offset. So the window is checked first.
    func hasPassedOver(_ offset: Int64) -> Bool {
        ledger.committableOffset <= offset && offset < ledger.nextOffset && passedOverRecords.contains(offset)
    }
}
