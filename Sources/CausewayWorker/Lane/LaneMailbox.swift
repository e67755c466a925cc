import Audiences
import Delivery
import Kafka
import Reactor
import Synchronization

/// One record on its way from the Kafka thread to a lane.
struct InboxEntry: BitwiseCopyable {
    /// The `rd_kafka_message_t`. The thread that pops the entry owns it.
    var message: UInt
    /// The assignment in which the record was read. A record of an earlier assignment of the same partition must not be taken for one of
    /// the present assignment.
    var assignment: UInt32
    var partition: Int32
    /// Approximate memory of the record.
    var bytes: UInt32
    private var topicIndex: Int16
    /// How often the partition had been read again in this assignment. Records that were dealt before a rereading are dropped and come
    /// again.
    var reading: UInt16

    init(message: UInt, assignment: UInt32, reading: UInt16, topic: Int32, partition: Int32, bytes: UInt32) {
        self.message = message
        self.assignment = assignment
        self.reading = reading
        topicIndex = Int16(truncatingIfNeeded: topic)
        self.partition = partition
        self.bytes = bytes
    }

    var topic: Int32 { Int32(topicIndex) }

    /// Gives the record back to librdkafka without reading it.
    func discard() {
        guard let pointer = Message.Pointer(bitPattern: message) else { return }
        _ = Message(taking: pointer)
    }
}

/// An order of the Kafka thread to a lane. Orders overtake records: records of a revoked partition are dropped.
struct LaneOrder: BitwiseCopyable {
    enum Kind: UInt8, BitwiseCopyable {
        case assign
        /// Drain the partition, and report it as `drained`.
        case revoke
        /// Forget the partition, drained or not.
        case release
        /// Note the end of the partition's log.
        case highWatermark
        /// Take the new numbers from the mailbox.
        case settings
        /// Leave the loop.
        case stop
    }

    var kind: Kind
    var topic: Int32 = 0
    var partition: Int32 = 0
    var assignment: UInt32 = 0
    /// For `highWatermark`: the offset that the partition's next record will get.
    var offset: Int64 = -1
    /// For `assign`: settled records are read again instead of skipped, since Redis has lost what they wrote.
    var isReadAgain = false
    /// For `assign`: what the group has committed. The thread that pops the order takes it.
    var committed: Unmanaged<Handover<CommittedOffset>>?
}

/// A lane's report about a partition, for the Kafka thread.
struct LaneReport: BitwiseCopyable {
    var topic: Int32
    var partition: Int32
    var assignment: UInt32
    /// The state to commit; nil: nothing was received yet. The thread that pops the report takes it.
    var progress: Unmanaged<Handover<PartitionProgress>>?
    /// Whether nothing of the partition is outstanding, and nothing new will begin.
    var isDrained: Bool
    /// The lane has dropped records of the partition, and asks to read them again.
    var rereading: FanoutRereading?
}

/// A value with memory of its own that passes through a ring. Used rarely, never for a record.
final class Handover<Value: Sendable>: Sendable {
    let value: Value

    private init(_ value: Value) { self.value = value }

    static func pass(_ value: Value) -> Unmanaged<Handover> { .passRetained(Handover(value)) }
}

extension Unmanaged {
    /// Takes the value that `Handover.pass` made. Must be called exactly once.
    func take<Value>() -> Value where Instance == Handover<Value> { takeRetainedValue().value }
}

/// A delivery report on its way to the lane that produced the record.
struct DeliveryReport: BitwiseCopyable {
    var tag: UInt64
    var error: Int32
}

/// Everything that passes between the Kafka thread and one lane: rings with one producer and one consumer each, and a wake-up.
final class LaneMailbox: Sendable {
    /// Records between the two threads. If a lane takes none for a while, its partitions are paused.
    ///
    /// A fetch brings thousands of records of one partition in a row, all for one lane. While that lane's inbox is full, the other lanes
    /// get nothing, so the inbox must have room for such a run.
    static let inboxCapacity = 16_384
    /// One order for each partition and step. A lane takes orders before everything else.
    static let ordersCapacity = 16_384
    static let reportsCapacity = 16_384
    /// Records in the producer for each record that a lane holds.
    private static let reportsPerRecord = 3
    /// Records in the producer that belong to the core for audiences.
    static let audienceReportsMax = 4_096
    /// Bytes of the ring of delivery reports for each record of the lane. The ring's capacity is a power of two, so up to twice what is
    /// needed.
    ///
    /// The ring is reserved at the start and touched place by place. So resident memory grows until the ring has been used once, and
    /// `MemoryBudget` counts the whole ring.
    static let reportBytesPerRecord = 2 * reportsPerRecord * MemoryLayout<DeliveryReport>.stride
    /// Bytes of the ring for the core for audiences.
    static let audienceReportBytes = 2 * audienceReportsMax * MemoryLayout<DeliveryReport>.stride

    let inbox = SingleProducerRing<InboxEntry>(capacity: LaneMailbox.inboxCapacity)
    let orders = SingleProducerRing<LaneOrder>(capacity: LaneMailbox.ordersCapacity)
    /// Has room for a report about each record that the lane may have given to the producer and that Kafka has not acknowledged.
    let deliveryReports: SingleProducerRing<DeliveryReport>
    /// From the lane to the Kafka thread.
    let laneReports = SingleProducerRing<LaneReport>(capacity: LaneMailbox.reportsCapacity)
    /// The newest numbers that the lane has not taken yet. An order announces them.
    private let settings = Mutex<ReloadableSettings?>(nil)
    let knownChannels = KnownChannels()
    let wakeup: Wakeup
    /// When a pool last returned, if the Kafka thread has not taken that yet. UNIX milliseconds; 0: no return.
    private let poolRecovery = Atomic<Int64>(0)

    /// When Redis was last seen to hold all members of audiences. Monotonic milliseconds; `.min`: some members are missing.
    private let membersCompleteAt = Atomic<Int64>(.min)

    init(recordsMax: Int) throws(SystemError) {
        var capacity = 1
        while capacity < recordsMax * Self.reportsPerRecord + Self.audienceReportsMax { capacity *= 2 }
        deliveryReports = SingleProducerRing(capacity: capacity)
        wakeup = try Wakeup()
    }

    /// Reports that a pool works again: what the lane deferred before need not wait until it is due.
    func notePoolRecovery(wallMilliseconds: Int64) { poolRecovery.store(wallMilliseconds, ordering: .relaxed) }

    func takePoolRecovery() -> Int64? {
        guard poolRecovery.load(ordering: .relaxed) != 0 else { return nil }
        return poolRecovery.exchange(0, ordering: .relaxed)
    }

    /// - Parameter completeAtMilliseconds: when Redis held all members of audiences, monotonic milliseconds; nil: some are missing.
    func noteMembers(completeAtMilliseconds: Int64?) {
        let former = membersCompleteAt.exchange(completeAtMilliseconds ?? .min, ordering: .relaxed)
        if former == .min, completeAtMilliseconds != nil { wakeup.signal() }
    }

    /// Monotonic milliseconds; `.min`: some members are missing.
    var membersCompleteMilliseconds: Int64 { membersCompleteAt.load(ordering: .relaxed) }

    func offer(_ newest: ReloadableSettings) { settings.withLock { $0 = newest } }

    func takeSettings() -> ReloadableSettings? { settings.withLock { $0.take() } }
}

/// A mailbox's rings for records and delivery reports, unretained, for a thread that keeps the mailbox alive itself. That thread passes
/// hundreds of thousands of entries a second, and each would otherwise retain and release the ring.
struct LaneRings {
    private let inbox: Unmanaged<SingleProducerRing<InboxEntry>>
    private let deliveryReports: Unmanaged<SingleProducerRing<DeliveryReport>>

    init(_ mailbox: LaneMailbox) {
        inbox = .passUnretained(mailbox.inbox)
        deliveryReports = .passUnretained(mailbox.deliveryReports)
    }

    func push(_ entry: InboxEntry) -> Bool { inbox._withUnsafeGuaranteedRef { $0.push(entry) } }
    func push(_ report: DeliveryReport) -> Bool { deliveryReports._withUnsafeGuaranteedRef { $0.push(report) } }
}
