public import Delivery
import LiveActivity
import Numbers

/// The core that decides about commands to audiences and channels, without I/O (R1). A lane has one, beside `Delivery`.
///
/// The shell calls a method for each event, with the event's `Moment` if the decision depends on the time. The core
/// queues the calls, pushes and records to send, and the shell empties these queues when it can. The methods, by
/// subject:
/// - commands: ``receiveCommand(_:)``, ``endBatch(now:)``, ``takeReturnedCommand()``
/// - members whose audiences change: ``receiveMembershipChange(_:now:)``, ``takeMemberToSettle()``
/// - the fan-out topic: ``assign(number:)``, ``receiveFanoutRecord(_:instruction:droppedFields:now:)``,
///   ``rewindRequest(_:now:)``, ``beginRevoking(_:now:)``, ``release(partition:now:)``
/// - the audience store: ``withNextStoreCall(now:_:)``, ``handleStoreReply(tag:_:now:)``
/// - the activity store: ``withNextActivityStoreCall(now:_:)``, ``handleActivityStoreReply(tag:now:)``
/// - APNs: ``takeNextPush(_:traffic:permitsRetry:pushesInFlightMax:isProbing:now:)``,
///   ``handlePushResponse(tag:_:now:)``
/// - the keeper of channels: ``takeChannelRequest()``, ``handleProvidedChannel(appIndex:audience:_:now:)``
/// - Kafka's producer: ``nextOutgoingRecord(now:)``, ``handleDeliveryReport(_:_:now:)``
/// - the clock: ``advance(now:)`` at ``nextDueMilliseconds``
///
/// A command waits in its audience, where a newer one may replace it. The core estimates the audience's size and asks
/// the store to admit the command. If the store admits the command, the core produces one fan-out record for each range
/// and each broadcast, asks the store to settle the command's version, and returns the command to `Delivery`. If not,
/// the core returns the command at once, or lets it wait again. A command that names a channel needs no estimate and
/// has no ranges.
///
/// A fan-out record brings a version (``RangeVersionSlot``) to a range of members. The range's round (``RoundSlot``)
/// claims the range in the store, reads the members page by page, and pushes the version to them. At the end, the store
/// adds the version's counts to those of the command, Kafka gets the result of the range, and the record settles.
public struct Audiences: ~Copyable {
    typealias Reply = AudienceReply<UnsafeRawBufferPointer>

    private(set) var configuration: AudiencesConfiguration
    var random: SplitMix64
    private(set) var policies: PolicyTable
    let bundleIds: BundleIds

    var commands: Slab<CommandSlot>
    var audiences: Slab<AudienceSlot>
    var audiencesByKey: [AudienceKey: AudienceIndex] = [:]
    /// The audiences that check at the next ``endBatch(now:)`` whether they can begin a command: a new command has come
    /// for them, or ``dropWaitingCommands(where:)`` has dropped one of their commands.
    var audiencesAwaitingBatchEnd: IndexQueue<AudienceIndex>
    var returnedCommands: IndexQueue<ReturnedCommand>
    /// Admitted commands whose fan-out records are not all queued yet. The records of the first command are queued
    /// first.
    var commandsToFanOut: IndexQueue<CommandIndex>
    /// The number of fan-out records that are queued or on their way to Kafka. At most
    /// ``unacknowledgedRecordsPerTopicMax``.
    var unacknowledgedFanoutRecordCount = 0
    /// The sum of the bytes of all commands (``CommandSlot/countedBytes``).
    var commandBytes = 0

    var partitions = PartitionTable<FanoutPartition>()
    var rangeVersions: Slab<RangeVersionSlot>
    var fanoutRecordBytes = 0
    var rounds: Slab<RoundSlot>
    var roundsByKey: [RoundKey: RoundIndex] = [:]
    var pages: Slab<PageSlot>
    var pageReads: PageReadBatch
    var apps: [AppWork]
    var parkedMembers: Slab<ParkedMember>
    /// The number of places in `parkedMembers` that are reserved and still free. A round in the phase `restoring`
    /// reserves them for the members that the partition's previous owner had parked.
    var reservedParkingPlaceCount = 0
    /// How many pushes of rounds are in flight to members that are not parked. If such a push fails, its member may be
    /// parked.
    var parkablePushCount = 0
    var refusedMembers: Slab<RefusedMemberSlot>

    var broadcasts: Slab<BroadcastSlot>
    var channels: Slab<ChannelSlot>
    var channelsByKey: [ChannelKey: ChannelIndex] = [:]
    /// The index in `channels` at which the previous search for an idle channel ended (``evictIdleChannel(now:)``). One
    /// search compares only a few channels. The next search begins behind this index, so that the searches together
    /// reach all channels.
    var evictionSearchIndex = ChannelIndex(rawValue: 0)
    /// Requests to the keeper of channels that the shell has not taken yet.
    var channelRequests: [CoreChannelRequest] = []

    var commandsAwaitingChannelCount = 0
    /// The bytes of the commands that wait for a channel. They are a part of ``commandBytes``.
    var commandsAwaitingChannelBytes = 0
    /// For each audience with a pause: when the pause ends (monotonic milliseconds). A pause begins after a command of
    /// the audience has waited for a channel without success. During the pause, no command of the audience begins to
    /// wait for a channel.
    var channelWaitPauseEndMilliseconds: [AudienceKey: Int64] = [:]
    /// When ended pauses were last removed from `channelWaitPauseEndMilliseconds` (monotonic milliseconds). The initial
    /// value stands for a time long ago: ended pauses may be removed at once.
    var endedPausesLastRemovedAtMilliseconds: Int64 = .min / 2

    var membershipChanges: Slab<MembershipChangeSlot>
    /// The slot in `membershipChanges` of each member's latest change, until the change is finished.
    var membershipChangesByKey: [MemberKey: MembershipChangeIndex] = [:]
    /// The members whose registration may be settled, until the shell takes them (``takeMemberToSettle()``). The change
    /// of such a member may still be under way.
    var membersToSettle: IndexQueue<ChangingMember>
    var newestStateRequests: Slab<NewestStateRequest>
    var newestStateRequestsByKey: [AudienceKey: NewestStateRequestIndex] = [:]
    var newestStates: Slab<NewestStateSlot>
    /// The sum of the bytes of all bodies in `newestStates`.
    var newestStateBytes = 0

    var storeQueue: StoreQueue<AudienceTicket>
    var activityStoreQueue: StoreQueue<RefusedMemberIndex>
    var outgoingRecords: OutgoingAudienceRecordQueues
    var timers: TimerQueue
    /// The timers that ``advance(now:)`` has removed from the queue, and whose work it does now. Allocated once (R3).
    private var dueTimers: [TimerQueue.Timer] = []
    /// The writers of the value and the key of a record for Kafka.
    var recordValueWriter = JSONWriter()
    var recordKeyWriter = JSONWriter()
    /// The address of the push that the shell got last: the digits of its token, or the channel's id. Allocated once
    /// (R3). Pushes to joiners do not use this buffer, because their tokens are in `membershipChanges`.
    let pushAddressBuffer = UnsafeMutableRawBufferPointer.allocate(byteCount: Limits.tokenDigitsMax, alignment: 16)
    /// References to the members of the page that is being read. They are collected here first, because the page's
    /// ``PageSlot`` must know their number before it allocates memory for them.
    let memberReferenceBuffer = UnsafeMutableBufferPointer<MemberReference>.allocate(capacity: MemberPage.membersMax)
    var offeredPush = OfferedPush()
    /// When the shell last called ``advance(now:)`` (monotonic milliseconds).
    private var advancedAtMilliseconds: Int64 = 0
    /// When the shell called ``advance(now:)`` in the previous iteration of the lane's loop (monotonic milliseconds). A
    /// pool that had no room for a push for some time before this is unavailable (``isPoolUnavailable(_:appIndex:)``).
    ///
    /// The time of the current iteration would be wrong: the shell asks for pushes only later in an iteration, so after
    /// a long iteration every pool would seem unavailable.
    private(set) var previouslyAdvancedAtMilliseconds: Int64 = 0
    /// How many start commands to single devices (`Audiences+Starts`) wait to be produced, or wait for Kafka's
    /// acknowledgement.
    var unacknowledgedStartCount = 0
    public internal(set) var counters = AudienceCounters()

    public init(configuration: AudiencesConfiguration) {
        configuration.validate()
        self.configuration = configuration
        random = SplitMix64(seed: configuration.seed)
        policies = PolicyTable(configuration.reloadable.policies)
        bundleIds = BundleIds(configuration.apps)
        commands = Slab(limit: configuration.commandsMax)
        audiences = Slab(limit: configuration.commandsMax)
        audiencesAwaitingBatchEnd = IndexQueue(limit: configuration.commandsMax)
        returnedCommands = IndexQueue(limit: configuration.commandsMax * 2)
        commandsToFanOut = IndexQueue(limit: configuration.commandsMax)
        rangeVersions = Slab(limit: configuration.fanoutRecordsMax)
        // Twice as many slots as fan-out records: when a round's last record has settled, the round keeps its slot
        // until its last checkpoint is recorded.
        rounds = Slab(limit: configuration.fanoutRecordsMax * 2)
        let appCount = configuration.apps.count
        let pagesMax = configuration.pagesPerAppMax * appCount
        pages = Slab(limit: pagesMax)
        pageReads = PageReadBatch(limit: pagesMax)
        apps = configuration.apps.map { _ in AppWork() }
        parkedMembers = Slab(limit: configuration.parkedMembersMax)
        refusedMembers = Slab(limit: configuration.refusedMembersMax)
        broadcasts = Slab(limit: configuration.fanoutRecordsMax)
        // Twice as many slots as fan-out records: an idle channel has no record, but keeps its slot for some time.
        channels = Slab(limit: configuration.fanoutRecordsMax * 2)
        membershipChanges = Slab(limit: configuration.membershipChangesMax)
        // Twice the number of changes: each change under way queues its member once, and the shell may still have to
        // take as many members of earlier changes (``canReceiveMembershipChange``).
        membersToSettle = IndexQueue(limit: configuration.membershipChangesMax * 2)
        newestStateRequests = Slab(limit: configuration.membershipChangesMax)
        newestStates = Slab(limit: configuration.membershipChangesMax + 1)
        timers = TimerQueue(
            timersMax: 2 * (commands.limit + audiences.limit + rounds.limit + channels.limit + membershipChanges.limit)
        )
        let callsMax =
            configuration.commandsMax * Self.sampledSegments.count + configuration.fanoutRecordsMax * 6 + pagesMax
            + configuration.refusedMembersMax + configuration.membershipChangesMax * 2
        storeQueue = StoreQueue(limit: callsMax)
        activityStoreQueue = StoreQueue(limit: configuration.refusedMembersMax)
        outgoingRecords = OutgoingAudienceRecordQueues(configuration)
    }

    deinit {
        commands.forEachInUse { $0.freeBytes() }
        audiences.forEachInUse { $0.identifier.free() }
        rangeVersions.forEachInUse { $0.freeBytes() }
        rounds.forEachInUse { $0.freeBytes() }
        membershipChanges.forEachInUse { $0.freeBytes() }
        newestStates.forEachInUse { $0.body.free() }
        broadcasts.forEachInUse { $0.freeBytes() }
        channels.forEachInUse { $0.audienceOrChannelIdentifier.free() }
        pages.forEachInUse { $0.freeBytes() }
        pushAddressBuffer.deallocate()
        memberReferenceBuffer.deallocate()
    }

    /// Decides which rounds wait for lost members, at most ``memberWaitMillisecondsMax``. The shell sets one of three
    /// modes:
    /// - `.max`, the initial value: no round waits.
    /// - `.min`: every round that has lost its members or its claim waits. The store lacks members, or the shell does
    ///   not know yet whether it does.
    /// - A monotonic time in milliseconds: when the shell last found that the store had all members, or had lacked some
    ///   for ``memberWaitMillisecondsMax``. A round waits if the core found at this time or later that the store has
    ///   lost members of the round.
    public var membersLastCompleteAtMilliseconds = Int64.max
    /// Whether every round that has lost its members or its claim must wait: the mode `.min` of
    /// ``membersLastCompleteAtMilliseconds``.
    var mustRoundsWait: Bool { membersLastCompleteAtMilliseconds == .min }
    /// When the store may last have lost data (monotonic milliseconds); `.min`: never. The shell sets this time when it
    /// cannot connect to the store, or loses a connection; in a cluster, also when it connects. The core sets this time
    /// when it finds that the store has lost a round.
    public var storeMayHaveLostDataAtMilliseconds = Int64.min
    /// Whether the store may lack members: it may have lost data (``storeMayHaveLostDataAtMilliseconds``) since the
    /// shell last let rounds continue (``membersLastCompleteAtMilliseconds``). True in the mode `.min`, and false in
    /// the mode `.max`, whatever the store may have lost.
    public var mayStoreLackMembers: Bool { membersLastCompleteAtMilliseconds <= storeMayHaveLostDataAtMilliseconds }

    /// The number of commands to audiences that the core has not returned to `Delivery` yet.
    public var commandCount: Int { commands.count }
    /// The number of fan-out records in memory that are not settled. Records that were passed over are not counted.
    public var fanoutRecordCount: Int { rangeVersions.count + broadcasts.count }
    public var roundCount: Int { rounds.count }
    /// The number of parked members, including those whose next push is in flight.
    public var parkedMemberCount: Int { parkedMembers.count }

    /// Does everything that is due now: sends the collected requests for pages, ends the pauses of store calls and
    /// outgoing records, and does the work of due timers.
    public mutating func advance(now: Moment) {
        if advancedAtMilliseconds < now.monotonicMilliseconds {
            previouslyAdvancedAtMilliseconds = advancedAtMilliseconds
            advancedAtMilliseconds = now.monotonicMilliseconds
        }
        sendPageReadsIfDue(now: now)
        storeQueue.endPausesIfDue(now: now)
        activityStoreQueue.endPausesIfDue(now: now)
        outgoingRecords.endPausesIfDue(now: now)
        // Remove all due timers before the work of any of them. A timer that this work sets fires in the next call,
        // even if its time is not in the future. So the loops always end. (R4)
        while let timer = timers.popDue(now: now.monotonicMilliseconds) { dueTimers.append(timer) }
        for timer in dueTimers where isCurrent(timer) {
            switch timer.owner {
            case .audience(let audience): beginNextCommand(audience, now: now)
            case .round(let round):
                rounds[round].timerDueMilliseconds = .max
                advance(round, now: now)
            case .membershipChange(let change): handleMembershipChangeTimer(change, now: now)
            case .channel(let channel):
                channels[channel].timerDueMilliseconds = .max
                advance(channel: channel, now: now)
            case .channelWait(let command): handleChannelWaitTimeout(command, now: now)
            }
        }
        dueTimers.removeAll(keepingCapacity: true)
    }

    /// Applies reloaded settings. A wait or pause that has begun still ends at the time that was set before.
    ///
    /// The lane's core `Delivery` must get the same list of policies, because a command that `Delivery` hands over
    /// names its policy by the index in this list.
    public mutating func apply(_ settings: ReloadableSettings) {
        configuration.reloadable = settings
        configuration.validate()
        policies = PolicyTable(settings.policies)
    }

    /// When ``advance(now:)`` must be called next (monotonic milliseconds); nil if nothing waits for the clock.
    public var nextDueMilliseconds: Int64? {
        var dueMilliseconds = timers.earliestDueMilliseconds ?? .max
        dueMilliseconds = min(dueMilliseconds, storeQueue.dueMilliseconds ?? .max)
        dueMilliseconds = min(dueMilliseconds, pageReads.sendDueMilliseconds ?? .max)
        dueMilliseconds = min(dueMilliseconds, activityStoreQueue.dueMilliseconds ?? .max)
        dueMilliseconds = min(dueMilliseconds, outgoingRecords.dueMilliseconds ?? .max)
        return dueMilliseconds == .max ? nil : dueMilliseconds
    }
}

/// The counters of the core that the lane exports as metrics. They only grow.
public struct AudienceCounters: Sendable {
    /// Fan-out records that could not be read, or whose app is no longer configured.
    public var unreadableRecordCount: UInt64 = 0
    public var readPageCount: UInt64 = 0
    /// How often a page from the store was damaged: it could not be read completely, or an entry was outside the page's
    /// bounds.
    public var damagedPageCount: UInt64 = 0
    /// How often a round was lost: the store had another worker's claim, an older claim (after a failover) or no claim.
    public var lostRoundCount: UInt64 = 0

    public init() {}
}
