/// Names an activity of the lane by the index of its slot in `Activities`.
typealias ActivityIndex = SlabIndex<ActivitySlot>

/// What a lane knows about one activity. The slot exists while a command of the activity waits or is under way. It also
/// exists while the activity has a wait, such as the spacing after its last push; but if the lane has many activities,
/// no slot is kept for the spacing alone (`mayKeepSlot`).
struct ActivitySlot: BitwiseCopyable {
    fileprivate let hash: UInt64
    let appIndex: UInt16
    fileprivate(set) var phase = ActivityPhase.idle
    /// The number of attempts in a row that failed for a reason that only delays a push (R18). Each failure lengthens
    /// the next wait, up to a maximum. A newer state of the activity does not reset the number, because the older state
    /// did not cause the failures.
    private(set) var serviceFailureCount: UInt8 = 0
    fileprivate let identifierBlock: Arena.Block
    fileprivate let identifierByteCount: Int
    /// The command that is being worked on; `.null`: none.
    fileprivate(set) var currentCommand = RecordIndex.null
    var waitingList = WaitingList()
    var commandAwaitingCarrier = CommandAwaitingCarrier()
    /// The activity's command that became a rider last; `.null`: none has. Its slot is prefetched, because the next
    /// command that is merged probably reads it. If the slot was freed meanwhile, the prefetch does no harm.
    var riderToPrefetch = RecordIndex.null
    /// The pool of the activity's pushes. It is `unknownEnvironment` until an admission or a command's token names the
    /// environment.
    var poolKind = PoolKey.Kind.unknownEnvironment
    /// The pool from which the current command took its credit. While the activity's environment is not known, this is
    /// a guess. When the admission names the environment, the credit moves to the right pool (`moveCredit`).
    var poolKindOfCredit = PoolKey.Kind.unknownEnvironment
    var deferralWait = DeferralWait()
    var deferredStartWait = DeferredStartWait()
    /// The monotonic time before which the lane does not begin the activity's next command; 0: no command was delayed
    /// yet. Usually the end of the spacing after the last push. A failed push, an unavailable Redis server and an empty
    /// budget of starts delay the next command too.
    private(set) var earliestBeginAtMilliseconds: Int64 = 0

    fileprivate var identifier: UnsafeRawBufferPointer {
        UnsafeRawBufferPointer(start: identifierBlock.base, count: identifierByteCount)
    }

    mutating func countServiceFailure() { if serviceFailureCount < .max { serviceFailureCount += 1 } }

    /// Raises `serviceFailureCount` to the number that a command brings back from the deferred topic, if that number is
    /// higher.
    mutating func raiseServiceFailureCount(to serviceFailureCount: UInt8) {
        self.serviceFailureCount = max(self.serviceFailureCount, serviceFailureCount)
    }

    /// Resets `serviceFailureCount`, because a response to a push of this activity shows that APNs works.
    mutating func resetServiceFailureCount() { serviceFailureCount = 0 }

    /// Delays the activity's next command until a monotonic time, unless it is already delayed longer.
    mutating func delayNextCommand(until monotonicMilliseconds: Int64) {
        earliestBeginAtMilliseconds = max(earliestBeginAtMilliseconds, monotonicMilliseconds)
    }

    /// Undoes the delay that `takeNextPush` set, because no stream took the push.
    ///
    /// - Parameter monotonicMilliseconds: `earliestBeginAtMilliseconds` as it was before `takeNextPush`.
    mutating func restoreNextCommandDelay(until monotonicMilliseconds: Int64) {
        earliestBeginAtMilliseconds = monotonicMilliseconds
    }
}

/// The activities of a lane: their slots, the table that finds the slot of an activity's id, and their phases. (R12)
///
/// `enter` changes an activity's phase, timer and queue together. So an activity that leaves a phase never keeps the
/// timer of that phase.
struct Activities: ~Copyable {
    private var slots: Slab<ActivitySlot>
    private var table = ActivityHashTable()
    private var identifierArena: Arena
    private let seed: UInt64
    private var timers: TimerWheel
    /// Activities whose timer fired, and that `advance` has not handled yet.
    private var dueActivities: IndexQueue<ActivityIndex>
    private var activitiesQueuedToBegin: IndexQueue<ActivityIndex>
    private var activitiesAwaitingReadAhead: IndexQueue<ActivityIndex>

    /// - Parameter identifierChunkBytes: the bytes of one chunk of blocks for ids.
    init(limit: Int, seed: UInt64, now: Moment, identifierChunkBytes: Int = Arena.chunkBytesMax) {
        slots = Slab(limit: limit)
        identifierArena = Arena(chunkBytes: identifierChunkBytes)
        self.seed = seed
        timers = TimerWheel(nowMilliseconds: now.monotonicMilliseconds)
        dueActivities = IndexQueue(limit: limit)
        activitiesQueuedToBegin = IndexQueue(limit: limit)
        activitiesAwaitingReadAhead = IndexQueue(limit: limit)
    }

    var count: Int { slots.count }

    /// The bytes of one activity: its slot, an id of usual length, its timer (24), four places in the table (16 each),
    /// and places in four queues (4 each). Four places in the table, because a table that has just doubled is only a
    /// quarter full.
    static var bytesPerActivity: Int {
        Slab<ActivitySlot>.strideBytes + usualIdentifierBlockBytes + 24 + 4 * 16 + 4 * 4
    }
    /// The bytes of the smallest block, which has room for an id of usual length.
    private static var usualIdentifierBlockBytes: Int { 64 }
    /// The bytes that ids in use need beyond those that `bytesPerActivity` includes, because ids are longer than usual.
    var unusualIdentifierBytes: Int { identifierArena.usedBlockBytes - slots.count * Self.usualIdentifierBlockBytes }
    /// The bytes of the chunks for ids, in use or free, beyond those that `bytesPerActivity` includes.
    var unusualIdentifierChunkBytes: Int {
        identifierArena.allocatedChunkBytes - slots.count * Self.usualIdentifierBlockBytes
    }
    mutating func deallocateFreeChunks() { identifierArena.deallocateFreeChunks() }

    subscript(_ activity: ActivityIndex) -> ActivitySlot {
        unsafeAddress { slots.address(of: activity) }
        unsafeMutableAddress { slots.mutableAddress(of: activity) }
    }

    /// Returns the address of an activity's slot, which is valid until the next activity is added.
    func address(of activity: ActivityIndex) -> UnsafePointer<ActivitySlot> { slots.address(of: activity) }

    func hash(of appIndex: UInt16, _ identifier: UnsafeRawBufferPointer) -> UInt64 {
        activityHash(seed: seed, appIndex: appIndex, identifier: identifier)
    }

    /// Returns the activity with this id, and adds an idle one if the lane has none. Addresses of other activities'
    /// slots are not valid afterwards.
    mutating func findOrAdd(_ appIndex: UInt16, _ identifier: UnsafeRawBufferPointer) -> ActivityIndex {
        let hash = self.hash(of: appIndex, identifier)
        let existingActivity = table.find(hash) { index in
            slots[index].appIndex == appIndex && slots[index].identifier.hasSameBytes(as: identifier)
        }
        if let existingActivity { return existingActivity }
        let block = identifierArena.allocate(identifier.count)
        if let base = identifier.baseAddress { block.base.copyMemory(from: base, byteCount: identifier.count) }
        let index = slots.allocate(
            ActivitySlot(
                hash: hash,
                appIndex: appIndex,
                identifierBlock: block,
                identifierByteCount: identifier.count
            )
        )
        table.insert(hash, index: index)
        return index
    }

    /// Frees an idle activity that has no command. Its index must not be used afterwards.
    mutating func free(_ activity: ActivityIndex) {
        let slot = slots.address(of: activity)
        precondition(slot.pointee.phase == .idle && slot.pointee.waitingList.isEmpty)
        table.remove(slot.pointee.hash, index: activity)
        identifierArena.free(slot.pointee.identifierBlock)
        slots.free(activity)
    }

    // MARK: - Phases of activities

    /// Enters a phase that has no timer (R7). Inlined: if the given phase is a constant, the compiler removes the tests
    /// for all other phases.
    @inline(__always)
    mutating func enter(_ activity: ActivityIndex, _ phase: ActivityPhase) {
        precondition(!phase.hasTimer)
        changePhase(of: activity, to: phase)
        switch phase {
        case .queuedToBegin: activitiesQueuedToBegin.append(activity)
        case .awaitingReadAhead: activitiesAwaitingReadAhead.append(activity)
        default: break
        }
    }

    /// Enters a phase that ends when its timer fires.
    mutating func enter(_ activity: ActivityIndex, _ phase: ActivityPhase, untilMilliseconds: Int64) {
        precondition(phase.hasTimer)
        changePhase(of: activity, to: phase)
        timers.set(activity, dueMilliseconds: untilMilliseconds)
    }

    /// Makes a command the current one of an idle activity, and enters `phase`, with which the work on the command
    /// begins. The caller has already taken a credit for it, so `phase` must be one with a credit
    /// (`ActivityPhase.hasCredit`).
    @inline(__always)
    mutating func beginCommand(_ record: RecordIndex, of activity: ActivityIndex, in phase: ActivityPhase) {
        precondition(slots[activity].phase == .idle && phase.hasCredit)
        enter(activity, phase)
        slots[activity].currentCommand = record
    }

    /// Changes the phase, clears the timer of the old phase, and clears the current command if the new phase has none.
    /// Traps on a change that `ActivityPhase` does not list (R7).
    @inline(__always)
    private mutating func changePhase(of activity: ActivityIndex, to next: ActivityPhase) {
        let slot = slots.mutableAddress(of: activity)
        precondition(
            slot.pointee.phase.canChange(to: next),
            "an activity cannot enter this phase from the one it is in"
        )
        if slot.pointee.phase.hasTimer { timers.clear(activity) }
        slot.pointee.phase = next
        if !next.mayHaveCurrentCommand { slot.pointee.currentCommand = .null }
    }

    /// Takes the next activity in the phase `queuedToBegin` and makes it `idle`, so that the caller can begin its next
    /// command. Returns nil if no activity is in this phase.
    mutating func popActivityQueuedToBegin() -> ActivityIndex? {
        guard let activity = activitiesQueuedToBegin.popFirst() else { return nil }
        enter(activity, .idle)
        return activity
    }

    /// Takes the next activity in the phase `awaitingReadAhead` and makes it `idle`, so that the caller can begin its
    /// next command. Returns nil if no activity is in this phase.
    mutating func popActivityAwaitingReadAhead() -> ActivityIndex? {
        guard let activity = activitiesAwaitingReadAhead.popFirst() else { return nil }
        enter(activity, .idle)
        return activity
    }

    /// Puts the activities whose timers are due into the queue of `popDueActivity`.
    mutating func fireTimers(now: Moment) {
        timers.fire(nowMilliseconds: now.monotonicMilliseconds, into: &dueActivities)
    }

    /// Removes and returns the next activity whose timer fired; nil if there is none. The activity is still in the
    /// phase that had the timer.
    mutating func popDueActivity() -> ActivityIndex? { dueActivities.popFirst() }

    /// When the next timer may fire, a monotonic time; nil if no timer is set. Only the next 128 ms (16 ticks of 8 ms)
    /// are searched, because each iteration of a lane asks for this time. If no timer is due by then, the time is the
    /// end of the 128 ms: the lane wakes at this time and asks again.
    var nextTimerDueMilliseconds: Int64? { timers.nextFireAtMilliseconds(ticksSearchedMax: 16) }
}
