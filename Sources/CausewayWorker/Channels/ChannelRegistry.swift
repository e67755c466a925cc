import ActivityStore
import LiveActivity
import Redis

/// The registry of channels in Redis: a hash for each app and environment, and up to two fields of an audience's hash.
///
/// | field of `{channels:app:environment}` | |
/// | --- | --- |
/// | `a:<audience>` | a ``ChannelEntry`` |
/// | `i:<identifier>` | a ``ChannelCreationIntent`` |
/// | `f:<channel>` | empty: another program made the channel |
/// | `d:<audience>` | a ``ChannelEntry``; the channels topic lacks the tombstone of this audience |
/// | `t:` | since when the hash is complete, and on which run of the server; or a token: ``RegistryCompleteness`` |
/// | `r:` | when APNs' list was last compared with these fields, UNIX milliseconds |
/// | `n:` | how many channels APNs' list had last |
/// | `l:` | when APNs' list was last requested to record other programs' channels (`f:`), UNIX milliseconds |
///
/// Calls block. Use this object from one thread at a time.
final class ChannelRegistry {
    /// How long Redis keeps an audience's hash after a channel was written into it. The script `audience` sets the same
    /// time after each of its changes. A shorter time here would make Redis delete the hash too early.
    private static let audienceHashTimeToLiveMilliseconds: Int64 = 25 * 3_600_000

    let hashes: SharedRedisData

    init(configuration: RedisConfiguration) throws(RedisError) {
        hashes = try SharedRedisData(configuration: configuration)
    }

    func key(_ appEnvironment: AppEnvironment, _ suffix: String = "") -> [UInt8] {
        Array("{channels:\(appEnvironment.app):\(appEnvironment.environment)}\(suffix)".utf8)
    }

    func fieldName(_ kind: Character, _ name: String) -> [UInt8] { Array("\(kind):\(name)".utf8) }

    /// Reads all fields of a registry at one moment, except for `l:`.
    func readContent(_ appEnvironment: AppEnvironment) throws(RedisError) -> Reconciliation.RegistryContent {
        var content = Reconciliation.RegistryContent()
        let (fields, server) = try hashes.readHashAndServer(key(appEnvironment))
        for (field, value) in fields {
            let name = String(decoding: field.dropFirst(2), as: UTF8.self)
            switch field.first {
            case UInt8(ascii: "a"):
                if let entry = ChannelEntry(json: value) {
                    content.entries.append(entry)
                } else {
                    content.unreadableEntries.append(UnreadableChannelEntry(audience: name, json: value))
                }
            case UInt8(ascii: "i"):
                if let intent = ChannelCreationIntent(json: value) {
                    content.intents.append(intent)
                } else {
                    content.unreadableIntents.append(name)
                }
            case UInt8(ascii: "f"): content.foreignChannels.insert(name)
            case UInt8(ascii: "d"):
                content.entriesWithoutTombstone.append(ChannelEntry(tombstoneNote: value, of: name, appEnvironment))
            case UInt8(ascii: "t"): content.isComplete = RegistryCompleteness(value, on: server).isComplete
            case UInt8(ascii: "r"): content.reconciledAtWallMilliseconds = Int64(String(decoding: value, as: UTF8.self))
            case UInt8(ascii: "n"): content.listedChannelCount = Int64(String(decoding: value, as: UTF8.self))
            default: break
            }
        }
        content.entries.sort { $0.audience < $1.audience }
        content.unreadableEntries.sort { $0.audience < $1.audience }
        content.intents.sort {
            ($0.createdAtWallMilliseconds, $0.identifier) < ($1.createdAtWallMilliseconds, $1.identifier)
        }
        return content
    }

    /// What the registry says about one audience.
    struct Lookup {
        var entry: ChannelEntry?
        /// Whether the audience has an entry that this release cannot read. `entry` is then nil.
        var isEntryUnreadable: Bool
        /// Whether the registry is complete. If not, a missing entry does not mean that there is no channel.
        var isRegistryComplete: Bool

        /// Whether the audience certainly has no channel.
        var isChannelKnownToBeMissing: Bool { entry == nil && !isEntryUnreadable && isRegistryComplete }
    }

    func lookUp(_ appEnvironment: AppEnvironment, audience: String) throws(RedisError) -> Lookup {
        let fields = [fieldName("a", audience), Self.completenessField]
        let (values, server) = try hashes.readFieldsAndServer(key(appEnvironment), fields)
        let entry = values[0].flatMap(ChannelEntry.init(json:))
        return Lookup(
            entry: entry,
            isEntryUnreadable: values[0] != nil && entry == nil,
            isRegistryComplete: RegistryCompleteness(values[1], on: server).isComplete
        )
    }

    /// Looks up what the registry now says about the entry's audience. Another process may have changed the entry since
    /// it was read.
    func lookUp(forAudienceOf entry: ChannelEntry) throws(RedisError) -> Lookup {
        try lookUp(AppEnvironment(app: entry.app, environment: entry.environment), audience: entry.audience)
    }

    func readEntry(_ appEnvironment: AppEnvironment, audience: String) throws(RedisError) -> ChannelEntry? {
        try hashes.readField(key(appEnvironment), fieldName("a", audience)).flatMap(ChannelEntry.init(json:))
    }

    /// Returns the current entry of the audience of `entry`; nil if there is none, or if it cannot be read.
    func readCurrentEntry(forAudienceOf entry: ChannelEntry) throws(RedisError) -> ChannelEntry? {
        try readEntry(AppEnvironment(app: entry.app, environment: entry.environment), audience: entry.audience)
    }

    /// Adds the entry of a new channel.
    ///
    /// - Returns: false if the audience already has an entry, which stays unchanged.
    func addIfAbsent(_ entry: ChannelEntry) throws(RedisError) -> Bool {
        let appEnvironment = AppEnvironment(app: entry.app, environment: entry.environment)
        return try hashes.addMissingFields(key(appEnvironment), [(fieldName("a", entry.audience), entry.json)]) == 1
    }

    /// Replaces an entry by a changed one, unless another process has changed the entry.
    ///
    /// - Returns: false if the registry no longer has exactly `entry`. Then this method has changed nothing.
    @discardableResult
    func replaceIfUnchanged(_ entry: ChannelEntry, with newEntry: ChannelEntry) throws(RedisError) -> Bool {
        guard let stored = try readStoredField(of: entry) else { return false }
        let condition = SharedRedisData.FieldCondition(stored.field, stored.value, newValue: newEntry.json)
        return try hashes.addMissingFields(stored.key, [], if: condition) != nil
    }

    /// Returns the stored bytes of an entry; nil if the registry does not have exactly this entry. A conditional change
    /// needs these bytes. It cannot use `entry.json`, because another release may encode the same entry differently.
    private func readStoredField(of entry: ChannelEntry) throws(RedisError) -> (
        key: [UInt8], field: [UInt8], value: [UInt8]
    )? {
        let registryKey = key(AppEnvironment(app: entry.app, environment: entry.environment))
        let field = fieldName("a", entry.audience)
        guard let value = try hashes.readField(registryKey, field), ChannelEntry(json: value) == entry else {
            return nil
        }
        return (registryKey, field, value)
    }

    /// Notes in the registry that the channels topic possibly lacks this form of the entry, so that the periodic work
    /// publishes the entry again. Changes nothing if the entry already counts as unpublished, or is being deleted.
    ///
    /// - Returns: the current entry; nil if another process has changed the entry since it was read.
    func markUnpublished(_ entry: ChannelEntry) throws(RedisError) -> ChannelEntry? {
        guard entry.isPublished == true, entry.state == .active else { return entry }
        var unpublishedEntry = entry
        unpublishedEntry.isPublished = nil
        return try replaceIfUnchanged(entry, with: unpublishedEntry) ? unpublishedEntry : nil
    }

    /// Removes an entry, unless another process has changed it.
    ///
    /// - Returns: false if the registry no longer has exactly `entry`. Then this method has changed nothing.
    func removeIfUnchanged(_ entry: ChannelEntry) throws(RedisError) -> Bool {
        guard let stored = try readStoredField(of: entry) else { return false }
        return try hashes.removeField(stored.key, if: .init(stored.field, stored.value))
    }

    /// Notes that the channels topic needs a tombstone for this entry's audience: it may have a record of the audience,
    /// which has no channel.
    func noteMissingTombstone(of entry: ChannelEntry) throws(RedisError) {
        let appEnvironment = AppEnvironment(app: entry.app, environment: entry.environment)
        try hashes.setFields(key(appEnvironment), [(fieldName("d", entry.audience), entry.json)])
    }

    /// Removes the note that the channels topic needs a tombstone for this entry's audience.
    func removeTombstoneNote(of entry: ChannelEntry) throws(RedisError) {
        let appEnvironment = AppEnvironment(app: entry.app, environment: entry.environment)
        try hashes.removeFields(key(appEnvironment), [fieldName("d", entry.audience)])
    }

    func write(_ intent: ChannelCreationIntent, _ appEnvironment: AppEnvironment) throws(RedisError) {
        try hashes.setFields(key(appEnvironment), [(fieldName("i", intent.identifier), intent.json)])
    }

    func remove(_ intents: [ChannelCreationIntent], _ appEnvironment: AppEnvironment) throws(RedisError) {
        try hashes.removeFields(key(appEnvironment), intents.map { fieldName("i", $0.identifier) })
    }

    func addForeignChannels(_ channels: [String], _ appEnvironment: AppEnvironment) throws(RedisError) {
        if !channels.isEmpty { try hashes.setFields(key(appEnvironment), channels.map { (fieldName("f", $0), []) }) }
    }

    func removeForeignChannels(_ channels: [String], _ appEnvironment: AppEnvironment) throws(RedisError) {
        try hashes.removeFields(key(appEnvironment), channels.map { fieldName("f", $0) })
    }

    func writeReconciliationTime(_ appEnvironment: AppEnvironment, atWallMilliseconds: Int64) throws(RedisError) {
        try hashes.setFields(key(appEnvironment), [(fieldName("r", ""), Array(String(atWallMilliseconds).utf8))])
    }

    func writeListedChannelCount(_ appEnvironment: AppEnvironment, _ channelCount: Int) throws(RedisError) {
        try hashes.setFields(key(appEnvironment), [(fieldName("n", ""), Array(String(channelCount).utf8))])
    }

    func writeListRecordingTime(_ appEnvironment: AppEnvironment, atWallMilliseconds: Int64) throws(RedisError) {
        try hashes.setFields(key(appEnvironment), [(fieldName("l", ""), Array(String(atWallMilliseconds).utf8))])
    }

    func readListRecordingTime(_ appEnvironment: AppEnvironment) throws(RedisError) -> Int64? {
        let value = try hashes.readField(key(appEnvironment), fieldName("l", ""))
        return value.flatMap { Int64(String(decoding: $0, as: UTF8.self)) }
    }

    /// The maximum number of entries that one call to Redis writes (R4).
    static let entriesPerBatchMax = 256

    /// The maximum number of times that one call of ``writeActiveChannelsToAudienceHashes(_:atWallMilliseconds:)``
    /// reads the registry (R4).
    private static let registryReadAttemptsMax = 8

    /// Writes all active channels of the registry to the audiences' hashes. Writes again until the registry no longer
    /// changes: with only one pass, this call could write an old channel over the new one of another process.
    ///
    /// Leaves out a channel whose deletion is due: the periodic work deletes it soon. If Redis has lost its newest
    /// writes, the channel may be deleted already.
    ///
    /// - Returns: false if the registry changed until the last attempt. A hash may then have an old channel.
    func writeActiveChannelsToAudienceHashes(_ appEnvironment: AppEnvironment, atWallMilliseconds: Int64)
        throws(RedisError) -> Bool
    {
        var writtenEntries: [String: ChannelEntry] = [:]
        for _ in 0..<Self.registryReadAttemptsMax {
            var outdatedEntries = writtenEntries
            var newEntries: [ChannelEntry] = []
            for entry in try readContent(appEnvironment).entries where entry.state == .active {
                let writtenEntry = outdatedEntries.removeValue(forKey: entry.audience)
                guard !entry.mustBeDeleted(nowWallMilliseconds: atWallMilliseconds) else { continue }
                if writtenEntry?.channelFieldValue != entry.channelFieldValue { newEntries.append(entry) }
                writtenEntries[entry.audience] = entry
            }
            guard !outdatedEntries.isEmpty || !newEntries.isEmpty else { return true }
            for entry in outdatedEntries.values {
                try removeChannelFromAudienceHash(of: entry)
                writtenEntries[entry.audience] = nil
            }
            try writeChannelsToAudienceHashes(of: newEntries)
        }
        return false
    }

    // MARK: - Leases of workers

    func acquireCreationLease(of audience: String, _ appEnvironment: AppEnvironment, milliseconds: Int64)
        throws(RedisError)
        -> SharedRedisData.Lease?
    {
        try hashes.acquireLease(key(appEnvironment, "create:\(audience)"), leaseMilliseconds: milliseconds)
    }

    func isChannelBeingCreated(_ audience: String, _ appEnvironment: AppEnvironment) throws(RedisError) -> Bool {
        try hashes.isLeased(key(appEnvironment, "create:\(audience)"))
    }

    /// What a worker does under a lease: the periodic work, or one of its steps that are due less often. The raw value
    /// is a part of the lease's key, so it must never change: with different keys, workers of two releases could do the
    /// same work at the same time.
    enum LeasedWork: String {
        case periodicWork = "tend"
        case dailyReconciliation = "daily"
        case intentReconciliation = "intents"
        case audienceHashRefresh = "hashes"
    }

    /// Acquires the lease for one kind of work; returns nil if another worker has it. If Redis loses the
    /// lease, a second worker may get it too.
    func acquireLease(for work: LeasedWork, _ appEnvironment: AppEnvironment, milliseconds: Int64)
        throws(RedisError) -> SharedRedisData.Lease?
    {
        try hashes.acquireLease(key(appEnvironment, "turn:\(work.rawValue)"), leaseMilliseconds: milliseconds)
    }

    func releaseLease(_ lease: SharedRedisData.Lease) throws(RedisError) { try hashes.releaseLease(lease) }

    func extendLease(_ lease: SharedRedisData.Lease, milliseconds: Int64) throws(RedisError) {
        try hashes.extendLease(lease, leaseMilliseconds: milliseconds)
    }

    // MARK: - Audiences' hashes

    /// An audience's end: when Redis admitted it, and until when APNs may deliver the message that APNs stores for the
    /// audience's channel. Both are UNIX milliseconds.
    typealias AudienceEnd = (atWallMilliseconds: Int64, storedUntilWallMilliseconds: Int64)

    /// Returns the audience's end; nil if the audience's newest command is no end, or if Redis does not know this
    /// command.
    func readAudienceEnd(_ app: String, _ audience: String) throws(RedisError) -> AudienceEnd? {
        guard let newestCommand = try readNewestCommand(app, audience), newestCommand.isEnd else { return nil }
        let admittedAtMilliseconds = newestCommand.admittedAtMilliseconds
        let storedUntilSecondsMax = admittedAtMilliseconds / 1_000 + ChannelStoragePolicy.storedSecondsMax
        return (admittedAtMilliseconds, min(newestCommand.expirationSeconds, storedUntilSecondsMax) * 1_000)
    }

    /// Whether the audience's newest command is known, and is no end.
    func isAudienceStarted(of entry: ChannelEntry) throws(RedisError) -> Bool {
        try readNewestCommand(entry.app, entry.audience).map { !$0.isEnd } ?? false
    }

    private func readNewestCommand(_ app: String, _ audience: String)
        throws(RedisError) -> AudienceInspection.AdmittedVersion?
    {
        let field = Array("a".utf8)
        guard let key = audienceHashKey(app, audience), let value = try hashes.readField(key, field)
        else { return nil }
        return try? AudienceInspection(fields: [(field, value)]).admittedVersion
    }

    /// Writes the channel to the audience's hash, where admission reads it: to the field `hp` for production, or `hs`
    /// for the sandbox.
    func writeChannelToAudienceHash(of entry: ChannelEntry) throws(RedisError) {
        try writeChannelsToAudienceHashes(of: [entry])
    }

    private func writeChannelsToAudienceHashes(of entries: [ChannelEntry]) throws(RedisError) {
        for start in stride(from: 0, to: entries.count, by: Self.entriesPerBatchMax) {
            let channelFields = entries[start...].prefix(Self.entriesPerBatchMax)
                .compactMap { entry in
                    audienceHashKey(entry.app, entry.audience)
                        .map { (key: $0, fields: [(Self.channelField(entry.environment), entry.channelFieldValue)]) }
                }
            try hashes.setFields(channelFields, timeToLiveMilliseconds: Self.audienceHashTimeToLiveMilliseconds)
        }
    }

    /// Removes the channel of an entry from the audience's hash, unless the hash has another channel.
    ///
    /// - Returns: whether the hash had the channel.
    @discardableResult
    func removeChannelFromAudienceHash(of entry: ChannelEntry) throws(RedisError) -> Bool {
        guard let key = audienceHashKey(entry.app, entry.audience) else { return false }
        let condition = SharedRedisData.FieldCondition(Self.channelField(entry.environment), entry.channelFieldValue)
        return try hashes.removeField(key, if: condition)
    }

    private func audienceHashKey(_ app: String, _ audience: String) -> [UInt8]? {
        AudienceKeyWriter(app: app, audience: audience)?.audienceKey
    }

    private static func channelField(_ environment: String) -> [UInt8] {
        Array((environment == "production" ? "hp" : "hs").utf8)
    }
}
