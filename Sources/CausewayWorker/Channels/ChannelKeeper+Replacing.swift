import APNs
import Redis

/// How the keeper replaces a channel that APNs no longer has.
///
/// The lost channel's entry stays in the registry until the new channel's entry replaces it in one step. So a planned
/// deletion is not lost, even if no new channel can be created.
extension ChannelKeeper {
    /// The maximum number of attempts to replace an entry (R4). An attempt fails if another worker changes the entry
    /// meanwhile.
    private static let replacementAttemptsMax = 8

    /// Replaces a channel that APNs no longer has, unless another worker has replaced it already. Restores an
    /// incomplete registry first (R32). If APNs still has the channel, throws a transient failure, and the channel
    /// stays.
    ///
    /// - Returns: the entry of the audience's current channel.
    func replace(_ channel: String, of audience: String, at managedEnvironment: ManagedEnvironment)
        async throws(ChannelFailure)
        -> ChannelEntry
    {
        try restore([managedEnvironment])
        let lostEntry = try readEntry(of: audience, at: managedEnvironment)
        let newEntry = try await ensureChannel(
            of: audience,
            at: managedEnvironment,
            replacing: channel,
            storage: lostEntry?.storage
        )
        if let deletionDueWallMilliseconds = newEntry.deletionDueWallMilliseconds {
            // The new entry has a planned deletion. If Redis has admitted a start during the creation, the lane's
            // request about this start may have cancelled the deletion only in the lost channel's entry. The following
            // call then cancels it in the new entry.
            try await planDeletionUnlessStarted(
                of: audience,
                at: managedEnvironment,
                dueWallMilliseconds: deletionDueWallMilliseconds
            )
        }
        return newEntry
    }

    /// Asks APNs whether a channel is lost, and reports the loss. Throws a transient failure if APNs still has the
    /// channel. The response ChannelNotRegistered to a push is no proof, and if a channel is replaced by mistake, its
    /// phones get nothing more.
    func confirmLoss(of entry: ChannelEntry, at managedEnvironment: ManagedEnvironment) async throws(ChannelFailure) {
        guard try await existsAtAPNs(entry.channel, at: managedEnvironment) else { return report(.lost(entry)) }
        throw ChannelFailure(
            reason: "APNs has refused a broadcast to channel \(entry.channel) as unknown, but still has this channel",
            retryPauseEndMilliseconds: monotonicMilliseconds
        )
    }

    func existsAtAPNs(_ channel: String, at managedEnvironment: ManagedEnvironment) async throws(ChannelFailure) -> Bool
    {
        do throws(ChannelError) {
            _ = try await managedEnvironment.channelManagement.read(channel)
            return true
        } catch {
            guard error.showsMissingChannel else { throw makeFailure(error) }
            return false
        }
    }

    /// Adds the entry of a new channel to the registry, or replaces the lost channel's entry with it. If the audience
    /// has ended, the same write plans the channel's deletion, so that a crash cannot lose the plan.
    ///
    /// - Parameters:
    ///   - lostEntry: the lost channel's entry, as the registry had it before the creation; nil: the registry had none.
    ///     Its planned deletion applies to the new channel too, even if another worker has removed the entry since,
    ///     unless the audience has been started again.
    ///   - endToDisregardWallMilliseconds: for an operator's request: when the audience last ended before the request.
    ///     If the audience has not ended again since, that end causes no deletion. A planned deletion of the lost
    ///     channel still applies.
    /// - Returns: the entry that the registry now has; nil if the audience has another channel.
    func add(
        _ newEntry: ChannelEntry,
        replacing lostChannel: String?,
        lostEntry: ChannelEntry?,
        endToDisregardWallMilliseconds: Int64?,
        at managedEnvironment: ManagedEnvironment
    ) throws -> ChannelEntry? {
        for _ in 0..<Self.replacementAttemptsMax {
            let currentEntry = try registry.readCurrentEntry(forAudienceOf: newEntry)
            guard currentEntry?.mustBeReplaced(lostChannel) != false else { return nil }
            let replacedEntry = currentEntry ?? lostEntry
            var entry = newEntry
            entry.disregardedEndWallMilliseconds =
                endToDisregardWallMilliseconds ?? replacedEntry?.disregardedEndWallMilliseconds
            entry.deletionDueWallMilliseconds = try readDeletionDueWallMilliseconds(
                of: newEntry,
                replacing: replacedEntry,
                endToDisregardWallMilliseconds: endToDisregardWallMilliseconds,
                at: managedEnvironment
            )
            let isAdded =
                if let currentEntry {
                    try registry.replaceIfUnchanged(currentEntry, with: entry)
                } else {
                    try registry.addIfAbsent(entry)
                }
            if isAdded { return entry }
        }
        throw makeChangingEntryFailure(newEntry.audience, "replaced")
    }
}

extension ChannelEntry {
    /// Whether this entry has the lost channel, so that another channel must replace it. False while the channel is
    /// being deleted: the deletion must end first.
    func mustBeReplaced(_ lostChannel: String?) -> Bool { channel == lostChannel && state == .active }
}
