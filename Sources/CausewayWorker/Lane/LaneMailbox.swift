import Audiences
import Delivery
import Kafka
import Reactor
import Synchronization

/// One record on its way from the Kafka thread to a lane.
struct InboxEntry: BitwiseCopyable {
    /// The address of librdkafka's `rd_kafka_message_t`. The thread that pops the entry owns this message.
    var messageAddress: UInt
    /// The number of the assignment in which the record was read. With this number, the lane discards a record
    /// of an earlier assignment of the same partition.
    var assignmentNumber: UInt32
    var partition: Int32
    /// The approximate memory of the record, which counts towards the byte limit of the inbox (`InboxByteLimiter`).
    var recordByteCount: UInt32
    /// `Int16` instead of `Int32`, so that an entry has only 24 bytes.
    private var topicIndex: Int16
    /// How many rewinds of the partition the lane had requested when this record was dealt. If the lane has requested
    /// more rewinds since, it discards the record, because the record will be read again.
    var rewindRequestCount: UInt16

    init(
        messageAddress: UInt,
        assignmentNumber: UInt32,
        rewindRequestCount: UInt16,
        topic: Int32,
        partition: Int32,
        recordByteCount: UInt32
    ) {
        self.messageAddress = messageAddress
        self.assignmentNumber = assignmentNumber
        self.rewindRequestCount = rewindRequestCount
        topicIndex = Int16(truncatingIfNeeded: topic)
        self.partition = partition
        self.recordByteCount = recordByteCount
    }

    var topic: Int32 { Int32(topicIndex) }

    /// Returns the record's memory to librdkafka without reading the record.
    func discard() {
        guard let pointer = Message.Pointer(bitPattern: messageAddress) else { return }
        _ = Message(taking: pointer)
    }
}

/// An order of the Kafka thread to a lane. A lane takes its orders before it takes records. So if the lane has lost a
/// partition, the lane discards the records of this partition that are still in its inbox.
struct LaneOrder: BitwiseCopyable {
    enum Kind: UInt8, BitwiseCopyable {
        case assign
        /// Drain the partition: settle or drop its records. Then report it as drained.
        case revoke
        /// Forget the partition, drained or not.
        case release
        /// Note the end of the partition's log.
        case noteLogEnd
        /// Take the reloaded settings from the mailbox.
        case takeSettings
        /// End the lane's event loop.
        case stop
    }

    var kind: Kind
    var topic: Int32 = 0
    var partition: Int32 = 0
    var assignmentNumber: UInt32 = 0
    /// For `noteLogEnd`: the end of the partition's log (`AssignmentTable.Entry.reportedLogEndOffset`). -1 in all other
    /// orders.
    var logEndOffset: Int64 = -1
    /// For `assign`: whether the lane processes settled records again instead of skipping them, because Redis has lost
    /// what they wrote. For `release`: whether such an `assign` follows at once.
    var rereadsSettledRecords = false
    /// For `release` after a rebalance: the offset below which all records of the partition are settled. It may be
    /// above what the lane knows, because the Kafka thread commits the end of a log itself (R10). 0 in all other
    /// orders.
    var settledEndOffset: Int64 = 0
    /// For `assign`: the offset and metadata that the group has committed; nil: none, or not known. With
    /// `rereadsSettledRecords`, they say instead which records were settled before the rereading. The thread that pops
    /// the order takes ownership.
    var committedOffset: Unmanaged<RingBox<CommittedOffset>>?
}

/// A lane's report about a partition, for the Kafka thread.
struct PartitionReport: BitwiseCopyable {
    var topic: Int32
    var partition: Int32
    var assignmentNumber: UInt32
    /// The offset and the metadata to commit. Nil before the first record, and in a report with a `rewindRequest`. The
    /// thread that pops the report takes ownership.
    var progress: Unmanaged<RingBox<PartitionProgress>>?
    /// Whether no record of the partition is under way: the lane has settled each, or dropped it for the next owner.
    var isDrained: Bool
    var rewindRequest: PartitionRewind?
}

/// A value on the heap that passes through a ring by reference, because a ring itself takes only trivial values. Used
/// rarely, and never for a record.
final class RingBox<Value: Sendable>: Sendable {
    let value: Value

    private init(_ value: Value) { self.value = value }

    static func passRetained(_ value: Value) -> Unmanaged<RingBox> { .passRetained(RingBox(value)) }
}

extension Unmanaged {
    /// Takes ownership of the value from `RingBox.passRetained`. Call this exactly once.
    func takeBoxedValue<Value>() -> Value where Instance == RingBox<Value> { takeRetainedValue().value }
}

/// A delivery report on its way from the Kafka thread to the lane that produced the record.
struct DeliveryReport: BitwiseCopyable {
    var tag: UInt64
    var errorCode: Int32
}

/// Connects the Kafka thread with one lane: by a wake-up, and by rings, each with one writing and one reading thread.
/// Other tasks use the mailbox to pass to the lane reloaded settings, channels, and whether Redis has all members of
/// audiences.
final class LaneMailbox: Sendable {
    /// The number of records that may wait for the lane. If the inbox is full for a while, the Kafka thread pauses the
    /// lane's partitions.
    ///
    /// A fetch returns thousands of records of one partition in a row, all for one lane. The inbox must have room for
    /// such a run, because the other lanes get no records while this inbox is full. With room for 8,192 records, a
    /// backlog left a tenth of two processors idle. Room for 32,768 was no better.
    static let inboxCapacity = 16_384
    /// The maximum number of partitions that the lane's two cores have together.
    static let partitionsMax = Delivery.partitionsMax + Audiences.partitionsMax
    /// The number of orders that may wait for the lane: four for each partition. A rebalance needs no more: it revokes,
    /// releases and assigns a partition, and reports the end of its log once.
    static let ordersCapacity = 4 * partitionsMax
    /// The number of reports that may wait for the Kafka thread. If the ring is full, the lane makes the report again
    /// later, so that none is lost.
    static let partitionReportsCapacity = 16_384
    /// How many outgoing records for one received record may wait for Kafka's acknowledgement: a result, an
    /// invalidation and a dead letter.
    private static let deliveryReportsPerRecordMax = 3
    /// How many outgoing records of the core `Audiences` may wait for Kafka's acknowledgement. The core itself keeps to
    /// this number, so that the ring of delivery reports never overflows.
    static let outgoingAudienceRecordsMax = Audiences.unacknowledgedRecordsMax
    /// How many bytes the ring of delivery reports gets for each record of the lane: twice the need, because the ring's
    /// capacity is rounded up to a power of two.
    ///
    /// `MemoryBudget` counts the whole ring, although each page of its memory becomes resident only when it is first
    /// used.
    static let deliveryReportBytesPerRecord = 2 * deliveryReportsPerRecordMax * MemoryLayout<DeliveryReport>.stride
    /// How many bytes the ring of delivery reports gets for the records of the core `Audiences`: also twice the need.
    static let audienceDeliveryReportBytes = 2 * outgoingAudienceRecordsMax * MemoryLayout<DeliveryReport>.stride

    let inbox = SingleProducerRing<InboxEntry>(capacity: LaneMailbox.inboxCapacity)
    let orders = SingleProducerRing<LaneOrder>(capacity: LaneMailbox.ordersCapacity)
    /// The delivery reports for the lane. The ring has room for a report about each record that the lane has
    /// produced and Kafka has not acknowledged.
    let deliveryReports: SingleProducerRing<DeliveryReport>
    let partitionReports = SingleProducerRing<PartitionReport>(capacity: LaneMailbox.partitionReportsCapacity)
    /// Reloaded settings that the lane has not taken yet. The order `takeSettings` tells the lane to take them.
    private let settings = Mutex<ReloadableSettings?>(nil)
    let channelResponses = LaneChannelResponseQueue()
    let wakeup: Wakeup
    /// When an APNs pool of the lane last began to work again, UNIX milliseconds; 0: no pool did since the Kafka thread
    /// last took this time.
    private let poolRecoveredAtWallMilliseconds = Atomic<Int64>(0)
    /// See ``membersLastCompleteAtMilliseconds``, which has the same modes.
    private let atomicMembersLastCompleteAtMilliseconds = Atomic<Int64>(.min)

    init(recordsMax: Int) throws(SystemError) {
        var capacity = 1
        while capacity < recordsMax * Self.deliveryReportsPerRecordMax + Self.outgoingAudienceRecordsMax {
            capacity *= 2
        }
        deliveryReports = SingleProducerRing(capacity: capacity)
        wakeup = try Wakeup()
    }

    /// Notes that one of the lane's pools works again, or perhaps does. The caller must wake the Kafka thread, which
    /// then reads the lane's records that were deferred before this time.
    func notePoolRecovery(atWallMilliseconds wallMilliseconds: Int64) {
        poolRecoveredAtWallMilliseconds.store(wallMilliseconds, ordering: .relaxed)
    }

    /// Returns when an APNs pool of the lane last began to work again, UNIX milliseconds; nil: no pool did since this
    /// method was last called.
    func takePoolRecoveryAtWallMilliseconds() -> Int64? {
        guard poolRecoveredAtWallMilliseconds.load(ordering: .relaxed) != 0 else { return nil }
        return poolRecoveredAtWallMilliseconds.exchange(0, ordering: .relaxed)
    }

    /// Tells the lane whether audiences may continue (R26). Wakes the lane if audiences had to wait until now and may
    /// continue.
    ///
    /// - Parameter completeAtMilliseconds: when `StoreWatch` found that audiences may continue, monotonic milliseconds;
    ///   nil if they must wait for members.
    func setMembersComplete(atMilliseconds completeAtMilliseconds: Int64?) {
        let formerlyCompleteAtMilliseconds = atomicMembersLastCompleteAtMilliseconds.exchange(
            completeAtMilliseconds ?? .min,
            ordering: .relaxed
        )
        if formerlyCompleteAtMilliseconds == .min, completeAtMilliseconds != nil { wakeup.signal() }
    }

    /// When `StoreWatch` last found that audiences may continue: Redis has all their members, or the longest wait for
    /// them is over. Monotonic milliseconds; `.min`, the initial value: audiences must wait for members. Never `.max`,
    /// the third mode of ``Audiences/membersLastCompleteAtMilliseconds``, with which the core begins.
    var membersLastCompleteAtMilliseconds: Int64 { atomicMembersLastCompleteAtMilliseconds.load(ordering: .relaxed) }

    func offerSettings(_ newest: ReloadableSettings) { settings.withLock { $0 = newest } }

    func takeSettings() -> ReloadableSettings? { settings.withLock { $0.take() } }
}

/// A mailbox's rings for records and delivery reports, as unretained references. With retained ones, each of the
/// hundreds of thousands of entries a second would retain and release a ring. The Kafka thread keeps the rings alive
/// through the mailbox.
struct LaneRings {
    private let inbox: Unmanaged<SingleProducerRing<InboxEntry>>
    private let deliveryReports: Unmanaged<SingleProducerRing<DeliveryReport>>

    init(_ mailbox: LaneMailbox) {
        inbox = .passUnretained(mailbox.inbox)
        deliveryReports = .passUnretained(mailbox.deliveryReports)
    }

    // Both `push` functions return whether the ring had room.

    func push(_ entry: InboxEntry) -> Bool { inbox._withUnsafeGuaranteedRef { $0.push(entry) } }
    func push(_ report: DeliveryReport) -> Bool { deliveryReports._withUnsafeGuaranteedRef { $0.push(report) } }
}
