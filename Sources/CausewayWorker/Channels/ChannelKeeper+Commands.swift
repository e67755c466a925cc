import Redis

/// What the subcommands of `causeway channels` do.
extension ChannelKeeper {
    package var appEnvironments: [AppEnvironment] {
        managedEnvironments.map(\.appEnvironment)
    }

    private func requireManagedEnvironment(_ appEnvironment: AppEnvironment) throws(ChannelFailure)
        -> ManagedEnvironment
    {
        guard let managedEnvironment = findManagedEnvironment(appEnvironment) else {
            throw ChannelFailure(
                reason: "\(appEnvironment.app) has no channels in \(appEnvironment.environment)",
                retryPauseEndMilliseconds: monotonicMilliseconds
            )
        }
        return managedEnvironment
    }

    /// Returns an audience's entry; nil if the registry has none. Restores an incomplete registry first. Throws if the
    /// entry cannot be read.
    private func restoreAndReadEntry(_ audience: String, at managedEnvironment: ManagedEnvironment)
        throws(ChannelFailure) -> ChannelEntry?
    {
        try restore([managedEnvironment])
        return try lookUp(audience, at: managedEnvironment).entry
    }

    /// Returns the content of the registry, and reports the entries that cannot be read. Restores an incomplete
    /// registry first.
    package func readRegistry(_ appEnvironment: AppEnvironment) throws(ChannelFailure)
        -> Reconciliation.RegistryContent
    {
        let managedEnvironment = try requireManagedEnvironment(appEnvironment)
        let content = try readCompleteRegistry(managedEnvironment)
        reportUnreadableEntries(of: content, at: managedEnvironment)
        return content
    }

    /// Returns the entry of an audience's channel, and whether APNs still has the channel. Returns nil if the registry
    /// has no channel of the audience.
    package func inspect(
        _ audience: String,
        _ appEnvironment: AppEnvironment
    ) async throws(ChannelFailure) -> (entry: ChannelEntry, existsAtAPNs: Bool)? {
        let managedEnvironment = try requireManagedEnvironment(appEnvironment)
        guard let entry = try restoreAndReadEntry(audience, at: managedEnvironment) else { return nil }
        return (entry, try await existsAtAPNs(entry.channel, at: managedEnvironment))
    }

    /// Returns the entry of an audience's channel, and creates the channel if there is none. An operator asks for this
    /// channel, so it stays even if the audience has ended.
    package func create(_ audience: String, _ appEnvironment: AppEnvironment) async throws(ChannelFailure)
        -> ChannelEntry
    {
        let managedEnvironment = try requireManagedEnvironment(appEnvironment)
        let endToDisregard = try convertRedisErrors { () throws(RedisError) in
            try registry.readAudienceEnd(appEnvironment.app, audience)
        }
        return try await ensureChannel(
            of: audience,
            at: managedEnvironment,
            endToDisregardWallMilliseconds: endToDisregard?.atWallMilliseconds
        )
    }

    /// Deletes an audience's channel, even if the audience has been started, and returns the channel's entry. Returns
    /// nil if the audience has no channel.
    package func delete(_ audience: String, _ appEnvironment: AppEnvironment) async throws(ChannelFailure)
        -> ChannelEntry?
    {
        let managedEnvironment = try requireManagedEnvironment(appEnvironment)
        guard let entry = try restoreAndReadEntry(audience, at: managedEnvironment) else { return nil }
        guard try await delete(entry, at: managedEnvironment, isOrderedByOperator: true) else {
            throw ChannelFailure(
                reason: "another process has just changed the channel of \(audience); try again",
                retryPauseEndMilliseconds: monotonicMilliseconds
            )
        }
        return entry
    }

    /// Compares the registry with APNs' list, acts on the differences, and reports the entries that cannot be read.
    ///
    /// - Parameter deletesUnknownChannels: whether to delete also the channels that other programs may have created.
    package func reconcile(
        _ appEnvironment: AppEnvironment,
        deletesUnknownChannels: Bool
    ) async throws(ChannelFailure) -> Reconciliation {
        let managedEnvironment = try requireManagedEnvironment(appEnvironment)
        let reconciliation = try await reconcile(managedEnvironment, deletesUnknownChannels: deletesUnknownChannels)
        reportUnreadableEntries(of: try readRegistryAsIs(managedEnvironment), at: managedEnvironment)
        return reconciliation
    }

    /// Closes the producer of the channels topic.
    package func close() { channelTopic.close() }
}
