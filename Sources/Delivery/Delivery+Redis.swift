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

    /// A call got no reply, since the connection was lost, or was refused for a reason that passes: it goes out again.
    /// - Parameter pauses: Redis answered, and is likely to refuse the next call too.
    public mutating func redisFailed(_ call: RedisCall, pauses: Bool, now: Moment) {
        if pauses {
            redisBlockedUntilMilliseconds = now.monotonicMilliseconds + Self.redisRefusalPauseMilliseconds
        }
        redisCalls.append(call)
    }

    /// Redis refused a call for a reason that no repetition mends. The command fails, with `reason`; what was only bookkeeping is let go.
    public mutating func redisRefused(_ call: RedisCall, reason: UnsafeRawBufferPointer, now: Moment) {
        acknowledge(call.record)
        switch call.kind {
        case .address, .admit, .hold:
            records[call.record].setReason(reason)
            finishCurrent(call, .failed, now: now)
        case .register: finishSilently(call.record)
        case .unregisterActivity, .unregisterDevice: unregistered(call.record)
        case .settle, .settleDevice: break
        }
    }

    /// A script answered. The call is no longer outstanding when its reply is acted upon, so that a record may be let go by it.
    public mutating func redisReplied(_ call: RedisCall, _ reply: ScriptReply, now: Moment) {
        acknowledge(call.record)
        switch call.kind {
        case .address: addressed(call, reply, now: now)
        case .admit: admitted(call, reply, now: now)
        case .hold: held(call, reply, now: now)
        case .register: registered(call.record, reply, now: now)
        case .unregisterActivity, .unregisterDevice: unregistered(call.record)
        case .settle, .settleDevice: break
        }
    }

    /// A tombstone is done with the last of its calls.
    private mutating func unregistered(_ record: UInt32) {
        if records[record].acknowledgementsOutstanding == 0 { finishSilently(record) }
    }

    private mutating func addressed(_ call: RedisCall, _ reply: ScriptReply, now: Moment) {
        let activity = records[call.record].activity
        precondition(activities[activity].phase == .addressing && activities[activity].current == call.record)
        guard reply.verdict == .address else { return hold(call.record, of: activity) }
        setAddress(of: call.record, from: reply)
        activities[activity].phase = .admitting
        self.call(.admit, call.record)
    }

    private mutating func admitted(_ call: RedisCall, _ reply: ScriptReply, now: Moment) {
        let record = call.record
        let activity = records[record].activity
        precondition(activities[activity].phase == .admitting && activities[activity].current == record)
        records[record].admittedMilliseconds = now.wallMilliseconds
        switch reply.verdict {
        case .send: admittedToSend(record, of: activity, reply, now: now)
        case .wait:
            let pause = max(1, min(reply.number, configuration.spacingMilliseconds))
            rest(activity, until: now.monotonicMilliseconds + pause)
            putBackCurrent(of: activity)
            endTurn(activity, now: now)
        case .noToken:
            if isOvertaken(activity) {
                finishCurrent(call, .superseded, now: now)
            } else {
                hold(record, of: activity)
            }
        case .held: finishCurrent(call, .held, now: now)
        case .ended: finishCurrent(call, .ended, now: now)
        case .superseded: finishCurrent(call, .superseded, now: now)
        case .duplicate: finishCurrent(call, .duplicate, now: now)
        case .unchanged: finishCurrent(call, .unchanged, now: now)
        case .unknown:
            // Another record of this start was admitted, and nobody has said what came of it. From now on it is a duplicate.
            records[record].settlement = .unknown
            finishCurrent(call, .unknown, now: now)
        case .address, .retry, .registered, .stale, .unregistered, .settled:
            records[record].setReason("unexpected reply of the admit script")
            finishCurrent(call, .failed, now: now)
        }
    }

    private mutating func admittedToSend(_ record: UInt32, of activity: UInt32, _ reply: ScriptReply, now: Moment) {
        if records[record].event != .start { setAddress(of: record, from: reply) }
        rest(activity, until: now.monotonicMilliseconds + configuration.spacingMilliseconds)
        let slot = records[record]
        let pool = PoolIndex(application: slot.application, environment: slot.environment)
        let isTimestampValid = (Limits.timestampLeast...Limits.timestampMost).contains(reply.number)
        guard pools.hasPool(pool), slot.token.count > 0, isTimestampValid else {
            records[record].settlement = .final
            records[record]
                .setReason(
                    pools.hasPool(pool) ? "unexpected reply of the admit script" : "no key for this environment"
                )
            finish(record, .failed)
            return endTurn(activity, now: now)
        }
        records[record].sentTimestamp = reply.number
        setBodyTimestamp(reply.number, of: record)
        if records[record].expiration < 0 { records[record].expiration = defaultExpiration(of: slot.event, now: now) }
        records[record].apnsIdentifier = randomness.nextIdentifier()
        activities[activity].phase = .ready
        pools.appendReady(record, to: pool)
    }

    private func defaultExpiration(of event: Event, now: Moment) -> Int64 {
        switch event {
        case .start: now.wallSeconds + configuration.defaultExpiration.startSeconds
        case .update: now.wallSeconds + configuration.defaultExpiration.updateSeconds
        case .end: now.wallSeconds + configuration.defaultExpiration.endSeconds
        }
    }

    private mutating func setAddress(of record: UInt32, from reply: ScriptReply) {
        records[record].setToken(reply.token)
        records[record].environment = reply.environment
        records[record].registeredAtMilliseconds = reply.registeredAtMilliseconds
    }

    private func setBodyTimestamp(_ timestamp: Int64, of record: UInt32) {
        let slot = records[record]
        let body = UnsafeMutableRawBufferPointer(
            start: slot.block.base + Int(slot.body.offset),
            count: Int(slot.body.count)
        )
        Body.setTimestamp(timestamp, in: body, at: Int(slot.bodyTimestampOffset))
    }

    private mutating func hold(_ record: UInt32, of activity: UInt32) {
        // An attempt before this may have raised it. What is held must come back as the version that it is.
        setBodyTimestamp(records[record].version.timestamp, of: record)
        activities[activity].phase = .holding
        call(.hold, record)
    }

    private mutating func held(_ call: RedisCall, _ reply: ScriptReply, now: Moment) {
        let activity = records[call.record].activity
        precondition(activities[activity].phase == .holding && activities[activity].current == call.record)
        switch reply.verdict {
        case .held: finishCurrent(call, .held, now: now)
        case .superseded: finishCurrent(call, .superseded, now: now)
        // Another worker has sent it since it was admitted here.
        case .duplicate: finishCurrent(call, .duplicate, now: now)
        case .retry:
            // A token registered between the two calls.
            let isStart = records[call.record].event == .start
            activities[activity].phase = isStart ? .addressing : .admitting
            self.call(isStart ? .address : .admit, call.record)
        default:
            records[call.record].setReason("unexpected reply of the admit script")
            finishCurrent(call, .failed, now: now)
        }
    }

    /// A token registered. What was held for it goes on as if it had come with the registration's record, which is settled with it.
    private mutating func registered(_ record: UInt32, _ reply: ScriptReply, now: Moment) {
        guard reply.verdict == .registered, reply.heldCommand.count > 0 else { return finishSilently(record) }
        do throws(Fault) {
            let command = try Command.decode(reply.heldCommand)
            var slot = records[record]
            let registration = slot.block
            fill(&slot, with: command, from: reply.heldCommand)
            arena.free(registration)
            // The token that was held for is in Redis: the admission names it.
            slot.suppliesToken = false
            records[record] = slot
            enqueue(record, now: now)
            endBatch(now: now)
        } catch {
            // Only a hand other than ours can have put it there; the registration itself stands.
            finishSilently(record)
        }
    }

    mutating func rest(_ activity: UInt32, until monotonicMilliseconds: Int64) {
        activities[activity].restsUntilMilliseconds = max(
            activities[activity].restsUntilMilliseconds,
            monotonicMilliseconds
        )
    }

    private mutating func finishCurrent(_ call: RedisCall, _ outcome: Outcome, now: Moment) {
        let activity = records[call.record].activity
        precondition(activities[activity].current == call.record)
        finish(call.record, outcome)
        endTurn(activity, now: now)
    }
}
