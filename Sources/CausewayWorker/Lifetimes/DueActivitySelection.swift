import ActivityStore
import Redis

/// Chooses which of a timetable's due activities a worker claims. Each read of the timetable returns one batch of them.
///
/// Two fleets of workers with different apps may share a Redis. A worker does not claim activities of unknown apps,
/// because its claim would only delay their end. They stay at the front of the timetable, so the next batch begins
/// behind them. After the last batch, reading begins again at the front. That read also finds activities that a batch
/// has missed, because other workers' claims changed the ranks.
struct DueActivitySelection: Equatable {
    /// The timetable's names of the activities that the worker claims.
    private(set) var namesToClaim: [[UInt8]] = []
    /// The apps of due activities that the worker's configuration does not have.
    private(set) var unknownApps: Set<[UInt8]> = []
    /// The rank (position in the timetable) at which the next batch begins.
    private(set) var nextRank: Int

    /// - Parameters:
    ///   - rank: the rank at which this batch begins.
    ///   - dueEntriesPerReadMax: the maximum number of entries that one read returns.
    ///   - claimsMax: the maximum number of names to claim.
    ///   - apps: the bundle ids of the worker's apps.
    ///   - ageMillisecondsMax: an activity that has been due for this long is claimed even if its app is unknown. It is
    ///     too old to be ended, and the claim removes it from the timetable.
    init(
        _ batch: SharedRedisData.DueEntries,
        from rank: Int,
        dueEntriesPerReadMax: Int,
        claimsMax: Int,
        apps: Set<[UInt8]>,
        ageMillisecondsMax: Int64
    ) {
        nextRank = rank
        for entry in batch.entries {
            guard namesToClaim.count < claimsMax else { return }
            if let app = LifetimeKey.subject(ofActivityKey: entry.name)?.app, !apps.contains(app),
                entry.dueWallMilliseconds >= batch.nowWallMilliseconds - ageMillisecondsMax
            {
                unknownApps.insert(app)
                nextRank += 1
            } else {
                namesToClaim.append(entry.name)
            }
        }
        if batch.entries.count < dueEntriesPerReadMax { nextRank = 0 }
    }
}
