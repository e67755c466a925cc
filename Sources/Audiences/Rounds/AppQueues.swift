import Delivery
import LiveActivity

/// The queues and counts of one app: queues of its rounds, its joining members and its channels; counts, for example,
/// of its pages and its pushes in flight.
struct AppQueues: BitwiseCopyable {
    // The queue of rounds that may have something to send.
    var firstRound = RoundIndex.null
    var lastRound = RoundIndex.null
    var queuedRoundCount = 0
    // The queue of rounds that need a page.
    var firstRoundAwaitingPage = RoundIndex.null
    var lastRoundAwaitingPage = RoundIndex.null
    var pageCount = 0
    /// The bytes of the app's pages. A page that is being read counts with its expected bytes, so that the app does not
    /// request more pages than it may have.
    var pageBytes = 0
    /// The number of the app's fan-out records in memory, and their bytes. An app whose share is too large takes no
    /// more records, so that other apps have room. (R30)
    var recordCount = 0
    var recordBytes = 0
    /// By environment: the number of this core's pushes in flight, and when the shell last asked for a push (monotonic
    /// milliseconds). A pool for which the shell has not asked lately is unavailable
    /// (``Audiences/isPoolUnavailable(_:of:now:)``).
    var inFlightPushCounts: InlineArray<2, Int> = .init(repeating: 0)
    var lastAskedForPushAtMilliseconds: InlineArray<2, Int64> = .init(repeating: .min)
    /// By environment: the first and the last member in the queue of those that have joined and wait for a state.
    var firstJoiner: InlineArray<2, MembershipChangeIndex> = .init(repeating: .null)
    var lastJoiner: InlineArray<2, MembershipChangeIndex> = .init(repeating: .null)
    /// By environment: the first and the last channel in the queue of those that have something to send now.
    var firstReadyChannel: InlineArray<2, ChannelIndex> = .init(repeating: .null)
    var lastReadyChannel: InlineArray<2, ChannelIndex> = .init(repeating: .null)
    /// By `MemberOutcome.rawValue`: how many members got this outcome. A member counts again each time that a round
    /// passes it. Only grows.
    var memberOutcomeCounts: InlineArray<6, UInt64> = .init(repeating: 0)
    /// By `MembershipChangeKind.rawValue`: how many changes of memberships the store has acknowledged. A change in
    /// three audiences counts three times. Only grows.
    var membershipChangeCounts: InlineArray<3, UInt64> = .init(repeating: 0)
}

extension Audiences {
    /// The number of pushes that a round may send in a row while other rounds of its app wait. So a large audience does
    /// not delay the app's other audiences for long.
    private static var consecutivePushesMax: UInt16 { 64 }

    mutating func enqueueRound(_ round: RoundIndex) {
        guard !rounds[round].queuePlaces.isQueued else { return }
        rounds[round].queuePlaces.isQueued = true
        rounds[round].queuePlaces.next = .null
        rounds[round].queuePlaces.consecutivePushCount = 0
        let appIndex = Int(rounds[round].appIndex)
        appQueues[appIndex].queuedRoundCount += 1
        let (first, last) = (appQueues[appIndex].firstRound, appQueues[appIndex].lastRound)
        if last == .null {
            (appQueues[appIndex].firstRound, appQueues[appIndex].lastRound) = (round, round)
        } else if rounds[round].queuePlaces.mustQueueAtFront {
            rounds[round].queuePlaces.next = first
            appQueues[appIndex].firstRound = round
        } else {
            rounds[last].queuePlaces.next = round
            appQueues[appIndex].lastRound = round
        }
    }

    mutating func dequeueFirstRound(_ appIndex: Int) {
        let round = appQueues[appIndex].firstRound
        let next = rounds[round].queuePlaces.next
        rounds[round].queuePlaces.isQueued = false
        appQueues[appIndex].firstRound = next
        if next == .null { appQueues[appIndex].lastRound = .null }
        appQueues[appIndex].queuedRoundCount -= 1
    }

    /// Moves the first round of an app's queue to the end, and ends its right to queue at the front
    /// (`mustQueueAtFront`). At its next turn it may again send `consecutivePushesMax` pushes.
    mutating func moveFirstRoundToEnd(_ appIndex: Int) {
        let round = appQueues[appIndex].firstRound
        dequeueFirstRound(appIndex)
        rounds[round].queuePlaces.mustQueueAtFront = false
        enqueueRound(round)
    }

    /// Counts a push of the app's first round. After `consecutivePushesMax` pushes, the round goes to the end of the
    /// queue.
    mutating func countPushAndEndTurnIfDue(_ appIndex: Int) {
        let round = appQueues[appIndex].firstRound
        rounds[round].queuePlaces.consecutivePushCount += 1
        if rounds[round].queuePlaces.consecutivePushCount >= Self.consecutivePushesMax { moveFirstRoundToEnd(appIndex) }
    }

    /// Removes a round from all queues of its app, because its slot is being freed.
    mutating func removeFromQueues(_ round: RoundIndex) {
        let appIndex = Int(rounds[round].appIndex)
        if rounds[round].queuePlaces.isQueued {
            for _ in 0..<appQueues[appIndex].queuedRoundCount {
                if appQueues[appIndex].firstRound == round {
                    dequeueFirstRound(appIndex)
                } else {
                    moveFirstRoundToEnd(appIndex)
                }
            }
        }
        guard rounds[round].queuePlaces.awaitsPage else { return }
        var waitingRound = appQueues[appIndex].firstRoundAwaitingPage
        appQueues[appIndex].firstRoundAwaitingPage = .null
        appQueues[appIndex].lastRoundAwaitingPage = .null
        while waitingRound != .null {
            let next = rounds[waitingRound].queuePlaces.nextAwaitingPage
            rounds[waitingRound].queuePlaces.awaitsPage = false
            if waitingRound != round { enqueueRoundAwaitingPage(waitingRound) }
            waitingRound = next
        }
    }

    mutating func enqueueRoundAwaitingPage(_ round: RoundIndex) {
        guard !rounds[round].queuePlaces.awaitsPage else { return }
        rounds[round].queuePlaces.awaitsPage = true
        rounds[round].queuePlaces.nextAwaitingPage = .null
        let appIndex = Int(rounds[round].appIndex)
        let last = appQueues[appIndex].lastRoundAwaitingPage
        if last == .null {
            appQueues[appIndex].firstRoundAwaitingPage = round
        } else {
            rounds[last].queuePlaces.nextAwaitingPage = round
        }
        appQueues[appIndex].lastRoundAwaitingPage = round
    }

    mutating func popRoundAwaitingPage(_ appIndex: Int) -> RoundIndex? {
        let round = appQueues[appIndex].firstRoundAwaitingPage
        guard round != .null else { return nil }
        appQueues[appIndex].firstRoundAwaitingPage = rounds[round].queuePlaces.nextAwaitingPage
        if appQueues[appIndex].firstRoundAwaitingPage == .null { appQueues[appIndex].lastRoundAwaitingPage = .null }
        rounds[round].queuePlaces.awaitsPage = false
        return round
    }
}
