import Redis

/// How the keeper replaces a channel that APNs no longer has.
///
/// The entry of the lost channel stays in the registry until another entry replaces it in one step. So a planned
/// deletion is not lost if the creation of the new channel fails, or if the deletion is planned meanwhile.
extension ChannelKeeper {
    /// How often another worker may change an entry while this call replaces it (R4).
    private static let replacementAttemptsMax = 8

    /// Replaces a channel that APNs no longer has, unless another worker has replaced it already. Restores the registry
    /// first (R32). Returns the audience's present channel.
    func replace(_ channel: String, of audience: String, at managedEnvironment: ManagedEnvironment)
        async throws(ChannelRefusal)
        -> ChannelEntry
    {
        try restore([managedEnvironment])
        let lostEntry = try readEntry(of: audience, at: managedEnvironment)
        let successor = try await ensureChannel(
            of: audience,
            at: managedEnvironment,
            replacing: channel,
            storage: lostEntry?.storage
        )
        if let deleteAfterMilliseconds = successor.deleteAfterMilliseconds {
            // The request of a start that was admitted meanwhile may have found the former entry. Then the deletion
            // that the new entry plans is not cancelled yet.
            try await planDeletionUnlessStarted(
                of: audience,
                at: managedEnvironment,
                afterMilliseconds: deleteAfterMilliseconds
            )
        }
        return successor
    }

    /// Adds the entry of a new channel, or puts it in the place of the lost channel's entry. The entry has a planned
    /// deletion from the beginning if the audience has ended. A plan that is written later would be missing if the
    /// worker died in between.
    ///
    /// - Parameter previousEndMilliseconds: as for `readDeletionTime`.
    /// - Returns: the entry that the registry now has; nil if the audience has another channel.
    func add(
        _ newEntry: ChannelEntry,
        replacing lostChannel: String?,
        previousEndMilliseconds: Int64?,
        at managedEnvironment: ManagedEnvironment
    ) throws -> ChannelEntry? {
        for _ in 0..<Self.replacementAttemptsMax {
            let presentEntry = try registry.readPresentEntry(forAudienceOf: newEntry)
            guard presentEntry?.mustBeReplaced(lostChannel) != false else { return nil }
            var entry = newEntry
            entry.deleteAfterMilliseconds = try readDeletionTime(
                of: newEntry,
                replacing: presentEntry,
                previousEndMilliseconds: previousEndMilliseconds,
                at: managedEnvironment
            )
            let isAdded =
                if let presentEntry {
                    try registry.replaceIfUnchanged(presentEntry, with: entry)
                } else {
                    try registry.addIfAbsent(entry)
                }
            if isAdded { return entry }
        }
        throw makeChangingEntryRefusal(newEntry.audience, "replaced")
    }
}

extension ChannelEntry {
    /// Whether another channel must replace this one, because APNs no longer has `lostChannel`. False while this
    /// channel is being deleted: the deletion must end first.
    func mustBeReplaced(_ lostChannel: String?) -> Bool { channel == lostChannel && state == .active }
}
