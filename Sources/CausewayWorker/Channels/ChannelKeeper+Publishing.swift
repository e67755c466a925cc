import Kafka
import Redis

/// How the keeper writes an entry to `causeway.channels` and to the audience's record.
///
/// Neither write is one atomic step with the registry, which decides. So a worker's write may arrive after another
/// worker has changed the registry and has written the change. Each worker therefore looks at the registry after its
/// last write, and writes again until both agree. A known gap: if a worker dies, or Redis fails, after the write and
/// before the look, an old record may stay the newest one of the topic, and an old announcement in the audience's record.
/// Such an announcement is repaired when APNs refuses the next update to its channel.
extension ChannelKeeper {
    /// How often one call writes the topic or an audience's record, because the registry changes meanwhile (R4).
    static let writesMax = 8

    /// Publishes an entry of the registry to the topic, unless the topic has it, and announces the channel in the
    /// audience's record. If only the publication fails, reports the error and does not throw it.
    ///
    /// - Returns: the audience's present entry; nil if another worker has meanwhile replaced or deleted the channel.
    @discardableResult
    func publishAndAnnounce(_ entry: ChannelEntry) throws(ChannelRefusal) -> ChannelEntry? {
        if entry.isPublished != true { try publish(entry) }
        let presentEntry = try announce(entry)
        return presentEntry?.channel == entry.channel ? presentEntry : nil
    }

    private func publish(_ entry: ChannelEntry) throws(ChannelRefusal) {
        if writeOrReport(entry, like: entry), try notePublished(entry) { return }
        try repairTopic(after: entry, like: entry)
    }

    /// Writes to the topic what the registry says about an entry's audience, unless the topic has this already. If the
    /// topic cannot be written, reports the error: the periodic work publishes an entry again, but not a tombstone.
    ///
    /// - Parameters:
    ///   - writtenEntry: what this process wrote last; nil: a tombstone.
    ///   - entry: an entry of the audience.
    func repairTopic(after writtenEntry: ChannelEntry?, like entry: ChannelEntry) throws(ChannelRefusal) {
        var writtenEntry = writtenEntry
        for _ in 0..<Self.writesMax {
            let lookup = try convertRedisErrors { () throws(RedisError) in try registry.lookUp(like: entry) }
            // Without the registry, only the topic knows the channel.
            guard lookup.entry != nil || lookup.isKnownToBeMissing else { return }
            guard lookup.entry?.topicValue != writtenEntry?.topicValue else { return }
            if let presentEntry = lookup.entry {
                let unpublishedEntry = try convertRedisErrors { () throws(RedisError) in
                    try registry.markUnpublished(presentEntry)
                }
                // If the entry has just been changed, the next pass looks at it again.
                guard let unpublishedEntry else { continue }
                guard writeOrReport(unpublishedEntry, like: entry) else { return }
                if try notePublished(unpublishedEntry) { return }
            } else {
                guard writeOrReport(nil, like: entry) else { return }
            }
            writtenEntry = lookup.entry
        }
        throw makeChangingEntryRefusal(entry.audience, "published")
    }

    /// Writes an entry to the topic, or a tombstone for nil. Reports an error: broadcasts need only the announcement.
    ///
    /// - Returns: whether Kafka has acknowledged the record. If not, the topic may still have it.
    private func writeOrReport(_ writtenEntry: ChannelEntry?, like entry: ChannelEntry) -> Bool {
        do throws(KafkaError) {
            if let writtenEntry { try topic.publish(writtenEntry) } else { try topic.unpublish(entry) }
            return true
        } catch {
            let text = "\(entry.topicKey) is not published yet: \(error)"
            report(.failed(text, app: entry.app, environment: entry.environment))
            return false
        }
    }

    /// Notes in the registry that the topic has an active entry.
    ///
    /// - Returns: false if the registry no longer has exactly this entry, or if the entry is being deleted.
    private func notePublished(_ entry: ChannelEntry) throws(ChannelRefusal) -> Bool {
        guard entry.state == .active else { return false }
        var publishedEntry = entry
        publishedEntry.isPublished = true
        return try convertRedisErrors { () throws(RedisError) in
            try registry.replaceIfUnchanged(entry, with: publishedEntry)
        }
    }

    /// Announces the channel of an entry in the audience's record, or the channel that the audience has got meanwhile.
    /// Withdraws the announcement if the audience has no active channel any more.
    ///
    /// - Returns: the audience's present entry; nil if it has no active one, or if Redis has lost the registry.
    private func announce(_ entry: ChannelEntry) throws(ChannelRefusal) -> ChannelEntry? {
        var announcedEntry = entry
        for _ in 0..<Self.writesMax {
            let lookup = try convertRedisErrors { () throws(RedisError) in
                try registry.announce(announcedEntry)
                return try registry.lookUp(like: entry)
            }
            guard let presentEntry = lookup.entry, presentEntry.state == .active else {
                if lookup.entry != nil || lookup.isKnownToBeMissing {
                    try convertRedisErrors { () throws(RedisError) in
                        try registry.withdrawAnnouncement(announcedEntry)
                    }
                }
                return nil
            }
            guard presentEntry.audienceRecordValue != announcedEntry.audienceRecordValue else { return presentEntry }
            announcedEntry = presentEntry
        }
        throw makeChangingEntryRefusal(entry.audience, "announced")
    }

    func makeChangingEntryRefusal(_ audience: String, _ action: String) -> ChannelRefusal {
        ChannelRefusal(
            text: "the entry of \(audience) in the registry of channels changes while it is \(action)",
            untilMilliseconds: nowMilliseconds
        )
    }

    /// Publishes and announces an entry, unless another worker has changed it since the whole registry was read. That
    /// may be long ago, because deletions at APNs come in between.
    func publishAndAnnounceIfUnchanged(_ entry: ChannelEntry) throws(ChannelRefusal) {
        let presentEntry = try convertRedisErrors { () throws(RedisError) in
            try registry.readPresentEntry(like: entry)
        }
        if presentEntry == entry { try publishAndAnnounce(entry) }
    }
}
