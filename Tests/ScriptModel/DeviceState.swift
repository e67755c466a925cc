import Redis

/// The hash of a device: its push-to-start tokens, and the starts that wait for each.
public struct DeviceState: Hashable, Sendable, ExpiringState {
    public struct Slot: Hashable, Sendable {
        public internal(set) var token: ModelToken?
        public internal(set) var registeredAtMilliseconds: Int64?
        /// Oldest version first, one an activity.
        public internal(set) var held: [Start] = []
    }

    public struct Start: Hashable, Sendable {
        public var activity: String
        public var version: ScriptVersion
        public var command: [UInt8]
    }

    /// By attributes type.
    public internal(set) var slots: [String: Slot] = [:]
    /// When the bucket of starts will be full again; full since then if that is past.
    public internal(set) var fullAtMilliseconds: Int64 = 0
    /// All that was ever given back into it; nil: nothing was.
    public internal(set) var givenBackMilliseconds: Int64?
    public internal(set) var expiresAtMilliseconds: Int64?

    var registeredTypes: [String] { slots.filter { $0.value.registeredAtMilliseconds != nil }.map(\.key) }

    mutating func hold(_ type: String, _ start: Start, startsMax: Int) -> (ModelReply, Lifetime) {
        let slot = slots[type, default: Slot()]
        let others = slot.held.filter { $0.activity != start.activity }
        if slot.held.contains(where: { $0.activity == start.activity && $0.version > start.version }) {
            return (ModelReply(.superseded), .unchanged)
        }
        if slot.token != nil { return (ModelReply(.retry), .unchanged) }
        if others.count >= startsMax { return (ModelReply(.full), .unchanged) }
        let older = others.filter { $0.version <= start.version }
        slots[type, default: Slot()].held = older + [start] + others.filter { $0.version > start.version }
        return (ModelReply(.held), .renewed)
    }

    mutating func register(
        _ type: String,
        _ registration: ModelToken,
        after: HeldStartPlace?
    ) -> (ModelReply, Lifetime) {
        guard takes(type, registration) else { return (ModelReply(.stale), .unchanged) }
        var reply = ModelReply(.registered)
        reply.held = next(slots[type]?.held ?? [], after: after)
            .map { .init(version: $0.version, command: $0.command) }
        return (reply, .renewed)
    }

    /// After a start that is over, too: then it is the first that is not older.
    private func next(_ held: [Start], after: HeldStartPlace?) -> Start? {
        guard let after else { return held.first }
        let place = held.firstIndex { $0.version == after.version && $0.activity == after.activity }
        guard let place else { return held.first { $0.version >= after.version } }
        return held.dropFirst(place + 1).first
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
        reply.draw = min(
            fullAtMilliseconds + (givenBackMilliseconds ?? 0),
            TokenRegistration.registeredAtMillisecondsMax
        )
        return (reply, .renewed)
    }

    /// As far as the draw has not been refilled.
    mutating func refundStart(_ bucket: BucketNumbers, draw: Int64, now: Int64) {
        guard fullAtMilliseconds > 0 else { return }
        let given = givenBackMilliseconds ?? 0
        let back = min(bucket.intervalMilliseconds, draw - given - now)
        guard back > 0 else { return }
        fullAtMilliseconds = max(0, fullAtMilliseconds - back)
        givenBackMilliseconds = min(given + back, TokenRegistration.registeredAtMillisecondsMax)
    }

    mutating func settle(_ type: String, _ call: SettleCall) -> Bool {
        guard var slot = slots[type] else { return false }
        defer { slots[type] = slot }
        if call.outcome != .limited {
            slot.held.removeAll { $0.version == call.version && $0.activity == call.activity }
        }
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
