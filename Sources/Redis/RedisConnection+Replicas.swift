import Reactor

/// Withholds replies until replicas have acknowledged what the calls wrote.
///
/// WAIT is written after all calls of a turn if at least one of them asks for replicas. The replies from the
/// first such call on stay unread until WAIT's own reply has arrived. So replies keep their order, and
/// nothing is copied. The server answers no later call before the WAIT, so only the replies of one turn can
/// be unread.
extension RedisConnection {
    /// WAIT's timeout is the response deadline divided by this number, because a reply may wait for two
    /// WAITs: the previous turn's and its own.
    private static let partOfDeadline: Int64 = 10

    /// Builds the WAIT command. Empty if no acknowledgement is requested.
    static func replicaWait(_ configuration: RedisConfiguration) -> [UInt8] {
        guard configuration.replicas > 0 else { return [] }
        let milliseconds = max(1, configuration.responseDeadlineMilliseconds / partOfDeadline)
        var command: [UInt8] = []
        _ = withCommandText(["WAIT", String(configuration.replicas), String(milliseconds)]) { command = Array($0) }
        return command
    }

    /// Whether calls that request replicas may be issued. If not, the caller asks again in about a second.
    public var takesAcknowledgedCalls: Bool {
        replicaWait.isEmpty || replicaWatch.takesCalls(nowMilliseconds: loop.nowMilliseconds)
    }

    /// Records that a call is being written. Returns whether its reply must be withheld.
    func noteCall(asksForReplicas: Bool) -> Bool {
        guard asksForReplicas, !replicaWait.isEmpty else { return false }
        return replicaWatch.noteCall(nowMilliseconds: loop.nowMilliseconds)
    }

    /// Writes WAIT after all commands of the turn, if a call needs it.
    func askReplicas() {
        guard !replicaWait.isEmpty, state == .ready, let stream, replicaWatch.beginAskingIfNeeded() else { return }
        replicaWait.withUnsafeBytes { stream.write($0) }
        append(.waitForReplicas, batchCount: 1)
    }

    /// Whether the next reply must stay unread. If it was withheld and now may be read, `areReplicasEnough`
    /// has WAIT's result.
    func isNextReplyWithheld(in reader: ReplyReader) -> Bool {
        guard !replicaWait.isEmpty, let call = outstanding.oldest, call.awaitsReplicas, areReplicasEnough == nil else {
            return false
        }
        while withheld.position < outstanding.count {
            let command = outstanding[withheld.position]
            // A call that has not been written has no reply.
            guard command.batchCount > 0, let scanned = reader.unreadReply(at: withheld.offset) else { return true }
            if command.kind == .waitForReplicas {
                areReplicasEnough = scanned.integer.map { $0 >= Int64(configuration.replicas) } ?? false
                withheld = WithheldReplies()
                return false
            }
            withheld.offset = scanned.end
            withheld.position += Int(command.batchCount)
        }
        return true
    }

    /// Fails the calls of the oldest command. Redis has made these calls, but too few replicas have their
    /// writes.
    func takeUnacknowledged(_ count: Int, from reader: ReplyReader) {
        for _ in 0..<count {
            guard completeOldestCall(from: reader) else { return }
            session.failed(RedisError(.replicasMissing))
        }
    }

    func takeReplicaCount(_ reply: Reply) {
        areReplicasEnough = nil
        let count = reply.kind == .integer ? reply.integer : 0
        let isEnough = reply.kind == .integer && count >= Int64(configuration.replicas)
        let change = replicaWatch.answered(isEnough: isEnough, nowMilliseconds: loop.nowMilliseconds)
        // Calls that were written while this WAIT was outstanding need another WAIT.
        scheduleTurnEnd()
        switch change {
        case .following?: handler?.redisReplicas(.following)
        case .missing(let isGivenUp)?:
            let refusal = reply.kind == .error ? RedisError(reply: reply.bytes) : nil
            handler?.redisReplicas(.missing(acknowledged: Int(clamping: count), isGivenUp: isGivenUp, refusal))
        case nil: break
        }
    }
}

/// The progress of the search for WAIT's reply among the unread replies.
struct WithheldReplies {
    /// The offset from the first unread byte.
    var offset = 0
    /// The place of the call whose reply begins at `offset`, counted from the oldest call.
    var position = 0
}
