import Delivery

/// One assigned partition of the fan-out topic.
struct FanoutPartition: AssignedPartition, ~Copyable {
    enum Phase { case assigned, revoking }

    /// The `assignmentEpoch` of a record that belongs to no assignment any more. No partition has this epoch.
    static let noAssignmentEpoch: UInt32 = 0

    var ledger: PartitionLedger
    var receiptTimes = ReceiptTimes()
    var phase = Phase.assigned
    let assignmentEpoch: UInt32
    let number: Int32
    /// Records of this assignment that are in memory and not settled. Raised in `Audiences+FanoutRecords` and
    /// `Audiences+Broadcasts`, lowered in `Audiences+Finishing`, `Audiences+BroadcastEnds` and `Audiences+Room`.
    var unsettledRecordCount = 0
    var passedOverRecords: PassedOverRecords
    /// When the partition was last rewound (monotonic milliseconds); `.min`: not yet.
    var lastRewindAtMilliseconds = Int64.min
    /// When the partition's last new record was received (monotonic milliseconds); `.min`: none yet. A record that the
    /// lane reads again does not count. A round that waits for versions of the partition's previous owner waits longer
    /// while records come, because they may bring these versions.
    var lastRecordAtMilliseconds = Int64.min

    init(number: Int32, assignmentEpoch: UInt32, spanOffsetCount: Int) {
        self.number = number
        self.assignmentEpoch = assignmentEpoch
        ledger = PartitionLedger(spanOffsetCount: spanOffsetCount)
        passedOverRecords = PassedOverRecords(spanOffsetCount: spanOffsetCount)
    }

    /// Whether the record at `offset` was passed over and waits to be read again. Checks first that the offset is in
    /// the ledger's span: ``PassedOverRecords`` has bits only for these offsets, and would return the bit of another
    /// offset.
    func hasPassedOver(_ offset: Int64) -> Bool {
        ledger.committableOffset <= offset && offset < ledger.nextOffset && passedOverRecords.contains(offset)
    }
}
