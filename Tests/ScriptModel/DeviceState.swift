import Redis

/// The hash of a device: its push-to-start tokens, and the newest start that waits for each.
public struct DeviceState: Hashable, Sendable, ExpiringState {
    public struct Slot: Hashable, Sendable {
        public internal(set) var token: ModelToken?
        public internal(set) var registeredAtMilliseconds: Int64?
        public internal(set) var held: ModelReply.Held?
    }

    /// By attributes type.
    public internal(set) var slots: [String: Slot] = [:]
    /// When the bucket of starts will be full again; full since then if that is past.
    public internal(set) var fullAtMilliseconds: Int64 = 0
    public internal(set) var expiresAtMilliseconds: Int64?

    var registeredTypes: [String] { slots.filter { $0.value.registeredAtMilliseconds != nil }.map(\.key) }

    mutating func hold(_ type: String, _ version: ScriptVersion, _ command: [UInt8]) -> (ModelReply, Lifetime) {
        let slot = slots[type, default: Slot()]
        if let held = slot.held, held.version > version { return (ModelReply(.superseded), .unchanged) }
        if slot.token != nil { return (ModelReply(.retry), .unchanged) }
        slots[type, default: Slot()].held = .init(version: version, command: command)
        return (ModelReply(.held), .renewed)
    }

    mutating func register(_ type: String, _ registration: ModelToken, shows: ScriptVersion?) -> (ModelReply, Lifetime)
    {
        guard takes(type, registration) else { return (ModelReply(.stale), .unchanged) }
        var reply = ModelReply(.registered)
        if let held = slots[type]?.held {
            if let shows, shows >= held.version {
                slots[type]?.held = nil
            } else {
                reply.held = held
            }
        }
        return (reply, .renewed)
    }

    mutating func unregister(_ types: [String], at: Int64) -> (ModelReply, Lifetime) {
        if types.isEmpty { return (ModelReply(.unregistered), .unchanged) }
        let due = types.filter { at >= slots[$0]?.registeredAtMilliseconds ?? 0 }
        if due.isEmpty { return (ModelReply(.stale), .unchanged) }
        for type in due {
            slots[type, default: Slot()].token = nil
            slots[type, default: Slot()].registeredAtMilliseconds = at
        }
        return (ModelReply(.unregistered), .renewed)
    }

    mutating func address(_ type: String, _ bucket: BucketNumbers, _ registration: ModelToken?, now: Int64)
        -> (ModelReply, Lifetime)
    {
        var lifetime = Lifetime.unchanged
        if let registration, takes(type, registration) { lifetime = .renewed }
        guard let token = slots[type]?.token else { return (ModelReply(.noToken), lifetime) }
        if bucket.left(fullAt: fullAtMilliseconds, now: now) == 0 {
            var reply = ModelReply(.wait)
            reply.waitMilliseconds = fullAtMilliseconds - now - Int64(bucket.pushes - 1) * bucket.intervalMilliseconds
            return (reply, lifetime)
        }
        fullAtMilliseconds = bucket.drawn(fullAt: fullAtMilliseconds, now: now)
        var reply = ModelReply(.address)
        reply.token = token
        return (reply, .renewed)
    }

    mutating func refundStart(_ bucket: BucketNumbers) {
        fullAtMilliseconds = max(0, fullAtMilliseconds - bucket.intervalMilliseconds)
    }

    mutating func settle(_ type: String, _ call: SettleCall) -> Bool {
        guard var slot = slots[type] else { return false }
        defer { slots[type] = slot }
        if call.outcome != .limited, let version = call.version, slot.held?.version == version { slot.held = nil }
        guard let retirement = call.retirement, let token = slot.token, token.isRetired(by: retirement) else {
            return false
        }
        slot.token = nil
        slot.registeredAtMilliseconds = min(
            token.registeredAtMilliseconds + 1,
            TokenRegistration.registeredAtMillisecondsMax
        )
        return true
    }

    private mutating func takes(_ type: String, _ registration: ModelToken) -> Bool {
        guard registration.registeredAtMilliseconds >= slots[type]?.registeredAtMilliseconds ?? 0 else { return false }
        slots[type, default: Slot()].token = registration
        slots[type, default: Slot()].registeredAtMilliseconds = registration.registeredAtMilliseconds
        return true
    }
}
