import Kafka
import Redis

/// Restores Redis' registry of channels from `causeway.channels` after Redis has lost the registry, or may have lost
/// the newest entries: the server has restarted, or another one has replaced it.
///
/// The field `t:` of a registry says whether its entries are complete (``RegistryCompleteness``). Until a registry is
/// complete again, no worker creates a channel, begins to delete one, or reports one as missing. So phones keep the
/// channel that they know.
extension ChannelKeeper {
    /// The maximum number of attempts in one call of ``restore(_:alongside:attemptsMax:)`` (R4). An attempt fails if
    /// another process deletes a channel meanwhile, or if Redis loses the registry.
    private static let restorationAttemptsMax = 8
    /// The pause after a failed restoration. If the channels topic could not be read, requests that need a restoration
    /// fail at once during this pause, so that they do not all wait for Kafka's timeout. After a failure of Redis,
    /// look-ups fail at once (`lookUpUnlessPaused`).
    static let restorationPauseMilliseconds: Int64 = 5_000

    /// Returns an audience's entry; nil if it has none. If the registry is incomplete and has no entry of the audience,
    /// restores the registry and looks again. Throws a failure if the entry cannot be read.
    func readEntry(of audience: String, at managedEnvironment: ManagedEnvironment) throws(ChannelFailure)
        -> ChannelEntry?
    {
        let firstLookup = try lookUp(audience, at: managedEnvironment)
        guard firstLookup.entry == nil, !firstLookup.isRegistryComplete else { return firstLookup.entry }
        try restore([managedEnvironment])
        return try lookUp(audience, at: managedEnvironment).entry
    }

    /// Writes the audience's channel to the audience's hash, which Redis may have lost. Creates no channel, and needs
    /// no response of APNs.
    ///
    /// If the app is not known to use channels, and the registry cannot be restored, the audience counts as one without
    /// a channel. Otherwise the commands of an app without channels would wait while workers cannot read the channels
    /// topic.
    ///
    /// A restoration here includes all incomplete registries, so that the channels topic is read once for all of them,
    /// and not once for each app.
    ///
    /// - Returns: whether the audience has an active channel, which its hash then has too.
    func restoreChannelInHash(of audience: String, at managedEnvironment: ManagedEnvironment) throws(ChannelFailure)
        -> Bool
    {
        var lookup = try lookUpUnlessPaused(audience, at: managedEnvironment)
        if lookup.entry == nil, !lookup.isRegistryComplete {
            do throws(ChannelFailure) {
                try restore([managedEnvironment], alongside: managedEnvironments)
            } catch {
                guard !isKnownToUseChannels(managedEnvironment) else { throw error }
                return false
            }
            lookup = try lookUp(audience, at: managedEnvironment)
        }
        guard let entry = lookup.entry, entry.state == .active else { return false }
        return try writeChannelToAudienceHash(of: entry) != nil
    }

    /// Looks up an audience's entry. If Redis fails, further look-ups of the app and environment fail at once for
    /// ``restorationPauseMilliseconds``. Otherwise each of them would wait for Redis' timeout while a primary of a
    /// cluster is unreachable, and the other apps' requests would wait too (R22).
    private func lookUpUnlessPaused(_ audience: String, at managedEnvironment: ManagedEnvironment)
        throws(ChannelFailure) -> ChannelRegistry.Lookup
    {
        if let failure = findLookupFailure(managedEnvironment.appEnvironment) { throw failure }
        do throws(ChannelFailure) {
            return try lookUp(audience, at: managedEnvironment)
        } catch {
            // A failure that is not transient means that this audience's entry cannot be read. Look-ups of other
            // audiences continue.
            if error.isTransient { pauseLookups(of: managedEnvironment.appEnvironment, after: error) }
            throw error
        }
    }

    private func pauseLookups(of appEnvironment: AppEnvironment, after failure: ChannelFailure) {
        lookupFailures[appEnvironment] = (failure, monotonicMilliseconds + Self.restorationPauseMilliseconds)
    }

    /// Returns why look-ups of the app and environment now fail at once; nil if they ask Redis.
    func findLookupFailure(_ appEnvironment: AppEnvironment) -> ChannelFailure? {
        lookupFailures[appEnvironment].flatMap { monotonicMilliseconds < $0.endMilliseconds ? $0.failure : nil }
    }

    /// Looks up an audience's entry. Throws an error if the entry cannot be read. If an unreadable entry counted as
    /// missing, the audience would get another channel, to which no phone is subscribed.
    func lookUp(_ audience: String, at managedEnvironment: ManagedEnvironment) throws(ChannelFailure)
        -> ChannelRegistry.Lookup
    {
        let lookup = try convertRedisErrors { () throws(RedisError) in
            try registry.lookUp(managedEnvironment.appEnvironment, audience: audience)
        }
        if lookup.isEntryUnreadable { throw makeUnreadableEntryFailure(audience, at: managedEnvironment) }
        return lookup
    }

    /// Reports the entries and intents that cannot be read, and does not throw an error, so that the work for other
    /// audiences continues.
    func reportUnreadableEntries(
        of content: Reconciliation.RegistryContent,
        at managedEnvironment: ManagedEnvironment
    ) {
        let appEnvironment = managedEnvironment.appEnvironment
        if let identifier = content.unreadableIntents.first {
            let reason =
                """
                the registry of channels in Redis has fields that cannot be read (\(content.unreadableIntents.count)), \
                for example i:\(identifier) of {channels:\(appEnvironment.app):\(appEnvironment.environment)}. Each is \
                about a channel that a worker creates. If a newer release wrote them, upgrade this worker. Otherwise \
                remove these fields. Until then, channels that a crash left without an owner are not deleted
                """
            report(.failed(reason: reason, app: appEnvironment.app, environment: appEnvironment.environment))
        }
        guard let entry = content.unreadableEntries.first else { return }
        let otherCount = content.unreadableEntries.count - 1
        let otherEntriesText = otherCount == 0 ? "" : " (\(otherCount) other entries cannot be read either)"
        report(
            .failed(
                reason: makeUnreadableEntryFailure(entry.audience, at: managedEnvironment).reason + otherEntriesText,
                app: appEnvironment.app,
                environment: appEnvironment.environment
            )
        )
    }

    private func makeUnreadableEntryFailure(_ audience: String, at managedEnvironment: ManagedEnvironment)
        -> ChannelFailure
    {
        let appEnvironment = managedEnvironment.appEnvironment
        return ChannelFailure(
            reason:
                """
                the registry of channels in Redis has an entry that cannot be read: field a:\(audience) of \
                {channels:\(appEnvironment.app):\(appEnvironment.environment)}. If a newer release wrote it, upgrade \
                this worker. Otherwise remove this field and the field t: together. The registry is then restored from \
                \(channelTopic.name). If the entry returns, first write a tombstone there for the key \
                \(appEnvironment.app)/\(appEnvironment.environment)/\(audience)
                """,
            retryPauseEndMilliseconds: monotonicMilliseconds,
            isTransient: false
        )
    }

    /// Reads everything that the registry has for an app in an environment, even if the registry is incomplete. If a
    /// complete registry shows that the app uses channels, notes this in ``environmentsSeenUsingChannels``.
    func readRegistryAsIs(_ managedEnvironment: ManagedEnvironment) throws(ChannelFailure)
        -> Reconciliation.RegistryContent
    {
        let content = try convertRedisErrors { () throws(RedisError) in
            try registry.readContent(managedEnvironment.appEnvironment)
        }
        if content.isComplete, content.showsChannelsInUse {
            environmentsSeenUsingChannels.insert(managedEnvironment.appEnvironment)
        }
        return content
    }

    /// Reads everything that the registry has for an app in an environment. Restores the registry first if it
    /// is incomplete. Throws a transient failure if Redis loses the registry again before it is read (R32).
    func readCompleteRegistry(_ managedEnvironment: ManagedEnvironment) throws(ChannelFailure)
        -> Reconciliation.RegistryContent
    {
        let content = try readRegistryAsIs(managedEnvironment)
        if content.isComplete { return content }
        try restore([managedEnvironment])
        let restoredContent = try readRegistryAsIs(managedEnvironment)
        guard restoredContent.isComplete else { throw makeChangingRegistryFailure() }
        return restoredContent
    }

    private func makeChangingRegistryFailure() -> ChannelFailure {
        ChannelFailure(
            reason: "the registry of channels changes while it is restored",
            retryPauseEndMilliseconds: monotonicMilliseconds + Self.restorationPauseMilliseconds
        )
    }

    /// Restores the incomplete registries, because admission needs the channels that exist. Leaves out the apps that
    /// are not known to use channels.
    func restoreIncompleteRegistries() throws(ChannelFailure) {
        try restore(managedEnvironments.filter { isKnownToUseChannels($0) })
    }

    /// Writes all active channels to the audiences' hashes again if some of these hashes may be lost
    /// (``PossibleHashLoss``). After a failure, the next call tries again. Leaves out an incomplete registry, because
    /// its restoration does the same.
    func rewritePossiblyLostHashes() throws(ChannelFailure) {
        if possibleHashLoss.takeNote() {
            environmentsWithPossiblyLostHashes = Set(managedEnvironments.map(\.appEnvironment))
        }
        // End at the first failure, because each further environment could cost the same timeout. The order is random:
        // in a fixed order, an unreachable primary could stop the work before the same environments each time. (R22)
        for appEnvironment in environmentsWithPossiblyLostHashes.shuffled() {
            let needsNoRetry = try convertRedisErrors { () throws(RedisError) -> Bool in
                guard try registry.isComplete(appEnvironment) else { return true }
                return try registry.writeActiveChannelsToAudienceHashes(
                    appEnvironment,
                    atWallMilliseconds: wallMilliseconds
                )
            }
            if needsNoRetry { environmentsWithPossiblyLostHashes.remove(appEnvironment) }
        }
    }

    /// Whether the configuration gives an audience of the app a channel, or this process has seen that the app uses
    /// channels.
    func isKnownToUseChannels(_ managedEnvironment: ManagedEnvironment) -> Bool {
        managedEnvironment.hasConfiguredChannels
            || environmentsSeenUsingChannels.contains(managedEnvironment.appEnvironment)
    }

    /// Restores the registry of each of these environments, if it is incomplete: copies its entries from
    /// `causeway.channels`, and writes the channels into the audiences' hashes, where admission reads them. Several
    /// processes may do this at the same time.
    ///
    /// - Parameter otherEnvironments: further environments, whose incomplete registries are restored with the same read
    ///   of the topic if possible. After a failure, some of them may stay incomplete, and nothing is thrown.
    func restore(
        _ managedEnvironments: [ManagedEnvironment],
        alongside otherEnvironments: [ManagedEnvironment] = [],
        attemptsMax: Int = ChannelKeeper.restorationAttemptsMax
    ) throws(ChannelFailure) {
        var restorationTokens = try beginRestorations(of: managedEnvironments)
        for _ in 0..<attemptsMax where !restorationTokens.isEmpty {
            let requiredEnvironments = Array(restorationTokens.keys)
            let otherTokens = beginPossibleRestorations(
                of: otherEnvironments.filter { !requiredEnvironments.contains($0.appEnvironment) }
            )
            let publishedChannels = try readPublishedChannels(for: requiredEnvironments)
            for (appEnvironment, token) in restorationTokens {
                // The registry may stay incomplete after this call. The outer loop then reads the channels topic again.
                try restoreRegistry(appEnvironment, from: publishedChannels, token: token)
            }
            restoreIfPossible(otherTokens, from: publishedChannels)
            restorationTokens = try beginRestorations(of: managedEnvironments)
        }
        guard restorationTokens.isEmpty else { throw makeChangingRegistryFailure() }
    }

    /// Tries once to restore one registry from the records of the channels topic, and reports unreadable records. If
    /// the topic has records of the app, notes this in ``environmentsSeenUsingChannels``.
    private func restoreRegistry(
        _ appEnvironment: AppEnvironment,
        from publishedChannels: PublishedChannels,
        token: [UInt8]
    ) throws(ChannelFailure) {
        let channels = publishedChannels.filtered(for: appEnvironment)
        if !channels.entries.isEmpty || !channels.unreadableRecords.isEmpty {
            environmentsSeenUsingChannels.insert(appEnvironment)
        }
        for record in channels.unreadableRecords {
            report(
                .failed(
                    reason:
                        """
                        \(channelTopic.name) has a record that cannot be read: key \(record.key), \
                        partition \(record.partition), offset \(record.offset)
                        """,
                    app: appEnvironment.app,
                    environment: appEnvironment.environment
                )
            )
        }
        try convertRedisErrors { () throws(RedisError) in
            _ = try registry.restore(channels, appEnvironment, token: token, atWallMilliseconds: wallMilliseconds)
        }
    }

    /// Begins to restore the registry of each of these environments, if it is incomplete. Ends at the first failure of
    /// Redis, because each further registry could cost the same timeout, and throws nothing. Leaves out registries
    /// whose look-ups fail at once (`findLookupFailure`).
    ///
    /// - Returns: for each registry that this call has begun to restore, the token that `ChannelRegistry.restore`
    ///   needs.
    private func beginPossibleRestorations(of managedEnvironments: [ManagedEnvironment]) -> [AppEnvironment: [UInt8]] {
        var restorationTokens: [AppEnvironment: [UInt8]] = [:]
        for managedEnvironment in managedEnvironments
        where findLookupFailure(managedEnvironment.appEnvironment) == nil {
            do throws(ChannelFailure) {
                restorationTokens.merge(try beginRestorations(of: [managedEnvironment])) { $1 }
            } catch {
                pauseLookups(of: managedEnvironment.appEnvironment, after: error)
                break
            }
        }
        return restorationTokens
    }

    /// Tries once to restore the registries that these tokens belong to. Ends at the first failure, and throws nothing.
    /// Does nothing if the brokers do not know the topic: it may exist, and have channels of these apps.
    private func restoreIfPossible(
        _ restorationTokens: [AppEnvironment: [UInt8]],
        from publishedChannels: PublishedChannels
    ) {
        guard !publishedChannels.isTopicMissing else { return }
        for (appEnvironment, token) in restorationTokens {
            guard (try? restoreRegistry(appEnvironment, from: publishedChannels, token: token)) != nil else { return }
        }
    }

    /// Begins to restore the registry of each of these environments, if it is incomplete.
    ///
    /// - Returns: for each incomplete registry, the token that `ChannelRegistry.restore` needs.
    private func beginRestorations(
        of managedEnvironments: [ManagedEnvironment]
    ) throws(ChannelFailure) -> [AppEnvironment: [UInt8]] {
        var restorationTokens: [AppEnvironment: [UInt8]] = [:]
        for appEnvironment in managedEnvironments.map(\.appEnvironment) {
            restorationTokens[appEnvironment] = try convertRedisErrors { () throws(RedisError) in
                guard try !registry.isComplete(appEnvironment) else { return nil }
                return try registry.beginRestoration(appEnvironment)
            }
        }
        return restorationTokens
    }

    /// Reads the channels topic. For ``restorationPauseMilliseconds`` after a failure, throws the same failure again,
    /// so that requests do not all wait for Kafka's timeout. A missing topic is a failure only if this process knows
    /// that one of these apps uses channels.
    private func readPublishedChannels(for appEnvironments: [AppEnvironment]) throws(ChannelFailure)
        -> PublishedChannels
    {
        if let restorationFailure, monotonicMilliseconds < restorationFailure.retryPauseEndMilliseconds {
            throw restorationFailure
        }
        let mustTopicExist = managedEnvironments.contains {
            appEnvironments.contains($0.appEnvironment) && isKnownToUseChannels($0)
        }
        do throws(KafkaError) {
            var channels = try channelTopic.readChannels(mustExist: mustTopicExist)
            for index in channels.entries.indices { channels.entries[index].isPublished = true }
            return channels
        } catch {
            let failure = ChannelFailure(
                reason:
                    """
                    the registry of channels in Redis is not complete, and the channels cannot be read from Kafka: \
                    \(error)
                    """,
                retryPauseEndMilliseconds: monotonicMilliseconds + Self.restorationPauseMilliseconds
            )
            restorationFailure = failure
            throw failure
        }
    }
}
