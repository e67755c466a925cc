import Delivery
import LiveActivity

/// The work of one app in this core: queues of its rounds (``RoundSlot``), its joining members and its channels; and
/// counts, for example of its pages and its pushes in flight.
struct AppWork: BitwiseCopyable {
    // The send queue: the rounds that may have something to send.
    var firstRoundInSendQueue = RoundIndex.null
    var lastRoundInSendQueue = RoundIndex.null
    var sendQueueCount = 0
    // The page queue: the rounds that need a page.
    var firstRoundInPageQueue = RoundIndex.null
    var lastRoundInPageQueue = RoundIndex.null
    var pageCount = 0
    /// The bytes of the app's pages. A page that is being read counts with its expected bytes, so that the app does not
    /// request more pages than it may have.
    var pageBytes = 0
    /// The number of the app's fan-out records in memory, and their bytes. An app whose share is too large takes no
    /// more records, so that other apps have room. (R30)
    var fanoutRecordCount = 0
    var fanoutRecordBytes = 0
    /// For each of the app's pools: the number of this core's pushes in flight, and when the pool last had room for a
    /// push that is no probe (monotonic milliseconds). The time is noted when the shell asks for a push. A pool that
    /// has had no room lately is unavailable (``Audiences/isPoolUnavailable(_:of:)``).
    var inFlightPushCounts: ByEnvironment<Int> = .init(repeating: 0)
    var lastHadRoomForPushAtMilliseconds: ByEnvironment<Int64> = .init(repeating: .min)
    /// The number of the app's parked members, including those for which its rounds have reserved room.
    var parkedMemberCount = 0
    /// The app's part of ``Audiences/parkablePushCount``.
    var parkablePushCount = 0
    /// The first and the last of the linked queues of members that have joined and wait for a push with a state.
    var firstQueuedJoiner: ByEnvironment<MembershipChangeIndex> = .init(repeating: .null)
    var lastQueuedJoiner: ByEnvironment<MembershipChangeIndex> = .init(repeating: .null)
    /// The first and the last of the linked queues of channels that have something to send now.
    var firstReadyChannel: ByEnvironment<ChannelIndex> = .init(repeating: .null)
    var lastReadyChannel: ByEnvironment<ChannelIndex> = .init(repeating: .null)
    /// By `MemberOutcome.rawValue`: how many members got this outcome. A member counts again in each lap. Only grows.
    var memberOutcomeCounts: InlineArray<6, UInt64> = .init(repeating: 0)
    /// By `MembershipChangeKind.rawValue`: how many changes of memberships the store has acknowledged. A change in
    /// three audiences counts three times. Only grows.
    var membershipChangeCounts: InlineArray<3, UInt64> = .init(repeating: 0)
}

extension Audiences {
    /// The number of pushes that a round may send in a row while other rounds of its app wait. So a large audience does
    /// not delay the app's other audiences for long.
    private static var consecutivePushesMax: UInt16 { 64 }

    mutating func addToSendQueue(_ round: RoundIndex) {
        guard !rounds[round].queuePlaces.isInSendQueue else { return }
        rounds[round].queuePlaces.isInSendQueue = true
        rounds[round].queuePlaces.nextInSendQueue = .null
        rounds[round].queuePlaces.consecutivePushCount = 0
        let appIndex = Int(rounds[round].appIndex)
        apps[appIndex].sendQueueCount += 1
        let (first, last) = (apps[appIndex].firstRoundInSendQueue, apps[appIndex].lastRoundInSendQueue)
        if last == .null {
            (apps[appIndex].firstRoundInSendQueue, apps[appIndex].lastRoundInSendQueue) = (round, round)
        } else if rounds[round].queuePlaces.mustQueueAtFront {
            rounds[round].queuePlaces.nextInSendQueue = first
            apps[appIndex].firstRoundInSendQueue = round
        } else {
            rounds[last].queuePlaces.nextInSendQueue = round
            apps[appIndex].lastRoundInSendQueue = round
        }
    }

    mutating func removeFirstFromSendQueue(_ appIndex: Int) {
        let round = apps[appIndex].firstRoundInSendQueue
        let next = rounds[round].queuePlaces.nextInSendQueue
        rounds[round].queuePlaces.isInSendQueue = false
        apps[appIndex].firstRoundInSendQueue = next
        if next == .null { apps[appIndex].lastRoundInSendQueue = .null }
        apps[appIndex].sendQueueCount -= 1
    }

    /// Moves the first round of an app's send queue to the end of the queue. The round loses its right to queue at the
    /// front (`mustQueueAtFront`), and may send `consecutivePushesMax` pushes again at its next turn.
    mutating func moveFirstToEndOfSendQueue(_ appIndex: Int) {
        let round = apps[appIndex].firstRoundInSendQueue
        removeFirstFromSendQueue(appIndex)
        rounds[round].queuePlaces.mustQueueAtFront = false
        addToSendQueue(round)
    }

    /// Counts a push of the app's first round. After `consecutivePushesMax` pushes, the round goes to the end of the
    /// queue.
    mutating func countPushAndEndTurnIfDue(_ appIndex: Int) {
        let round = apps[appIndex].firstRoundInSendQueue
        rounds[round].queuePlaces.consecutivePushCount += 1
        if rounds[round].queuePlaces.consecutivePushCount >= Self.consecutivePushesMax {
            moveFirstToEndOfSendQueue(appIndex)
        }
    }

    /// Removes a round from all queues of its app, because its slot is being freed.
    mutating func removeFromQueues(_ round: RoundIndex) {
        let appIndex = Int(rounds[round].appIndex)
        if rounds[round].queuePlaces.isInSendQueue {
            for _ in 0..<apps[appIndex].sendQueueCount {
                if apps[appIndex].firstRoundInSendQueue == round {
                    removeFirstFromSendQueue(appIndex)
                } else {
                    moveFirstToEndOfSendQueue(appIndex)
                }
            }
        }
        guard rounds[round].queuePlaces.isInPageQueue else { return }
        var waitingRound = apps[appIndex].firstRoundInPageQueue
        apps[appIndex].firstRoundInPageQueue = .null
        apps[appIndex].lastRoundInPageQueue = .null
        while waitingRound != .null {
            let next = rounds[waitingRound].queuePlaces.nextInPageQueue
            rounds[waitingRound].queuePlaces.isInPageQueue = false
            if waitingRound != round { addToPageQueue(waitingRound) }
            waitingRound = next
        }
    }

    mutating func addToPageQueue(_ round: RoundIndex) {
        guard !rounds[round].queuePlaces.isInPageQueue else { return }
        rounds[round].queuePlaces.isInPageQueue = true
        rounds[round].queuePlaces.nextInPageQueue = .null
        let appIndex = Int(rounds[round].appIndex)
        let last = apps[appIndex].lastRoundInPageQueue
        if last == .null {
            apps[appIndex].firstRoundInPageQueue = round
        } else {
            rounds[last].queuePlaces.nextInPageQueue = round
        }
        apps[appIndex].lastRoundInPageQueue = round
    }

    mutating func popFirstFromPageQueue(_ appIndex: Int) -> RoundIndex? {
        let round = apps[appIndex].firstRoundInPageQueue
        guard round != .null else { return nil }
        apps[appIndex].firstRoundInPageQueue = rounds[round].queuePlaces.nextInPageQueue
        if apps[appIndex].firstRoundInPageQueue == .null { apps[appIndex].lastRoundInPageQueue = .null }
        rounds[round].queuePlaces.isInPageQueue = false
        return round
    }
}
