import LiveActivity
import Numbers
import Synchronization

/// The core of one lane: decides about registrations and about commands to single activities, without I/O (R1). It also
/// reads the commands to audiences, and passes them to the core `Audiences`.
///
/// The shell calls a method for each event, such as a record, a reply of Redis, a response of APNs, a delivery report
/// of Kafka, or the passing of time. The core puts its decisions into queues, and the shell empties them when it can:
/// store calls, pushes, outgoing records, and work for `Audiences`. The same events in the same order give the same
/// decisions. So a simulation can repeat any sequence of failures from its seed.
///
/// The steps of a command:
/// 1. `receive` reads its record. While the command waits, newer commands of its activity may replace it.
/// 2. The call `admit` asks Redis whether the command may be sent. If so, APNs gets its push.
/// 3. The command gets an outcome, and the core produces its result. If Redis must know the outcome, the call `settle`
///    writes it there. A superseded command may be counted instead, without a result (`SupersededCount`).
/// 4. When the result and the call are acknowledged, the record's offset is settled in the ledger of its partition.
///
/// What must hold:
/// - At most one command of an activity is worked on at a time (`ActivitySlot.currentCommand`). The others wait before
///   their admission, and a newer state may still replace them.
/// - A slot is freed only when no call, push or outgoing record names it. Otherwise a late reply would change another
///   record that has got the slot.
/// - A record is settled in its partition's ledger at most once, and only after all its calls and outgoing records are
///   acknowledged. A dropped record is not settled.
public struct Delivery: ~Copyable {
    /// Only ``apply(_:)`` changes the configuration.
    public private(set) var configuration: DeliveryConfiguration
    var random: SplitMix64
    /// The maximum bytes of a default id, which a command without an id gets (`DefaultCommandIdentifier`).
    let defaultIdentifierBytesMax: Int
    private(set) var policies: PolicyTable

    var records: Records
    var activities: Activities
    var partitions = PartitionTable<Partition>()
    /// Remembers the last `aps` dictionary that was read, because many commands have the same dictionary as the command
    /// before. An equal dictionary is not decoded again: reading a command of 456 bytes then takes 2,200 instructions
    /// instead of 5,400.
    var apsCache = ApsCache()
    /// The contracts of those apps that have one: what the phones of the app can decode.
    var contracts: LaneContracts
    var contractWarning: ContractWarning?
    /// The fault of a held command that could not be read; nil: there is none, or the shell has taken it
    /// (`takeHeldCommandFault`).
    var heldCommandFault: Fault?
    var readAhead: ReadAhead
    var storeOutageWatch = OutageWatch()
    var lifetimeReportCounts = LifetimeReportCounts()
    /// When the lane next checks whether it has read ahead far enough after an outage (R21), a monotonic time; `.max`:
    /// no check is planned.
    var readAheadCheckDueMilliseconds = Int64.max
    let supersededResultMode: SupersededResultMode
    var storeQueue: StoreQueue<StoreTicket>
    /// Calls `registerToken` that wait until the lane has room for the held commands that their replies may bring. They
    /// are not in `storeQueue`, and `recordsAwaitingStoreCount` does not count them.
    var heldBackRegistrations: IndexQueue<StoreTicket>
    /// The number of calls `registerToken` that the shell has sent, and that have no reply and have not failed.
    var registrationCallsUnderWayCount = 0
    let bundleIds: BundleIds
    /// Writes the commands that Redis stores: held commands, and those that the timetable keeps. It is a property so
    /// that its buffer is reused.
    var storedCommandWriter = JSONWriter()
    var outgoingRecords: OutgoingRecordQueues
    /// Commands to audiences that the core of audiences has not taken yet, except those in `rereadHandovers`.
    var handovers: IndexQueue<RecordIndex>
    /// Commands to audiences that are read again after Redis lost data (`isReread`). They may have to wait until Redis
    /// has the members again (`areAudienceMembersComplete`). So they have a queue of their own: other commands do not
    /// wait behind them.
    var rereadHandovers: IndexQueue<RecordIndex>
    /// Whether Redis has all members of audiences, as the shell says. False while some may be missing after a loss of
    /// data: the commands in `rereadHandovers` then wait, as long as the lane has room. True again when the members are
    /// registered again, or when the wait for them reaches its limit. (R26)
    public var areAudienceMembersComplete = true
    /// Whether the commands in `rereadHandovers` no longer wait for members, because the lane is more than three
    /// quarters full.
    var rereadHandoversMustNotWait = false
    var membershipChanges: PendingMembershipChanges
    /// The earliest monotonic time at which `reviewPoolQueues` next checks the commands that wait for pools.
    var earliestPoolReviewAtMilliseconds: Int64 = .min
    let pools: PoolTable
    /// Keeps the compiler from copying the core; never read. A type with an `Atomic` has a fixed address, so the
    /// compiler passes the core by its address. Otherwise each call of a method that only reads would copy the whole
    /// struct: more than 1,000 bytes, several times for each command.
    private let copyPreventingAtomic = Atomic<Bool>(false)
    /// What `takeNextPush` changed for the last push, so that `putBackPush` can undo it if no stream takes the push.
    var lastOfferedPush = OfferedPush()

    var countersByApp: [AppCounters]
    /// How often the alert of an older command moved to a newer state.
    public internal(set) var carriedAlertCount: UInt64 = 0
    /// When `deallocateUnusedBlocks` last deallocated free chunks, a monotonic time; 0: never.
    var deallocatedBlocksAtMilliseconds: Int64 = 0
    /// The number of records that cannot continue before Redis replies. A record whose outcome is only recorded in
    /// Redis does not count (`StoreTicket.Purpose.isAwaited`).
    ///
    /// The number is raised when a call is queued, and lowered when the call ends. A call that is set aside to be
    /// repeated still counts, a call in `heldBackRegistrations` does not. A tombstone counts once, from its receipt
    /// until it settles.
    public internal(set) var recordsAwaitingStoreCount = 0
    /// Whether a reply of Redis is due. False if Redis has answered all that waits, and only repeats are set aside.
    var awaitsStoreReply: Bool { recordsAwaitingStoreCount > storeQueue.answeredSetAsideCount }

    public init(configuration: DeliveryConfiguration, now: Moment) {
        configuration.validate()
        self.configuration = configuration
        random = SplitMix64(seed: configuration.seed)
        countersByApp = Array(repeating: AppCounters(), count: configuration.apps.count)
        defaultIdentifierBytesMax = max(
            DefaultCommandIdentifier.bytesMax(topic: configuration.commandsTopic),
            DefaultCommandIdentifier.bytesMax(topic: configuration.registrationsTopic)
        )
        policies = PolicyTable(configuration.reloadable.policies)
        contracts = LaneContracts(configuration.reloadable.apps, salt: configuration.seed)
        let recordsMax = configuration.recordsMax
        // Receiving stops at `activityCountThatStopsReceiving` activities. But each record that is then in the lane may
        // still add one. For example, a registration may release a held command of an activity that the lane does not
        // have. (Several starts are released one after another: the activity of each finished start is freed before the
        // next start comes, because the lane has many activities.)
        let activitiesMax = Self.activityCountThatStopsReceiving(configuration) + recordsMax
        let callsMax = recordsMax * Self.storeCallsPerRecordMax
        records = Records(limit: recordsMax, chunkBytes: configuration.blockChunkBytes)
        activities = Activities(
            limit: activitiesMax,
            seed: configuration.seed ^ 0x5851_F42D_4C95_7F2D,
            now: now,
            identifierChunkBytes: configuration.blockChunkBytes
        )
        readAhead = ReadAhead(configuration)
        supersededResultMode = configuration.supersededResults
        storeQueue = StoreQueue(limit: callsMax)
        heldBackRegistrations = IndexQueue(limit: recordsMax)
        bundleIds = BundleIds(configuration.apps)
        outgoingRecords = OutgoingRecordQueues(recordsMax: recordsMax)
        handovers = IndexQueue(limit: recordsMax)
        rereadHandovers = IndexQueue(limit: recordsMax)
        membershipChanges = PendingMembershipChanges(limit: callsMax)
        pools = PoolTable(configuration: configuration, activitiesMax: activitiesMax)
    }

    /// Returns the number of activities at which the lane stops receiving: twice the maximum number of records. Half of
    /// them are for activities with records. The other half is for activities that only wait, for example for the end
    /// of the spacing after their last push (`mayKeepSlot`).
    private static func activityCountThatStopsReceiving(_ configuration: DeliveryConfiguration) -> Int {
        configuration.recordsMax * 2
    }

    /// Applies reloaded settings. An activity that already waits keeps the time at which its wait ends.
    public mutating func apply(_ settings: ReloadableSettings) {
        let currentPolicies = configuration.reloadable.policies
        precondition(
            settings.policies.count >= currentPolicies.count
                && zip(currentPolicies, settings.policies).allSatisfy { $0.name == $1.name },
            "policies must keep their places, by which records name them"
        )
        configuration.apply(settings)
        configuration.validate()
        policies = PolicyTable(configuration.reloadable.policies)
        contracts = LaneContracts(configuration.reloadable.apps, salt: configuration.seed)
        readAhead.apply(configuration)
    }

    /// The number of records that the lane has received and has neither settled nor dropped.
    public var inProgressRecordCount: Int { records.count }

    /// The number of records that wait only for acknowledgements of Kafka or Redis: they are finished, being deferred
    /// or being refunded.
    public var unacknowledgedRecordCount: Int { records.unacknowledgedCount }

    /// Returns the number of admitted pushes of a pool that wait for a stream.
    public func waitingPushCount(of pool: PoolTarget) -> Int { pools.readyPushCount(of: PoolKey(pool)) }

    /// Whether one more record may be received: the lane is below its limits of records, of their bytes and of
    /// activities. (R4)
    ///
    /// Known issue (K17): in a Redis cluster, the commands that wait for one server can fill the lane. Then commands of
    /// other servers wait too.
    public var canReceive: Bool {
        !records.isFull && usedBlockBytes < configuration.usedBlockBytesMax && !isBlockMemoryFull
            && activities.count < Self.activityCountThatStopsReceiving(configuration)
    }
}
