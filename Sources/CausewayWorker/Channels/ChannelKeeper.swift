import APNs
import CausewayConfiguration
import Kafka
import LiveActivity
import Reactor
import Redis
import Synchronization

/// Keeps the channels of audiences: creates them, tells Redis and `causeway.channels` of them, deletes them, and reconciles all with APNs.
///
/// ``Reconciliation`` decides what is to be done about a difference, this asks APNs, Redis and Kafka and does it. To create has no idempotency
/// key, so an intent is written first; what is left of one is a channel that nobody knows, which a later reconciliation deletes. One process at a
/// time creates for an audience, by a lease.
package actor ChannelKeeper {
    typealias Place = ChannelRegister.Place

    /// An app in an environment whose channels are kept.
    struct Site: Sendable {
        var place: Place
        var storage: ChannelEntry.Storage
        var keepMilliseconds: Int64
        /// Some of its audiences get a channel without being asked, so that the topic is there.
        var isDeclared: Bool
        var management: ChannelManagement
    }

    /// Between two looks at what is due.
    static let tendingInterval = Duration.seconds(60)
    /// One worker at a time looks, and no other before the next look is due.
    static let tendingLeaseMilliseconds: Int64 = 55_000
    /// A whole reconciliation is due so long after the last.
    static let reconciliationMilliseconds: Int64 = 24 * 3_600_000
    /// Requests of lanes that are under way at a time.
    static let requestsMax = 16
    /// Between two looks for what another worker is creating.
    static let waitingInterval = Duration.milliseconds(100)
    /// Nobody asks again for so long after a trouble that passes by itself, and after another.
    private static let transientMilliseconds: Int64 = 60_000
    private static let lastingMilliseconds: Int64 = 600_000

    private let executor = BlockingExecutor(label: "channel keeper")
    nonisolated package var unownedExecutor: UnownedSerialExecutor { executor.asUnownedSerialExecutor() }

    let sites: [Site]
    let register: ChannelRegister
    let topic: ChannelTopic
    /// Longer than any creation takes: what is older has ended, whatever became of it.
    private let creationMilliseconds: Int64
    let note: @Sendable (ChannelNote) -> Void
    /// Entries seen at the last look, by place: when there are none any more, Redis has lost them.
    private var entryCounts: [Place: Int] = [:]
    /// Audiences whose channel could not be created: each of their commands asks, and APNs is not asked again before the time is over.
    private var refusals: [Refused: ChannelRefusal] = [:]
    private static let refusalsMax = 4_096
    /// Requests that are under way or wait for an earlier request of their audience, by audience: each audience's numbers, oldest first.
    var lines: [AudienceLine: [Int]] = [:]

    private struct Refused: Hashable {
        var place: Place
        var audience: String
    }

    init(
        sites: [Site],
        register: ChannelRegister,
        topic: ChannelTopic,
        timeoutMilliseconds: Int64,
        note: @escaping @Sendable (ChannelNote) -> Void
    ) {
        self.sites = sites
        self.register = register
        self.topic = topic
        // A list, then the creation, and the calls to Redis between.
        creationMilliseconds = 2 * timeoutMilliseconds + 5_000
        self.note = note
    }

    var now: Int64 { wallMilliseconds() }

    func site(_ place: Place) -> Site? { sites.first { $0.place == place } }

    // MARK: - Requests

    /// The channel of an audience, created if there is none.
    func ensure(
        _ audience: String,
        at site: Site,
        storage: ChannelEntry.Storage? = nil
    ) async throws(ChannelRefusal) -> ChannelEntry {
        let deadline = now + creationMilliseconds
        while true {
            if let entry = try asking({ () throws(RedisError) in try register.entry(site.place, audience: audience) }) {
                guard entry.state == .deleting else { return try settle(entry, isWanted: true) }
                try await delete(entry, at: site)
            }
            if let refusal = refusals[Refused(place: site.place, audience: audience)], now < refusal.untilMilliseconds {
                throw refusal
            }
            let isMine = try asking { () throws(RedisError) in
                try register.takeCreation(of: audience, site.place, milliseconds: creationMilliseconds)
            }
            if isMine { return try await create(audience, at: site, storage: storage ?? site.storage) }
            guard now < deadline else {
                throw ChannelRefusal(text: "another worker is creating it", untilMilliseconds: now)
            }
            // Another worker tells nobody when it is done but Redis.
            try? await Task.sleep(for: Self.waitingInterval)
        }
    }

    /// The lease of the audience is this process's.
    private func create(
        _ audience: String,
        at site: Site,
        storage: ChannelEntry.Storage
    ) async throws(ChannelRefusal) -> ChannelEntry {
        let place = site.place
        let intent = ChannelIntent(
            identifier: "\(now)-\(UInt64.random(in: .min ... .max))",
            audience: audience,
            createdAt: now,
            worker: ChannelProcess.name
        )
        var isOpen = false
        do {
            let listed = try await site.management.list()
            try noteForeign(listed, place)
            try register.write(intent, place)
            isOpen = true
            let channel = try await site.management.create(storesNewest: storage == .newest)
            let entry = ChannelEntry(
                app: place.app,
                environment: place.environment,
                audience: audience,
                channel: channel,
                storage: storage,
                createdAt: now
            )
            try register.write(entry)
            try register.remove([intent], place)
            try register.endCreation(of: audience, place)
            note(.created(entry))
            return try settle(entry, isWanted: true)
        } catch {
            let refusal = ChannelRefusal(
                error,
                untilMilliseconds: now
                    + (Self.isTransient(error) ? Self.transientMilliseconds : Self.lastingMilliseconds)
            )
            // Of a request that may have been carried out the intent stays, for the next reconciliation.
            let mayBeThere = (error as? ChannelError)?.cause == .ambiguous || !(error is ChannelError)
            if isOpen, !mayBeThere { try? register.remove([intent], place) }
            try? register.endCreation(of: audience, place)
            refusals = refusals.filter { now < $0.value.untilMilliseconds }
            if refusals.count < Self.refusalsMax { refusals[Refused(place: place, audience: audience)] = refusal }
            note(.refused(audience: audience, app: place.app, environment: place.environment, refusal.text))
            throw refusal
        }
    }

    /// Channels that are there before any attempt of ours is open are others'.
    private func noteForeign(_ listed: [String], _ place: Place) throws(RedisError) {
        let known = try register.known(place)
        guard known.intents.isEmpty else { return }
        let own = Set(known.entries.map(\.channel))
        try register.noteForeign(listed.filter { !own.contains($0) && !known.foreign.contains($0) }, place)
    }

    /// Sees to it that the topic and the audience's record say what the register says.
    ///
    /// - Parameter isWanted: a deletion that was planned is called off.
    @discardableResult
    func settle(_ entry: ChannelEntry, isWanted: Bool) throws(ChannelRefusal) -> ChannelEntry {
        var entry = entry
        let before = entry
        if isWanted { entry.deleteAfter = nil }
        if entry.isPublished != true {
            do throws(KafkaError) {
                try topic.publish(entry)
                entry.isPublished = true
            } catch {
                // The channel is good for broadcasts; the topic has it with a later look.
                note(.trouble("\(entry.topicKey) is not published yet: \(error)"))
            }
        }
        let settled = entry
        try asking { () throws(RedisError) in
            if settled != before { try register.write(settled) }
            try register.announce(settled)
        }
        return entry
    }

    /// Plans the deletion of an ended audience's channel. If another process is creating the channel, waits for its entry.
    func end(_ audience: String, at site: Site, storedUntilMilliseconds: Int64) async throws(ChannelRefusal) {
        let due = max(now + site.keepMilliseconds, storedUntilMilliseconds)
        let deadline = now + creationMilliseconds
        while true {
            let isOver = try asking { () throws(RedisError) in
                if var entry = try register.entry(site.place, audience: audience) {
                    guard entry.state == .active else { return true }
                    entry.deleteAfter = due
                    try register.write(entry)
                    return true
                }
                return try !register.isBeingCreated(audience, site.place)
            }
            guard !isOver, now < deadline, !Task.isCancelled else { return }
            try? await Task.sleep(for: Self.waitingInterval)
        }
    }

    /// APNs does not know a channel any more: another takes its place, unless another worker has seen to that.
    func replace(_ channel: String, of audience: String, at site: Site) async throws(ChannelRefusal) -> ChannelEntry {
        let entry = try asking { () throws(RedisError) in try register.entry(site.place, audience: audience) }
        guard let entry, entry.channel == channel else { return try await ensure(audience, at: site) }
        note(.lost(entry))
        try asking { () throws(RedisError) in try register.remove(entry) }
        var successor = try await ensure(audience, at: site, storage: entry.storage)
        if let due = entry.deleteAfter {
            // The audience has ended meanwhile, and its new channel must not stay for ever.
            successor.deleteAfter = due
            let planned = successor
            try asking { () throws(RedisError) in try register.write(planned) }
        }
        return successor
    }

    /// Deletes a channel at APNs, then everywhere. What a crash leaves of it is done by the next look.
    func delete(_ entry: ChannelEntry, at site: Site) async throws(ChannelRefusal) {
        var entry = entry
        entry.state = .deleting
        do {
            try register.write(entry)
            try register.withdraw(entry)
            try topic.publish(entry)
            try await site.management.delete(entry.channel)
            try topic.withdraw(entry)
            try register.remove(entry)
            note(.deleted(entry))
        } catch {
            throw ChannelRefusal(error, untilMilliseconds: now + Self.transientMilliseconds)
        }
    }

    // MARK: - Looks

    /// Everything that the register knows of a place.
    func known(_ place: Place) throws(ChannelRefusal) -> Reconciliation.Known {
        try asking { () throws(RedisError) in try register.known(place) }
    }

    /// What the topic has and Redis has not is written again: after a start, and when Redis has lost its register.
    func restore() throws(ChannelRefusal) {
        let published: [ChannelEntry]
        do throws(KafkaError) {
            published = try topic.entries()
        } catch {
            throw ChannelRefusal(error, untilMilliseconds: now + Self.transientMilliseconds)
        }
        for site in sites {
            let known = Set(try self.known(site.place).entries.map(\.audience))
            for var entry in published
            where entry.app == site.place.app && entry.environment == site.place.environment {
                if known.contains(entry.audience) { continue }
                entry.isPublished = true
                let restored = entry
                try asking { () throws(RedisError) in
                    try register.write(restored)
                    if restored.state == .active { try register.announce(restored) }
                }
            }
        }
    }

    /// Deletes what is due, publishes what is not, and once a day reconciles. One worker at a time does.
    func tend(_ site: Site) async throws(ChannelRefusal) {
        let before = entryCounts[site.place, default: 0]
        var known = try self.known(site.place)
        // Where no audience gets a channel and there has never been one, nothing is written, and APNs is not asked.
        guard site.isDeclared || before > 0 || !known.entries.isEmpty || !known.intents.isEmpty else { return }
        let isMine = try asking { () throws(RedisError) in
            try register.takeTurn("tend", site.place, milliseconds: Self.tendingLeaseMilliseconds)
        }
        guard isMine else { return }
        if known.entries.isEmpty, before > 0 {
            try restore()
            known = try self.known(site.place)
        }
        entryCounts[site.place] = known.entries.count
        note(.counted(app: site.place.app, environment: site.place.environment, channels: known.entries.count))
        for entry in known.entries {
            if entry.state == .deleting || entry.deleteAfter.map({ $0 <= now }) == true {
                try await delete(entry, at: site)
            } else if entry.isPublished != true {
                try settle(entry, isWanted: false)
            }
        }
        let isDaily = try asking { () throws(RedisError) in
            try register.takeTurn("daily", site.place, milliseconds: Self.reconciliationMilliseconds)
        }
        if isDaily { _ = try await reconcile(site, deletesUnknown: false) }
    }

    /// Holds APNs' list against what is known, and does what follows.
    func reconcile(_ site: Site, deletesUnknown: Bool) async throws(ChannelRefusal) -> Reconciliation {
        let listedAt = now
        let listed: [String]
        do throws(ChannelError) {
            listed = try await site.management.list()
        } catch {
            throw ChannelRefusal(error, untilMilliseconds: now + Self.transientMilliseconds)
        }
        let known = try self.known(site.place)
        var underWay: Set<String> = []
        for intent in known.intents {
            // The lease ends with the creation, and by itself when its process has died.
            let isLeased = try asking { () throws(RedisError) in
                try register.isBeingCreated(intent.audience, site.place)
            }
            if isLeased { underWay.insert(intent.identifier) }
        }
        let plan = Reconciliation(
            listed: listed,
            listedAtMilliseconds: listedAt,
            known: known,
            isUnderWay: { underWay.contains($0.identifier) },
            deletesUnknown: deletesUnknown,
            nowMilliseconds: now
        )
        note(.listed(app: site.place.app, environment: site.place.environment, channels: listed.count))
        try await carryOut(plan, known: known, at: site)
        return plan
    }

    private func carryOut(
        _ plan: Reconciliation,
        known: Reconciliation.Known,
        at site: Site
    ) async throws(ChannelRefusal) {
        for channel in plan.orphans {
            do throws(ChannelError) {
                try await site.management.delete(channel)
            } catch {
                throw ChannelRefusal(error, untilMilliseconds: now + Self.transientMilliseconds)
            }
            note(.orphanDeleted(channel: channel, app: site.place.app, environment: site.place.environment))
        }
        try asking { () throws(RedisError) in
            try register.forgetForeign(plan.orphans.filter(known.foreign.contains), site.place)
            try register.remove(plan.resolved, site.place)
            try register.noteForeign(plan.newlyForeign, site.place)
        }
        for entry in plan.due { try await delete(entry, at: site) }
        for entry in plan.unpublished { try settle(entry, isWanted: false) }
        for entry in plan.lost { _ = try await replace(entry.channel, of: entry.audience, at: site) }
        if !plan.unknown.isEmpty {
            note(.unknown(plan.unknown.count, app: site.place.app, environment: site.place.environment))
        }
    }

    private func asking<Value>(_ body: () throws(RedisError) -> Value) throws(ChannelRefusal) -> Value {
        do throws(RedisError) {
            return try body()
        } catch {
            throw ChannelRefusal(error, untilMilliseconds: now + Self.transientMilliseconds)
        }
    }

    private static func isTransient(_ error: any Error) -> Bool { (error as? ChannelError)?.isTransient ?? true }
}
