/// Decides whether one pool of a lane may retry a push now. Does no I/O; time is an argument. (R21)
///
/// A retry is sent if the pool's budget permits it. Only first attempts fill the budget, so the budget can stay empty
/// after an outage. So every retry is also permitted while APNs accepts at least half of the pushes: all retries
/// together then at most double the load. One of these two rules is enough:
/// - APNs accepted at least ``acceptedResponsesMin`` of the last ``recentResponsesMax`` pushes.
/// - APNs accepted at least half of the pushes of the current and the previous period (of ``periodMilliseconds`` each),
///   at least ``acceptedResponsesMin`` of them, and the last one at most ``acceptanceAgeMillisecondsMax`` ago.
///
/// Responses that say nothing about the service do not count (``noteResponse(_:concernsOnlyBroadcasts:now:)``).
///
/// The second rule is for many pushes at once: their first responses are refusals, because APNs refuses a stream sooner
/// than it accepts a push. The limit of the age ends such retries soon after a sudden outage begins.
///
/// If the pool sent nothing for ``idleMillisecondsMin``, one retry may test whether APNs works again.
public struct RetryPermission: Sendable {
    public static let idleMillisecondsMin: Int64 = 1_000
    public static let recentResponsesMax = 20
    public static let acceptedResponsesMin = 10
    public static let periodMilliseconds: Int64 = 5_000
    public static let acceptanceAgeMillisecondsMax: Int64 = 2_000

    /// The numbers of responses in one period of ``periodMilliseconds``. Not all responses count
    /// (``noteResponse(_:concernsOnlyBroadcasts:now:)``).
    private struct ResponseCounts {
        var acceptedCount: UInt32 = 0
        var delayedCount: UInt32 = 0
    }

    /// The last responses that count, one bit for each: 1 if APNs accepted the push; the newest is the lowest bit. The
    /// type must have at least ``recentResponsesMax`` bits.
    private var recentResponseBits: UInt32 = 0
    private var currentPeriod = ResponseCounts()
    private var previousPeriod = ResponseCounts()
    /// When the current period ends, a monotonic time. Before the first response it is long past, but not `.min`:
    /// `beginPeriod` subtracts it from the current time, which must not overflow.
    private var currentPeriodEndMilliseconds = Int64.min / 2
    // When APNs last accepted a push, and when the pool last sent one, monotonic times; `.min`: never.
    private var lastAcceptedAtMilliseconds = Int64.min
    private var lastSentAtMilliseconds = Int64.min

    public init() {}

    /// Whether a retry may be sent now.
    ///
    /// - Parameter isWithinBudget: whether the pool's retry budget permits a retry.
    public func permitsRetry(isWithinBudget: Bool, now: Moment) -> Bool {
        isWithinBudget || recentResponseBits.nonzeroBitCount >= Self.acceptedResponsesMin
            || areHalfOfResponsesAccepted(now: now)
            || lastSentAtMilliseconds <= now.monotonicMilliseconds - Self.idleMillisecondsMin
    }

    private func areHalfOfResponsesAccepted(now: Moment) -> Bool {
        let acceptedCount = currentPeriod.acceptedCount &+ previousPeriod.acceptedCount
        return acceptedCount >= Self.acceptedResponsesMin
            && acceptedCount >= currentPeriod.delayedCount &+ previousPeriod.delayedCount
            && lastAcceptedAtMilliseconds >= now.monotonicMilliseconds - Self.acceptanceAgeMillisecondsMax
    }

    /// Notes that the pool has sent a push, as a first attempt or as a retry.
    public mutating func noteSentPush(now: Moment) { lastSentAtMilliseconds = now.monotonicMilliseconds }

    /// Notes how a push of the pool ended.
    ///
    /// - Parameter concernsOnlyBroadcasts: whether the response refuses a broadcast for something that the pool's
    ///   pushes to devices do not have, such as the path. Such a response does not count: otherwise retries of pushes
    ///   to devices would wait although APNs accepts these pushes.
    public mutating func noteResponse(
        _ disposition: PushResult.Disposition,
        concernsOnlyBroadcasts: Bool = false,
        now: Moment
    ) {
        guard !concernsOnlyBroadcasts else { return }
        switch disposition {
        case .accepted: addResponse(isAccepted: true, now: now)
        case .retrySoon, .retryLater, .ambiguous: addResponse(isAccepted: false, now: now)
        // Count these responses neither for nor against retries, because they say nothing about the service: they
        // concern the push, its token or the configuration.
        case .throttled, .tokenDead, .tokenSuspect, .topicSuspect, .channelGone, .rejected: break
        }
    }

    private mutating func addResponse(isAccepted: Bool, now: Moment) {
        recentResponseBits =
            (recentResponseBits << 1 | (isAccepted ? 1 : 0)) & (1 << UInt32(Self.recentResponsesMax) - 1)
        if now.monotonicMilliseconds >= currentPeriodEndMilliseconds { beginPeriod(now: now) }
        if isAccepted {
            currentPeriod.acceptedCount &+= 1
            lastAcceptedAtMilliseconds = now.monotonicMilliseconds
        } else {
            currentPeriod.delayedCount &+= 1
        }
    }

    /// Begins a new period. The old one becomes the previous period, unless it ended at least ``periodMilliseconds``
    /// ago: then the previous period counts as empty.
    private mutating func beginPeriod(now: Moment) {
        let isNextPeriod = now.monotonicMilliseconds - currentPeriodEndMilliseconds < Self.periodMilliseconds
        previousPeriod = isNextPeriod ? currentPeriod : ResponseCounts()
        currentPeriod = ResponseCounts()
        currentPeriodEndMilliseconds = now.monotonicMilliseconds + Self.periodMilliseconds
    }
}
