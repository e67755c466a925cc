public import Delivery
import LiveActivity
import Numbers

/// The second core of a lane. It decides the outcome of commands to audiences and channels, and does no I/O. (R1)
///
/// As in `Delivery`, the shell calls the core for each event, with the event's `Moment` if the decision depends on the
/// time. The core queues the calls, pushes and records to send. The shell empties these queues when it can.
///
/// The shell calls:
/// - for a record of the commands topic that names an audience or a channel: ``receiveCommand(_:)`` while
///   ``canReceiveCommand``, and ``endBatch(now:)`` after the last one. ``dropWaitingCommands(where:)`` when its
///   partition is revoked. ``takeReturnedCommand()`` returns the command to `Delivery`.
/// - for a member whose audiences change: ``receiveMembershipChange(_:now:)`` while ``canReceiveMembershipChange``.
///   ``takeMemberWithEndedChange()`` returns the member to `Delivery`.
/// - for partitions of the fan-out topic: ``assign(number:)``,
///   ``restoreSettledOffsets(_:at:metadata:logEndOffset:)``, ``beginRevoking(_:now:)``, ``isDrained(_:)``,
///   ``release(partition:now:)``, ``progress(_:)``.
/// - for a record of the fan-out topic: ``receive(_:instruction:droppedFields:now:)``, even if there is no room. The
///   shell rewinds the partition as ``rewindRequest(_:now:)`` says, and calls ``rewindBegan(_:from:now:)``.
/// - for the audience store: ``withNextStoreCall(now:_:)``, ``removeNextStoreCall()``, ``refuseNextStoreCall(now:)``,
///   ``postponeNextStoreCall()``, ``storeReplied(tag:_:now:)``, ``storeFailed(tag:_:now:)``.
/// - for the activity store: ``withNextActivityStoreCall(now:_:)``, ``removeNextActivityStoreCall()``,
///   ``postponeNextActivityStoreCall()``, ``refuseNextActivityStoreCall(now:)``, ``activityStoreReplied(tag:now:)``,
///   ``activityStoreFailed(tag:_:now:)``.
/// - for a free stream: ``takeNextPush(_:permitsRetry:pushesInFlightMax:now:)`` for each pool of the lane in turn,
///   until no pool has a push. The pushes of `Delivery` come first. For each push, the shell later calls
///   ``pushResponseReceived(tag:_:now:)``; if no stream was free after all, it calls ``pushNotSent(_:)`` at once.
/// - for the keeper of channels: ``takeChannelRequest()``, ``channelProvided(appIndex:audience:_:now:)``,
///   ``channelRefused(appIndex:audience:environment:now:)``.
/// - for the producer: ``nextOutgoingRecord(now:)``, ``compose(_:)``, ``removeNextOutgoingRecord()``,
///   ``deliveryReportReceived(_:_:now:)``.
/// - for the clock: ``advance(now:)``, and again at ``nextDueMilliseconds``.
///
/// The steps of a command: `receiveCommand` → it waits, and newer commands may replace it → the core asks for the
/// audience's size → `admit` → one fan-out record for each range and each broadcast → `settle` → it is returned. A
/// command that names a channel has no size and no ranges.
///
/// The steps of a range: `receive` → `claim` → its pages are read and its members get their pushes → `finishRange`
/// and its result → its record settles.
///
/// A *range* is a part of an audience (``SegmentRange``). A *version* is what one command brings to the members of a
/// range (``RangeVersionSlot``). A *round* (``RoundSlot``) goes through the places of one range again and again, as
/// long as the range has versions under way. Once through the whole range is a *lap*. The *position* of a round only
/// grows: the position modulo the length of the range says which place of the range it is.
///
/// Each version has a *window*: the positions at which it reaches members. The window begins at the position that the
/// round had reached when the version came. It is one lap long, or shorter if the version is closed. An example for a
/// range of 100 places: version 1 begins at position 0, and version 2 at position 40. So version 1 has the window 0 to
/// 99, and version 2 the window 40 to 139. The members at 40 to 99 are in both windows. They get version 2, and count
/// as `superseded` for version 1.
///
/// Invariants:
/// - A round pushes to a member only when its push of the previous lap to this member is over. So these pushes leave in
///   the order of their versions.
/// - A version is finished when every member of its window has its outcome. Versions settle in their order,
///   except those that newer versions have replaced. The newest version of a round settles last.
/// - A record for which the core has no room is passed over: the core keeps only its offset, and does not settle it.
///   Later records of the same app in this partition are then passed over too, so that no record overtakes another.
///   Only records for other ranges that already have a round are still taken. (R30)
/// - A checkpoint has counts for each version under way. The counts include exactly the members of the version's window
///   that are below the checkpoint's completed position and not parked.
public struct Audiences: ~Copyable {
    typealias Reply = AudienceReply<UnsafeRawBufferPointer>

    private(set) var configuration: AudiencesConfiguration
    var randomness: SplitMix64
    private(set) var policies: PolicyTable
    let bundleIdentifiers: BundleIdentifiers

    var commands: Slab<CommandSlot>
    var audiences: Slab<AudienceSlot>
    var audiencesByKey: [AudienceKey: AudienceIndex] = [:]
    /// Audiences that may begin a command at the next ``endBatch(now:)``: a new command has come, or a rider
    /// (``CommandSlot/rider``) waits again after ``dropWaitingCommands(where:)``.
    var audiencesAwaitingBatchEnd: IndexQueue<AudienceIndex>
    var returnedCommands: IndexQueue<ReturnedCommand>

    var partitions = PartitionTable<FanoutPartition>()
    var rangeVersions: Slab<RangeVersionSlot>
    /// Bytes of all fan-out records in memory.
    var fanoutRecordBytes = 0
    var rounds: Slab<RoundSlot>
    var roundsByKey: [RoundKey: RoundIndex] = [:]
    var pages: Slab<PageSlot>
    var pageReads: PageReadBatch
    var apps: [AppWork]
    var parkedMembers: Slab<ParkedMember>
    var refusedMembers: Slab<RefusedMemberSlot>

    var broadcasts: Slab<BroadcastSlot>
    var channels: Slab<ChannelSlot>
    var channelsByKey: [ChannelKey: ChannelIndex] = [:]
    /// The slot of `channels` at which the last ``evictIdleChannel(now:)`` ended its search for an idle channel. The
    /// next search begins behind this slot. So the searches reach all channels, although each one compares only a few.
    var evictionSearchIndex = ChannelIndex(rawValue: 0)
    /// Requests to the keeper of channels that the shell has not fetched yet.
    var channelRequests: [CoreChannelRequest] = []

    /// Number of commands that wait for the channel of their audience.
    var commandsAwaitingChannelCount = 0
    /// Until when no further command of an audience waits for a channel (monotonic milliseconds). An audience has an
    /// entry after one of its commands has waited without success.
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
    /// Write the value and the key of a record for Kafka.
    var recordValueWriter = JSONWriter()
    var recordKeyWriter = JSONWriter()
    /// The address of the push that was offered last: the digits of its token, or the channel's id. Allocated once
    /// (R3). A push to a joiner does not use this buffer: the joiner's token is in `membershipChanges`.
    let pushAddressBuffer = UnsafeMutableRawBufferPointer.allocate(byteCount: Limits.tokenDigitsMax, alignment: 16)
    /// References to the members of the page that is being read. The ``PageSlot`` must know their number before it
    /// allocates memory. So the core first collects the references here, and then copies them to the slot.
    let memberReferenceBuffer = UnsafeMutableBufferPointer<MemberReference>.allocate(capacity: MemberPage.membersMax)
    var offeredPush = OfferedPush()
    /// Number of starts of audiences' devices that wait to be produced, or that Kafka has not acknowledged yet.
    var unacknowledgedStartCount = 0
    public internal(set) var counters = AudienceCounters()

    public init(configuration: AudiencesConfiguration) {
        configuration.validate()
        self.configuration = configuration
        randomness = SplitMix64(seed: configuration.seed)
        policies = PolicyTable(configuration.reloadable.policies)
        bundleIdentifiers = BundleIdentifiers(configuration.apps)
        commands = Slab(limit: configuration.commandsMax)
        audiences = Slab(limit: configuration.commandsMax)
        audiencesAwaitingBatchEnd = IndexQueue(limit: configuration.commandsMax)
        returnedCommands = IndexQueue(limit: configuration.commandsMax * 2)
        rangeVersions = Slab(limit: configuration.fanoutRecordsMax)
        // A round keeps its slot after its last record has settled, until its last checkpoint is recorded. So there
        // can be more rounds than records.
        rounds = Slab(limit: configuration.fanoutRecordsMax * 2)
        let appCount = configuration.apps.count
        let pagesMax = configuration.pagesPerAppMax * appCount
        pages = Slab(limit: pagesMax)
        pageReads = PageReadBatch(limit: pagesMax)
        apps = configuration.apps.map { _ in AppWork() }
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
            timersMax: 2 * (commands.limit + audiences.limit + rounds.limit + channels.limit + membershipChanges.limit)
        )
        let callsMax =
            configuration.commandsMax * Self.sampledSegments.count + configuration.fanoutRecordsMax * 6 + pagesMax
            + configuration.refusedMembersMax + configuration.membershipChangesMax * 2
        storeQueue = StoreQueue(limit: callsMax)
        activityStoreQueue = StoreQueue(limit: configuration.refusedMembersMax)
        outgoingRecords = OutgoingRecordQueue(
            limit: configuration.commandsMax * (MemberLocation.segmentCount + 2) + configuration.fanoutRecordsMax * 4
                + configuration.refusedMembersMax * 2 + configuration.unacknowledgedStartsMax
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
        channels.forEachInUse { $0.audienceOrChannelIdentifier.free() }
        pages.forEachInUse { $0.freeBytes() }
        pushAddressBuffer.deallocate()
        memberReferenceBuffer.deallocate()
    }

    /// When the shell last found that rounds need not wait for members (monotonic milliseconds). There are two reasons:
    /// the store has all members, or it has lacked some for ``membersWaitMillisecondsMax``.
    ///
    /// - `.max`, the initial value: no round waits.
    /// - `.min`: rounds must wait.
    /// - Another value, such as 5,000: a round that the store lost at 4,000 continues. A round that the store lost at
    ///   6,000 waits for a value above 6,000, but not longer than ``membersWaitMillisecondsMax``.
    public var membersLastCompleteAtMilliseconds = Int64.max
    /// Whether rounds must wait: the store lacks members, or the shell does not know yet whether the store does.
    var mustRoundsWait: Bool { membersLastCompleteAtMilliseconds == .min }
    /// When the store may last have lost data (monotonic milliseconds); `.min`: never. The shell sets this time when it
    /// cannot connect to the store or loses a connection. The core sets it when it finds that the store has lost a
    /// round.
    public var storeMayHaveLostDataAtMilliseconds = Int64.min
    /// Whether the store may lack members: ``membersLastCompleteAtMilliseconds`` is not later than the last loss.
    public var mayLackMembers: Bool { membersLastCompleteAtMilliseconds <= storeMayHaveLostDataAtMilliseconds }

    /// The number of commands to audiences that the core has not returned to `Delivery` yet.
    public var commandCount: Int { commands.count }
    /// The number of fan-out records in memory that are not settled. Records that were passed over are not counted.
    public var recordCount: Int { rangeVersions.count + broadcasts.count }
    public var roundCount: Int { rounds.count }
    /// The number of parked members, including those whose next push is in flight.
    public var parkedMemberCount: Int { parkedMembers.count }

    /// Does everything that is due at this time.
    public mutating func advance(now: Moment) {
        sendPageReadsIfDue(now: now)
        storeQueue.endPausesIfDue(now: now)
        activityStoreQueue.endPausesIfDue(now: now)
        outgoingRecords.endPauseIfDue(now: now)
        while let timer = timers.popDue(now: now.monotonicMilliseconds) {
            guard isCurrent(timer) else { continue }
            switch timer.owner {
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

    /// Applies reloaded settings. Waits and pauses that have begun keep their ends.
    ///
    /// The lane's core `Delivery` must get the same list of policies: a command that `Delivery` hands over names its
    /// policy by the position in this list.
    public mutating func apply(_ settings: ReloadableSettings) {
        configuration.reloadable = settings
        configuration.validate()
        policies = PolicyTable(settings.policies)
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
    /// How often a round was lost: the store does not have this worker's newest claim. It has another worker's claim,
    /// an older claim (after a failover), or no claim.
    public var lostRoundCount: UInt64 = 0

    public init() {}
}
