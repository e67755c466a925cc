import ActivityStore
import CausewayConfiguration
import Kafka
import LiveActivity
import Logging
import Observability
import Redis

/// Ends activities whose lifetime is over, and starts them again if their policy says so. Claims the due activities in
/// Redis' timetables of lifetimes, and produces a command for each. (R35)
///
/// Each worker has one keeper. Until an activity's claim ends, no other worker claims the activity, unless Redis loses
/// the claim. A claimed activity stays in its timetable, so that another worker claims it again if this worker dies.
/// The command's result removes the activity from the timetable. An activity also leaves the timetable when it is too
/// old, or when no worker can make a command for it.
actor LifetimeKeeper {
    static let pollInterval = Duration.seconds(1)
    /// The length of an activity's first claim: longer than a command usually takes. Each further claim lasts twice as
    /// long as the one before, up to 32 times this length (`SharedRedisData.claimEntries`). Each claim writes another
    /// command, and a command may wait for APNs for hours, so longer claims mean fewer commands.
    static let firstClaimDurationMilliseconds: Int64 = 20_000
    /// An upper estimate of the time after the end of a claim in which a worker claims the activity again, and learns
    /// whether Kafka takes its command.
    private static let nextAttemptDuration = Duration.seconds(60)
    /// The maximum age of an activity that workers still claim, even if Kafka or APNs was down for hours. After this
    /// age they forget the activity and its restart, because iOS has ended the activity and removed it from the Lock
    /// Screen. The age counts from the activity's start or, if no start is known, from the earliest time at which a
    /// record showed that the activity was alive.
    static let activityAgeMillisecondsMax: Int64 = 12 * 3_600_000
    /// The maximum number of activities that one poll claims from one timetable. Further due activities wait for the
    /// next poll, or for another worker.
    static let claimsMax = 128
    /// The maximum number of due activities that one poll reads from one timetable. Larger than `claimsMax`, because
    /// the worker does not claim activities of unknown apps.
    static let dueEntriesPerReadMax = 1_024
    /// One in this many polls reads a timetable from its front (rank 0) instead of from `nextRanks`. So an activity
    /// that enters the timetable before that rank waits only a few seconds.
    private static let pollsPerTimetableFrontRead = 8
    /// The maximum number of apps outside the configuration that the worker logs, and keeps in `loggedUnknownApps`.
    /// (R4)
    private static let loggedUnknownAppsMax = 64

    private let executor = BlockingExecutor(label: "lifetime keeper")
    nonisolated var unownedExecutor: UnownedSerialExecutor { executor.asUnownedSerialExecutor() }

    private let timetables: SharedRedisData
    private let producer: LifetimeCommandProducer
    /// The bundle ids of the configured apps.
    private let apps: Set<[UInt8]>
    private let status: LifetimeStatus
    private let log: SharedLimitedLog
    /// Before this time, a poll without a failure does not show that Kafka takes commands again. The activities whose
    /// commands could not be produced may still be claimed, so the poll may have had nothing to produce. At this time,
    /// their claims have ended, and ``nextAttemptDuration`` has passed.
    private var failedClaimsRetriedBy = ContinuousClock.now
    /// For each timetable: the rank (position) at which the next poll begins to read.
    private var nextRanks = [Int](repeating: 0, count: LifetimeKey.timetableCount)
    /// The number of the timetable with which each poll begins. If Kafka responds but does not take the commands of a
    /// timetable, the next poll begins with the timetable after it.
    private var firstTimetableNumber = 0
    private var pollCount = 0
    private var loggedUnknownApps: Set<[UInt8]> = []

    init(
        _ configuration: WorkerConfiguration,
        redis: RedisConfiguration,
        status: LifetimeStatus,
        log: SharedLimitedLog
    ) throws {
        timetables = try SharedRedisData(configuration: redis)
        let kafka = configuration.kafka
        producer = LifetimeCommandProducer(name: kafka.topics.commands, properties: try kafka.producerProperties)
        apps = Set(configuration.apps.map { Array($0.bundleId.utf8) })
        self.status = status
        self.log = log
    }

    /// Claims due activities and produces their commands, once every `pollInterval`, until the task is cancelled. Does
    /// nothing while no policy limits a lifetime.
    func run() async {
        while !Task.isCancelled {
            // Poll at fixed intervals: no event says that an activity is due, because another worker may have added it
            // to the timetable.
            try? await Task.sleep(for: Self.pollInterval)
            guard !Task.isCancelled, status.hasLifetimeLimits else { continue }
            poll()
        }
        producer.close()
    }

    /// Claims the due activities of all timetables once, and produces their commands. After an error of Kafka, leaves
    /// out the remaining timetables. Blocks for several round trips.
    func poll(now: ContinuousClock.Instant = ContinuousClock.now) {
        pollCount += 1
        var timetableActivityCount = 0
        var failure: (any Error)?
        let firstPolledTimetableNumber = firstTimetableNumber
        for step in 0..<LifetimeKey.timetableCount {
            let timetableNumber = (firstPolledTimetableNumber + step) % LifetimeKey.timetableCount
            guard !Task.isCancelled else { return }
            do {
                timetableActivityCount += try produceDueCommands(timetableNumber, now: now)
            } catch let error as KafkaError {
                // Kafka would probably not take the commands of other timetables either, so end this poll. The next one
                // begins behind this timetable, because perhaps only one partition is faulty. But if no broker
                // responds, it begins as before, so that failed polls do not lengthen the claims of one timetable after
                // another.
                if !error.saysNoBrokerResponded {
                    firstTimetableNumber = (timetableNumber + 1) % LifetimeKey.timetableCount
                }
                failure = error
                break
            } catch {
                // Continue, because another timetable may be on another Redis server.
                failure = error
            }
        }
        guard let failure else {
            status.setTimetableActivityCount(timetableActivityCount)
            guard status.isFailing, now >= failedClaimsRetriedBy else { return }
            log(.lifetimeEndsResumed)
            status.isFailing = false
            return
        }
        if !status.isFailing { log(.lifetimeEndsInterrupted, ["error": "\(failure)"]) }
        status.isFailing = true
    }

    /// Claims the due activities of a timetable, and produces their commands. Removes those activities from the
    /// timetable for which no worker can make a command.
    ///
    /// - Returns: the number of activities that are still in the timetable.
    private func produceDueCommands(_ timetableNumber: Int, now: ContinuousClock.Instant) throws -> Int {
        let (namesToClaim, timetableEntryCount) = try readDueActivities(of: timetableNumber)
        guard !namesToClaim.isEmpty else { return timetableEntryCount }
        let claimedEntries = try timetables.claimEntries(
            LifetimeKey.timetableKey(timetableNumber),
            namesToClaim,
            firstClaimDurationMilliseconds: Self.firstClaimDurationMilliseconds,
            ageMillisecondsMax: Self.activityAgeMillisecondsMax
        )
        let batch: LifetimeCommandBatch
        do {
            batch = try produceCommands(for: claimedEntries, in: timetableNumber)
        } catch {
            let longestClaim = claimedEntries.claims.map(Self.duration).max() ?? .zero
            failedClaimsRetriedBy = max(failedClaimsRetriedBy, now + longestClaim + Self.nextAttemptDuration)
            throw error
        }
        for (claim, obstacle) in batch.claimsToAbandon { try removeFromTimetable(claim, obstacle, in: timetableNumber) }
        return claimedEntries.timetableEntryCount - batch.claimsToAbandon.count
    }

    /// Produces a command for each claim for which one can be made. First replaces damaged updates in Redis. The caller
    /// must remove the activities of `LifetimeCommandBatch.claimsToAbandon` from the timetable. An activity whose kept
    /// records have an unknown format (`LifetimeCommand.Obstacle.unknownFormat`) gets no command either, but stays in
    /// the timetable: a worker of a newer version can make its command.
    private func produceCommands(
        for claimedEntries: SharedRedisData.ClaimedEntries,
        in timetableNumber: Int
    ) throws -> LifetimeCommandBatch {
        let batch = LifetimeCommandBatch(
            claimedEntries,
            commandsForRestartByName: try readCommandsForRestart(for: claimedEntries.claims, in: timetableNumber)
        )
        for (claim, commandsForRestart) in batch.claimsWithDamagedUpdate {
            try replaceDamagedUpdate(of: claim, commandsForRestart, in: timetableNumber)
        }
        if !batch.commands.isEmpty {
            try producer.produce(batch.commands)
            let restartCount = batch.commands.count(where: \.isRestart)
            status.countCommands(endCount: batch.commands.count - restartCount, restartCount: restartCount)
        }
        return batch
    }

    /// How long Redis lets a claim last, as the script of `claimEntries` computes it.
    private static func duration(of claim: SharedRedisData.Claim) -> Duration {
        let earlierClaimCount = min(max(claim.claimCount - 1, 0), 5)
        return .milliseconds(firstClaimDurationMilliseconds << Int64(earlierClaimCount))
    }

    /// Reads the next due activities of a timetable, and notes where the next read begins. Logs their apps that are not
    /// in the configuration.
    ///
    /// - Returns: the names of the activities that this worker claims, and the number of activities in the timetable.
    private func readDueActivities(
        of timetableNumber: Int
    ) throws(RedisError) -> (namesToClaim: [[UInt8]], timetableEntryCount: Int) {
        let rank = pollCount.isMultiple(of: Self.pollsPerTimetableFrontRead) ? 0 : nextRanks[timetableNumber]
        let dueEntries = try timetables.readDueEntries(
            LifetimeKey.timetableKey(timetableNumber),
            from: rank,
            entriesMax: Self.dueEntriesPerReadMax
        )
        let dueActivities = DueActivitySelection(
            dueEntries,
            from: rank,
            dueEntriesPerReadMax: Self.dueEntriesPerReadMax,
            claimsMax: Self.claimsMax,
            apps: apps,
            ageMillisecondsMax: Self.activityAgeMillisecondsMax
        )
        // A read from the front (``pollsPerTimetableFrontRead``) does not move `nextRanks`, so that the next poll
        // continues where the previous one stopped.
        if rank == nextRanks[timetableNumber] { nextRanks[timetableNumber] = dueActivities.nextRank }
        log(unknownApps: dueActivities.unknownApps)
        return (dueActivities.namesToClaim, dueEntries.timetableEntryCount)
    }

    /// Logs the unknown apps that were not logged before, all in one line, because the log limits the lines of each
    /// kind.
    private func log(unknownApps apps: Set<[UInt8]>) {
        let newApps = apps.subtracting(loggedUnknownApps).prefix(Self.loggedUnknownAppsMax - loggedUnknownApps.count)
        guard !newApps.isEmpty else { return }
        loggedUnknownApps.formUnion(newApps)
        let names = newApps.map { String(decoding: $0, as: UTF8.self) }.sorted()
        log(.lifetimesUnknownApp, ["apps": "\(names.joined(separator: ", "))"])
    }

    /// Removes an activity from its timetable, because no command can be made for it. If the activity stayed, it would
    /// be claimed again and again until it is too old. Logs the removal. Does nothing if the entry has changed since
    /// the claim.
    private func removeFromTimetable(
        _ claim: SharedRedisData.Claim,
        _ obstacle: LifetimeCommand.Obstacle,
        in timetableNumber: Int
    ) throws(RedisError) {
        guard try timetables.removeClaimedEntry(LifetimeKey.timetableKey(timetableNumber), claim) else { return }
        let kind = obstacle == .unknownFormatForTooLong ? LogKind.lifetimeFormatUnknown : .lifetimeNotEnded
        log(kind, Self.makeLogFields(claim).merging(["error": "\(obstacle.rawValue)"]) { $1 })
    }

    /// Overwrites the damaged newest update in Redis with the kept start, so that the activity can start again with
    /// that start's state. Redis accepts a new start only with the state of the newest update (`lifetime.lua`), and a
    /// damaged state cannot be read. If a newer update comes first, the next claim makes a start with that update.
    private func replaceDamagedUpdate(
        of claim: SharedRedisData.Claim,
        _ commandsForRestart: CommandsForRestart,
        in timetableNumber: Int
    ) throws(RedisError) {
        guard let start = commandsForRestart.start, let update = commandsForRestart.newestUpdate else { return }
        let condition = SharedRedisData.FieldCondition(claim.name, update, newValue: start)
        let updatesKey = LifetimeKey.restartKeys(timetableNumber).updates
        guard try timetables.addMissingFields(updatesKey, [], if: condition) != nil else { return }
        log(.lifetimeStateLost, Self.makeLogFields(claim))
    }

    private static func makeLogFields(_ claim: SharedRedisData.Claim) -> Logger.Metadata {
        let subject = LifetimeKey.subject(ofActivityKey: claim.name)
        let app = String(decoding: subject?.app ?? [], as: UTF8.self)
        let activity = String(decoding: subject?.activity ?? claim.name, as: UTF8.self)
        return ["app": "\(app)", "activity": "\(activity)"]
    }

    /// Returns the kept start and newest update of each claimed activity that waits for a new start. The dictionary's
    /// keys are the activities' names in the timetable (``LifetimeKey``).
    private func readCommandsForRestart(
        for claims: [SharedRedisData.Claim],
        in timetableNumber: Int
    ) throws(RedisError) -> [[UInt8]: CommandsForRestart] {
        let names = claims.filter(LifetimeCommand.isRestart).map(\.name)
        guard !names.isEmpty else { return [:] }
        let keys = LifetimeKey.restartKeys(timetableNumber)
        let starts = try timetables.readFields(keys.starts, names)
        let updates = try timetables.readFields(keys.updates, names)
        let commands = zip(starts, updates).map { CommandsForRestart(start: $0, newestUpdate: $1) }
        return Dictionary(uniqueKeysWithValues: zip(names, commands))
    }
}

extension WorkerConfiguration {
    var limitsLifetimes: Bool { policies.contains { $0.lifetimeSeconds > 0 } }
}
