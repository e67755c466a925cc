/// Decides whether a call that needs replicas must wait for them, and when the connection sends the command WAIT. The
/// reply to WAIT says how many replicas have all earlier writes of the connection.
///
/// While WAIT waits for replicas, the server replies to nothing else on this connection. So WAIT is sent seldom if too
/// few replicas acknowledge.
struct ReplicaWatch {
    enum Phase: Equatable {
        /// The last WAIT found enough replicas, or no WAIT has a reply yet. The reply to a call that needs replicas
        /// stays unread until the next WAIT has its reply.
        case acknowledging
        /// The last WAIT found too few replicas, so calls that need replicas are refused. After a pause of 1 s they are
        /// accepted until the next WAIT is sent, which shows whether the replicas are back.
        case missing
        /// WAIT has found too few replicas for at least 10 s (``missingReplicasWaitMillisecondsMax``). Calls that need
        /// replicas are accepted again, but their replies no longer wait for an acknowledgement.
        case givenUp
    }

    /// What the connection reports after a reply to WAIT (``RedisReplicaStatus``).
    enum ReportedStatus: Equatable {
        /// Too few replicas have acknowledged. Reported after each WAIT with this result.
        case missing(isGivenUp: Bool)
        /// Enough replicas acknowledge again. Reported only after the first WAIT with this result.
        case acknowledging
    }

    /// How long calls wait for missing replicas. Then they get their replies without an acknowledgement, because
    /// waiting registrations would otherwise fill the lane and block its commands.
    static let missingReplicasWaitMillisecondsMax: Int64 = 10_000
    /// The pauses before the next WAIT. In the phase `missing` the pause is short, because calls that need replicas are
    /// refused meanwhile. In `givenUp` it is long, because no call waits for replicas, and a WAIT only delays replies.
    static let pauseWhileMissingMilliseconds: Int64 = 1_000
    static let pauseAfterGivingUpMilliseconds: Int64 = 10_000

    private(set) var phase = Phase.acknowledging
    /// Whether the connection has sent a WAIT to which the server has not replied yet.
    private(set) var isWaitCommandOutstanding = false
    /// Whether the connection must still send a WAIT for a call that was issued.
    private var needsWaitCommand = false
    /// Since when replicas are missing: when a WAIT on this connection first found too few. Nil while enough
    /// acknowledge, and before the connection's first WAIT has its reply.
    private var missingSinceMilliseconds: Int64?
    private var nextWaitCommandAtMilliseconds: Int64 = 0

    /// Whether a call that needs replicas may be issued. False only in the phase `missing`: while a WAIT is
    /// outstanding, and during the pause after its reply.
    func acceptsCalls(nowMilliseconds: Int64) -> Bool {
        phase != .missing || (!isWaitCommandOutstanding && nowMilliseconds >= nextWaitCommandAtMilliseconds)
    }

    /// Notes that a call that needs replicas is being issued. Returns `atOnce` in the phase `givenUp`, because replies
    /// no longer wait for replicas then, and `afterWaitCommand` in the other phases.
    mutating func noteIssuedCall(nowMilliseconds: Int64) -> ReplyTiming {
        guard phase == .givenUp else {
            needsWaitCommand = true
            return .afterWaitCommand
        }
        if !isWaitCommandOutstanding, nowMilliseconds >= nextWaitCommandAtMilliseconds { needsWaitCommand = true }
        return .atOnce
    }

    /// Notes that the connection sends WAIT now, if a call needs it and no WAIT is outstanding. (A second one would
    /// block the connection for one more timeout.)
    ///
    /// - Returns: whether the connection must write WAIT now, after all calls.
    mutating func beginWaitCommandIfNeeded() -> Bool {
        guard needsWaitCommand, !isWaitCommandOutstanding else { return false }
        (needsWaitCommand, isWaitCommandOutstanding) = (false, true)
        return true
    }

    /// Handles the reply to WAIT.
    ///
    /// - Returns: what to report; nil if enough replicas acknowledged, now and before.
    mutating func handleWaitCommandReply(hasEnoughReplicas: Bool, nowMilliseconds: Int64) -> ReportedStatus? {
        isWaitCommandOutstanding = false
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
        nextWaitCommandAtMilliseconds =
            nowMilliseconds + (isGivenUp ? Self.pauseAfterGivingUpMilliseconds : Self.pauseWhileMissingMilliseconds)
        return .missing(isGivenUp: isGivenUp)
    }

    /// Resets the watch, because the connection was lost or closed. The next connection may lead to another server, so
    /// calls wait again for up to ``missingReplicasWaitMillisecondsMax``.
    ///
    /// The phase `givenUp` becomes `missing`, not `acknowledging`: the return of the replicas must still be reported
    /// (``ReportedStatus/acknowledging``).
    mutating func handleLostConnection() {
        (isWaitCommandOutstanding, needsWaitCommand) = (false, false)
        if phase == .givenUp { phase = .missing }
        (missingSinceMilliseconds, nextWaitCommandAtMilliseconds) = (nil, 0)
    }
}
