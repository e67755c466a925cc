import Reactor

/// Replies that are withheld until replicas have acknowledged what their calls wrote.
///
/// WAIT is written behind all calls of a turn, of which one or more ask for it. From the first of these on, what the server answers stays
/// unread until WAIT's own reply is there, so that replies keep their order and nothing is copied. The server answers nothing behind a WAIT
/// before the WAIT itself: what stays unread are the replies to the calls of one turn.
extension RedisConnection {
    /// Replicas get this part of the time in which a call must be answered: the reply may wait for two WAITs, the one before and its own.
    private static let partOfDeadline: Int64 = 10

    /// The command. Empty if no acknowledgement is asked for.
    static func replicaWait(_ configuration: RedisConfiguration) -> [UInt8] {
        guard configuration.replicas > 0 else { return [] }
        let milliseconds = max(1, configuration.responseDeadlineMilliseconds / partOfDeadline)
        var command: [UInt8] = []
        _ = withCommandText(["WAIT", String(configuration.replicas), String(milliseconds)]) { command = Array($0) }
        return command
    }

    /// Calls that ask for the replicas' acknowledgement may be made. If not, all of them wait, and are asked for again in about a second.
    public var takesAcknowledgedCalls: Bool {
        replicaWait.isEmpty || replicaWatch.takesCalls(nowMilliseconds: loop.nowMilliseconds)
    }

    /// - Returns: whether the reply is to be withheld.
    func noteCall(asksForReplicas: Bool) -> Bool {
        guard asksForReplicas, !replicaWait.isEmpty else { return false }
        return replicaWatch.noteCall(nowMilliseconds: loop.nowMilliseconds)
    }

    /// Behind all that the turn has written.
    func askReplicas() {
        guard !replicaWait.isEmpty, state == .ready, let stream, replicaWatch.asks() else { return }
        replicaWait.withUnsafeBytes { stream.write($0) }
        append(.waitForReplicas, batchCount: 1)
    }

    /// Whether the next reply is to stay unread. If not, and its call was withheld, `areReplicasEnough` says what WAIT was answered.
    func isNextReplyWithheld(in reader: ReplyReader) -> Bool {
        guard !replicaWait.isEmpty, let call = outstanding.oldest, call.awaitsReplicas, areReplicasEnough == nil else {
            return false
        }
        while withheld.position < outstanding.count {
            let command = outstanding[withheld.position]
            // What was not written yet has no reply.
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

    /// The oldest calls, which left as one command, were made, but too few replicas have what they wrote.
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
        // What was written meanwhile is to be asked about.
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

/// How far the replies that stay unread have been looked through for WAIT's.
struct WithheldReplies {
    /// From the first unread byte.
    var offset = 0
    /// The call or command whose reply stands there, from the oldest on.
    var position = 0
}
