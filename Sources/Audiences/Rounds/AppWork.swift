import Delivery
import LiveActivity

/// The work of one app in this core: queues of its rounds (``RoundSlot``), its joining members and its channels; and
/// counts, for example of its pages and its pushes in flight.
struct AppWork: BitwiseCopyable {
    /// The first round in the send queue, whose rounds may have something to send; `.null`: the queue is empty.
    var firstRoundInSendQueue = RoundIndex.null
    /// The last round in the send queue; `.null`: the queue is empty.
    var lastRoundInSendQueue = RoundIndex.null
    /// The last of the rounds that were put at the front of the send queue and have not left it since; `.null`: none.
    var lastRoundQueuedAtFront = RoundIndex.null
    var sendQueueRoundCount = 0
    /// The rounds that need a page.
    var pageQueue = LinkedList<RoundSlot>()
    var pageCount = 0
    /// The bytes of the app's pages. A page that is being read counts with its expected bytes, so that the app does not
    /// request more pages than it may have.
    var pageBytes = 0
    /// The number of the app's fan-out records in memory. An app whose share is too large takes no more records, so
    /// that other apps have room. (R22) Raised in `Audiences+FanoutRecords` and `Audiences+Broadcasts`, and lowered in
    /// `Audiences+Finishing` and `Audiences+BroadcastEnds`.
    var fanoutRecordCount = 0
    /// The bytes of the app's fan-out records in memory, which `addFanoutRecordBytes` changes. Limited as their number.
    var fanoutRecordBytes = 0
    /// For each environment: the number of broadcasts in flight. They may have a pool of their own
    /// (``PoolTraffic``), so they are counted apart from the pushes to members. `takeNextPush` raises the number,
    /// `putBackBroadcast` and `handleBroadcastResponse` lower it.
    var inFlightBroadcastCounts: ByEnvironment<Int> = .init(repeating: 0)
    /// For each of the app's pools for pushes to members: the number of these pushes in flight. `takeNextPush` raises
    /// the number; `decrementInFlightPushCounts` lowers it, and for joiners `putBackJoinerPush` and
    /// `handleJoinerResponse`.
    var inFlightPushCounts: ByEnvironment<Int> = .init(repeating: 0)
    /// For each of these pools: when it last had room for a push that is no probe (monotonic milliseconds). The time is
    /// noted when the shell asks for a push. A pool that has had no room lately is unavailable
    /// (``Audiences/isPoolUnavailable(_:appIndex:)``).
    var lastHadRoomForPushAtMilliseconds: ByEnvironment<Int64> = .init(repeating: .min)
    /// The number of places for parked members that the app has taken: those of its parked members, and those that its
    /// rounds have reserved for members that they will park again. Raised and lowered in `Audiences+Parking` and
    /// `Audiences+ParkedPages`.
    var takenParkingPlaceCount = 0
    /// The number of the app's pushes in flight that may end with a parked member: its part of
    /// ``Audiences/parkablePushCount``.
    var parkablePushCount = 0
    /// The number of the app's changes in ``Audiences/membershipChanges``.
    var membershipChangeSlotCount = 0
    /// For each environment: the members that have joined an audience and wait for a push with its newest state.
    var queuedJoiners: ByEnvironment<LinkedList<MembershipChangeSlot>> = .init(repeating: LinkedList())
    /// The number of the app's commands that wait for a channel (``Audiences/commandsAwaitingChannelCount``).
    var commandsAwaitingChannelCount = 0
    /// Until when the app's commands do not wait for channels that Redis may have lost (monotonic milliseconds),
    /// because a command has waited for such a channel without success; `.min`: the commands wait.
    var restorationWaitPauseEndMilliseconds: Int64 = .min
    /// For each environment: the channels that have something to send now.
    var readyChannels: ByEnvironment<LinkedList<ChannelSlot>> = .init(repeating: LinkedList())
    /// For each environment: when the keeper last provided a channel of any of the app's audiences (monotonic
    /// milliseconds); `.min`: never.
    var channelProvidedAtMilliseconds: ByEnvironment<Int64> = .init(repeating: .min)
    /// How many members got each outcome. A member counts again in each lap. The counts only grow.
    var memberOutcomeCounts = CountsByMemberOutcome(repeating: 0)
    /// How many changes of memberships the store has acknowledged. A change in three audiences counts three times. The
    /// counts only grow.
    var membershipChangeCounts = CountsByMembershipChangeKind(repeating: 0)
}

extension Audiences {
    /// Adds a round to its app's send queue, unless it is there already. Usually the round joins at the end, where it
    /// waits for a new turn. If its turn is not over (`mustQueueAtFront`), the round joins at the front, and continues
    /// its turn.
    mutating func addToSendQueue(_ round: RoundIndex) {
        guard !rounds[round].queuePlaces.isInSendQueue else { return }
        if rounds[round].queuePlaces.mustQueueAtFront {
            putAtFrontOfSendQueue(round)
        } else {
            putAtEndOfSendQueue(round)
        }
    }

    /// Puts a round at the front of the send queue, but behind the rounds that were put there earlier. Otherwise, while
    /// pushes are slow, two rounds could overtake a third one again and again.
    private mutating func putAtFrontOfSendQueue(_ round: RoundIndex) {
        let appIndex = Int(rounds[round].appIndex)
        let previous = apps[appIndex].lastRoundQueuedAtFront
        let next =
            previous == .null
            ? apps[appIndex].firstRoundInSendQueue : rounds[previous].queuePlaces.nextInSendQueue
        insertIntoSendQueue(round, between: previous, next)
        rounds[round].queuePlaces.isQueuedAtFront = true
        apps[appIndex].lastRoundQueuedAtFront = round
    }

    /// Puts a round at the end of the send queue, and ends its turn. Exception: if `mustQueueAtFront` is true, the turn
    /// is not over, and the round will move to the front when the page that it waits for has come.
    private mutating func putAtEndOfSendQueue(_ round: RoundIndex) {
        if !rounds[round].queuePlaces.mustQueueAtFront { rounds[round].queuePlaces.consecutivePushCount = 0 }
        insertIntoSendQueue(round, between: apps[Int(rounds[round].appIndex)].lastRoundInSendQueue, .null)
    }

    private mutating func insertIntoSendQueue(
        _ round: RoundIndex,
        between previous: RoundIndex,
        _ next: RoundIndex
    ) {
        let appIndex = Int(rounds[round].appIndex)
        rounds[round].queuePlaces.isInSendQueue = true
        rounds[round].queuePlaces.previousInSendQueue = previous
        rounds[round].queuePlaces.nextInSendQueue = next
        if previous == .null {
            apps[appIndex].firstRoundInSendQueue = round
        } else {
            rounds[previous].queuePlaces.nextInSendQueue = round
        }
        if next == .null {
            apps[appIndex].lastRoundInSendQueue = round
        } else {
            rounds[next].queuePlaces.previousInSendQueue = round
        }
        apps[appIndex].sendQueueRoundCount += 1
    }

    mutating func removeFromSendQueue(_ round: RoundIndex) {
        let appIndex = Int(rounds[round].appIndex)
        let previous = rounds[round].queuePlaces.previousInSendQueue
        let next = rounds[round].queuePlaces.nextInSendQueue
        if previous == .null {
            apps[appIndex].firstRoundInSendQueue = next
        } else {
            rounds[previous].queuePlaces.nextInSendQueue = next
        }
        if next == .null {
            apps[appIndex].lastRoundInSendQueue = previous
        } else {
            rounds[next].queuePlaces.previousInSendQueue = previous
        }
        if apps[appIndex].lastRoundQueuedAtFront == round { apps[appIndex].lastRoundQueuedAtFront = previous }
        rounds[round].queuePlaces.isInSendQueue = false
        rounds[round].queuePlaces.isQueuedAtFront = false
        apps[appIndex].sendQueueRoundCount -= 1
    }

    mutating func moveFirstToEndOfSendQueue(_ appIndex: Int) {
        let round = apps[appIndex].firstRoundInSendQueue
        removeFromSendQueue(round)
        putAtEndOfSendQueue(round)
    }

    /// Called when the page of a parked member has come. If the round waits in the send queue, but not at the front,
    /// and its turn is not over (`mustQueueAtFront`), puts the round at the front.
    mutating func moveToFrontOfSendQueueIfRequired(_ round: RoundIndex) {
        let places = rounds[round].queuePlaces
        guard places.isInSendQueue, places.mustQueueAtFront, !places.isQueuedAtFront else { return }
        removeFromSendQueue(round)
        putAtFrontOfSendQueue(round)
    }

    /// Counts a push of the first round in the app's send queue. After the last push of its turn
    /// (``AudiencesConfiguration/consecutivePushesMax``), the round goes to the end of the queue. The caller has set
    /// the round's `mustQueueAtFront` to false.
    mutating func countPushAndEndTurnIfDue(_ appIndex: Int) {
        let round = apps[appIndex].firstRoundInSendQueue
        rounds[round].queuePlaces.consecutivePushCount += 1
        if rounds[round].queuePlaces.consecutivePushCount >= configuration.consecutivePushesMax {
            moveFirstToEndOfSendQueue(appIndex)
        }
    }

    /// Removes a round from the send queue and the page queue of its app, because its slot is being freed.
    mutating func removeFromQueues(_ round: RoundIndex) {
        let appIndex = Int(rounds[round].appIndex)
        if rounds[round].queuePlaces.isInSendQueue { removeFromSendQueue(round) }
        guard rounds[round].queuePlaces.isInPageQueue else { return }
        apps[appIndex].pageQueue.remove(round, in: &rounds)
        rounds[round].queuePlaces.isInPageQueue = false
    }

    mutating func addToPageQueue(_ round: RoundIndex) {
        guard !rounds[round].queuePlaces.isInPageQueue else { return }
        rounds[round].queuePlaces.isInPageQueue = true
        let appIndex = Int(rounds[round].appIndex)
        apps[appIndex].pageQueue.append(round, in: &rounds)
    }

    mutating func popFirstFromPageQueue(_ appIndex: Int) -> RoundIndex? {
        guard let round = apps[appIndex].pageQueue.popFirst(in: &rounds) else { return nil }
        rounds[round].queuePlaces.isInPageQueue = false
        return round
    }
}
