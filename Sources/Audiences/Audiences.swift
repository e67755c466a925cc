public import Delivery
import LiveActivity
import Numbers

/// The second core of a lane: decides what becomes of commands to audiences, and does no I/O.
///
/// As with `Delivery`, events come in as calls, each with the `Moment` it happened at, and what is to be done goes out through queues that
/// the shell empties when it can.
///
/// | the shell | calls |
/// | --- | --- |
/// | has a command of the commands topic | ``take(_:now:)`` while ``canTakeCommand``; ``nextHandedBack()`` returns it to `Delivery`; ``withdraw(_:)`` when its partition is revoked |
/// | has a member whose audiences change | ``receive(membership:now:)`` while ``canReceiveMembership``; ``nextMembershipOutcome()`` returns it to `Delivery` |
/// | has partitions of the fan-out topic | ``assign(number:)``, ``resume(_:at:metadata:logEnd:)``, ``beginRevoking(_:now:)``, ``isDrained(_:)``, ``release(partition:now:)``, ``progress(_:)`` |
/// | has a record of it | ``receive(_:order:now:)``, whether there is room or not; it reads the partition again as ``rereading(_:now:)`` says, and calls ``rereadingBegan(_:from:now:)`` |
/// | asks the audience store | ``withNextStoreCall(now:_:)``, ``storeCallTaken()``, ``storeCallRefused(now:)``, ``storeCallPostponed()``; ``storeReplied(tag:_:now:)``, ``storeFailed(tag:_:now:)`` |
/// | asks the activity store | ``withNextActivityCall(now:_:)``, ``activityCallTaken()``, ``activityCallRefused()``, ``activityReplied(tag:)``, ``activityFailed(tag:_:now:)`` |
/// | has a free stream | ``nextPush(_:permitsRetry:inFlightMax:now:)``, after `Delivery`'s and over its pools in turn until none has a push; ``pushReturned(_:)`` if there was none after all; ``answered(_:_:now:)`` |
/// | keeps channels | ``nextChannelNeed()``; ``channelKnown(application:audience:_:now:)``, ``channelRefused(application:audience:environment:now:)`` |
/// | produces | ``nextProduction(now:)``, ``compose(_:)``, ``productionTaken()``, ``produced(_:_:now:)`` |
/// | lets time pass | ``advance(now:)``, and again at ``nextDueMilliseconds`` |
///
/// A command's way: `take` → (waits, replaced by newer ones) → how large is the audience → `admit` → one fan-out record for each range →
/// `settle` → handed back. A range's way: `receive` → `claim` → pages are read and their members sent to → `finish` and its result → its
/// offset counts as settled.
///
/// A *round* runs through the positions of one range for as long as it has versions under way. Its position only grows (`UInt64`); the
/// ordinal is the position modulo the range's length. Each version has a window, from the position at which it took over to one length
/// further. What is sent at a position is the newest version; the member counts as superseded for the older ones whose windows it is in.
///
/// What must hold:
/// - a member is sent to only when nothing of the round before is under way to it, so its pushes leave in the order of their versions;
/// - a version is finished when every member of its window has its outcome; versions settle in their order, but for those that newer ones have
///   replaced, and the newest of a round settles last;
/// - a record that has no room is neither held nor settled, and the records of its range behind it wait with it;
/// - what is counted of a version at a checkpoint is what lies below the checkpoint's watermark and is not parked.
public struct Audiences: ~Copyable {
    typealias Reply = AudienceReply<UnsafeRawBufferPointer>

    let configuration: AudiencesConfiguration
    var randomness: SplitMix64
    let policies: PolicyTable
    let applicationNames: ApplicationNames

    var commands: Slab<CommandSlot>
    var audiences: Slab<AudienceSlot>
    var audienceIndex: [AudienceKey: UInt32] = [:]
    var handedBack: IndexQueue<HandedBack>

    var partitions = FanoutPartitions()
    var versions: Slab<VersionSlot>
    /// Bytes of the fan-out records that are held.
    var recordBytes = 0
    var rounds: Slab<RoundSlot>
    var roundIndex: [RoundKey: UInt32] = [:]
    var pages: Slab<PageSlot>
    var pageQuestions: PageQuestions
    var lines: [ApplicationLine]
    var parked: Slab<ParkedMember>
    var notices: Slab<NoticeSlot>

    var broadcasts: Slab<BroadcastSlot>
    var channels: Slab<ChannelSlot>
    var channelIndex: [BroadcastKey: UInt32] = [:]
    /// Requests to the keeper of channels that the shell has not taken yet.
    var channelNeeds: [ChannelNeed] = []

    /// Commands that wait for their audience's channel.
    var channelWaiters = 0
    /// Audiences one of whose commands timed out waiting, and the monotonic time until which none of them waits again.
    var channelWaitPauses: [AudienceKey: Int64] = [:]
    /// Monotonic: when pauses that are over were last removed.
    var channelWaitPausesCleanedMilliseconds: Int64 = .min / 2

    var memberships: Slab<MembershipSlot>
    /// The last change of each member whose audiences are being told.
    var membershipIndex: [MemberKey: UInt32] = [:]
    var membershipOutcomes: IndexQueue<ChangingMember>
    var questions: Slab<QuestionSlot>
    var questionIndex: [AudienceKey: UInt32] = [:]
    var states: Slab<StateSlot>

    var storeQueue: StoreQueue<AudienceTicket>
    var activityQueue: StoreQueue<UInt32>
    var productions: ProductionQueue<AudienceProduction>
    var timers = TimerQueue()
    var writer = JSONWriter()
    var keyWriter = JSONWriter()
    /// Of the push that was handed out last.
    let tokenDigits = UnsafeMutableRawBufferPointer.allocate(byteCount: Limits.tokenDigitsMost, alignment: 16)
    /// Members of the page that is being read.
    let memberScratch = UnsafeMutableBufferPointer<MemberReference>.allocate(capacity: MemberPage.membersMax)
    var handedOut = HandedOutMember()
    /// Starts of devices that are not in Kafka yet.
    var startsUnderWay = 0
    public internal(set) var counters = AudienceCounters()

    public init(configuration: AudiencesConfiguration) {
        configuration.validate()
        self.configuration = configuration
        randomness = SplitMix64(seed: configuration.seed)
        policies = PolicyTable(configuration.policies)
        applicationNames = ApplicationNames(configuration.applications)
        commands = Slab(limit: configuration.commandsMax)
        audiences = Slab(limit: configuration.commandsMax)
        handedBack = IndexQueue(limit: configuration.commandsMax * 2)
        versions = Slab(limit: configuration.recordsMax)
        // A round that is abandoned has no record any more, and stays until its pushes are answered.
        rounds = Slab(limit: configuration.recordsMax * 2)
        let applications = configuration.applications.count
        let pagesMax = configuration.pagesPerApplication * applications
        pages = Slab(limit: pagesMax)
        pageQuestions = PageQuestions(limit: pagesMax)
        lines = configuration.applications.map { _ in ApplicationLine() }
        parked = Slab(limit: configuration.parkedMax)
        notices = Slab(limit: configuration.noticesMax)
        broadcasts = Slab(limit: configuration.recordsMax)
        // Those that are abandoned stay until their pushes are answered, and those that rest until their pause is over.
        channels = Slab(limit: configuration.recordsMax * 2)
        memberships = Slab(limit: configuration.membershipsMax)
        // What was not fetched yet, and what is held.
        membershipOutcomes = IndexQueue(limit: configuration.membershipsMax * 2)
        questions = Slab(limit: configuration.membershipsMax)
        states = Slab(limit: configuration.membershipsMax + 1)
        let callsMax =
            configuration.commandsMax * Self.sampledSegments.count + configuration.recordsMax * 6 + pagesMax
            + configuration.noticesMax + configuration.membershipsMax * 2
        storeQueue = StoreQueue(limit: callsMax)
        activityQueue = StoreQueue(limit: configuration.noticesMax)
        productions = ProductionQueue(
            limit: configuration.commandsMax * (MemberPlace.segmentCount + 2) + configuration.recordsMax * 4
                + configuration.noticesMax * 2 + configuration.startsMax
        )
    }

    deinit {
        for index in 0..<commands.indexBound where commands.isInUse(index) { commands[index].freeBytes() }
        for index in 0..<audiences.indexBound where audiences.isInUse(index) { audiences[index].identifier.free() }
        for index in 0..<versions.indexBound where versions.isInUse(index) { versions[index].freeBytes() }
        for index in 0..<rounds.indexBound where rounds.isInUse(index) { rounds[index].freeBytes() }
        for index in 0..<memberships.indexBound where memberships.isInUse(index) { memberships[index].freeBytes() }
        for index in 0..<states.indexBound where states.isInUse(index) { states[index].body.free() }
        for index in 0..<broadcasts.indexBound where broadcasts.isInUse(index) { broadcasts[index].freeBytes() }
        for index in 0..<channels.indexBound where channels.isInUse(index) { channels[index].audience.free() }
        for index in 0..<pages.indexBound where pages.isInUse(index) { pages[index].freeBytes() }
        tokenDigits.deallocate()
        memberScratch.deallocate()
    }

    /// When the shell last saw that the store holds the members of all audiences, monotonic; `.min`: some are missing. A round that the store
    /// has lost waits for a time after the loss.
    public var membersHeldMilliseconds = Int64.max

    /// Commands that are not handed back.
    public var commandsHeld: Int { commands.count }
    /// Fan-out records that are not settled.
    public var recordsHeld: Int { versions.count + broadcasts.count }
    public var roundsHeld: Int { rounds.count }
    /// Members that wait to be sent again.
    public var membersParked: Int { parked.count }

    /// Lets time pass.
    public mutating func advance(now: Moment) {
        askForPages(now: now)
        while let entry = timers.popDue(now: now.monotonicMilliseconds) {
            switch entry.owner {
            case .audience:
                guard audiences.isInUse(entry.index),
                    audiences[entry.index].restsUntilMilliseconds <= now.monotonicMilliseconds
                else { continue }
                begin(entry.index, now: now)
            case .round:
                guard rounds.isInUse(entry.index), rounds[entry.index].timerMilliseconds == entry.dueMilliseconds else {
                    continue
                }
                rounds[entry.index].timerMilliseconds = .max
                moveOn(entry.index, now: now)
            case .membership:
                guard memberships.isInUse(entry.index),
                    memberships[entry.index].timerMilliseconds == entry.dueMilliseconds
                else { continue }
                membershipDue(entry.index, now: now)
            case .channel:
                guard channels.isInUse(entry.index), channels[entry.index].timerMilliseconds == entry.dueMilliseconds
                else { continue }
                channels[entry.index].timerMilliseconds = .max
                moveOn(channel: entry.index, now: now)
            case .channelWait: channelWaitOver(entry.index, dueMilliseconds: entry.dueMilliseconds, now: now)
            }
        }
    }

    /// When `advance` next has something to do: a monotonic time, or nil if nothing waits for the clock.
    public var nextDueMilliseconds: Int64? {
        var due = timers.firstMilliseconds ?? .max
        due = min(due, storeQueue.dueMilliseconds ?? .max)
        due = min(due, pageQuestions.leaveAtMilliseconds ?? .max)
        due = min(due, activityQueue.dueMilliseconds ?? .max)
        due = min(due, productions.dueMilliseconds ?? .max)
        return due == .max ? nil : due
    }

    /// - Returns: between a half and the whole, so that what failed together does not come again together.
    mutating func jittered(_ milliseconds: Int64) -> Int64 {
        let half = (milliseconds + 1) / 2
        return half + Int64(randomness.next(below: UInt64(half))) + 1
    }
}

/// What the core counts; each only grows, but for a push that finds no stream after all.
public struct AudienceCounters: Sendable {
    /// Fan-out records received.
    public var records: UInt64 = 0
    /// Fan-out records that could not be read, or whose app is not configured any more.
    public var recordsUnreadable: UInt64 = 0
    /// Changes of members' audiences.
    public var memberships: UInt64 = 0
    public var pushes: UInt64 = 0
    /// Of `pushes`: to members that have joined.
    public var joinerPushes: UInt64 = 0
    public var retries: UInt64 = 0
    /// Starts of devices handed on as commands.
    public var starts: UInt64 = 0
    public var pagesRead: UInt64 = 0
    /// Pages that do not read as one, in whole or from some entry on.
    public var pagesDamaged: UInt64 = 0
    public var versionsFinished: UInt64 = 0
    public var versionsOvertaken: UInt64 = 0
    public var checkpoints: UInt64 = 0
    /// Rounds that another worker has claimed.
    public var roundsLost: UInt64 = 0

    public init() {}
}
