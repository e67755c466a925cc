import Reactor

/// Leaves the reply to a call unread until enough replicas have acknowledged the call's writes. The command WAIT shows
/// this: the server replies to it when enough replicas have all earlier writes of the connection, or after a timeout.
///
/// 1. At the end of the iteration, the connection writes WAIT after all calls. If an earlier WAIT has no reply yet, the
///    connection first waits for that reply.
/// 2. The reply to a call that needs replicas arrives. This reply and all later ones stay unread, so that the session
///    gets all replies in order.
/// 3. The reply to WAIT arrives. Now the connection reads the reply to the call. If too few replicas have acknowledged,
///    the call fails.
///
/// If replicas are missing for 10 s, ``ReplicaWatch`` gives up: no reply stays unread, but a WAIT is still sent from
/// time to time, to learn whether the replicas are back.
extension RedisConnection {
    /// The timeout of WAIT is the reply deadline divided by this number, by default 2 s / 10 = 200 ms. Before its
    /// deadline, a call may have to wait for two timeouts: of the WAIT that is under way, and of the next one.
    private static let waitCommandTimeoutDivisor: Int64 = 10

    /// Returns the WAIT command; empty if the configuration asks for no replicas.
    static func waitCommand(_ configuration: RedisConfiguration) -> [UInt8] {
        guard configuration.requiredReplicaCount > 0 else { return [] }
        let milliseconds = max(1, configuration.replyDeadlineMilliseconds / waitCommandTimeoutDivisor)
        var command: [UInt8] = []
        _ = withCommandText(["WAIT", String(configuration.requiredReplicaCount), String(milliseconds)]) {
            command = Array($0)
        }
        return command
    }

    /// Whether calls that need replicas may be issued now. If false, ask again in about a second.
    public var acceptsCallsThatNeedReplicas: Bool {
        waitCommand.isEmpty || replicaWatch.acceptsCalls(nowMilliseconds: loop.nowMilliseconds)
    }

    /// Notes that a call is being issued. Returns `afterWaitCommand` if the reply to the call must stay unread until
    /// replicas have acknowledged the call's writes, otherwise `atOnce`.
    func noteIssuedCall(needsReplicas: Bool) -> ReplyTiming {
        guard needsReplicas, !waitCommand.isEmpty else { return .atOnce }
        return replicaWatch.noteIssuedCall(nowMilliseconds: loop.nowMilliseconds)
    }

    /// Writes WAIT after all commands of the iteration, if a call since the last WAIT needs one and no WAIT is
    /// outstanding.
    func sendWaitCommandIfNeeded() {
        guard !waitCommand.isEmpty, phase == .ready, let stream, replicaWatch.beginWaitCommandIfNeeded() else { return }
        waitCommand.withUnsafeBytes { stream.write($0) }
        appendOutstandingCall(.waitForReplicas, commandCallCount: 1)
    }

    /// Returns whether the next reply must stay unread: its call needs replicas, and the reply to WAIT has not arrived.
    /// If the reply to WAIT has arrived, notes its result in `hasEnoughReplicas`.
    func findOutIfNextReplyIsWithheld(in reader: ReplyReader) -> Bool {
        guard !waitCommand.isEmpty, outstandingCalls.oldest?.awaitsReplicas == true, hasEnoughReplicas == nil else {
            return false
        }
        while waitReplySearch.callIndex < outstandingCalls.count {
            let outstandingCall = outstandingCalls[waitReplySearch.callIndex]
            // A call with the count 0 is not written yet. WAIT is written after it, so WAIT has no reply yet either.
            guard outstandingCall.commandCallCount > 0,
                let unreadReply = reader.findEndOfUnreadReply(at: waitReplySearch.offset)
            else {
                return true
            }
            if outstandingCall.kind == .waitForReplicas {
                hasEnoughReplicas = unreadReply.integer.map { $0 >= Int64(configuration.requiredReplicaCount) } ?? false
                waitReplySearch = WaitReplySearch()
                return false
            }
            waitReplySearch.offset = unreadReply.end
            waitReplySearch.callIndex += Int(outstandingCall.commandCallCount)
        }
        return true
    }

    /// Fails the calls of the oldest command with `replicasMissing`. Redis has performed the calls, but too few
    /// replicas have acknowledged their writes, or WAIT has failed.
    func failUnacknowledgedCalls(_ callCount: Int, from reader: ReplyReader) {
        for _ in 0..<callCount {
            guard completeOldestCall(from: reader) else { return }
            session.handleFailureOfOldestCall(RedisError(.replicasMissing))
        }
    }

    /// Handles the reply to WAIT: the number of replicas that have acknowledged, or an error.
    func handleReplicaCount(_ reply: Reply) {
        hasEnoughReplicas = nil
        let replicaCount = reply.kind == .integer ? reply.integer : 0
        let areEnough = reply.kind == .integer && replicaCount >= Int64(configuration.requiredReplicaCount)
        let reportedStatus = replicaWatch.handleWaitCommandReply(
            hasEnoughReplicas: areEnough,
            nowMilliseconds: loop.nowMilliseconds
        )
        // Calls that were issued after this WAIT may need another one, which is written at the end of the iteration.
        scheduleIterationEnd()
        switch reportedStatus {
        case .acknowledging?: handler?.redisReportedReplicas(.acknowledging)
        case .missing(let isGivenUp)?:
            let refusal = reply.kind == .error ? RedisError(reply: reply.bytes) : nil
            let acknowledgedCount = Int(clamping: replicaCount)
            handler?
                .redisReportedReplicas(.missing(acknowledgedCount: acknowledgedCount, isGivenUp: isGivenUp, refusal))
        case nil: break
        }
    }
}

/// How far the connection has searched the unread replies for the reply to WAIT.
struct WaitReplySearch {
    /// The offset of the next reply to look at, counted from the first unread byte.
    var offset = 0
    /// The index of the call whose reply begins at `offset`; 0 for the oldest call.
    var callIndex = 0
}
