import APNs
import CausewayConfiguration
import Kafka
import LiveActivity
import Reactor
import Redis
import Synchronization

/// Keeps the channels of audiences: creates them, writes them to the audiences' hashes in Redis and to
/// `causeway.channels`, deletes them, and compares them with APNs' list. ``Reconciliation`` decides what a comparison
/// changes; this actor calls APNs, Redis and Kafka.
///
/// APNs cannot recognize a repeated request to create a channel, so the keeper writes an intent before each request
/// (R32). If the intent is still in Redis after a crash or a lost response, a comparison soon afterwards usually finds
/// the unused channel and deletes it. A lease in Redis lets only one process at a time create an audience's channel. If
/// Redis loses the lease or the lease expires, two processes may each create a channel for the audience.
package actor ChannelKeeper {
    /// An app in one environment, with the settings of its channels and the client that manages the channels.
    struct ManagedEnvironment: Sendable {
        var appEnvironment: AppEnvironment
        var storage: ChannelEntry.Storage
        var keepAfterEndMilliseconds: Int64
        /// Whether the configuration gives a channel to some of the app's audiences. Then `causeway.channels` must
        /// exist.
        var hasConfiguredChannels: Bool
        var channelManagement: ChannelManagementClient
    }

    /// The pause between two runs of the periodic work. A run also looks for channels that failed creations have left
    /// at APNs, when their intents are old enough (``Reconciliation/apnsCreationDurationMillisecondsMax``): usually
    /// within two minutes after the failure.
    static let periodicWorkInterval = Duration.seconds(60)
    /// The pause between two checks whether Redis has lost the registry. It is short, because commands that lack their
    /// channel wait until the registry is restored (R32).
    static let registryLossCheckInterval = Duration.seconds(1)
    /// The length of the lease for the periodic work. It is a little shorter than ``periodicWorkInterval``, so that
    /// only one worker does the work in each interval, and the lease is free in the next interval.
    static let periodicWorkLeaseMilliseconds: Int64 = 55_000
    /// The time between two daily comparisons of the registry with APNs' list. A comparison finds what no request tells
    /// the keeper: channels that somebody else deleted, and ends of audiences that a killed worker has not reported.
    static let reconciliationIntervalMilliseconds: Int64 = 24 * 3_600_000
    /// The length of two leases: for one comparison of the registry with APNs' list, and for one refresh of the
    /// audiences' hashes (`refreshAudienceHashesIfDue`). After this time a worker tries again if the worker with the
    /// lease has died, or if the comparison has failed with a lasting failure.
    static let reconciliationLeaseMilliseconds: Int64 = 600_000
    /// The maximum number of other programs' channels that one comparison removes from the registry (R4). Each removal
    /// takes a request to APNs. Later comparisons remove the rest.
    static let forgottenForeignChannelsMax = 100
    /// The time between two checks whether another process has finished creating an audience's channel, or has decided
    /// whether to delete it.
    static let creationPollInterval = Duration.milliseconds(100)
    /// How long the keeper does not try again to create an audience's channel after a transient error, so that the
    /// audience's next commands cause no request to APNs. After any other error, `lastingFailurePauseMilliseconds`
    /// applies.
    static let transientFailurePauseMilliseconds: Int64 = 60_000
    private static let lastingFailurePauseMilliseconds: Int64 = 600_000

    private let executor = BlockingExecutor(label: "channel keeper")
    nonisolated package var unownedExecutor: UnownedSerialExecutor { executor.asUnownedSerialExecutor() }

    let managedEnvironments: [ManagedEnvironment]
    let registry: ChannelRegistry
    let channelTopic: ChannelTopic
    /// The length of the lease for an attempt to create a channel, and the longest time that other processes wait for
    /// this attempt.
    let creationMillisecondsMax: Int64
    private let wallClock: WallClock
    let report: @Sendable (ChannelEvent) -> Void
    /// The apps and environments that certainly use channels: this process has seen that their complete registry has
    /// content (`showsChannelsInUse`), or has read records about them on the channels topic. A complete registry
    /// without content proves nothing, because a look-up completes the registry of any app.
    var environmentsSeenUsingChannels: Set<AppEnvironment> = []
    nonisolated let possibleHashLoss = PossibleHashLoss()
    /// The apps and environments whose channels must be written to the audiences' hashes again, because Redis may have
    /// lost some of these hashes.
    var environmentsWithPossiblyLostHashes: Set<AppEnvironment> = []
    /// Why Redis last failed to look up a channel of an app in an environment. Until `endMilliseconds` (monotonic),
    /// further look-ups for commands fail at once with this failure.
    var lookupFailures: [AppEnvironment: (failure: ChannelFailure, endMilliseconds: Int64)] = [:]
    /// Why the last failed restoration could not read the channels topic. Until `retryPauseEndMilliseconds` of this
    /// failure, no restoration reads the topic.
    var restorationFailure: ChannelFailure?
    /// The pause after Kafka has failed to take a record. Until its end (monotonic milliseconds), all writes to the
    /// channels topic fail at once with this error. Nil: Kafka has taken the last record or refused only that record,
    /// or no record was written yet.
    var topicWritePause: (error: KafkaError, endMilliseconds: Int64)?
    /// Why the channels of audiences could not be created: at most `creationFailuresMax` failures (R4). Until
    /// `retryPauseEndMilliseconds` of a failure, each further attempt to create the channel throws this failure.
    private var creationFailures: [FailureKey: ChannelFailure] = [:]
    private static let creationFailuresMax = 4_096
    /// The lanes' requests that are being carried out or wait.
    let requestQueues: ChannelRequestQueues
    /// How many channels of an app in an environment this process creates at one time (R32). The client of APNs'
    /// channel management runs twice as many requests at one time, so no creation waits in the client until its lease
    /// has expired.
    static let creationsAtOnceMax = 4
    private let creationTurns = EnvironmentTurns(callersMax: ChannelKeeper.creationsAtOnceMax)
    /// In each app and environment, lets only one creation at a time request APNs' list
    /// (``recordForeignChannelsIfDue(at:)``).
    let listTurns = EnvironmentTurns(callersMax: 1)
    /// For each app and environment: the last failure to request or record APNs' list before a creation, and when it
    /// happened (monotonic milliseconds). Creations that waited for this request fail too.
    var listFailures: [AppEnvironment: (atMilliseconds: Int64, failure: ChannelFailure)] = [:]

    private struct FailureKey: Hashable {
        var appEnvironment: AppEnvironment
        var audience: String
    }

    init(
        managedEnvironments: [ManagedEnvironment],
        registry: ChannelRegistry,
        channelTopic: ChannelTopic,
        timeoutMilliseconds: Int64,
        wallClock: WallClock,
        report: @escaping @Sendable (ChannelEvent) -> Void
    ) {
        self.managedEnvironments = managedEnvironments
        requestQueues = ChannelRequestQueues(poolCount: managedEnvironments.count)
        self.registry = registry
        self.channelTopic = channelTopic
        // A creation makes up to three requests to APNs: one reads the channel that is replaced, if there is one; one
        // lists the channels; one creates the channel. 5,000 ms are for the Redis calls between them. The lease begins
        // after the wait for `creationTurns`.
        creationMillisecondsMax = 3 * timeoutMilliseconds + 5_000
        self.wallClock = wallClock
        self.report = report
    }

    /// UNIX milliseconds, for times that are stored or sent. All pauses and deadlines of this process use
    /// `monotonicMilliseconds`, so that a pause does not last for hours after the clock was set back.
    var wallMilliseconds: Int64 { wallClock.wallMilliseconds }
    var monotonicMilliseconds: Int64 { EventLoop.monotonicMilliseconds }

    func findManagedEnvironment(_ appEnvironment: AppEnvironment) -> ManagedEnvironment? {
        managedEnvironments.first { $0.appEnvironment == appEnvironment }
    }

    // MARK: - Creating and deleting channels

    /// Returns the entry of an audience's channel. If the audience has no channel, creates one, or waits while another
    /// process creates it. If the channel is being deleted, first completes the deletion, unless a start cancels it.
    /// Cancels a planned deletion, except in two cases:
    ///
    /// - The call names a `lostChannel`.
    /// - The audience has ended, and no operator has requested the channel since (`endToDisregardWallMilliseconds`).
    ///
    /// - Parameters:
    ///   - lostChannel: a channel that APNs no longer has. If the audience still has this channel, a new channel
    ///     replaces it. A planned deletion then applies to the new channel, unless the audience has been started again.
    ///   - storage: the storage policy of a new channel; nil: the configured one.
    ///   - endToDisregardWallMilliseconds: if an operator wants the channel of an ended audience: when the audience
    ///     last ended. The keeper then cancels a planned deletion, and this end causes no other. Nil for any other
    ///     request.
    func ensureChannel(
        of audience: String,
        at managedEnvironment: ManagedEnvironment,
        replacing lostChannel: String? = nil,
        storage: ChannelEntry.Storage? = nil,
        endToDisregardWallMilliseconds: Int64? = nil
    ) async throws(ChannelFailure) -> ChannelEntry {
        let deadlineMilliseconds = monotonicMilliseconds + creationMillisecondsMax
        while true {
            if let entry = try readEntry(of: audience, at: managedEnvironment), !entry.mustBeReplaced(lostChannel) {
                if entry.state == .deleting {
                    try await delete(entry, at: managedEnvironment)
                } else if let activeEntry = try lostChannel == nil
                    ? cancelDeletionUnlessEnded(
                        of: entry,
                        endToDisregardWallMilliseconds: endToDisregardWallMilliseconds
                    )
                    : entry,
                    let currentEntry = try publishAndWriteToAudienceHash(activeEntry)
                {
                    return currentEntry
                }
                // The entry was deleted, or another worker has changed it. If the audience has an entry now,
                // `createIfMissing` creates no channel, and the next pass of the loop reads this entry.
            }
            if let failure = creationFailures[
                FailureKey(appEnvironment: managedEnvironment.appEnvironment, audience: audience)
            ],
                monotonicMilliseconds < failure.retryPauseEndMilliseconds
            {
                throw failure
            }
            let newEntry = try await createIfMissing(
                audience,
                at: managedEnvironment,
                replacing: lostChannel,
                storage: storage ?? managedEnvironment.storage,
                endToDisregardWallMilliseconds: endToDisregardWallMilliseconds
            )
            if let newEntry { return newEntry }
            guard monotonicMilliseconds < deadlineMilliseconds, !Task.isCancelled else {
                throw ChannelFailure(
                    reason: "another worker is creating the channel",
                    retryPauseEndMilliseconds: monotonicMilliseconds
                )
            }
            // No event tells this process about a channel that another process creates, so poll Redis.
            try? await Task.sleep(for: Self.creationPollInterval)
        }
    }

    /// Creates a channel if the audience still has none, or still has `lostChannel`. First waits for its turn
    /// (`creationTurns`), then takes the lease for this creation.
    ///
    /// - Returns: the entry of the new channel. Nil if another process has the lease, has created a channel since the
    ///   caller's check, or has already replaced or deleted the new channel; nil also if Redis has lost the registry.
    private func createIfMissing(
        _ audience: String,
        at managedEnvironment: ManagedEnvironment,
        replacing lostChannel: String?,
        storage: ChannelEntry.Storage,
        endToDisregardWallMilliseconds: Int64?
    ) async throws(ChannelFailure) -> ChannelEntry? {
        let appEnvironment = managedEnvironment.appEnvironment
        await creationTurns.waitForTurn(appEnvironment)
        defer { creationTurns.release(appEnvironment) }
        let lease = try convertRedisErrors { () throws(RedisError) in
            try registry.acquireCreationLease(of: audience, appEnvironment, milliseconds: creationMillisecondsMax)
        }
        guard let lease else { return nil }
        // If the release fails, the lease ends when its time is over.
        defer { try? registry.releaseLease(lease) }
        let lookup = try lookUp(audience, at: managedEnvironment)
        guard lookup.entry?.mustBeReplaced(lostChannel) != false, lookup.isRegistryComplete else { return nil }
        return try await createChannel(
            of: audience,
            at: managedEnvironment,
            replacing: lostChannel,
            lostEntry: lookup.entry,
            storage: storage,
            endToDisregardWallMilliseconds: endToDisregardWallMilliseconds
        )
    }

    /// Creates a channel. The caller must have the lease for this creation. First records the channels of other
    /// programs (``recordForeignChannelsIfDue(at:)``), so that a comparison after a failed creation does not take one
    /// of them for the new channel. Throws a transient failure if APNs still has the channel of `lostEntry`.
    ///
    /// - Parameter lostEntry: the entry of `lostChannel`, if the registry had it before the creation.
    /// - Returns: the entry of the new channel; nil if another process has created a channel meanwhile, or has replaced
    ///   or deleted the new one.
    private func createChannel(
        of audience: String,
        at managedEnvironment: ManagedEnvironment,
        replacing lostChannel: String?,
        lostEntry: ChannelEntry?,
        storage: ChannelEntry.Storage,
        endToDisregardWallMilliseconds: Int64?
    ) async throws(ChannelFailure) -> ChannelEntry? {
        let appEnvironment = managedEnvironment.appEnvironment
        let intent = ChannelCreationIntent(
            identifier: "\(wallMilliseconds)-\(UInt64.random(in: .min ... .max))",
            audience: audience,
            createdAtWallMilliseconds: wallMilliseconds,
            worker: CurrentProcess.hostAndProcessIdentifier
        )
        var (hasIntent, isRedundant) = (false, false)
        do {
            if let lostEntry { try await confirmLoss(of: lostEntry, at: managedEnvironment) }
            try await recordForeignChannelsIfDue(at: managedEnvironment)
            try registry.write(intent, appEnvironment)
            hasIntent = true
            let channel = try await managedEnvironment.channelManagement.create(storesNewestMessage: storage == .newest)
            let newEntry = ChannelEntry(
                app: appEnvironment.app,
                environment: appEnvironment.environment,
                audience: audience,
                channel: channel,
                storage: storage,
                createdAtWallMilliseconds: wallMilliseconds
            )
            let addedEntry = try add(
                newEntry,
                replacing: lostChannel,
                lostEntry: lostEntry,
                endToDisregardWallMilliseconds: endToDisregardWallMilliseconds,
                at: managedEnvironment
            )
            guard let entry = addedEntry else {
                // Another process has created a channel first, because this process's lease was lost or expired. Phones
                // may know the other channel, so delete the one that this process has created.
                isRedundant = true
                try await deleteRedundantChannel(channel, of: intent, at: managedEnvironment)
                return nil
            }
            try registry.remove([intent], appEnvironment)
            report(.created(entry))
            return try publishAndWriteToAudienceHash(entry)
        } catch {
            let failure = makeFailure(error)
            // If APNs may have created the channel, keep the intent for the next reconciliation.
            let mayExistAtAPNs =
                isRedundant || (error as? ChannelError)?.cause == .ambiguous || !(error is ChannelError)
            if hasIntent, !mayExistAtAPNs { try? registry.remove([intent], appEnvironment) }
            creationFailures = creationFailures.filter { monotonicMilliseconds < $0.value.retryPauseEndMilliseconds }
            if creationFailures.count < Self.creationFailuresMax {
                creationFailures[FailureKey(appEnvironment: appEnvironment, audience: audience)] = failure
            }
            report(
                .creationFailed(
                    audience: audience,
                    app: appEnvironment.app,
                    environment: appEnvironment.environment,
                    reason: failure.reason
                )
            )
            throw failure
        }
    }

    private func deleteRedundantChannel(
        _ channel: String,
        of intent: ChannelCreationIntent,
        at managedEnvironment: ManagedEnvironment
    ) async throws {
        // Write the intent again: while this process had no lease, a comparison (`reconcile`) may have removed it. If
        // the deletion below fails, a later comparison deletes the channel only if it finds the intent.
        try registry.write(intent, managedEnvironment.appEnvironment)
        try await managedEnvironment.channelManagement.delete(channel)
        try registry.remove([intent], managedEnvironment.appEnvironment)
    }

    /// Deletes a channel from the audience's hash, at APNs, in the channels topic and in the registry. First marks the
    /// entry in the registry as `deleting`, so that the periodic work completes the deletion after a crash.
    ///
    /// - Parameter isOrderedByOperator: whether to delete the channel even if the audience has been started.
    /// - Returns: whether the channel is deleted now, by this call or by another worker. False: another worker has
    ///   changed the entry since it was read, or the channel stays because the audience has been started.
    @discardableResult
    func delete(
        _ previousEntry: ChannelEntry,
        at managedEnvironment: ManagedEnvironment,
        isOrderedByOperator: Bool = false
    ) async throws(ChannelFailure) -> Bool {
        var entry = previousEntry
        entry.state = .deleting
        if isOrderedByOperator { entry.deletionDueWallMilliseconds = nil }
        do {
            // While writes to the channels topic are paused, the deletion cannot be completed, so leave the channel in
            // the audience's hash.
            if let topicWritePause, areTopicWritesPaused { throw topicWritePause.error }
            guard try registry.replaceIfUnchanged(previousEntry, with: entry) else { return false }
            let hasRemovedChannelFromHash = try registry.removeChannelFromAudienceHash(of: entry)
            let confirmedEntry = try await confirmDeletion(
                of: entry,
                at: managedEnvironment,
                hasRemovedChannelFromHash: hasRemovedChannelFromHash
            )
            guard let confirmedEntry else { return false }
            entry = confirmedEntry
            try write(entry, forAudienceOf: entry)
            try await managedEnvironment.channelManagement.delete(entry.channel)
            // While APNs was slow, another worker may have completed the deletion, and the audience may have a new
            // channel. A tombstone would then remove the record of the new channel.
            guard try registry.readCurrentEntry(forAudienceOf: entry) == entry else {
                try repairTopic(after: entry, forAudienceOf: entry)
                return true
            }
            try write(nil, forAudienceOf: entry)
            try registry.restartRestoration(managedEnvironment.appEnvironment)
            if try registry.removeIfUnchanged(entry) {
                report(.deleted(entry))
            } else {
                try repairTopic(after: nil, forAudienceOf: entry)
            }
            return true
        } catch {
            throw makeFailure(error)
        }
    }

    func convertRedisErrors<Value>(_ body: () throws(RedisError) -> Value) throws(ChannelFailure) -> Value {
        do throws(RedisError) {
            return try body()
        } catch {
            throw makeFailure(error)
        }
    }

    func makeFailure(_ error: any Error) -> ChannelFailure {
        let isTransient =
            (error as? ChannelError)?.isTransient ?? !((error as? KafkaError)?.concernsOneRecord ?? false)
        let milliseconds = isTransient ? Self.transientFailurePauseMilliseconds : Self.lastingFailurePauseMilliseconds
        return ChannelFailure(
            error,
            retryPauseEndMilliseconds: monotonicMilliseconds + milliseconds,
            isTransient: isTransient
        )
    }
}
