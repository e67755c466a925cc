import Kafka
import Redis

/// How the keeper writes an entry to `causeway.channels` and to the audience's record.
extension ChannelKeeper {
    /// Publishes an entry of the register to the topic, unless the topic has it, and announces the channel in the
    /// audience's record. If only the publication fails, reports the error and does not throw it.
    ///
    /// - Returns: the audience's present entry; nil if another worker has meanwhile replaced or deleted the channel.
    @discardableResult
    func publishAndAnnounce(_ entry: ChannelEntry) throws(ChannelRefusal) -> ChannelEntry? {
        guard let presentEntry = entry.isPublished == true ? entry : try publish(entry) else { return nil }
        try convertRedisErrors { () throws(RedisError) in try register.announce(presentEntry) }
        return presentEntry
    }

    private func publish(_ entry: ChannelEntry) throws(ChannelRefusal) -> ChannelEntry? {
        var isInTopic = false
        do {
            try topic.publish(entry)
            isInTopic = true
        } catch {
            // Report the error and continue: broadcasts need only the announcement. The periodic work publishes the
            // entry again.
            let text = "\(entry.topicKey) is not published yet: \(error)"
            report(.failed(text, app: entry.app, environment: entry.environment))
        }
        var publishedEntry = entry
        publishedEntry.isPublished = true
        return try convertRedisErrors { () throws(RedisError) in
            if isInTopic, try register.replaceIfUnchanged(entry, with: publishedEntry) { return publishedEntry }
            let presentEntry = try register.readPresentEntry(like: entry)
            // Another worker may have published the same entry.
            if presentEntry == entry || presentEntry == publishedEntry { return presentEntry }
            guard let presentEntry else { return nil }
            // The topic may have got the changed entry first, so that the older one is now the newest there.
            try register.markUnpublished(presentEntry)
            return presentEntry.channel == entry.channel && presentEntry.state == .active ? presentEntry : nil
        }
    }

    /// Publishes and announces an entry, unless another worker has changed it since the whole register was read. That
    /// may be long ago, because deletions at APNs come in between.
    func publishAndAnnounceIfUnchanged(_ entry: ChannelEntry) throws(ChannelRefusal) {
        let presentEntry = try convertRedisErrors { () throws(RedisError) in
            try register.readPresentEntry(like: entry)
        }
        if presentEntry == entry { try publishAndAnnounce(entry) }
    }
}
