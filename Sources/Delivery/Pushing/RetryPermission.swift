/// Decides whether one pool of a lane may retry a push now. Does no I/O; time is an argument. (R21)
///
/// A retry is sent if the pool's budget permits it. Only first attempts fill the budget, so the budget can stay empty
/// after an outage. Retries are therefore also permitted in two cases:
/// - If nothing was sent for ``idleMillisecondsMin``, one retry is sent, to test whether APNs works again.
/// - If at least ``acceptedResponsesMin`` of the last ``recentResponsesMax`` responses were *accepted*, every retry may
///   be sent. APNs then accepts at least half of the pushes, so all retries together at most double the load.
public struct RetryPermission: Sendable {
    public static let idleMillisecondsMin: Int64 = 1_000
    public static let recentResponsesMax = 20
    public static let acceptedResponsesMin = 10

    /// One bit for each of the last responses that count (``noteResponse(_:)``), 1 for *accepted*; the newest is the
    /// lowest bit. The type must have at least ``recentResponsesMax`` bits.
    private var recentResponseBits: UInt32 = 0
    private var lastSentAtMilliseconds = Int64.min

    public init() {}

    public func permitsRetry(isWithinBudget: Bool, now: Moment) -> Bool {
        isWithinBudget || recentResponseBits.nonzeroBitCount >= Self.acceptedResponsesMin
            || lastSentAtMilliseconds <= now.monotonicMilliseconds - Self.idleMillisecondsMin
    }

    public mutating func noteSentPush(now: Moment) { lastSentAtMilliseconds = now.monotonicMilliseconds }

    public mutating func noteResponse(_ disposition: PushResult.Disposition) {
        switch disposition {
        case .accepted: addResponse(isAccepted: true)
        case .retrySoon, .retryLater, .ambiguous: addResponse(isAccepted: false)
        // These responses concern the push, its token or the configuration, so they count neither for nor against
        // retries.
        case .throttled, .tokenDead, .tokenSuspect, .topicSuspect, .channelGone, .rejected: break
        }
    }

    private mutating func addResponse(isAccepted: Bool) {
        recentResponseBits =
            (recentResponseBits << 1 | (isAccepted ? 1 : 0)) & (1 << UInt32(Self.recentResponsesMax) - 1)
    }
}
