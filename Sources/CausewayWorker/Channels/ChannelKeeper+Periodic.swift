import APNs
import Redis

/// The keeper's periodic work: it publishes entries, deletes channels, and compares the registry with APNs' list.
extension ChannelKeeper {
    /// Does the periodic work for one app in one environment. Each worker reports what the registry has. If the app
    /// uses channels, the worker that gets the lease also does the rest:
    ///
    /// - It writes the entries and tombstones that `causeway.channels` lacks.
    /// - It deletes channels whose deletion is due.
    /// - When this is due, it compares the registry with APNs' list of channels, and writes all channels to the
    ///   audiences' hashes again.
    ///
    /// If Redis loses the lease, two workers may do this at the same time.
    func doPeriodicWork(for managedEnvironment: ManagedEnvironment) async throws(ChannelFailure) {
        let contentAsIs = try readRegistryAsIs(managedEnvironment)
        // An app that uses no channels costs no lease in Redis and no request to APNs.
        guard isKnownToUseChannels(managedEnvironment) || contentAsIs.showsChannelsInUse else {
            return reportRegistry(contentAsIs, at: managedEnvironment)
        }
        let content = try readAndReportRegistry(of: managedEnvironment)
        reportUnreadableEntries(of: content, at: managedEnvironment)
        let lease = try convertRedisErrors { () throws(RedisError) in
            try registry.acquireLease(
                for: .periodicWork,
                managedEnvironment.appEnvironment,
                milliseconds: Self.periodicWorkLeaseMilliseconds
            )
        }
        guard lease != nil else { return }
        try refreshAudienceHashesIfDue(managedEnvironment)
        let nowWallMilliseconds = wallMilliseconds
        let dueEntries = content.entries.filter { $0.mustBeDeleted(nowWallMilliseconds: nowWallMilliseconds) }
        let entriesToDelete = Array(dueEntries.shuffled().prefix(Self.dueDeletionsMax))
        let unpublishedEntries = content.entries.filter {
            $0.isPublished != true && !$0.mustBeDeleted(nowWallMilliseconds: nowWallMilliseconds)
        }
        let failures = [
            try await publishAndWriteEachToAudienceHash(unpublishedEntries),
            try await forEachUntilTransientFailure(content.entriesWithoutTombstone) {
                keeper,
                entry throws(ChannelFailure) in
                try keeper.repeatTombstone(forAudienceOf: entry)
            },
            try await forEachUntilTransientFailure(entriesToDelete) { keeper, entry throws(ChannelFailure) in
                try await keeper.deleteUnlessAudienceStarted(entry, at: managedEnvironment)
            },
        ]
        try await reconcileIfDue(managedEnvironment, content)
        _ = try readAndReportRegistry(of: managedEnvironment)
        // The deletions have changed the number of channels at APNs. Without a new list, the former number would be
        // reported until the next comparison or creation, for up to a day.
        if !entriesToDelete.isEmpty { _ = try await listChannels(at: managedEnvironment) }
        if let failure = failures.compactMap(\.self).first { throw failure }
    }

    /// How often all active channels are written to the audiences' hashes again. Redis keeps a hash for 25 hours after
    /// its last change, so some of these refreshes may fail.
    private static let audienceHashRefreshIntervalMilliseconds: Int64 = 6 * 3_600_000

    /// Writes all active channels to the audiences' hashes again, if the lease of the last refresh has expired. Without
    /// these refreshes, Redis would forget the channel of an audience that gets no command for 25 hours.
    private func refreshAudienceHashesIfDue(_ managedEnvironment: ManagedEnvironment) throws(ChannelFailure) {
        let appEnvironment = managedEnvironment.appEnvironment
        try convertRedisErrors { () throws(RedisError) in
            // The lease is short at first. If Redis fails or this process dies, the next attempt comes when this short
            // lease expires.
            let lease = try registry.acquireLease(
                for: .audienceHashRefresh,
                appEnvironment,
                milliseconds: Self.reconciliationLeaseMilliseconds
            )
            guard let lease,
                try registry.writeActiveChannelsToAudienceHashes(appEnvironment, atWallMilliseconds: wallMilliseconds)
            else { return }
            try registry.extendLease(lease, milliseconds: Self.audienceHashRefreshIntervalMilliseconds)
        }
    }

    /// Publishes entries and writes their channels to the audiences' hashes. Leaves out an entry that another worker
    /// has changed since it was read. Callers do this before all requests to APNs: if APNs is unreachable, they leave
    /// out all steps after the first failed request.
    ///
    /// - Returns: the first lasting failure; nil if there was none.
    private func publishAndWriteEachToAudienceHash(_ entries: [ChannelEntry]) async throws(ChannelFailure)
        -> ChannelFailure?
    {
        try await forEachUntilTransientFailure(entries) { keeper, entry throws(ChannelFailure) in
            try keeper.publishAndWriteToAudienceHashIfUnchanged(entry)
            // There may be thousands of entries, so let the requests of lanes run between two entries.
            await Task.yield()
        }
    }

    /// The maximum number of channels that one run of the periodic work deletes because their deletion is due (R4). A
    /// daily comparison in the same run may delete the same number again. Each deletion takes a request to APNs, for
    /// which other apps wait. Later runs delete the rest.
    static let dueDeletionsMax = 50

    /// Runs `body` for each item. A lasting failure concerns only one channel, so the work continues with the other
    /// items.
    ///
    /// The order is random. In a fixed order, the same items could be left out each time: if a partition of the
    /// channels topic has no leader, the first entry of this partition stops the work on all items behind it.
    ///
    /// - Returns: the first lasting failure; nil if there was none.
    /// - Throws: a transient failure, at once. A service is probably down, and each further item would wait for its
    ///   timeout too.
    private func forEachUntilTransientFailure<Item: Sendable>(
        _ items: [Item],
        _ body: (isolated ChannelKeeper, Item) async throws(ChannelFailure) -> Void
    ) async throws(ChannelFailure) -> ChannelFailure? {
        var firstFailure: ChannelFailure?
        for item in items.shuffled() {
            do throws(ChannelFailure) {
                try await body(self, item)
            } catch {
                guard !error.isTransient else { throw error }
                firstFailure = firstFailure ?? error
            }
        }
        return firstFailure
    }

    /// Compares the registry with APNs' list if a comparison is due: once a day, and once more if the intent of an
    /// attempt to create a channel still exists after a minute. If a service is down or a channel is being created, the
    /// next run of the periodic work tries again.
    private func reconcileIfDue(
        _ managedEnvironment: ManagedEnvironment,
        _ content: Reconciliation.RegistryContent
    ) async throws(ChannelFailure) {
        var lease = try acquireReconciliationLease(for: .dailyReconciliation, managedEnvironment)
        let isDaily = lease != nil
        if !isDaily, content.hasUncomparedIntent(nowWallMilliseconds: wallMilliseconds) {
            lease = try acquireReconciliationLease(for: .intentReconciliation, managedEnvironment)
        }
        guard let lease else { return }
        do throws(ChannelFailure) {
            let reconciliation = try await reconcile(
                managedEnvironment,
                deletesUnknownChannels: false,
                onlyResolvesIntents: !isDaily,
                dueDeletionsMax: Self.dueDeletionsMax
            )
            // An entry or intent may stay unreadable for days. So keep the lease: the next comparison comes when the
            // lease expires. Without the lease, the keeper would request APNs' list every minute.
            guard !reconciliation.hasUnreadableChannel, content.unreadableIntents.isEmpty else { return }
            let mayHaveCreationUnderWay = reconciliation.mayHaveCreationUnderWay
            try convertRedisErrors { () throws(RedisError) in
                guard isDaily, !mayHaveCreationUnderWay else { return try registry.releaseLease(lease) }
                try registry.extendLease(lease, milliseconds: Self.reconciliationIntervalMilliseconds)
            }
        } catch {
            // After a transient failure, release the lease, so that the next run of the periodic work tries again.
            // After a lasting failure, keep the lease, so that nobody tries again before the lease expires.
            if error.isTransient { try? registry.releaseLease(lease) }
            throw error
        }
    }

    /// Acquires the lease for one kind of comparison: the daily one, or the one because of an intent that still exists.
    /// Returns nil if another worker has the lease.
    private func acquireReconciliationLease(
        for work: ChannelRegistry.LeasedWork,
        _ managedEnvironment: ManagedEnvironment
    ) throws(ChannelFailure) -> SharedRedisData.Lease? {
        try convertRedisErrors { () throws(RedisError) in
            try registry.acquireLease(
                for: work,
                managedEnvironment.appEnvironment,
                milliseconds: Self.reconciliationLeaseMilliseconds
            )
        }
    }

    private func readAndReportRegistry(of managedEnvironment: ManagedEnvironment) throws(ChannelFailure)
        -> Reconciliation.RegistryContent
    {
        let content = try readCompleteRegistry(managedEnvironment)
        reportRegistry(content, at: managedEnvironment)
        return content
    }

    private func reportRegistry(_ content: Reconciliation.RegistryContent, at managedEnvironment: ManagedEnvironment) {
        report(
            .registryRead(
                app: managedEnvironment.appEnvironment.app,
                environment: managedEnvironment.appEnvironment.environment,
                content
            )
        )
    }

    /// Compares APNs' list of channels with the registry, and acts on the differences. Unless `onlyResolvesIntents`,
    /// also plans the deletions that ends of audiences require (`planDeletionIfAudienceEnded`).
    ///
    /// - Parameter onlyResolvesIntents: whether this call only deletes channels that failed attempts may have left at
    ///   APNs, and then removes the intents of these attempts. Such a call changes no entry: for example, it does not
    ///   replace a channel that APNs has lost. While APNs has faults, such a call may come every minute.
    /// - Parameter dueDeletionsMax: how many channels this call may delete because their deletion is due.
    func reconcile(
        _ managedEnvironment: ManagedEnvironment,
        deletesUnknownChannels: Bool,
        onlyResolvesIntents: Bool = false,
        dueDeletionsMax: Int = .max
    ) async throws(ChannelFailure) -> Reconciliation {
        let listedAtWallMilliseconds = wallMilliseconds
        let listedChannels = try await listChannels(at: managedEnvironment)
        let content = try readCompleteRegistry(managedEnvironment)
        var intentIdentifiersUnderWay: Set<String> = []
        for intent in content.intents {
            // A process has the audience's lease while it creates a channel. Without a lease, the creation counts as
            // ended, although it may only have lost its lease.
            let isLeased = try convertRedisErrors { () throws(RedisError) in
                try registry.isChannelBeingCreated(intent.audience, managedEnvironment.appEnvironment)
            }
            if isLeased { intentIdentifiersUnderWay.insert(intent.identifier) }
        }
        var reconciliation = Reconciliation(
            listedChannels: listedChannels,
            listedAtWallMilliseconds: listedAtWallMilliseconds,
            content: content,
            isUnderWay: { intentIdentifiersUnderWay.contains($0.identifier) },
            deletesUnknownChannels: deletesUnknownChannels,
            nowWallMilliseconds: wallMilliseconds
        )
        if onlyResolvesIntents { reconciliation.restrictToIntents() }
        reconciliation.entriesToDelete = Array(reconciliation.entriesToDelete.shuffled().prefix(dueDeletionsMax))
        let failure = try await carryOut(reconciliation, content: content, at: managedEnvironment)
        for entry in content.entries
        where !onlyResolvesIntents && entry.state == .active && entry.deletionDueWallMilliseconds == nil {
            try planDeletionIfAudienceEnded(of: entry, at: managedEnvironment)
            await Task.yield()
        }
        if let failure { throw failure }
        // Record the time only after a complete comparison, so that another one follows soon after an incomplete one.
        // It is incomplete if it has decided nothing about unknown channels: a creation may be under way, or a
        // channel id cannot be read.
        guard !reconciliation.mayHaveCreationUnderWay, !reconciliation.hasUnreadableChannel else {
            return reconciliation
        }
        try convertRedisErrors { () throws(RedisError) in
            try registry.writeReconciliationTime(
                managedEnvironment.appEnvironment,
                atWallMilliseconds: listedAtWallMilliseconds
            )
        }
        return reconciliation
    }

    /// Carries out what a comparison of the registry with APNs' list has decided.
    ///
    /// - Returns: the first lasting failure; nil if there was none.
    func carryOut(
        _ reconciliation: Reconciliation,
        content: Reconciliation.RegistryContent,
        at managedEnvironment: ManagedEnvironment
    ) async throws(ChannelFailure) -> ChannelFailure? {
        let publicationFailure = try await publishAndWriteEachToAudienceHash(reconciliation.unpublishedEntries)
        let channelsToDelete = reconciliation.channelsToDelete
        let deletionFailure = try await forEachUntilTransientFailure(channelsToDelete) {
            keeper,
            channel throws(ChannelFailure) in
            do throws(ChannelError) {
                try await managedEnvironment.channelManagement.delete(channel)
            } catch {
                throw keeper.makeFailure(error)
            }
            try keeper.convertRedisErrors { () throws(RedisError) in
                if content.foreignChannels.contains(channel) {
                    try keeper.registry.removeForeignChannels([channel], managedEnvironment.appEnvironment)
                }
            }
            keeper.report(
                .channelWithoutEntryDeleted(
                    channel: channel,
                    app: managedEnvironment.appEnvironment.app,
                    environment: managedEnvironment.appEnvironment.environment
                )
            )
        }
        try convertRedisErrors { () throws(RedisError) in
            // If the deletion of a channel without an entry failed, keep the intents. Without an intent, the next
            // comparison would take the channel for another program's, and would never delete it.
            if deletionFailure == nil {
                try registry.remove(reconciliation.resolvedIntents, managedEnvironment.appEnvironment)
            }
            try registry.addForeignChannels(reconciliation.newForeignChannels, managedEnvironment.appEnvironment)
            try registry.removeForeignChannels(
                reconciliation.ownChannelsRecordedAsForeign,
                managedEnvironment.appEnvironment
            )
        }
        let failures = [
            publicationFailure,
            deletionFailure,
            try await forEachUntilTransientFailure(reconciliation.entriesToDelete) {
                keeper,
                entry throws(ChannelFailure) in
                try await keeper.deleteUnlessAudienceStarted(entry, at: managedEnvironment)
            },
            try await forEachUntilTransientFailure(reconciliation.lostEntries) { keeper, entry throws(ChannelFailure) in
                // Minutes may have passed since the registry was read. If another worker has replaced the channel
                // meanwhile, or is deleting it, the audience needs no new one.
                let currentEntry = try keeper.readEntry(of: entry.audience, at: managedEnvironment)
                guard currentEntry?.mustBeReplaced(entry.channel) == true else { return }
                // One list that lacks the channel does not prove the loss, so ask APNs about the channel itself.
                guard try await !keeper.existsAtAPNs(entry.channel, at: managedEnvironment) else { return }
                _ = try await keeper.replace(entry.channel, of: entry.audience, at: managedEnvironment)
            },
        ]
        await forgetForeignChannels(reconciliation.missingForeignChannels, at: managedEnvironment)
        if !reconciliation.possiblyForeignChannels.isEmpty {
            report(
                .unknownChannelsCounted(
                    channelCount: reconciliation.possiblyForeignChannels.count,
                    app: managedEnvironment.appEnvironment.app,
                    environment: managedEnvironment.appEnvironment.environment
                )
            )
        }
        return failures.compactMap(\.self).first
    }

    /// Removes at most ``forgottenForeignChannelsMax`` of these channels of other programs from the registry. APNs'
    /// list lacks them, but another worker may have recorded them after the list was requested. So this method first
    /// asks APNs about each channel, and removes it only if APNs does not have it.
    ///
    /// Reports a failure and throws nothing: a channel that stays in the registry does no harm, and the next daily
    /// comparison tries again.
    private func forgetForeignChannels(_ channels: [String], at managedEnvironment: ManagedEnvironment) async {
        do throws(ChannelFailure) {
            let failure = try await forEachUntilTransientFailure(
                Array(channels.shuffled().prefix(Self.forgottenForeignChannelsMax))
            ) { keeper, channel throws(ChannelFailure) in
                guard try await !keeper.existsAtAPNs(channel, at: managedEnvironment) else { return }
                try keeper.convertRedisErrors { () throws(RedisError) in
                    try keeper.registry.removeForeignChannels([channel], managedEnvironment.appEnvironment)
                }
            }
            if let failure { throw failure }
        } catch {
            let appEnvironment = managedEnvironment.appEnvironment
            report(.failed(reason: error.reason, app: appEnvironment.app, environment: appEnvironment.environment))
        }
    }
}
