/// Decides whether the replies to calls that need replicas (`needsReplicas`) stay unread until replicas have
/// acknowledged the calls' writes. The replies to the command WAIT say whether enough replicas acknowledge.
///
/// This type does no I/O: the connection writes WAIT and reports the reply. While a server waits for its replicas, it
/// replies to nothing else on this connection. So the connection sends WAIT seldom while too few replicas acknowledge.
struct ReplicaWatch {
    enum Phase: Equatable {
        /// The last WAIT found enough replicas, or no WAIT has a reply yet. The reply to a call that needs replicas
        /// stays unread until the next WAIT gets its reply.
        case acknowledging
        /// The last WAIT found too few replicas, so the connection refuses calls that need replicas. After a pause, it
        /// accepts such calls until it has sent the next WAIT. This WAIT shows whether the replicas are back.
        case missing
        /// WAIT has found too few replicas for at least ``missingReplicasWaitMillisecondsMax``. Calls that need
        /// replicas are accepted again, and their replies no longer wait for an acknowledgement.
        case givenUp
    }

    /// What the connection reports after a reply to WAIT (``RedisReplicaStatus``).
    enum ReportedStatus: Equatable {
        /// Too few replicas acknowledged. Reported after each such reply, not only after the first.
        case missing(isGivenUp: Bool)
        /// Enough replicas acknowledge again. Reported once, after the first such reply.
        case acknowledging
    }

    /// How long calls wait for missing replicas before they get their replies without an acknowledgement.
    /// Without this limit, waiting registrations would fill the lane and block its commands.
    static let missingReplicasWaitMillisecondsMax: Int64 = 10_000
    /// The pause before the next WAIT. In the phase `missing` it is short, because calls that need replicas are refused
    /// meanwhile. In the phase `givenUp` it is long, because all calls go on, and a WAIT only delays their replies.
    static let pauseWhileMissingMilliseconds: Int64 = 1_000
    static let pauseAfterGivingUpMilliseconds: Int64 = 10_000

    private(set) var phase = Phase.acknowledging
    /// Whether the connection has sent a WAIT to which the server has not replied yet.
    private(set) var isWaitOutstanding = false
    /// Whether a call since the last WAIT needs a WAIT.
    private var needsWait = false
    /// When a WAIT on this connection first found too few replicas; nil while enough replicas acknowledge, and before
    /// the connection's first WAIT gets its reply.
    private var missingSinceMilliseconds: Int64?
    private var nextWaitAtMilliseconds: Int64 = 0

    /// Whether a call that needs replicas may be issued. Always true except in the phase `missing`. There it is false
    /// while a WAIT is outstanding, and during the pause after its reply.
    func acceptsCalls(nowMilliseconds: Int64) -> Bool {
        phase != .missing || (!isWaitOutstanding && nowMilliseconds >= nextWaitAtMilliseconds)
    }

    /// Notes that a call that needs replicas is being issued. Returns when the session gets the reply to the call:
    /// `atOnce` in the phase `givenUp`, `afterWait` in the others.
    mutating func noteIssuedCall(nowMilliseconds: Int64) -> ReplyHandling {
        guard phase == .givenUp else {
            needsWait = true
            return .afterWait
        }
        if !isWaitOutstanding, nowMilliseconds >= nextWaitAtMilliseconds { needsWait = true }
        return .atOnce
    }

    /// Begins a WAIT, if a call needs one and no WAIT is outstanding. A second outstanding WAIT would block the
    /// connection for one more timeout.
    ///
    /// - Returns: whether the connection must write the WAIT now, after all calls.
    mutating func beginWaitIfNeeded() -> Bool {
        guard needsWait, !isWaitOutstanding else { return false }
        (needsWait, isWaitOutstanding) = (false, true)
        return true
    }

    /// Handles the reply to WAIT.
    ///
    /// - Returns: what to report; nil if enough replicas acknowledged, now and before.
    mutating func handleWaitReply(hasEnoughReplicas: Bool, nowMilliseconds: Int64) -> ReportedStatus? {
        isWaitOutstanding = false
        guard !hasEnoughReplicas else {
            let wasAcknowledging = phase == .acknowledging
            (phase, missingSinceMilliseconds) = (.acknowledging, nil)
            return wasAcknowledging ? nil : .acknowledging
        }
        if phase == .acknowledging { phase = .missing }
        let sinceMilliseconds = missingSinceMilliseconds ?? nowMilliseconds
        missingSinceMilliseconds = sinceMilliseconds
        if nowMilliseconds - sinceMilliseconds >= Self.missingReplicasWaitMillisecondsMax { phase = .givenUp }
        let isGivenUp = phase == .givenUp
        nextWaitAtMilliseconds =
            nowMilliseconds + (isGivenUp ? Self.pauseAfterGivingUpMilliseconds : Self.pauseWhileMissingMilliseconds)
        return .missing(isGivenUp: isGivenUp)
    }

    /// Resets the watch, because the connection was lost or closed.
    ///
    /// The next connection may be to another server, so calls wait for the replicas of this server for the full
    /// ``missingReplicasWaitMillisecondsMax`` again. For this, the phase `givenUp` becomes `missing`. It does not
    /// become `acknowledging`: then ``handleWaitReply(hasEnoughReplicas:nowMilliseconds:)`` would not report that
    /// enough replicas acknowledge again.
    mutating func handleLostConnection() {
        (isWaitOutstanding, needsWait) = (false, false)
        if phase == .givenUp { phase = .missing }
        (missingSinceMilliseconds, nextWaitAtMilliseconds) = (nil, 0)
    }
}
