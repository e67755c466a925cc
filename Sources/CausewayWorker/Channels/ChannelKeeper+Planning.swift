import Redis

/// How the keeper plans and cancels deletions of channels.
extension ChannelKeeper {
    /// Plans the deletion of an audience's channel after Redis has admitted the audience's end, unless the audience has
    /// been started again. Then writes the channel to the audience's hash: Redis may have lost the hash, and the
    /// command that ends the audience waits for the channel.
    func planDeletionAfterEnd(
        of audience: String,
        at managedEnvironment: ManagedEnvironment,
        storedUntilWallMilliseconds: Int64
    )
        async throws(ChannelFailure)
    {
        try await planDeletionUnlessStarted(
            of: audience,
            at: managedEnvironment,
            dueWallMilliseconds: max(
                wallMilliseconds + managedEnvironment.keepAfterEndMilliseconds,
                storedUntilWallMilliseconds
            )
        )
        guard let entry = try readEntry(of: audience, at: managedEnvironment), entry.state == .active else { return }
        _ = try writeChannelToAudienceHash(of: entry)
    }

    /// Plans the deletion of an ended audience's channel. If the audience has been started again, cancels a planned
    /// deletion instead. Waits while another process creates the channel, or decides whether the channel stays. Tries
    /// again if another process changes the entry. After `creationMillisecondsMax`, gives up and throws nothing.
    func planDeletionUnlessStarted(
        of audience: String,
        at managedEnvironment: ManagedEnvironment,
        dueWallMilliseconds: Int64
    )
        async throws(ChannelFailure)
    {
        let deadlineMilliseconds = monotonicMilliseconds + creationMillisecondsMax
        while true {
            let entry = try readEntry(of: audience, at: managedEnvironment)
            let isEverythingPlanned = try convertRedisErrors { () throws(RedisError) in
                if let entry {
                    // Another process is deleting the channel. If this is final (no `deletionDueWallMilliseconds`),
                    // nothing is left to plan. Otherwise wait for its decision: it may keep the channel because of a
                    // start before the end, and then a deletion must be planned.
                    guard entry.state == .active else { return entry.deletionDueWallMilliseconds == nil }
                    return try planOrCancelDeletion(of: entry, dueWallMilliseconds: dueWallMilliseconds)
                }
                return try !registry.isChannelBeingCreated(audience, managedEnvironment.appEnvironment)
            }
            guard !isEverythingPlanned, monotonicMilliseconds < deadlineMilliseconds, !Task.isCancelled else { return }
            try? await Task.sleep(for: Self.creationPollInterval)
        }
    }

    /// Plans the deletion of a channel. If the audience has been started again, cancels a planned deletion instead.
    /// Does nothing if an operator wants the channel in spite of the audience's end.
    ///
    /// - Returns: false if another worker has changed the entry meanwhile, so that the caller must try again.
    private func planOrCancelDeletion(of entry: ChannelEntry, dueWallMilliseconds: Int64) throws(RedisError) -> Bool {
        if let disregardedEndWallMilliseconds = entry.disregardedEndWallMilliseconds,
            try registry.readAudienceEnd(entry.app, entry.audience)?.atWallMilliseconds
                == disregardedEndWallMilliseconds
        {
            return true
        }
        var currentEntry = entry
        if try !registry.isAudienceStarted(of: entry) {
            guard let plannedEntry = try planDeletion(of: entry, dueWallMilliseconds: dueWallMilliseconds) else {
                return false
            }
            // A start may have come after the first call of `isAudienceStarted`, and before the plan was written. The
            // keeper that handled the start then found no plan to cancel, so cancel the plan here. If this process dies
            // first, `deleteUnlessAudienceStarted` cancels the plan.
            guard try registry.isAudienceStarted(of: entry) else { return true }
            currentEntry = plannedEntry
        }
        guard currentEntry.deletionDueWallMilliseconds != nil else { return true }
        return try registry.replaceIfUnchanged(currentEntry, with: Self.makeEntryWithoutPlannedDeletion(currentEntry))
    }

    /// Deletes a channel whose deletion is due or has begun. But if the audience has been started again, the channel
    /// stays, unless its deletion is final (`confirmDeletion`).
    func deleteUnlessAudienceStarted(_ entry: ChannelEntry, at managedEnvironment: ManagedEnvironment)
        async throws(ChannelFailure)
    {
        let isStarted = try convertRedisErrors { () throws(RedisError) in
            guard entry.state == .active else { return false }
            return try registry.isAudienceStarted(of: entry)
        }
        guard isStarted else {
            try await delete(entry, at: managedEnvironment)
            return
        }
        if let activeEntry = try cancelDeletion(of: entry) { try publishAndWriteToAudienceHash(activeEntry) }
    }

    private static func makeEntryWithoutPlannedDeletion(_ entry: ChannelEntry) -> ChannelEntry {
        var entry = entry
        (entry.deletionDueWallMilliseconds, entry.isPublished) = (nil, nil)
        return entry
    }

    /// Decides for the last time whether a channel is deleted at APNs. The caller has removed the channel from the
    /// audience's hash.
    ///
    /// - If the entry has no planned time, the deletion is final already.
    /// - If the audience has been started since the deletion was planned, the channel becomes active again.
    /// - Otherwise the entry loses its planned time, and no start can cancel the deletion any more.
    ///
    /// If several workers call this at the same time, the first one decides.
    ///
    /// - Parameter hasRemovedChannelFromHash: whether the hash still had the channel, and the caller removed it. If
    ///   not, a worker of an older release may have deleted the channel at APNs already. The channel of a started
    ///   audience then stays only if APNs still has it.
    /// - Returns: the entry to delete; nil if the channel stays, or if another worker deletes it.
    func confirmDeletion(
        of entry: ChannelEntry,
        at managedEnvironment: ManagedEnvironment,
        hasRemovedChannelFromHash: Bool
    ) async throws(ChannelFailure) -> ChannelEntry? {
        guard entry.deletionDueWallMilliseconds != nil else { return entry }
        var isKept = try convertRedisErrors { () throws(RedisError) in try registry.isAudienceStarted(of: entry) }
        if isKept, !hasRemovedChannelFromHash { isKept = try await existsAtAPNs(entry.channel, at: managedEnvironment) }
        var decidedEntry = entry
        decidedEntry.deletionDueWallMilliseconds = nil
        if isKept { (decidedEntry.state, decidedEntry.isPublished) = (.active, nil) }
        let (isDecided, currentEntry) = try convertRedisErrors { () throws(RedisError) -> (Bool, ChannelEntry?) in
            let isDecided = try registry.replaceIfUnchanged(entry, with: decidedEntry)
            return (isDecided, isDecided ? decidedEntry : try registry.readCurrentEntry(forAudienceOf: entry))
        }
        // If the audience has an active channel, write this channel to the hash again, because the caller may have
        // removed it from there.
        if let currentEntry, currentEntry.state == .active { try publishAndWriteToAudienceHash(currentEntry) }
        return isDecided && decidedEntry.state == .deleting ? decidedEntry : nil
    }

    /// Cancels the planned deletion of a channel.
    ///
    /// - Parameter disregardedEndWallMilliseconds: when the audience ended, if an operator wants the channel in spite
    ///   of this end; nil: no operator does.
    /// - Returns: the entry without a planned deletion; nil if another worker has changed the entry since it was read.
    func cancelDeletion(of entry: ChannelEntry, disregardedEndWallMilliseconds: Int64? = nil) throws(ChannelFailure)
        -> ChannelEntry?
    {
        guard
            entry.deletionDueWallMilliseconds != nil
                || entry.disregardedEndWallMilliseconds != disregardedEndWallMilliseconds
        else { return entry }
        var activeEntry = Self.makeEntryWithoutPlannedDeletion(entry)
        activeEntry.disregardedEndWallMilliseconds = disregardedEndWallMilliseconds
        let isChanged = try convertRedisErrors { () throws(RedisError) in
            try registry.replaceIfUnchanged(entry, with: activeEntry)
        }
        return isChanged ? activeEntry : nil
    }

    /// Plans the deletion of a channel. The periodic work publishes the plan to the channels topic, so that the plan
    /// survives a loss of Redis.
    ///
    /// - Returns: the changed entry; nil if another worker has changed the entry since it was read.
    func planDeletion(of entry: ChannelEntry, dueWallMilliseconds: Int64) throws(RedisError) -> ChannelEntry? {
        guard entry.deletionDueWallMilliseconds != dueWallMilliseconds else { return entry }
        var plannedEntry = entry
        (plannedEntry.deletionDueWallMilliseconds, plannedEntry.isPublished) = (dueWallMilliseconds, nil)
        return try registry.replaceIfUnchanged(entry, with: plannedEntry) ? plannedEntry : nil
    }

    /// Plans the deletion of a channel if its audience has ended since the channel was created, unless an operator
    /// wants the channel in spite of this end. Usually the worker that admitted the end has already done this. If it
    /// could not, for example because it was killed, the daily comparison calls this method.
    func planDeletionIfAudienceEnded(of entry: ChannelEntry, at managedEnvironment: ManagedEnvironment)
        throws(ChannelFailure)
    {
        try convertRedisErrors { () throws(RedisError) in
            // A channel that was created after the end stays: a later command or an operator has asked for it.
            guard let end = try registry.readAudienceEnd(entry.app, entry.audience),
                entry.createdAtWallMilliseconds <= end.atWallMilliseconds,
                let currentEntry = try registry.readEntry(managedEnvironment.appEnvironment, audience: entry.audience),
                currentEntry.channel == entry.channel, currentEntry.state == .active,
                currentEntry.deletionDueWallMilliseconds == nil,
                currentEntry.disregardedEndWallMilliseconds != end.atWallMilliseconds
            else { return }
            let plannedEntry = try planDeletion(
                of: currentEntry,
                dueWallMilliseconds: computeDeletionDueWallMilliseconds(of: entry, after: end, at: managedEnvironment)
            )
            guard let plannedEntry else { return }
            // A start may have come after the first call of `readAudienceEnd`, and before the plan was written. The
            // keeper that handled the start then found no plan to cancel, so cancel the plan here.
            if try registry.readAudienceEnd(entry.app, entry.audience) == nil {
                try registry.replaceIfUnchanged(plannedEntry, with: currentEntry)
            }
        }
    }

    /// Returns when to delete a channel after its audience's end: after the configured time, but not before APNs has
    /// stopped delivering the message that it may store for the channel.
    private func computeDeletionDueWallMilliseconds(
        of entry: ChannelEntry,
        after end: ChannelRegistry.AudienceEnd,
        at managedEnvironment: ManagedEnvironment
    ) -> Int64 {
        max(
            end.atWallMilliseconds + managedEnvironment.keepAfterEndMilliseconds,
            entry.storage == .newest ? end.storedUntilWallMilliseconds : 0
        )
    }

    /// Returns when to delete a new channel; nil: plan no deletion. If the audience has already ended, the deletion
    /// must be planned now: the daily comparison plans none for a channel that is newer than its audience's end.
    ///
    /// The first of these cases that applies decides:
    ///
    /// 1. `lostEntry` has a planned deletion, and the audience has not been started again: the new channel takes over
    ///    the planned time.
    /// 2. The audience's newest command is no end, or Redis does not know this command: nil.
    /// 3. The newest command is an end, and an operator has requested the channel after this end: nil.
    /// 4. The lost channel was created after this end, or `lostEntry.disregardedEndWallMilliseconds` names this end:
    ///    nil, because a channel is wanted in spite of the end.
    /// 5. In all other cases, the new channel is deleted some time after the end.
    ///
    /// - Parameters:
    ///   - lostEntry: the entry that the new one replaces; nil: none.
    ///   - endToDisregardWallMilliseconds: for an operator's request: when the audience last ended before the request
    ///     (see `ensureChannel`).
    func readDeletionDueWallMilliseconds(
        of newEntry: ChannelEntry,
        replacing lostEntry: ChannelEntry?,
        endToDisregardWallMilliseconds: Int64?,
        at managedEnvironment: ManagedEnvironment
    ) throws(RedisError) -> Int64? {
        if let lostEntry, let plannedDueWallMilliseconds = lostEntry.deletionDueWallMilliseconds,
            try !registry.isAudienceStarted(of: lostEntry)
        {
            return plannedDueWallMilliseconds
        }
        guard let end = try registry.readAudienceEnd(newEntry.app, newEntry.audience),
            end.atWallMilliseconds != endToDisregardWallMilliseconds
        else { return nil }
        if let lostEntry,
            lostEntry.createdAtWallMilliseconds > end.atWallMilliseconds
                || lostEntry.disregardedEndWallMilliseconds == end.atWallMilliseconds
        {
            return nil
        }
        return computeDeletionDueWallMilliseconds(of: newEntry, after: end, at: managedEnvironment)
    }

    /// Cancels the planned deletion of a channel that a command or an operator requests, unless the audience has ended
    /// after the request.
    ///
    /// - Parameter endToDisregardWallMilliseconds: for an operator's request: when the audience last ended before the
    ///   request. If the audience has not ended again since, the deletion is cancelled, and that end causes no other.
    ///   Nil: the audience had not ended before the request, or a command requests the channel.
    /// - Returns: the current entry; nil if another worker has changed the entry since it was read.
    func cancelDeletionUnlessEnded(of entry: ChannelEntry, endToDisregardWallMilliseconds: Int64?)
        throws(ChannelFailure) -> ChannelEntry?
    {
        guard entry.deletionDueWallMilliseconds != nil || endToDisregardWallMilliseconds != nil else { return entry }
        let end = try convertRedisErrors { () throws(RedisError) in
            try registry.readAudienceEnd(entry.app, entry.audience)
        }
        if let end, end.atWallMilliseconds != endToDisregardWallMilliseconds { return entry }
        return try cancelDeletion(of: entry, disregardedEndWallMilliseconds: end?.atWallMilliseconds)
    }
}
