/// Whether a push of one pool of a lane may be retried now. Pure; time is an argument. (R21)
///
/// The pool's budget, a share of its first attempts, takes precedence. Only first attempts fill the budget, so there are two more
/// ways:
/// - If nothing was sent for ``idleMilliseconds``, one retry goes, to see whether APNs is back.
/// - If ``acceptedMin`` of the last ``answersMax`` answers were *accepted*, every retry may go. APNs is back, or takes at least
///   half of what it is sent, so all retries together at most double the load.
public struct RetryPermission: Sendable {
    public static let idleMilliseconds: Int64 = 1_000
    public static let responsesMax = 20
    public static let acceptedMin = 10

    /// One bit for each of the last answers, 1 for *accepted*; the newest is the lowest bit.
    private var answers: UInt32 = 0
    private var sentMilliseconds = Int64.min

    public init() {}

    public func permitsRetry(isWithinBudget: Bool, now: Moment) -> Bool {
        isWithinBudget || answers.nonzeroBitCount >= Self.acceptedMin
            || sentMilliseconds <= now.monotonicMilliseconds - Self.idleMilliseconds
    }

    /// A push was handed to the pool.
    public mutating func sent(now: Moment) { sentMilliseconds = now.monotonicMilliseconds }

    public mutating func answered(_ disposition: PushResult.Disposition) {
        switch disposition {
        case .accepted: note(isAccepted: true)
        case .retryNow, .retryLater, .ambiguous: note(isAccepted: false)
        // These answers describe the push or its token, not APNs.
        case .limited, .tokenDead, .tokenSuspect, .topicSuspect, .channelGone, .rejected: break
        }
    }

    private mutating func note(isAccepted: Bool) {
        answers = (answers << 1 | (isAccepted ? 1 : 0)) & (1 << UInt32(Self.responsesMax) - 1)
    }
}
