import LiveActivity

/// The scripts' side of the core: calls go out in order, and a call that failed in passing goes out again (each is idempotent).
extension Delivery {
    /// How long no call is made after Redis refused one for a reason that passes (memory full, loading, busy).
    static var redisRefusalPauseMilliseconds: Int64 { 100 }

    /// The next call to be made, or nil if there is none now. It stays first until `redisCallTaken`.
    public func nextRedisCall(now: Moment) -> RedisCall? {
        guard redisBlockedUntilMilliseconds <= now.monotonicMilliseconds else { return nil }
        return redisCalls.first
    }

    public mutating func redisCallTaken() {
        redisBlockedUntilMilliseconds = .min
        precondition(redisCalls.popFirst() != nil)
    }

    /// The next call cannot be made now, though others can: it goes behind them.
    public mutating func redisCallPostponed() {
        guard let call = redisCalls.popFirst() else { preconditionFailure("no call is to be made") }
        redisCalls.append(call)
    }

    /// A call got no reply, since the connection was lost, or was refused for a reason that passes: it goes out again.
    /// - Parameter pauses: Redis answered, and is likely to refuse the next call too.
    public mutating func redisFailed(_ call: RedisCall, pauses: Bool, now: Moment) {
        if pauses {
            redisBlockedUntilMilliseconds = now.monotonicMilliseconds + Self.redisRefusalPauseMilliseconds
        }
        // A draw may have been given back already: one start too few is better than one too many.
        if call.kind == .refundStart { return acknowledge(call.record) }
        redisCalls.append(call)
    }

    /// Redis refused a call for a reason that no repetition mends. The command fails, with `reason`; what was only bookkeeping is let go.
    public mutating func redisRefused(_ call: RedisCall, reason: UnsafeRawBufferPointer, now: Moment) {
        if call.kind.isAwaited { recordsAwaitingRedis -= 1 }
        acknowledge(call.record)
        switch call.kind {
        case .address, .admit, .hold:
            records[call.record].setReason(reason)
            finishCurrent(call, .failed, now: now)
        case .register: finishSilently(call.record)
        case .unregisterActivity, .unregisterDevice: unregistered(call.record)
        case .limit: limited(call.record, now: now)
        case .settle, .settleDevice, .refundStart: break
        }
    }

    /// A script answered. The call is no longer outstanding when its reply is acted upon, so that a record may be let go by it.
    public mutating func redisReplied(_ call: RedisCall, _ reply: ScriptReply, now: Moment) {
        if call.kind.isAwaited { recordsAwaitingRedis -= 1 }
        acknowledge(call.record)
        switch call.kind {
        case .address: addressed(call, reply, now: now)
        case .admit: admitted(call, reply, now: now)
        case .hold: held(call, reply, now: now)
        case .register: registered(call.record, reply, now: now)
        case .unregisterActivity, .unregisterDevice: unregistered(call.record)
        case .limit: limited(call.record, now: now)
        case .settle, .settleDevice, .refundStart: break
        }
    }

    /// A tombstone is done with the last of its calls.
    private mutating func unregistered(_ record: UInt32) {
        if records[record].acknowledgementsOutstanding == 0 { finishSilently(record) }
    }

    /// A token registered. What was held for it goes on as if it had come with the registration's record, which is settled with it.
    private mutating func registered(_ record: UInt32, _ reply: ScriptReply, now: Moment) {
        guard reply.verdict == .registered, reply.heldCommand.count > 0 else { return finishSilently(record) }
        // Left to the next owner, who may be this lane: what waits here must not be taken for what comes then.
        if isRevoked(record) { return abandon(record, now: now) }
        do throws(Fault) {
            let command = try Command.decode(reply.heldCommand)
            let slot = records[record]
            // A policy that is not configured any more is no reason to lose a state that was accepted once.
            records[record].policy =
                policy(of: command, of: slot.application, in: reply.heldCommand)
                ?? UInt8(truncatingIfNeeded: configuration.applications[Int(slot.application)].policy)
            fill(record, with: command, from: reply.heldCommand, trace: slot.bytes(slot.trace))
            arena.free(slot.block)
            arena.free(slot.content)
            // The token that was held for is in Redis: the admission names it.
            records[record].suppliesToken = false
            enqueue(record, now: now)
            endBatch(now: now)
        } catch {
            // Only a hand other than ours can have put it there; the registration itself stands.
            finishSilently(record)
        }
    }
}
