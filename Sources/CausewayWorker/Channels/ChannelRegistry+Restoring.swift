import Redis

/// How a registry becomes complete again after Redis has lost it, or after its server has restarted or was replaced.
extension ChannelRegistry {
    static let completenessField = Array("t:".utf8)

    /// A restoration postpones a planned deletion that is due within this time. A start may have cancelled the
    /// deletion, and Redis may have lost this change, which only Redis knew. Usually, workers read the start again
    /// within minutes.
    private static let restoredDeletionDelayMillisecondsMin: Int64 = 1_800_000
    /// How long after the restoration a postponed deletion is due. This is longer than
    /// ``restoredDeletionDelayMillisecondsMin``, so that a second restoration, a little later, does not postpone the
    /// deletion again.
    private static let postponedDeletionDelayMilliseconds: Int64 = 3_600_000

    func isComplete(_ appEnvironment: AppEnvironment) throws(RedisError) -> Bool {
        try readCompleteness(appEnvironment).isComplete
    }

    private func readCompleteness(_ appEnvironment: AppEnvironment) throws(RedisError) -> RegistryCompleteness {
        let (values, server) = try hashes.readFieldsAndServer(key(appEnvironment), [Self.completenessField])
        return RegistryCompleteness(values[0], on: server)
    }

    /// Notes that the registry is being restored: writes a token, a random text, to the field `t:`. If another process
    /// has already written a token, both processes use that token. Call this before reading the channels topic.
    ///
    /// - Returns: the token that `restore` needs; nil if the registry is already complete.
    func beginRestoration(_ appEnvironment: AppEnvironment) throws(RedisError) -> [UInt8]? {
        let foundCompleteness = try readCompleteness(appEnvironment)
        guard !foundCompleteness.isComplete else { return nil }
        let token = foundCompleteness.makeToken()
        if let text = foundCompleteness.text, !foundCompleteness.isToken {
            // The registry was complete before the server restarted or was replaced. Replace its text by the token:
            // until then, a worker of an earlier release takes the registry for complete, and would not restart the
            // restoration after a deletion (`restartRestoration`).
            let condition = SharedRedisData.FieldCondition(Self.completenessField, text, newValue: token)
            _ = try hashes.addMissingFields(key(appEnvironment), [], if: condition)
        } else {
            _ = try hashes.addMissingFields(key(appEnvironment), [(Self.completenessField, token)])
        }
        let completeness = try readCompleteness(appEnvironment)
        return completeness.isComplete ? nil : completeness.text ?? token
    }

    /// Returns the form in which a restoration writes an entry to the registry: a planned deletion is postponed if it
    /// would come within ``restoredDeletionDelayMillisecondsMin``.
    private static func makeEntryWithPostponedDeletion(_ entry: ChannelEntry, atWallMilliseconds: Int64) -> ChannelEntry
    {
        guard entry.state == .active, let plannedDueWallMilliseconds = entry.deletionDueWallMilliseconds,
            plannedDueWallMilliseconds < atWallMilliseconds + restoredDeletionDelayMillisecondsMin
        else { return entry }
        var postponedEntry = entry
        postponedEntry.deletionDueWallMilliseconds = atWallMilliseconds + postponedDeletionDelayMilliseconds
        postponedEntry.isPublished = nil
        return postponedEntry
    }

    /// Adds the entries that the registry lacks, and corrects those that are older than the topic's. Then writes the
    /// registry's active channels, not those that are being deleted, into the audiences' hashes, where admission reads
    /// them. Then marks the registry as complete.
    ///
    /// If a record of the channels topic cannot be read, its value is copied unchanged as an entry. So no worker
    /// creates another channel for its audience, and a newer release can read the entry.
    ///
    /// - Parameter token: the token from `beginRestoration`.
    /// - Returns: whether this call has made the registry complete. False if other processes kept changing the
    ///   registry, or if `channels` may be out of date: since `beginRestoration`, Redis was emptied, a channel was
    ///   deleted, or another process completed the restoration.
    func restore(
        _ channels: PublishedChannels,
        _ appEnvironment: AppEnvironment,
        token: [UInt8],
        atWallMilliseconds: Int64
    ) throws(RedisError) -> Bool {
        let fields =
            channels.entries.map { entry in
                let restoredEntry = Self.makeEntryWithPostponedDeletion(entry, atWallMilliseconds: atWallMilliseconds)
                return (field: fieldName("a", entry.audience), value: restoredEntry.json)
            }
            + channels.unreadableRecords.map { (fieldName("a", $0.audience(in: appEnvironment)), $0.value) }
        for start in stride(from: 0, to: fields.count, by: Self.entriesPerBatchMax) {
            let batch = Array(fields[start...].prefix(Self.entriesPerBatchMax))
            guard
                try hashes.addMissingFields(key(appEnvironment), batch, if: .init(Self.completenessField, token)) != nil
            else {
                return false
            }
        }
        try correctOutdatedEntries(after: channels, appEnvironment, atWallMilliseconds: atWallMilliseconds)
        // Write the channels into the audiences' hashes before the registry counts as complete. In the other order, no
        // restoration would write them if this process died in between.
        guard try writeActiveChannelsToAudienceHashes(appEnvironment, atWallMilliseconds: atWallMilliseconds) else {
            return false
        }
        let completeText = RegistryCompleteness.makeText(
            completeSinceWallMilliseconds: atWallMilliseconds,
            token: token
        )
        let condition = SharedRedisData.FieldCondition(Self.completenessField, token, newValue: completeText)
        return try hashes.addMissingFields(key(appEnvironment), [], if: condition) != nil
    }

    /// Corrects the entries that the server still has, because it may have lost its newest writes. If the channels
    /// topic has a newer channel for the audience, the entry gets that channel. A planned deletion is postponed
    /// (`makeEntryWithPostponedDeletion`).
    ///
    /// Leaves out an entry that counts as published, but of which the existing topic has no record: its channel was
    /// deleted, and the server has lost this. A postponed deletion would publish the entry again.
    private func correctOutdatedEntries(
        after channels: PublishedChannels,
        _ appEnvironment: AppEnvironment,
        atWallMilliseconds: Int64
    ) throws(RedisError) {
        let publishedEntries = Dictionary(channels.entries.map { ($0.audience, $0) }, uniquingKeysWith: { $1 })
        let unreadableAudiences = Set(channels.unreadableRecords.map { $0.audience(in: appEnvironment) })
        for entry in try readContent(appEnvironment).entries {
            let hasRecord = publishedEntries[entry.audience] != nil || unreadableAudiences.contains(entry.audience)
            guard hasRecord || channels.isTopicMissing || entry.isPublished != true else { continue }
            let publishedEntry = publishedEntries[entry.audience] ?? entry
            let isReplaced =
                publishedEntry.channel != entry.channel
                && publishedEntry.createdAtWallMilliseconds > entry.createdAtWallMilliseconds
            let newestEntry = isReplaced ? publishedEntry : entry
            let correctedEntry = Self.makeEntryWithPostponedDeletion(
                newestEntry,
                atWallMilliseconds: atWallMilliseconds
            )
            if correctedEntry != entry { try replaceIfUnchanged(entry, with: correctedEntry) }
        }
    }

    /// Makes a restoration that is under way start again. Call this between two steps of a deletion: after the
    /// tombstone is written to the channels topic, and before the entry is removed from the registry. Otherwise a
    /// process that read the topic before the tombstone could add the entry again.
    func restartRestoration(_ appEnvironment: AppEnvironment) throws(RedisError) {
        let completeness = try readCompleteness(appEnvironment)
        guard !completeness.isComplete else { return }
        try hashes.setFields(key(appEnvironment), [(Self.completenessField, completeness.makeToken())])
    }
}
