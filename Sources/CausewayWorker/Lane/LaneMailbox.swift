import Audiences
import Delivery
import Kafka
import Reactor
import Synchronization

/// One record, or one end of an assignment, on its way from the Kafka thread to a lane.
struct InboxEntry: BitwiseCopyable {
    /// The `rd_kafka_message_t`; the thread that pops the entry owns it.
    var message: UInt
    /// The assignment that the record was read in. A record of an earlier assignment of the same partition must not pass for one of this.
    var assignment: UInt32
    var partition: Int32
    /// What it takes of memory, about.
    var bytes: UInt32
    private var topicIndex: Int16
    /// How often its partition had been read again in this assignment: what was dealt before is dropped, and comes once more.
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

    /// Gives the record back to librdkafka without looking at it.
    func discard() {
        guard let pointer = Message.Pointer(bitPattern: message) else { return }
        _ = Message(taking: pointer)
    }
}

/// An order of the Kafka thread to a lane. Orders overtake records: a record of a revoked partition is let fall.
struct LaneOrder: BitwiseCopyable {
    enum Kind: UInt8, BitwiseCopyable {
        case assign
        /// Drain the partition, and report it `drained`.
        case revoke
        /// Forget the partition, drained or not.
        case release
        /// Know how far the partition's log goes.
        case highWatermark
        /// Take the numbers that the mailbox holds.
        case numbers
        /// Leave the loop.
        case stop
    }

    var kind: Kind
    var topic: Int32 = 0
    var partition: Int32 = 0
    var assignment: UInt32 = 0
    /// With `highWatermark`: the offset that the next record of the partition will get.
    var offset: Int64 = -1
    /// With `assign`: what was settled is not skipped but read once more, since Redis has lost what it wrote.
    var isReadAgain = false
    /// With `assign`: what the group has committed; the thread that pops the order takes it.
    var committed: Unmanaged<Handover<CommittedOffset>>?
}

/// What a lane tells the Kafka thread of a partition.
struct LaneReport: BitwiseCopyable {
    var topic: Int32
    var partition: Int32
    var assignment: UInt32
    /// What is to be committed; nil: nothing was received yet. The thread that pops the report takes it.
    var progress: Unmanaged<Handover<PartitionProgress>>?
    /// Nothing of the partition is outstanding, and nothing will be begun.
    var isDrained: Bool
    /// The lane has dropped records of the partition, and asks for them again.
    var rereading: FanoutRereading?
}

/// A value with memory of its own that passes through a ring: rarely, never with a record.
final class Handover<Value: Sendable>: Sendable {
    let value: Value

    private init(_ value: Value) { self.value = value }

    static func pass(_ value: Value) -> Unmanaged<Handover> { .passRetained(Handover(value)) }
}

extension Unmanaged {
    /// Takes what `Handover.pass` made; once.
    func take<Value>() -> Value where Instance == Handover<Value> { takeRetainedValue().value }
}

/// A delivery report on its way to the lane that produced the record.
struct DeliveryReport: BitwiseCopyable {
    var tag: UInt64
    var error: Int32
}

/// All that passes between the Kafka thread and one lane: rings with one producer and one consumer each, and a wake-up.
final class LaneMailbox: Sendable {
    /// Records between the two threads. When a lane takes none for a while its partitions are paused.
    ///
    /// A fetch brings thousands of one partition's records in a row, all for one lane, and while its inbox is full the other lanes get
    /// none: it holds such a run.
    static let inboxCapacity = 16_384
    /// Orders: one for each partition and step, and a lane takes them before anything else.
    static let ordersCapacity = 16_384
    static let reportsCapacity = 16_384
    /// Records in the producer, for each record that a lane holds.
    private static let reportsPerRecord = 3
    /// Records of the core of audiences in the producer.
    static let audienceReportsMax = 4_096
    /// What the ring of delivery reports takes for each of them, once round. Its capacity is a power of two, up to twice what is needed.
    static let reportBytesPerRecord = 2 * reportsPerRecord * MemoryLayout<DeliveryReport>.stride
    /// What the ring takes beside that, for the core of audiences.
    static let audienceReportBytes = 2 * audienceReportsMax * MemoryLayout<DeliveryReport>.stride

    let inbox = SingleProducerRing<InboxEntry>(capacity: LaneMailbox.inboxCapacity)
    let orders = SingleProducerRing<LaneOrder>(capacity: LaneMailbox.ordersCapacity)
    /// Sized so that every record that the lane can have in the producer has its place.
    let deliveryReports: SingleProducerRing<DeliveryReport>
    /// From the lane to the Kafka thread.
    let laneReports = SingleProducerRing<LaneReport>(capacity: LaneMailbox.reportsCapacity)
    /// The newest numbers that the lane has not taken yet; an order says that they are there.
    private let numbers = Mutex<DeliveryNumbers?>(nil)
    let knownChannels = KnownChannels()
    let wakeup: Wakeup
    /// UNIX milliseconds of a pool's return that the Kafka thread has not taken yet; 0: there was none.
    private let poolReturn = Atomic<Int64>(0)

    /// When Redis was last seen to hold all members of audiences; `.min`: some are missing.
    private let membersHeld = Atomic<Int64>(.min)

    init(recordsMax: Int) throws(SystemError) {
        var capacity = 1
        while capacity < recordsMax * Self.reportsPerRecord + Self.audienceReportsMax { capacity *= 2 }
        deliveryReports = SingleProducerRing(capacity: capacity)
        wakeup = try Wakeup()
    }

    /// What the lane has deferred before need not wait until it is due.
    func notePoolReturn(wallMilliseconds: Int64) { poolReturn.store(wallMilliseconds, ordering: .relaxed) }

    func takePoolReturn() -> Int64? {
        guard poolReturn.load(ordering: .relaxed) != 0 else { return nil }
        return poolReturn.exchange(0, ordering: .relaxed)
    }

    /// - Parameter heldMilliseconds: when Redis held all members of audiences, monotonic; nil: some are missing.
    func noteMembers(heldMilliseconds: Int64?) {
        let former = membersHeld.exchange(heldMilliseconds ?? .min, ordering: .relaxed)
        if former == .min, heldMilliseconds != nil { wakeup.signal() }
    }

    /// Monotonic; `.min`: some members are missing.
    var membersHeldMilliseconds: Int64 { membersHeld.load(ordering: .relaxed) }

    func offer(_ newest: DeliveryNumbers) { numbers.withLock { $0 = newest } }

    func takeNumbers() -> DeliveryNumbers? { numbers.withLock { $0.take() } }
}

/// The rings of a mailbox through which every record goes, for a thread that keeps the mailbox itself: it passes them hundreds of thousands
/// of entries a second, and each would count a reference up and down.
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
