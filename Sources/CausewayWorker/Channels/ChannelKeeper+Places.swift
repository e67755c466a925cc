import APNs

/// An app in one environment, as the command line names it.
package struct ChannelPlace: Sendable, Hashable {
    package var app: String
    package var environment: String
}

/// The operations of `causeway channels`.
extension ChannelKeeper {
    package var places: [ChannelPlace] {
        sites.map { ChannelPlace(app: $0.place.app, environment: $0.place.environment) }
    }

    private func site(of place: ChannelPlace) throws(ChannelRefusal) -> AppEnvironment {
        guard let site = site(Place(app: place.app, environment: place.environment)) else {
            throw ChannelRefusal(
                text: "\(place.app) has no channels in \(place.environment)",
                untilMilliseconds: now
            )
        }
        return site
    }

    package func entries(_ place: ChannelPlace) throws(ChannelRefusal) -> [ChannelEntry] {
        try known(site(of: place)).entries
    }

    /// Returns an audience's channel, and whether APNs has it. Returns nil if the register has no channel of
    /// the audience.
    package func inspect(
        _ audience: String,
        _ place: ChannelPlace
    ) async throws(ChannelRefusal) -> (entry: ChannelEntry, isThere: Bool)? {
        let site = try site(of: place)
        guard let entry = try known(site).entries.first(where: { $0.audience == audience }) else { return nil }
        do throws(ChannelError) {
            _ = try await site.management.read(entry.channel)
            return (entry, true)
        } catch {
            guard error.cause == .refused(.channelNotRegistered) else {
                throw ChannelRefusal(error, untilMilliseconds: now)
            }
            return (entry, false)
        }
    }

    package func create(_ audience: String, _ place: ChannelPlace) async throws(ChannelRefusal) -> ChannelEntry {
        try await ensure(audience, at: site(of: place))
    }

    /// Deletes an audience's channel and returns its entry. Returns nil if the audience has no channel.
    package func delete(_ audience: String, _ place: ChannelPlace) async throws(ChannelRefusal) -> ChannelEntry? {
        let site = try site(of: place)
        guard let entry = try known(site).entries.first(where: { $0.audience == audience }) else { return nil }
        try await delete(entry, at: site)
        return entry
    }

    package func reconcile(
        _ place: ChannelPlace,
        deletesUnknown: Bool
    ) async throws(ChannelRefusal) -> Reconciliation {
        try await reconcile(site(of: place), deletesUnknown: deletesUnknown)
    }

    /// Closes the connections to Kafka.
    package func close() { topic.close() }
}
