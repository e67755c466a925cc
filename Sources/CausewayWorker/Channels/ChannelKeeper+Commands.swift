import APNs

/// The operations of the command line `causeway channels`.
extension ChannelKeeper {
    package var appEnvironments: [AppEnvironment] {
        managedEnvironments.map(\.appEnvironment)
    }

    private func requireManagedEnvironment(_ appEnvironment: AppEnvironment) throws(ChannelRefusal)
        -> ManagedEnvironment
    {
        guard let managedEnvironment = findManagedEnvironment(appEnvironment) else {
            throw ChannelRefusal(
                text: "\(appEnvironment.app) has no channels in \(appEnvironment.environment)",
                untilMilliseconds: nowMilliseconds
            )
        }
        return managedEnvironment
    }

    package func readEntries(_ appEnvironment: AppEnvironment) throws(ChannelRefusal) -> [ChannelEntry] {
        try readCompleteRegister(requireManagedEnvironment(appEnvironment)).entries
    }

    /// Returns an audience's channel, and whether APNs has it. Returns nil if the register has no channel of
    /// the audience.
    package func inspect(
        _ audience: String,
        _ appEnvironment: AppEnvironment
    ) async throws(ChannelRefusal) -> (entry: ChannelEntry, existsAtAPNs: Bool)? {
        let managedEnvironment = try requireManagedEnvironment(appEnvironment)
        guard let entry = try readCompleteRegister(managedEnvironment).entries.first(where: { $0.audience == audience })
        else {
            return nil
        }
        do throws(ChannelError) {
            _ = try await managedEnvironment.management.read(entry.channel)
            return (entry, true)
        } catch {
            guard error.cause == .refused(.channelNotRegistered) else {
                throw ChannelRefusal(error, untilMilliseconds: nowMilliseconds)
            }
            return (entry, false)
        }
    }

    package func create(_ audience: String, _ appEnvironment: AppEnvironment) async throws(ChannelRefusal)
        -> ChannelEntry
    {
        try await ensureChannel(of: audience, at: requireManagedEnvironment(appEnvironment))
    }

    /// Deletes an audience's channel and returns its entry. Returns nil if the audience has no channel.
    package func delete(_ audience: String, _ appEnvironment: AppEnvironment) async throws(ChannelRefusal)
        -> ChannelEntry?
    {
        let managedEnvironment = try requireManagedEnvironment(appEnvironment)
        guard let entry = try readCompleteRegister(managedEnvironment).entries.first(where: { $0.audience == audience })
        else {
            return nil
        }
        guard try await delete(entry, at: managedEnvironment) else {
            throw ChannelRefusal(
                text: "another process has just changed the channel of \(audience); try again",
                untilMilliseconds: nowMilliseconds
            )
        }
        return entry
    }

    package func reconcile(
        _ appEnvironment: AppEnvironment,
        deletesUnknown: Bool
    ) async throws(ChannelRefusal) -> Reconciliation {
        try await reconcile(requireManagedEnvironment(appEnvironment), deletesUnknown: deletesUnknown)
    }

    /// Closes the producer of the channels topic.
    package func close() { topic.close() }
}
