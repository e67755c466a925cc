/// Whether replicas keep up, and so what becomes of calls that ask for their acknowledgement.
///
/// Decides only: the connection writes WAIT, and tells what it was answered. A server that is asked stands still for this connection until
/// replicas have answered or their time is over, so replicas that do not keep up are asked seldom.
struct ReplicaWatch {
    enum State: Equatable {
        /// Replies are withheld until the replicas have acknowledged.
        case following
        /// Too few have acknowledged. Calls are not taken, except now and then to ask again.
        case missing
        /// Too few for so long that calls are answered without them.
        case givenUp
    }

    /// What an operator should hear of.
    enum Change: Equatable {
        /// Too few acknowledged.
        case missing(isGivenUp: Bool)
        /// Enough do again.
        case following
    }

    /// How long calls wait for replicas that are missing, before they are answered without them.
    static let patienceMilliseconds: Int64 = 10_000
    /// Between two questions while calls wait for them, and afterwards.
    static let missingPauseMilliseconds: Int64 = 1_000
    static let givenUpPauseMilliseconds: Int64 = 10_000

    private(set) var state = State.following
    /// A WAIT has no reply yet.
    private(set) var isAsking = false
    /// A call was written since the last WAIT that needs one.
    private var hasUnasked = false
    private var missingSinceMilliseconds: Int64 = 0
    private var askDueMilliseconds: Int64 = 0

    /// Whether a call that asks for acknowledgement may be made.
    func takesCalls(nowMilliseconds: Int64) -> Bool {
        state != .missing || (!isAsking && nowMilliseconds >= askDueMilliseconds)
    }

    /// A call that asks for acknowledgement is being written.
    /// - Returns: whether its reply is to be withheld until WAIT is answered.
    mutating func noteCall(nowMilliseconds: Int64) -> Bool {
        guard state == .givenUp else {
            hasUnasked = true
            return true
        }
        if !isAsking, nowMilliseconds >= askDueMilliseconds { hasUnasked = true }
        return false
    }

    /// Whether WAIT is to be written now, behind all calls; it counts as written then. One at a time, or those behind it would each hold up
    /// the connection for their own time.
    mutating func asks() -> Bool {
        guard hasUnasked, !isAsking else { return false }
        (hasUnasked, isAsking) = (false, true)
        return true
    }

    /// WAIT was answered.
    mutating func answered(isEnough: Bool, nowMilliseconds: Int64) -> Change? {
        isAsking = false
        guard !isEnough else {
            let wasFollowing = state == .following
            state = .following
            return wasFollowing ? nil : .following
        }
        if state == .following { (state, missingSinceMilliseconds) = (.missing, nowMilliseconds) }
        if nowMilliseconds - missingSinceMilliseconds >= Self.patienceMilliseconds { state = .givenUp }
        let isGivenUp = state == .givenUp
        askDueMilliseconds =
            nowMilliseconds + (isGivenUp ? Self.givenUpPauseMilliseconds : Self.missingPauseMilliseconds)
        return .missing(isGivenUp: isGivenUp)
    }

    /// The connection was lost, and what was written with it.
    mutating func noteLost() {
        (isAsking, hasUnasked) = (false, false)
    }
}
