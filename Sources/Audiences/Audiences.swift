public import Delivery
import LiveActivity
import Numbers

/// The second core of a lane. It decides the outcome of commands to audiences and channels, and does no I/O. (R1)
///
/// As in `Delivery`, the shell calls the core for each event. If the decision depends on the time, it passes the
/// event's `Moment`. The core puts the calls, pushes and records that it wants into queues. The shell empties the
/// queues when it can.
///
/// The shell calls:
/// - for a record of the commands topic that names an audience or a channel: ``receiveCommand(_:)`` while
///   ``canReceiveCommand``, and ``endBatch(now:)`` after the last one. ``withdrawWaitingCommands(where:)`` when its
///   partition is revoked. ``takeReturnedCommand()`` returns the command to `Delivery`.
/// - for a member whose audiences change: ``receiveMembershipChange(_:now:)`` while ``canReceiveMembershipChange``.
///   ``takeMemberWithEndedChange()`` returns the member to `Delivery`.
/// - for partitions of the fan-out topic: ``assign(number:)``,
///   ``restoreSettledOffsets(_:at:metadata:logEndOffset:)``, ``beginRevoking(_:now:)``, ``isDrained(_:)``,
///   ``release(partition:now:)``, ``progress(_:)``.
/// - for a record of the fan-out topic: ``receive(_:instruction:droppedFields:now:)``, even if there is no room. The
///   shell reads the partition again as ``rereadRequest(_:now:)`` says, and calls
///   ``rereadingBegan(_:from:now:)``.
/// - for the audience store: ``withNextStoreCall(now:_:)``, ``storeCallTaken()``, ``storeCallRefused(now:)``,
///   ``storeCallPostponed()``, ``storeReplied(tag:_:now:)``, ``storeFailed(tag:_:now:)``.
/// - for the activity store: ``withNextActivityStoreCall(now:_:)``, ``activityStoreCallTaken()``,
///   ``activityStoreCallPostponed()``, ``activityStoreCallRefused(now:)``, ``activityStoreReplied(tag:now:)``,
///   ``activityStoreFailed(tag:_:now:)``.
/// - for a free stream: ``takeNextPush(_:permitsRetry:pushesInFlightMax:now:)`` for each pool of the lane in turn,
///   until no pool has a push. The pushes of `Delivery` come first. For each push, the shell later calls
///   ``pushResponseReceived(tag:_:now:)``; if no stream was free after all, it calls ``pushNotSent(_:)`` at once.
/// - for the keeper of channels: ``takeChannelNeed()``, ``channelProvided(appIndex:audience:_:now:)``,
///   ``channelRefused(appIndex:audience:environment:now:)``.
/// - for the producer: ``nextOutgoingRecord(now:)``, ``compose(_:)``, ``outgoingRecordTaken()``,
///   ``produceReportReceived(_:_:now:)``.
/// - for the clock: ``advance(now:)``, and again at ``nextDueMilliseconds``.
///
/// The steps of a command: `receiveCommand` → it waits, and newer commands may replace it → the core asks for the
/// audience's size → `admit` → one fan-out record for each range and each broadcast → `settle` → it is returned. A
/// command that names a channel has no size and no ranges.
///
/// The steps of a range: `receive` → `claim` → its pages are read and its members get their pushes → `finishRange`
/// and its result → its record settles.
///
/// A *round* passes through the places of one range again and again, as long as the range has versions under way. One
/// such pass is a *lap*. The *position* of a round (`UInt64`) only grows: the position modulo the length of the range
/// says which place of the range it is. Each version has a *window*: the positions at which it reaches members. The
/// window begins at the position that the round had reached when the version came. It is one lap long, or shorter if
/// the version is closed. The member at a position gets the newest version. For an older version whose window includes
/// this position, the member's outcome is `superseded`.
///
/// Invariants:
/// - A round pushes to a member only when its push of the previous lap to this member is over. So these pushes leave in
///   the order of their versions.
/// - A version is finished when every member of its window has its outcome. Versions settle in their order,
///   except those that newer versions have replaced. The newest version of a round settles last.
/// - If the core has no room for a record, it keeps only the record's offset and does not settle it. Later records of
///   its app in the partition are then passed over too, except those for other ranges that are under way. (R30)
/// - In a checkpoint, a version has counted exactly the members of its window that are below the checkpoint's completed
///   position and not parked.
public struct Audiences: ~Copyable {
    typealias Reply = AudienceReply<UnsafeRawBufferPointer>

    private(set) var configuration: AudiencesConfiguration
    var randomness: SplitMix64
    private(set) var policies: PolicyTable
    let bundleIdentifiers: BundleIdentifiers

    var commands: Slab<CommandSlot>
    var audiences: Slab<AudienceSlot>
    var audiencesByKey: [AudienceKey: AudienceIndex] = [:]
    /// Audiences that got a command since the last ``endBatch(now:)``, or in which a rider waits again after
    /// ``withdrawWaitingCommands(where:)``. The next `endBatch` begins the next command of each, unless one is under
    /// way or the audience is paused.
    var audiencesAwaitingBatchEnd: IndexQueue<AudienceIndex>
    var returnedCommands: IndexQueue<ReturnedCommand>

    var partitions = PartitionTable<FanoutPartition>()
    var rangeVersions: Slab<RangeVersionSlot>
    /// Bytes of all fan-out records in memory.
    var recordBytes = 0
    var rounds: Slab<RoundSlot>
    var roundsByKey: [RoundKey: RoundIndex] = [:]
    var pages: Slab<PageSlot>
    var pageReads: PageReadBatch
    var appQueues: [AppQueues]
    var parkedMembers: Slab<ParkedMember>
    var refusedMembers: Slab<RefusedMemberSlot>

    var broadcasts: Slab<BroadcastSlot>
    var channels: Slab<ChannelSlot>
    var channelsByKey: [ChannelKey: ChannelIndex] = [:]
    /// The slot of `channels` at which the last search for an idle channel ended. The next search begins behind it, so
    /// that it does not compare the same few channels.
    var evictionSearchIndex = ChannelIndex(rawValue: 0)
    /// Requests to the keeper of channels that the shell has not fetched yet.
    var channelNeeds: [ChannelNeed] = []

    /// Number of commands that wait for the channel of their audience.
    var commandsAwaitingChannelCount = 0
    /// Until when no command of an audience begins to wait for a channel (monotonic milliseconds). A command that has
    /// waited without success adds its audience.
    var channelWaitPauseEndMilliseconds: [AudienceKey: Int64] = [:]
    /// When ended entries of `channelWaitPauseEndMilliseconds` were last removed (monotonic milliseconds).
    var channelWaitPausesRemovedAtMilliseconds: Int64 = .min / 2

    var membershipChanges: Slab<MembershipChangeSlot>
    /// The slot in `membershipChanges` of each member's latest change, until the change is finished.
    var membershipChangesByKey: [MemberKey: MembershipChangeIndex] = [:]
    /// The members whose change has ended, until the shell returns them to `Delivery` (`takeMemberWithEndedChange`).
    var membersWithEndedChange: IndexQueue<ChangingMember>
    var newestStateRequests: Slab<NewestStateRequest>
    var newestStateRequestsByKey: [AudienceKey: NewestStateRequestIndex] = [:]
    var newestStates: Slab<NewestStateSlot>

    var storeQueue: StoreQueue<AudienceTicket>
    var activityStoreQueue: StoreQueue<RefusedMemberIndex>
    var outgoingRecords: OutgoingRecordQueue<OutgoingAudienceRecord>
    var timers: TimerQueue
    var writer = JSONWriter()
    var keyWriter = JSONWriter()
    /// The token (in hexadecimal digits) or the channel's id of the push that was offered last. Allocated once (R3). A
    /// push to a member that has just joined uses the token in `membershipChanges` instead.
    let pushAddressBuffer = UnsafeMutableRawBufferPointer.allocate(byteCount: Limits.tokenDigitsMax, alignment: 16)
    /// References to the members of the page that is being read. Their number is known only when the page is read; then
    /// ``PageSlot`` gets a copy.
    let memberScratch = UnsafeMutableBufferPointer<MemberReference>.allocate(capacity: MemberPage.membersMax)
    var offeredPush = OfferedPush()
    /// Number of starts of audiences' devices that wait to be produced, or that Kafka has not acknowledged yet.
    var unacknowledgedStartCount = 0
    public internal(set) var counters = AudienceCounters()

    public init(configuration: AudiencesConfiguration) {
        configuration.validate()
        self.configuration = configuration
        randomness = SplitMix64(seed: configuration.seed)
        policies = PolicyTable(configuration.policies)
        bundleIdentifiers = BundleIdentifiers(configuration.apps)
        commands = Slab(limit: configuration.commandsMax)
        audiences = Slab(limit: configuration.commandsMax)
        audiencesAwaitingBatchEnd = IndexQueue(limit: configuration.commandsMax)
        returnedCommands = IndexQueue(limit: configuration.commandsMax * 2)
        rangeVersions = Slab(limit: configuration.fanoutRecordsMax)
        // A round keeps its slot after its last record has settled, until its last checkpoint is recorded. So there
        // can be more rounds than records.
        rounds = Slab(limit: configuration.fanoutRecordsMax * 2)
        let apps = configuration.apps.count
        let pagesMax = configuration.pagesPerAppMax * apps
        pages = Slab(limit: pagesMax)
        pageReads = PageReadBatch(limit: pagesMax)
        appQueues = configuration.apps.map { _ in AppQueues() }
        parkedMembers = Slab(limit: configuration.parkedMembersMax)
        refusedMembers = Slab(limit: configuration.refusedMembersMax)
        broadcasts = Slab(limit: configuration.fanoutRecordsMax)
        // An idle channel has no fan-out record, but keeps its slot for some time, unless a new channel needs the slot.
        // So there can be more channels than fan-out records.
        channels = Slab(limit: configuration.fanoutRecordsMax * 2)
        membershipChanges = Slab(limit: configuration.membershipChangesMax)
        // Room for the members that the shell has not fetched yet, and for those of all changes under way.
        membersWithEndedChange = IndexQueue(limit: configuration.membershipChangesMax * 2)
        newestStateRequests = Slab(limit: configuration.membershipChangesMax)
        newestStates = Slab(limit: configuration.membershipChangesMax + 1)
        timers = TimerQueue(
            limit: 2 * (commands.limit + audiences.limit + rounds.limit + channels.limit + membershipChanges.limit)
        )
        let callsMax =
            configuration.commandsMax * Self.sampledSegments.count + configuration.fanoutRecordsMax * 6 + pagesMax
            + configuration.refusedMembersMax + configuration.membershipChangesMax * 2
        storeQueue = StoreQueue(limit: callsMax)
        activityStoreQueue = StoreQueue(limit: configuration.refusedMembersMax)
        outgoingRecords = OutgoingRecordQueue(
            limit: configuration.commandsMax * (MemberLocation.segmentCount + 2) + configuration.fanoutRecordsMax * 4
                + configuration.refusedMembersMax * 2 + configuration.startsMax
        )
    }

    deinit {
        commands.forEachInUse { $0.freeBytes() }
        audiences.forEachInUse { $0.identifier.free() }
        rangeVersions.forEachInUse { $0.freeBytes() }
        rounds.forEachInUse { $0.freeBytes() }
        membershipChanges.forEachInUse { $0.freeBytes() }
        newestStates.forEachInUse { $0.body.free() }
        broadcasts.forEachInUse { $0.freeBytes() }
        channels.forEachInUse { $0.identifier.free() }
        pages.forEachInUse { $0.freeBytes() }
        pushAddressBuffer.deallocate()
        memberScratch.deallocate()
    }

    /// When the shell last found that rounds need not wait for members: the store has all, or some have been missing
    /// for ``membersWaitMillisecondsMax``. Monotonic milliseconds. `.min`: the shell has not found this, so rounds
    /// wait. `.max`, the initial value: no round waits.
    ///
    /// If the store has lost a round, the round waits until this time is later than the loss, at most
    /// ``membersWaitMillisecondsMax``.
    public var membersLastCompleteAtMilliseconds = Int64.max
    /// The last time at which the store may have lost data (monotonic milliseconds); `.min`: never. At this time the
    /// shell could not reach the store or lost a connection to it, or the core found that the store had lost a round.
    public var storeLostAtMilliseconds = Int64.min
    /// Whether the store may lack members: ``membersLastCompleteAtMilliseconds`` is not later than the last loss.
    public var mayLackMembers: Bool { membersLastCompleteAtMilliseconds <= storeLostAtMilliseconds }

    /// Number of commands to audiences that the core has not returned to `Delivery` yet.
    public var commandsInProgress: Int { commands.count }
    /// Number of fan-out records in memory that are not settled. Records that were passed over are not counted.
    public var recordsInProgress: Int { rangeVersions.count + broadcasts.count }
    public var roundsInProgress: Int { rounds.count }
    /// Number of parked members, including those whose next push is in flight.
    public var parkedMemberCount: Int { parkedMembers.count }

    /// Does everything that is due at this time. The shell calls it at ``nextDueMilliseconds``, and then empties the
    /// queues.
    public mutating func advance(now: Moment) {
        sendPageReadsIfDue(now: now)
        storeQueue.endPausesIfDue(now: now)
        activityStoreQueue.endPausesIfDue(now: now)
        outgoingRecords.endPauseIfDue(now: now)
        while let entry = timers.popDue(now: now.monotonicMilliseconds) {
            guard isCurrent(entry) else { continue }
            switch entry.owner {
            case .audience(let audience): beginNextCommand(audience, now: now)
            case .round(let round):
                rounds[round].timerDueMilliseconds = .max
                advance(round, now: now)
            case .membershipChange(let change): membershipChangeTimerFired(change, now: now)
            case .channel(let channel):
                channels[channel].timerDueMilliseconds = .max
                advance(channel: channel, now: now)
            case .channelWait(let command): channelWaitTimedOut(command)
            }
        }
    }

    /// Applies reloaded settings. A command that already waits keeps the end of its wait.
    ///
    /// The lane's core `Delivery` must get the same list of policies: a command that `Delivery` hands over names its
    /// policy by the position in this list.
    public mutating func apply(_ settings: ReloadableSettings) {
        configuration.apply(settings)
        policies = PolicyTable(configuration.policies)
    }

    /// When `advance` must be called next (monotonic milliseconds); nil if nothing waits for the clock.
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
    /// How often a round was lost: the store had another worker's claim, an older claim after a failover, or no claim.
    public var lostRoundCount: UInt64 = 0

    public init() {}
}
