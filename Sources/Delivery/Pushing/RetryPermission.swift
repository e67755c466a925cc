/// Whether a push may be sent again now, for one pool of a lane. Pure; time is an argument.
///
/// The pool's budget, a share of its first attempts, takes precedence. Only first attempts fill it, so beyond it:
/// - when nothing at all was sent for ``idleMilliseconds``, one retry goes, to see whether APNs is back;
/// - when the last ``acceptedInRowMin`` answers were all *accepted*, APNs is back, and every retry may go.
public struct RetryPermission: Sendable {
    public static let idleMilliseconds: Int64 = 1_000
    public static let acceptedInRowMin = 10

    private var acceptedInRow = 0
    private var sentMilliseconds = Int64.min

    public init() {}

    public func permitsRetry(isWithinBudget: Bool, now: Moment) -> Bool {
        isWithinBudget || acceptedInRow >= Self.acceptedInRowMin
            || sentMilliseconds <= now.monotonicMilliseconds - Self.idleMilliseconds
    }

    /// A push was handed to the pool.
    public mutating func sent(now: Moment) { sentMilliseconds = now.monotonicMilliseconds }

    public mutating func answered(_ disposition: PushResult.Disposition) {
        switch disposition {
        case .accepted: acceptedInRow = min(acceptedInRow + 1, Self.acceptedInRowMin)
        case .retryNow, .retryLater, .ambiguous: acceptedInRow = 0
        // These say something of the push or its token, not of APNs.
        case .limited, .tokenDead, .tokenSuspect, .topicSuspect, .rejected: break
        }
    }
}
