/// Decides whether calls wait for replicas, depending on whether the replicas keep up.
///
/// Does no I/O: the connection writes WAIT and reports the answer. A server that waits for its replicas does
/// nothing else for this connection. So WAIT is sent seldom while the replicas do not keep up.
struct ReplicaWatch {
    enum State: Equatable {
        /// Replies are withheld until the replicas have acknowledged.
        case following
        /// Too few replicas acknowledged. Calls that need replicas are refused, except after each pause, to
        /// send WAIT again.
        case missing
        /// Too few replicas acknowledged for longer than ``patienceMilliseconds``. Calls are answered without
        /// replicas.
        case givenUp
    }

    /// A change that an operator should know.
    enum Change: Equatable {
        /// Too few replicas acknowledged.
        case missing(isGivenUp: Bool)
        /// Enough replicas acknowledge again.
        case following
    }

    /// How long calls wait for missing replicas before they are answered without replicas. Without this
    /// limit, waiting registrations would fill the lane and block its commands.
    static let patienceMilliseconds: Int64 = 10_000
    /// The pauses between two WAITs: in the state `missing`, and in the state `givenUp`.
    static let missingPauseMilliseconds: Int64 = 1_000
    static let givenUpPauseMilliseconds: Int64 = 10_000

    private(set) var state = State.following
    /// Whether a WAIT is outstanding.
    private(set) var isAsking = false
    /// Whether a call that needs a WAIT was written since the last WAIT.
    private var hasUnasked = false
    /// When too few replicas first acknowledged; nil if no WAIT on this connection found that.
    private var missingSinceMilliseconds: Int64?
    private var askDueMilliseconds: Int64 = 0

    /// Whether a call that needs replicas may be issued.
    func takesCalls(nowMilliseconds: Int64) -> Bool {
        state != .missing || (!isAsking && nowMilliseconds >= askDueMilliseconds)
    }

    /// Call this when a call is written whose reply must wait until replicas have the write.
    ///
    /// - Returns: whether to withhold the reply until WAIT is answered; false if waiting for replicas was given
    ///   up.
    mutating func noteCall(nowMilliseconds: Int64) -> Bool {
        guard state == .givenUp else {
            hasUnasked = true
            return true
        }
        if !isAsking, nowMilliseconds >= askDueMilliseconds { hasUnasked = true }
        return false
    }

    /// Whether to write WAIT now, after all calls. If true, the caller must write it. Only one WAIT is
    /// outstanding at a time, because each further WAIT would block the connection for its own timeout.
    mutating func beginAskingIfNeeded() -> Bool {
        guard hasUnasked, !isAsking else { return false }
        (hasUnasked, isAsking) = (false, true)
        return true
    }

    /// Handles the answer to WAIT. Returns what to report; nil if enough replicas acknowledge as before.
    mutating func answered(isEnough: Bool, nowMilliseconds: Int64) -> Change? {
        isAsking = false
        guard !isEnough else {
            let wasFollowing = state == .following
            (state, missingSinceMilliseconds) = (.following, nil)
            return wasFollowing ? nil : .following
        }
        if state == .following { state = .missing }
        let since = missingSinceMilliseconds ?? nowMilliseconds
        missingSinceMilliseconds = since
        if nowMilliseconds - since >= Self.patienceMilliseconds { state = .givenUp }
        let isGivenUp = state == .givenUp
        askDueMilliseconds =
            nowMilliseconds + (isGivenUp ? Self.givenUpPauseMilliseconds : Self.missingPauseMilliseconds)
        return .missing(isGivenUp: isGivenUp)
    }

    /// Forgets the outstanding WAIT, because the connection was lost.
    ///
    /// The next connection may be to another server, whose replicas get the whole patience. A watch that does
    /// not follow stays so, to report that the replicas are back.
    mutating func noteLost() {
        (isAsking, hasUnasked) = (false, false)
        if state == .givenUp { state = .missing }
        (missingSinceMilliseconds, askDueMilliseconds) = (nil, 0)
    }
}
