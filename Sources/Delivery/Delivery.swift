import LiveActivity
import Numbers
import Synchronization

/// The core of one lane: decides what becomes of every record, and does no I/O.
///
/// Events come in as calls (a record, a reply of the store, an APNs answer, a delivery report, the time), each with the `Moment` it
/// happened at; what is to be done goes out through queues that the shell empties when it can: store calls, pushes, productions. The
/// same events in the same order give the same decisions, so that one seed replays any interleaving of faults.
///
/// A record's way: `receive` → (waits, coalesced with newer ones of its activity) → `admit` in Redis → push → `finish`: its result is
/// produced and the outcome settled in Redis → both acknowledged: its offset counts as settled in its partition's ledger.
///
/// What must hold:
/// - of each activity at most one command is worked on at a time (`ActivitySlot.current`);
/// - a slot is freed only when nothing outside names it, so a reply can never meet another record's slot;
/// - a record is settled in its ledger exactly once, and only after its result was acknowledged (design §9).
public struct Delivery: ~Copyable {
    private(set) var configuration: DeliveryConfiguration
    var randomness: SplitMix64
    /// Room for the id of a command that brings none.
    let defaultIdentifierBytesMax: Int
    private(set) var policies: PolicyTable

    var records: Records
    var activities: Activities
    var partitions = PartitionTable()
    /// One state for many activities is read once.
    var lastAps = RepeatedAps()
    var readAhead: ReadAhead
    var storeWatch = OutageWatch()
    /// When something that waits until the lane has read ahead is looked at again; `.max`: nothing waits for that.
    var readingDueMilliseconds = Int64.max
    let supersededCounting: SupersededCounting
    var storeQueue: StoreQueue<StoreTicket>
    let applicationNames: ApplicationNames
    /// Keeps its memory between the commands that are held.
    var heldCommandWriter = JSONWriter()
    var productions: ProductionQueue<Production>
    /// Commands on their way to the deferred topic.
    var deferrals: ProductionQueue<Production>
    /// Commands to audiences that the core of audiences has yet to take.
    var handovers: IndexQueue<UInt32>
    /// Those that are read again, and wait for the audiences' members.
    var handoversReadAgain: IndexQueue<UInt32>
    /// Whether the store holds the members of all audiences, as far as the shell knows. While it does not, commands to audiences that are read
    /// again wait.
    public var membersAreHeld = true
    var memberships: Memberships
    /// When what waits for a pool is next looked through.
    var deferralLookMilliseconds: Int64 = .min
    let pools: PoolTable
    /// Never read: it makes the core a type that is passed by its address. A struct of this size that has none such would be copied whole,
    /// 1,112 bytes, for each call of a method that only reads it: five times a command.
    private let addressed = Atomic<Bool>(false)
    /// What `nextPush` changed for the push that it handed out last, in case no stream takes it.
    var handedOut = HandedOutPush()

    public private(set) var counters = DeliveryCounters()
    private var countersByApplication: [ApplicationCounters]
    /// When blocks that nobody uses were last given back, a monotonic time.
    var blocksReleasedMilliseconds: Int64 = 0
    /// Records whose next step is a reply of the store.
    public internal(set) var recordsAwaitingStore = 0

    public init(configuration: DeliveryConfiguration, now: Moment) {
        configuration.validate()
        self.configuration = configuration
        randomness = SplitMix64(seed: configuration.seed)
        countersByApplication = Array(repeating: ApplicationCounters(), count: configuration.applications.count)
        defaultIdentifierBytesMax = max(
            DefaultIdentifier.bytesMax(topic: configuration.commandsTopic),
            DefaultIdentifier.bytesMax(topic: configuration.registrationsTopic)
        )
        policies = PolicyTable(configuration.policies)
        let recordsMax = configuration.recordsMax
        // What is received stops at `activitiesReceivedMax`; each registration that is held by then may still set a command free.
        let activitiesMax = Self.activitiesReceivedMax(configuration) + recordsMax
        // A record names each call at most once, but for an unregistration, which names two an app.
        let callsMax = recordsMax * max(3, configuration.applications.count * 2)
        records = Records(limit: recordsMax)
        activities = Activities(limit: activitiesMax, seed: configuration.seed ^ 0x5851_F42D_4C95_7F2D, now: now)
        readAhead = ReadAhead(configuration)
        supersededCounting = SupersededCounting(results: configuration.supersededResults)
        storeQueue = StoreQueue(limit: callsMax)
        applicationNames = ApplicationNames(configuration.applications)
        productions = ProductionQueue(limit: recordsMax * 3)
        deferrals = ProductionQueue(limit: recordsMax)
        handovers = IndexQueue(limit: recordsMax)
        handoversReadAgain = IndexQueue(limit: recordsMax)
        memberships = Memberships(limit: callsMax)
        pools = PoolTable(configuration: configuration, activitiesMax: activitiesMax)
    }

    /// An activity without a record rests for one spacing: as many of them as records are no reason to receive less.
    private static func activitiesReceivedMax(_ configuration: DeliveryConfiguration) -> Int {
        configuration.recordsMax * 2
    }

    /// Goes by other numbers from now on. What rests or waits already has the times that it was given.
    public mutating func take(_ numbers: DeliveryNumbers) {
        configuration.take(numbers)
        policies = PolicyTable(configuration.policies)
        readAhead.take(configuration)
    }

    /// Records between receipt and settlement.
    public var recordsHeld: Int { records.count }

    /// Records that have their outcome, or need none, and wait for acknowledgements.
    public var recordsFinished: Int { records.awaitingAcknowledgementsCount }

    public func counters(of application: Int) -> ApplicationCounters { countersByApplication[application] }

    /// Admitted pushes of a pool that wait for a stream.
    public func pushesWaiting(_ pool: PoolIndex) -> Int { pools.readyCount(of: PushLine(pool)) }

    /// Whether one more record may be received: below the limits of records, of their bytes and of activities.
    public var canReceive: Bool {
        !records.isFull && records.blockBytes < configuration.blockBytesMax
            && activities.count < Self.activitiesReceivedMax(configuration)
    }

    mutating func count(_ outcome: Outcome) { counters.outcomes[Int(outcome.rawValue)] &+= 1 }
    mutating func countReceived() { counters.received &+= 1 }
    mutating func countSettledBefore() { counters.settledBefore &+= 1 }
    mutating func countCoalesced(of record: UInt32) {
        counters.coalesced &+= 1
        countersByApplication[Int(records[record].application)].coalesced &+= 1
    }
    mutating func countWithoutResult(of record: UInt32) {
        countersByApplication[Int(records[record].application)].supersededWithoutResult &+= 1
    }
    mutating func countStartBudgetWait(of record: UInt32) {
        countersByApplication[Int(records[record].application)].startBudgetWaits &+= 1
    }
    mutating func countPush() { counters.pushes &+= 1 }
    mutating func uncountPush() { counters.pushes &-= 1 }
    mutating func countRetry() { counters.retries &+= 1 }
    mutating func countDemoted() { counters.demoted &+= 1 }
    mutating func countLimited() { counters.limited &+= 1 }
    mutating func countAlertCarried() { counters.alertsCarried &+= 1 }
    mutating func countFannedOut() { counters.fannedOut &+= 1 }
}

/// What the core counts of one app; each only grows.
public struct ApplicationCounters: Sendable, Equatable {
    /// Commands that a newer state replaced before they reached Redis.
    public var coalesced: UInt64 = 0
    /// Commands that were superseded and have no result of their own.
    public var supersededWithoutResult: UInt64 = 0
    /// Times that a start found its device's budget empty.
    public var startBudgetWaits: UInt64 = 0
}

/// What the core counts; each only grows, but for a push that finds no stream after all.
public struct DeliveryCounters: Sendable {
    public var received: UInt64 = 0
    /// Read again although an earlier owner of the partition has settled them, and skipped.
    public var settledBefore: UInt64 = 0
    /// Replaced by a newer state before they reached Redis.
    public var coalesced: UInt64 = 0
    public var pushes: UInt64 = 0
    public var retries: UInt64 = 0
    /// Pushes of priority 10 that went at 5, since the activity's budget did not allow them.
    public var demoted: UInt64 = 0
    /// Answers that limit an activity's token.
    public var limited: UInt64 = 0
    /// Alerts that rode on with a newer state.
    public var alertsCarried: UInt64 = 0
    /// Commands to audiences that were divided into ranges.
    public var fannedOut: UInt64 = 0
    /// By `Outcome.rawValue`.
    public var outcomes: InlineArray<11, UInt64> = .init(repeating: 0)

    public init() {}

    public subscript(outcome: Outcome) -> UInt64 { outcomes[Int(outcome.rawValue)] }
}
