import APNs
import CausewayConfiguration
import Kafka
import LiveActivity
import Reactor
import Redis
import Synchronization

/// Keeps the channels of audiences: creates them, announces them in Redis and `causeway.channels`, deletes them, reconciles with APNs.
///
/// ``Reconciliation`` decides; this actor asks APNs, Redis and Kafka, and acts. A creation has no idempotency key, so the keeper
/// first writes an intent. If a crash leaves the intent behind, a later reconciliation finds and deletes the channel. A lease makes sure that only one
/// process at a time creates an audience's channel.
package actor ChannelKeeper {
    typealias Place = ChannelRegister.Place

    /// An app in an environment, and the settings of its channels.
    struct Site: Sendable {
        var place: Place
        var storage: ChannelEntry.Storage
        var keepMilliseconds: Int64
        /// Whether some audiences get a channel by the configuration. Then `causeway.channels` must exist.
        var isDeclared: Bool
        var management: ChannelManagement
    }

    /// The interval of the periodic work.
    static let tendingInterval = Duration.seconds(60)
    /// The lease for the periodic work: one worker does it, and no other worker before the next interval.
    static let tendingLeaseMilliseconds: Int64 = 55_000
    /// The interval of full reconciliations.
    static let reconciliationMilliseconds: Int64 = 24 * 3_600_000
    /// The most requests of lanes that run at one time.
    static let requestsMax = 16
    /// The interval between checks for what another process is creating.
    static let waitingInterval = Duration.milliseconds(100)
    /// How long the keeper does not ask again after a transient error, and after any other error.
    private static let transientMilliseconds: Int64 = 60_000
    private static let lastingMilliseconds: Int64 = 600_000

    private let executor = BlockingExecutor(label: "channel keeper")
    nonisolated package var unownedExecutor: UnownedSerialExecutor { executor.asUnownedSerialExecutor() }

    let sites: [Site]
    let register: ChannelRegister
    let topic: ChannelTopic
    /// Longer than any creation takes. After this time an attempt is over, successful or not.
    private let creationMilliseconds: Int64
    let note: @Sendable (ChannelNote) -> Void
    /// The number of entries at the last check, by place. If entries existed and are missing now, Redis has lost them.
    private var entryCounts: [Place: Int] = [:]
    /// Audiences whose channel could not be created. Their commands ask again, and get this refusal until its time is over.
    private var refusals: [Refused: ChannelRefusal] = [:]
    private static let refusalsMax = 4_096
    /// The numbers of each audience's requests that run or wait for an earlier request, oldest first.
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
        // One list, one creation, and the calls to Redis between them.
        creationMilliseconds = 2 * timeoutMilliseconds + 5_000
        self.note = note
    }

    var now: Int64 { wallMilliseconds() }

    func site(_ place: Place) -> Site? { sites.first { $0.place == place } }

    // MARK: - Requests

    /// Returns the channel of an audience. Creates the channel if the audience has none.
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
                throw ChannelRefusal(text: "another worker is creating the channel", untilMilliseconds: now)
            }
            // Another process reports its creation in Redis only.
            try? await Task.sleep(for: Self.waitingInterval)
        }
    }

    /// Creates a channel. The caller must hold the audience's lease.
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
            // If APNs may have carried out the request, the intent stays for the next reconciliation.
            let mayBeThere = (error as? ChannelError)?.cause == .ambiguous || !(error is ChannelError)
            if isOpen, !mayBeThere { try? register.remove([intent], place) }
            try? register.endCreation(of: audience, place)
            refusals = refusals.filter { now < $0.value.untilMilliseconds }
            if refusals.count < Self.refusalsMax { refusals[Refused(place: place, audience: audience)] = refusal }
            note(.refused(audience: audience, app: place.app, environment: place.environment, refusal.text))
            throw refusal
        }
    }

    /// Marks channels as other people's if no attempt of ours was open before they existed.
    private func noteForeign(_ listed: [String], _ place: Place) throws(RedisError) {
        let known = try register.known(place)
        guard known.intents.isEmpty else { return }
        let own = Set(known.entries.map(\.channel))
        try register.noteForeign(listed.filter { !own.contains($0) && !known.foreign.contains($0) }, place)
    }

    /// Makes the topic and the audience's record agree with the register.
    ///
    /// - Parameter isWanted: cancels a planned deletion.
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
                // Broadcasts can use the channel already. The periodic work publishes it later.
                let text = "\(entry.topicKey) is not published yet: \(error)"
                note(.trouble(text, app: entry.app, environment: entry.environment))
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

    /// Replaces a channel that APNs does not know any more, unless another worker has done so.
    func replace(_ channel: String, of audience: String, at site: Site) async throws(ChannelRefusal) -> ChannelEntry {
        let entry = try asking { () throws(RedisError) in try register.entry(site.place, audience: audience) }
        guard let entry, entry.channel == channel else { return try await ensure(audience, at: site) }
        note(.lost(entry))
        try asking { () throws(RedisError) in try register.remove(entry) }
        var successor = try await ensure(audience, at: site, storage: entry.storage)
        if let due = entry.deleteAfter {
            // The audience has ended meanwhile, so the new channel needs a planned deletion too.
            successor.deleteAfter = due
            let planned = successor
            try asking { () throws(RedisError) in try register.write(planned) }
        }
        return successor
    }

    /// Deletes a channel at APNs, in the topic and in the register. After a crash the periodic work completes the deletion.
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

    // MARK: - Periodic work

    /// Everything that the register has for a place.
    func known(_ place: Place) throws(ChannelRefusal) -> Reconciliation.Known {
        try asking { () throws(RedisError) in try register.known(place) }
    }

    /// Copies entries from the topic to Redis if Redis does not have them: after a start, and when Redis has lost its register.
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

    /// Deletes what is due, publishes what is not published, and reconciles once a day. One worker at a time does this work.
    func tend(_ site: Site) async throws(ChannelRefusal) {
        let before = entryCounts[site.place, default: 0]
        var known = try look(site)
        // If no audience can have a channel and none ever had one, write nothing and do not ask APNs.
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
        _ = try look(site)
    }

    private func look(_ site: Site) throws(ChannelRefusal) -> Reconciliation.Known {
        let known = try self.known(site.place)
        note(.looked(app: site.place.app, environment: site.place.environment, known))
        return known
    }

    /// Compares APNs' list with the register, and acts on the differences.
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
            // The lease ends with the creation. If the process has died, the lease expires.
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
        try asking { () throws(RedisError) in
            try register.noteReconciliation(site.place, atMilliseconds: listedAt)
        }
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
