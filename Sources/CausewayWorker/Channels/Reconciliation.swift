/// Compares APNs' list of channels with the registry, and says what to do. It does no I/O.
///
/// The caller first requests the list and then reads the registry. In the other order, a channel that a worker creates
/// between the two steps would be in the list only, and would count as another program's.
///
/// APNs does not say which program created a channel. A channel without an entry counts as ours if there is an intent,
/// and is deleted. This deletion is wrong if our attempt created no channel, and another program created the channel
/// before the comparison (K14). So the comparison comes soon after the attempt
/// (``RegistryContent/hasUncomparedIntent(nowWallMilliseconds:)``).
package struct Reconciliation: Equatable, Sendable {
    /// The content of the registry for one app in one environment, at one moment.
    package struct RegistryContent: Equatable, Sendable {
        package var entries: [ChannelEntry] = []
        /// The entries that this release cannot read.
        package var unreadableEntries: [UnreadableChannelEntry] = []
        package var intents: [ChannelCreationIntent] = []
        /// The identifiers of the intents that this release cannot read. A newer release may have written them.
        package var unreadableIntents: [String] = []
        /// Channels that other programs created: APNs listed them while Causeway was creating no channel.
        package var foreignChannels: Set<String> = []
        /// Entries of deleted channels whose tombstone could not be written, so that the channels topic may still have
        /// a record of their audience. Each entry comes from a note in Redis. If this release cannot read the note, the
        /// entry has the audience's name, but an empty `channel`.
        package var entriesWithoutTombstone: [ChannelEntry] = []
        /// Whether the registry has all entries of `causeway.channels`. If not, an audience without an entry may still
        /// have a channel.
        package var isComplete = false
        /// When the worker requested APNs' list for the last complete comparison with the registry, UNIX milliseconds.
        /// A comparison is complete if it has decided about all channels and nothing has failed. Nil: there was no such
        /// comparison, or Redis has lost this time.
        package var reconciledAtWallMilliseconds: Int64?
        /// How many channels APNs had when a worker last requested the list, also those of other programs. Nil: no
        /// worker has requested it, or Redis has lost the number.
        package var listedChannelCount: Int64?

        package init() {}

        /// Whether this content shows that the app uses channels: it has an entry, an intent, or a note that a
        /// tombstone is missing.
        var showsChannelsInUse: Bool {
            !entries.isEmpty || !unreadableEntries.isEmpty || !intents.isEmpty || !unreadableIntents.isEmpty
                || !entriesWithoutTombstone.isEmpty
        }

        /// The channels that entries name.
        var ownChannels: Set<String> { Set(entries.map(\.channel) + unreadableEntries.compactMap(\.channel)) }

        /// Whether there is an intent (R32) that no comparison with APNs' list has covered, although it is old enough
        /// for one. A younger intent does not count, because APNs may still be creating its channel
        /// (``Reconciliation/apnsCreationDurationMillisecondsMax``).
        func hasUncomparedIntent(nowWallMilliseconds: Int64) -> Bool {
            let ageMillisecondsMin = Reconciliation.apnsCreationDurationMillisecondsMax
            // The time from Redis may be any number, so the subtraction must not trap on overflow.
            let comparedUntilWallMilliseconds = (reconciledAtWallMilliseconds ?? 0) &- ageMillisecondsMin
            let countedUntilWallMilliseconds = nowWallMilliseconds - ageMillisecondsMin
            return intents.contains {
                $0.createdAtWallMilliseconds > comparedUntilWallMilliseconds
                    && $0.createdAtWallMilliseconds <= countedUntilWallMilliseconds
            }
        }
    }

    /// Channels that stay, because other programs created them or may have created them.
    package var possiblyForeignChannels: [String] = []
    /// Channels to delete, because failed attempts of Causeway have probably created them: no entry names them, they
    /// are not recorded as foreign, and there are no more of them than intents.
    ///
    /// With `deletesUnknownChannels`, also the channels that other programs created, or may have created.
    package var channelsToDelete: [String] = []
    /// Channels to record as foreign: no entry names them, and there is no intent, so other programs created them.
    package var newForeignChannels: [String] = []
    /// Channels that are recorded as foreign, although entries name them. The entry of such a channel could not be read
    /// when the channel was recorded.
    package var ownChannelsRecordedAsForeign: [String] = []
    /// Channels that are recorded as foreign, although APNs' list lacks them. If APNs no longer has such a channel, the
    /// channel must be removed from the registry.
    package var missingForeignChannels: [String] = []
    /// Entries whose channel APNs' list lacks, although the channel is older than the list. If APNs confirms that the
    /// channel does not exist, a new one must be created.
    package var lostEntries: [ChannelEntry] = []
    /// Entries that must be written to the channels topic, because the topic does not have their current form.
    package var unpublishedEntries: [ChannelEntry] = []
    /// Entries whose channel must be deleted now, or is already being deleted.
    package var entriesToDelete: [ChannelEntry] = []
    /// Intents whose attempt to create a channel has ended. The caller removes them from the registry after it has
    /// deleted the ``channelsToDelete``.
    package var resolvedIntents: [ChannelCreationIntent] = []
    /// Whether an attempt to create a channel is still under way, or its intent cannot be read. A channel without an
    /// entry may come from this attempt, so only a later reconciliation decides about such channels.
    package var mayHaveCreationUnderWay = false
    /// Whether an entry exists whose channel id cannot be read. A channel that no other entry names may belong to this
    /// entry, so only a later reconciliation decides about such channels.
    package var hasUnreadableChannel = false

    /// How far apart the clocks of two workers may be. A channel that APNs' list lacks counts as lost if it was created
    /// before the list was requested. The two times may come from two clocks, so they must differ by more than this
    /// time.
    static let clockSkewMillisecondsMax: Int64 = 60_000
    /// The longest time that APNs takes to create a channel after a request, with a margin for differences between the
    /// workers' clocks. An attempt whose intent (R32) is younger than this may still create a channel that APNs' list
    /// does not have yet.
    static let apnsCreationDurationMillisecondsMax: Int64 = 60_000

    /// Compares APNs' list with the content of the registry.
    ///
    /// - Parameters:
    ///   - listedAtWallMilliseconds: when the caller requested `listedChannels` from APNs.
    ///   - isUnderWay: returns whether the attempt that wrote the intent may still be creating its channel.
    ///   - deletesUnknownChannels: whether ``channelsToDelete`` also gets the channels that other programs created, or
    ///     may have created.
    package init(
        listedChannels: [String],
        listedAtWallMilliseconds: Int64,
        content: RegistryContent,
        isUnderWay: (ChannelCreationIntent) -> Bool,
        deletesUnknownChannels: Bool,
        nowWallMilliseconds: Int64
    ) {
        let listedChannelSet = Set(listedChannels)
        for entry in content.entries {
            if entry.mustBeDeleted(nowWallMilliseconds: nowWallMilliseconds) {
                entriesToDelete.append(entry)
            } else if !listedChannelSet.contains(entry.channel) {
                if entry.createdAtWallMilliseconds < listedAtWallMilliseconds - Self.clockSkewMillisecondsMax {
                    lostEntries.append(entry)
                }
            } else if entry.isPublished != true {
                unpublishedEntries.append(entry)
            }
        }
        let ownChannels = content.ownChannels
        let unrecordedChannels = listedChannels.filter {
            !ownChannels.contains($0) && !content.foreignChannels.contains($0)
        }
        possiblyForeignChannels = listedChannels.filter {
            !ownChannels.contains($0) && content.foreignChannels.contains($0)
        }
        missingForeignChannels = content.foreignChannels.subtracting(listedChannelSet).subtracting(ownChannels).sorted()
        ownChannelsRecordedAsForeign = ownChannels.intersection(content.foreignChannels).sorted()
        hasUnreadableChannel = content.unreadableEntries.contains { $0.channel == nil }
        mayHaveCreationUnderWay = content.intents.contains(where: isUnderWay) || !content.unreadableIntents.isEmpty
        if deletesUnknownChannels, !hasUnreadableChannel {
            channelsToDelete = possiblyForeignChannels
            possiblyForeignChannels = []
        }
        guard !mayHaveCreationUnderWay, !hasUnreadableChannel else { return }
        if unrecordedChannels.count <= content.intents.count || deletesUnknownChannels {
            channelsToDelete += unrecordedChannels
            // If there are as many unrecorded channels (no entry, not foreign) as intents, each attempt counts as the
            // creator of one of them, and all intents are resolved. Otherwise a young intent stays, because APNs may
            // still be creating its channel.
            let areAllIntentsFulfilled = unrecordedChannels.count == content.intents.count
            resolvedIntents = content.intents.filter {
                areAllIntentsFulfilled
                    || $0.createdAtWallMilliseconds <= listedAtWallMilliseconds
                        - Self.apnsCreationDurationMillisecondsMax
            }
        } else {
            // Without intents, no attempt of ours created these channels, so other programs did. With intents, some
            // of the channels may be ours, and it is unknown which ones.
            possiblyForeignChannels += unrecordedChannels
            if content.intents.isEmpty { newForeignChannels = unrecordedChannels }
        }
    }

    /// Clears all lists of entries, and ``missingForeignChannels``, for a comparison that only resolves intents: it
    /// must change no entry, and it comes often while APNs has faults.
    mutating func restrictToIntents() {
        (entriesToDelete, unpublishedEntries, lostEntries) = ([], [], [])
        missingForeignChannels = []
    }
}
