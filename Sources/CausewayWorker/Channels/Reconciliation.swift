/// Compares the channels that APNs lists with the register, and says what to do. Pure: values in, actions out.
///
/// The caller requests the list first, then reads the register at one moment. A channel created in between has an entry or an intent.
package struct Reconciliation: Equatable, Sendable {
    /// What the register has for one app in one environment, at one moment.
    package struct Known: Equatable, Sendable {
        package var entries: [ChannelEntry] = []
        package var intents: [ChannelIntent] = []
        /// Other people's channels: they existed before any open attempt of ours.
        package var foreign: Set<String> = []
        /// Whether the register has what `causeway.channels` has. Otherwise entries may be missing.
        package var isRestored = false
        /// When APNs' list was last compared with the register, UNIX milliseconds; nil: never.
        package var reconciledAt: Int64?

        package init() {}
    }

    /// Channels that other programs created, or may have created.
    package var unknown: [String] = []
    /// Channels that must be deleted: our own attempts created them, but no entry names them. With `deletesUnknown`, also channels that
    /// other programs created, or may have created.
    package var orphans: [String] = []
    /// Other people's channels that this list shows for the first time.
    package var newlyForeign: [String] = []
    /// Entries whose channel APNs no longer has. It must be created again.
    package var lost: [ChannelEntry] = []
    /// Entries that are not in the topic yet.
    package var unpublished: [ChannelEntry] = []
    /// Entries whose channel must be deleted now, or whose deletion has begun.
    package var due: [ChannelEntry] = []
    /// Intents whose attempt has ended. The register drops them.
    package var resolved: [ChannelIntent] = []
    /// An attempt is still under way, and an unknown channel may be its channel. A later reconciliation decides about unknown channels.
    package var isEarly = false

    /// The clocks of workers differ: a channel created less than this before the list may be missing from the list.
    static let clockMilliseconds: Int64 = 60_000

    /// - Parameters:
    ///   - listedAtMilliseconds: when the caller requested the list.
    ///   - isUnderWay: whether the attempt of an intent may still be under way.
    ///   - deletesUnknown: delete other people's channels too, and channels that may be other people's.
    package init(
        listed: [String],
        listedAtMilliseconds: Int64,
        known: Known,
        isUnderWay: (ChannelIntent) -> Bool,
        deletesUnknown: Bool,
        nowMilliseconds: Int64
    ) {
        let there = Set(listed)
        for entry in known.entries {
            let isDue = entry.state == .deleting || entry.deleteAfter.map { $0 <= nowMilliseconds } == true
            if isDue {
                due.append(entry)
            } else if !there.contains(entry.channel) {
                if entry.createdAt < listedAtMilliseconds - Self.clockMilliseconds { lost.append(entry) }
            } else if entry.isPublished != true {
                unpublished.append(entry)
            }
        }
        let own = Set(known.entries.map(\.channel))
        let strange = listed.filter { !own.contains($0) && !known.foreign.contains($0) }
        unknown = listed.filter { !own.contains($0) && known.foreign.contains($0) }
        if deletesUnknown {
            orphans = unknown
            unknown = []
        }
        guard !known.intents.contains(where: isUnderWay) else {
            isEarly = true
            return
        }
        if strange.count <= known.intents.count || deletesUnknown {
            orphans += strange
            resolved = known.intents
        } else {
            // Without an open attempt of ours the channels are other people's. With one, nobody can tell whose they are.
            unknown += strange
            if known.intents.isEmpty { newlyForeign = strange }
        }
    }
}
