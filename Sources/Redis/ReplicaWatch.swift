/// Decides whether calls wait for replicas, depending on whether the replicas keep up.
///
/// Does no I/O: the connection writes WAIT and reports the answer. While a server waits for its replicas it does
/// nothing else for this connection, so replicas that do not keep up are asked seldom.
struct ReplicaWatch {
    enum State: Equatable {
        /// Replies are withheld until the replicas have acknowledged.
        case following
        /// Too few replicas acknowledged. No calls are taken, except now and then to ask again.
        case missing
        /// Too few replicas acknowledged for so long that calls are answered without them.
        case givenUp
    }

    /// A change that an operator should know.
    enum Change: Equatable {
        /// Too few replicas acknowledged.
        case missing(isGivenUp: Bool)
        /// Enough replicas acknowledge again.
        case following
    }

    /// How long calls wait for missing replicas before they are answered without them. Without this limit, waiting
    /// registrations would fill the lane and stop the commands behind them.
    static let patienceMilliseconds: Int64 = 10_000
    /// The time between two WAITs: while calls wait for replicas, and after replicas were given up.
    static let missingPauseMilliseconds: Int64 = 1_000
    static let givenUpPauseMilliseconds: Int64 = 10_000

    private(set) var state = State.following
    /// Whether a WAIT is outstanding.
    private(set) var isAsking = false
    /// Whether a call that needs a WAIT was written since the last one.
    private var hasUnasked = false
    private var missingSinceMilliseconds: Int64 = 0
    private var askDueMilliseconds: Int64 = 0

    /// Whether a call that requests replicas may be issued.
    func takesCalls(nowMilliseconds: Int64) -> Bool {
        state != .missing || (!isAsking && nowMilliseconds >= askDueMilliseconds)
    }

    /// Notes that a call that requests replicas is being written.
    ///
    /// - Returns: whether its reply must be withheld until WAIT is answered.
    mutating func noteCall(nowMilliseconds: Int64) -> Bool {
        guard state == .givenUp else {
            hasUnasked = true
            return true
        }
        if !isAsking, nowMilliseconds >= askDueMilliseconds { hasUnasked = true }
        return false
    }

    /// Whether to write WAIT now, behind all calls; if so, it counts as written. Only one WAIT is outstanding at a
    /// time, since each further one would block the connection for its own timeout.
    mutating func beginAskingIfNeeded() -> Bool {
        guard hasUnasked, !isAsking else { return false }
        (hasUnasked, isAsking) = (false, true)
        return true
    }

    /// Takes the answer to WAIT.
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

    /// The connection was lost, and with it the outstanding WAIT.
    mutating func noteLost() {
        (isAsking, hasUnasked) = (false, false)
    }
}
