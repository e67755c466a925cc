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
        case .register where records[call.record].stage == .current:
            registeredOvertaken(call.record, overtakenByHeld: false, now: now)
        case .register: settleWithoutResult(call.record)
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
        if records[record].acknowledgementsOutstanding == 0 { settleWithoutResult(record) }
    }
}
