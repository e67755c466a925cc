import Kafka
import Redis

/// How the keeper publishes an entry (writes it to `causeway.channels`), and writes the entry's channel to the
/// audience's hash, where admission reads the channel.
///
/// The registry says which entry is current. But no atomic step changes the registry together with the topic or a hash,
/// so a slow worker may write an old entry over a newer one. So each worker reads the registry again after its write,
/// and repeats the write until it has written the current entry.
///
/// Known issue (K6): if a worker dies or Redis fails between the write of an old entry and the next read of the
/// registry, the topic may keep an old entry, and the hash an old channel. The channel in the hash is replaced when
/// APNs refuses the next update to this channel.
///
/// Known issue (K7): if Redis admits a start between the write of an old entry and the next read of the registry, the
/// start may name a channel that is being deleted. The activities of this start then get no broadcasts.
extension ChannelKeeper {
    /// The maximum number of times that one call writes the channels topic or an audience's hash (R4). The call writes
    /// again if another process has changed the registry meanwhile.
    static let writeAttemptsMax = 8
    /// After Kafka has failed to take a record, the keeper writes nothing to the channels topic for this long, because
    /// each failed write blocks the keeper for up to 15 s. The pause is shorter than ``periodicWorkInterval``, so after
    /// a failure in one run of the periodic work, the next run tries again.
    private static let topicWritePauseMilliseconds: Int64 = 40_000

    /// Publishes an entry to the channels topic if the topic does not have the entry yet. Then writes the channel to
    /// the audience's hash, even if Kafka has failed: the error of Kafka is only reported.
    ///
    /// - Returns: the audience's current entry; nil if another worker has meanwhile replaced or deleted the channel.
    @discardableResult
    func publishAndWriteToAudienceHash(_ entry: ChannelEntry) throws(ChannelFailure) -> ChannelEntry? {
        if entry.isPublished != true { try publish(entry) }
        let currentEntry = try writeChannelToAudienceHash(of: entry)
        return currentEntry?.channel == entry.channel ? currentEntry : nil
    }

    private func publish(_ entry: ChannelEntry) throws(ChannelFailure) {
        if writeOrReportError(entry, forAudienceOf: entry), try notePublished(entry) { return }
        try repairTopic(after: entry, forAudienceOf: entry)
    }

    /// Makes the channels topic say what the registry says about one audience: writes the current entry, or a
    /// tombstone. Writes nothing if the registry does not show whether the audience has a channel. If Kafka does not
    /// take the record, reports the error, and the periodic work writes the record again.
    ///
    /// - Parameters:
    ///   - writtenEntry: what this process last wrote to the topic about the audience; nil: a tombstone.
    ///   - entry: names the app, the environment and the audience.
    ///   - isTombstoneNotedAsMissing: whether the registry notes that the audience's tombstone is missing. This method
    ///     then removes the note when the topic needs no tombstone any more.
    func repairTopic(
        after writtenEntry: ChannelEntry?,
        forAudienceOf entry: ChannelEntry,
        isTombstoneNotedAsMissing: Bool = false
    ) throws(ChannelFailure) {
        var writtenEntry = writtenEntry
        var isTombstoneNotedAsMissing = isTombstoneNotedAsMissing
        for _ in 0..<Self.writeAttemptsMax {
            let lookup = try convertRedisErrors { () throws(RedisError) in try registry.lookUp(forAudienceOf: entry) }
            // Write a tombstone only if the audience certainly has no channel. If the registry is incomplete, or the
            // entry cannot be read, perhaps only the channels topic still names the channel.
            guard lookup.entry != nil || lookup.isChannelKnownToBeMissing else { return }
            guard lookup.entry?.recordValue != writtenEntry?.recordValue else {
                if isTombstoneNotedAsMissing { try removeTombstoneNote(forAudienceOf: entry) }
                return
            }
            if let currentEntry = lookup.entry {
                let unpublishedEntry = try convertRedisErrors { () throws(RedisError) in
                    try registry.markUnpublished(currentEntry)
                }
                // Another process has just changed the entry, so read the entry again.
                guard let unpublishedEntry else { continue }
                // The note about a missing tombstone is not needed any more: the registry now marks the entry as
                // unpublished, or its channel as being deleted. So the periodic work will write to the channels topic.
                if isTombstoneNotedAsMissing { try removeTombstoneNote(forAudienceOf: entry) }
                isTombstoneNotedAsMissing = false
                guard writeOrReportError(unpublishedEntry, forAudienceOf: entry) else { return }
                if try notePublished(unpublishedEntry) { return }
            } else {
                guard try writeTombstone(forAudienceOf: entry) else { return }
                isTombstoneNotedAsMissing = true
            }
            writtenEntry = lookup.entry
        }
        throw makeChangingEntryFailure(entry.audience, "published")
    }

    /// Writes a tombstone to the channels topic. First notes in the registry that the tombstone is missing: if the
    /// write fails, only this note makes the periodic work repeat it.
    ///
    /// The caller removes the note after it has read the registry again. If a channel was published just before the
    /// tombstone, and this process dies, the note makes the periodic work publish that channel again.
    ///
    /// - Returns: whether Kafka has acknowledged the tombstone.
    private func writeTombstone(forAudienceOf entry: ChannelEntry) throws(ChannelFailure) -> Bool {
        try convertRedisErrors { () throws(RedisError) in try registry.noteMissingTombstone(of: entry) }
        return writeOrReportError(nil, forAudienceOf: entry)
    }

    private func removeTombstoneNote(forAudienceOf entry: ChannelEntry) throws(ChannelFailure) {
        try convertRedisErrors { () throws(RedisError) in try registry.removeTombstoneNote(of: entry) }
    }

    /// Tries again to write a tombstone, because an earlier call could not write it to the channels topic. If the
    /// audience has a new channel meanwhile, makes sure that the record of this channel is the newest one.
    func repeatTombstone(forAudienceOf entry: ChannelEntry) throws(ChannelFailure) {
        let lookup = try convertRedisErrors { () throws(RedisError) in try registry.lookUp(forAudienceOf: entry) }
        if lookup.isChannelKnownToBeMissing {
            guard try writeTombstone(forAudienceOf: entry) else { return }
        }
        try repairTopic(after: nil, forAudienceOf: entry, isTombstoneNotedAsMissing: true)
    }

    /// Writes an entry to the channels topic, or a tombstone for nil. Throws an error if Kafka has not acknowledged the
    /// record: even then, the topic may have it. During a ``topicWritePause``, writes nothing and throws the error that
    /// began the pause.
    func write(_ entryToWrite: ChannelEntry?, forAudienceOf entry: ChannelEntry) throws(KafkaError) {
        if let topicWritePause, areTopicWritesPaused { throw topicWritePause.error }
        topicWritePause = nil
        do throws(KafkaError) {
            if let entryToWrite {
                try channelTopic.publish(entryToWrite)
            } else {
                try channelTopic.publishTombstone(forAudienceOf: entry)
            }
        } catch {
            if !error.concernsOneRecord {
                topicWritePause = (error, monotonicMilliseconds + Self.topicWritePauseMilliseconds)
            }
            throw error
        }
    }

    var areTopicWritesPaused: Bool { topicWritePause.map { monotonicMilliseconds < $0.endMilliseconds } ?? false }

    /// Writes an entry to the channels topic, or a tombstone for nil. Reports an error and does not throw it, because
    /// broadcasts need only the channel in the audience's hash. During a ``topicWritePause``, writes nothing and
    /// reports nothing.
    ///
    /// - Returns: whether Kafka has acknowledged the record. If not, the topic may still have it.
    private func writeOrReportError(_ entryToWrite: ChannelEntry?, forAudienceOf entry: ChannelEntry) -> Bool {
        guard !areTopicWritesPaused else { return false }
        do throws(KafkaError) {
            try write(entryToWrite, forAudienceOf: entry)
            return true
        } catch {
            let reason = "\(entry.recordKey) is not published yet: \(error)"
            report(.failed(reason: reason, app: entry.app, environment: entry.environment))
            return false
        }
    }

    /// Notes in the registry that the channels topic now has this entry. Does nothing for an entry that is being
    /// deleted.
    ///
    /// - Returns: false if the registry no longer has exactly this entry, or if the entry is being deleted.
    private func notePublished(_ entry: ChannelEntry) throws(ChannelFailure) -> Bool {
        guard entry.state == .active else { return false }
        var publishedEntry = entry
        publishedEntry.isPublished = true
        return try convertRedisErrors { () throws(RedisError) in
            try registry.replaceIfUnchanged(entry, with: publishedEntry)
        }
    }

    /// Writes the channel of an entry to the audience's hash. If the audience has another channel meanwhile, writes
    /// that channel. Removes the channel from the hash if the audience's entry is gone or is being deleted.
    ///
    /// - Returns: the audience's current entry; nil if that entry is missing, cannot be read, or is being deleted.
    func writeChannelToAudienceHash(of entry: ChannelEntry) throws(ChannelFailure) -> ChannelEntry? {
        var writtenEntry = entry
        for _ in 0..<Self.writeAttemptsMax {
            let lookup = try convertRedisErrors { () throws(RedisError) in
                try registry.writeChannelToAudienceHash(of: writtenEntry)
                return try registry.lookUp(forAudienceOf: entry)
            }
            guard let currentEntry = lookup.entry, currentEntry.state == .active else {
                if lookup.entry != nil || lookup.isChannelKnownToBeMissing {
                    _ = try convertRedisErrors { () throws(RedisError) in
                        try registry.removeChannelFromAudienceHash(of: writtenEntry)
                    }
                }
                return nil
            }
            guard currentEntry.channelFieldValue != writtenEntry.channelFieldValue else { return currentEntry }
            writtenEntry = currentEntry
        }
        throw makeChangingEntryFailure(entry.audience, "written to the audience's hash")
    }

    /// Makes the failure of a call that gives up, because other processes have changed the entry during each of its
    /// attempts.
    func makeChangingEntryFailure(_ audience: String, _ action: String) -> ChannelFailure {
        ChannelFailure(
            reason: "the entry of \(audience) in the registry of channels changes while it is \(action)",
            retryPauseEndMilliseconds: monotonicMilliseconds,
            isTransient: false
        )
    }

    /// Publishes an entry and writes its channel to the audience's hash. Does nothing if another worker has changed the
    /// entry since the caller read it, perhaps minutes ago.
    func publishAndWriteToAudienceHashIfUnchanged(_ entry: ChannelEntry) throws(ChannelFailure) {
        let currentEntry = try convertRedisErrors { () throws(RedisError) in
            try registry.readCurrentEntry(forAudienceOf: entry)
        }
        if currentEntry == entry { try publishAndWriteToAudienceHash(entry) }
    }
}
