import Kafka
import Redis

/// Restores Redis' register from `causeway.channels` after Redis has lost it.
///
/// A register without the mark of a restoring may lack entries. Nobody creates or deletes a channel, or says that there is none, before
/// the register is restored. So phones keep the channel that they know.
extension ChannelKeeper {
    /// How often a restoring begins from the start because the register has changed meanwhile.
    private static let restoringsMax = 8
    /// The pause after a restoring that failed.
    static let restoringPauseMilliseconds: Int64 = 5_000

    /// An audience's entry in the complete register.
    func entry(of audience: String, at site: AppEnvironment) throws(ChannelRefusal) -> ChannelEntry? {
        func find() throws(ChannelRefusal) -> (entry: ChannelEntry?, isRestored: Bool) {
            try asking { () throws(RedisError) in try register.find(site.place, audience: audience) }
        }
        let first = try find()
        guard first.entry == nil, !first.isRestored else { return first.entry }
        try restore([site])
        return try find().entry
    }

    /// Everything that the register has for a place, complete or not.
    func peek(_ site: AppEnvironment) throws(ChannelRefusal) -> Reconciliation.Known {
        let known = try asking { () throws(RedisError) in try register.known(site.place) }
        if known.isRestored { restoredPlaces.insert(site.place) }
        return known
    }

    /// Everything that the complete register has for a place.
    func known(_ site: AppEnvironment) throws(ChannelRefusal) -> Reconciliation.Known {
        let known = try peek(site)
        if known.isRestored { return known }
        try restore([site])
        return try peek(site)
    }

    /// Restores places that are in use and whose register Redis has lost: audiences that ask for no channel need theirs, too.
    func restoreLost() throws(ChannelRefusal) {
        try restore(sites.filter { $0.isDeclared || restoredPlaces.contains($0.place) })
    }

    /// Copies entries from the topic to the registers that are not complete, and announces them. Harmless in several processes at one time.
    func restore(_ sites: [AppEnvironment]) throws(ChannelRefusal) {
        for _ in 0..<Self.restoringsMax {
            var tokens: [Place: [UInt8]] = [:]
            for site in sites {
                tokens[site.place] = try asking { () throws(RedisError) in
                    guard try !register.isRestored(site.place) else { return nil }
                    return try register.beginRestoring(site.place)
                }
                if tokens[site.place] == nil { restoredPlaces.insert(site.place) }
            }
            guard !tokens.isEmpty else { return }
            let published = try published()
            for (place, token) in tokens {
                let entries = published.filter { $0.app == place.app && $0.environment == place.environment }
                // If this fails, the next pass restores what is not complete then.
                _ = try asking { () throws(RedisError) in
                    try register.restore(entries, place, token: token, atMilliseconds: now)
                }
            }
        }
        throw ChannelRefusal(
            text: "the register of channels changes while it is restored",
            untilMilliseconds: now + Self.restoringPauseMilliseconds
        )
    }

    /// What the topic has. If Kafka is away, only one request in a while waits for Kafka.
    private func published() throws(ChannelRefusal) -> [ChannelEntry] {
        if let restoringRefusal, now < restoringRefusal.untilMilliseconds { throw restoringRefusal }
        do throws(KafkaError) {
            return try topic.entries()
                .map { entry in
                    var entry = entry
                    entry.isPublished = true
                    return entry
                }
        } catch {
            let refusal = ChannelRefusal(
                text:
                    "the register of channels in Redis is not complete, and the channels cannot be read from Kafka: \(error)",
                untilMilliseconds: now + Self.restoringPauseMilliseconds
            )
            restoringRefusal = refusal
            throw refusal
        }
    }
}
