/// Whether a push may be sent again now, for one pool of a lane. Pure; time is an argument.
///
/// The pool's budget, a share of its first attempts, takes precedence. Only first attempts fill it, so beyond it:
/// - when nothing at all was sent for ``idleMilliseconds``, one retry goes, to see whether APNs is back;
/// - when ``acceptedMin`` of the last ``answersMax`` answers were *accepted*, every retry may go: APNs is back, or takes at least half of
///   what it is sent, so that all retries together at most double the load.
public struct RetryPermission: Sendable {
    public static let idleMilliseconds: Int64 = 1_000
    public static let answersMax = 20
    public static let acceptedMin = 10

    /// A bit for each of the last answers, 1 where it was *accepted*, the newest lowest.
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
        // These say something of the push or its token, not of APNs.
        case .limited, .tokenDead, .tokenSuspect, .topicSuspect, .channelGone, .rejected: break
        }
    }

    private mutating func note(isAccepted: Bool) {
        answers = (answers << 1 | (isAccepted ? 1 : 0)) & (1 << UInt32(Self.answersMax) - 1)
    }
}
