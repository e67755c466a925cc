import ActivityStore
import Redis

/// Chooses which of a timetable's due activities a worker claims. Their names come from Redis in pages: batches of
/// names in the order of the timetable (not pages of members).
///
/// Two fleets of workers with different apps may share a Redis. A worker does not claim activities of unknown
/// apps, because its claim would only delay their end. These activities stay at the front of the timetable, so
/// the next page begins behind them. After the last page, reading begins again at the front. The rank (position
/// in the timetable) of the next page may be inexact, because other workers claim activities before this rank.
struct DueActivitySelection: Equatable {
    /// The timetable's names of the activities that the worker claims.
    private(set) var names: [[UInt8]] = []
    /// The apps of due activities that the worker's configuration does not have.
    private(set) var unknownApps: Set<[UInt8]> = []
    /// The rank (position in the timetable) at which the next page begins.
    private(set) var nextRank: Int

    /// - Parameters:
    ///   - rank: the rank at which the page begins.
    ///   - dueNamesPerReadMax: the maximum number of entries that one read returns.
    ///   - claimsMax: the maximum number of names to claim.
    ///   - apps: the bundle ids of the worker's apps.
    ///   - ageMillisecondsMax: the worker also claims activities of unknown apps that are overdue for this
    ///     long. They are too old to be ended, and the claim removes them from the timetable.
    init(
        _ page: SharedHashes.DueEntries,
        from rank: Int,
        dueNamesPerReadMax: Int,
        claimsMax: Int,
        apps: Set<[UInt8]>,
        ageMillisecondsMax: Int64
    ) {
        nextRank = rank
        for activity in page.names {
            guard names.count < claimsMax else { return }
            if let app = LifetimeKey.subject(ofActivityKey: activity.name)?.app, !apps.contains(app),
                activity.dueMilliseconds >= page.nowMilliseconds - ageMillisecondsMax
            {
                unknownApps.insert(app)
                nextRank += 1
            } else {
                names.append(activity.name)
            }
        }
        if page.names.count < dueNamesPerReadMax { nextRank = 0 }
    }
}
