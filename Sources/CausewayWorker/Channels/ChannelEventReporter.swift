import Logging
import Observability
import Reactor

/// Turns events of the channel keeper into log lines and metrics.
enum ChannelEventReporter {
    /// Logs an event, and changes the metrics of the app and environment that it concerns.
    ///
    /// - Parameter findPool: returns the index of the pool of an app in an environment; nil if the worker has no such
    ///   pool.
    static func report(
        _ event: ChannelEvent,
        _ log: SharedLimitedLog,
        _ status: ChannelStatus,
        findPool: (_ bundleId: String, _ environment: String) -> Int?
    ) {
        func changeStatus(_ app: String, _ environment: String, _ body: (inout ChannelStatus.PoolStatus) -> Void) {
            if let pool = findPool(app, environment) { status.change(pool, body) }
        }
        switch event {
        case .created(let entry):
            log(.channelCreated, makeLogFields(entry))
            changeStatus(entry.app, entry.environment) { $0.creationCount += 1 }
        case .deleted(let entry):
            log(.channelDeleted, makeLogFields(entry))
            changeStatus(entry.app, entry.environment) { $0.deletionCount += 1 }
        case .lost(let entry):
            log(.channelLost, makeLogFields(entry))
        case .channelWithoutEntryDeleted(let channel, let app, let environment):
            log(.channelOrphanDeleted, ["channel": "\(channel)", "app": "\(app)", "environment": "\(environment)"])
            changeStatus(app, environment) { $0.orphanDeletionCount += 1 }
        case .unknownChannelsCounted(let channelCount, let app, let environment):
            log(.channelsUnknown, ["channels": "\(channelCount)", "app": "\(app)", "environment": "\(environment)"])
        case .creationFailed(let audience, let app, let environment, let reason):
            log(
                .channelRefused,
                ["audience": "\(audience)", "app": "\(app)", "environment": "\(environment)", "error": "\(reason)"]
            )
            changeStatus(app, environment) {
                $0.failedCreationCount += 1
                $0.lastFailure = makeFailure("audience \(audience): \(reason)")
            }
        case .registryRead(let app, let environment, let content):
            changeStatus(app, environment) {
                $0.audienceChannelCount = Int64(content.entries.count + content.unreadableEntries.count)
                if let listedChannelCount = content.listedChannelCount { $0.listedChannelCount = listedChannelCount }
                $0.lastRegistryReading = ChannelStatus.RegistryReading(
                    content,
                    readAtWallMilliseconds: WallClock.systemMilliseconds
                )
            }
        case .channelsCounted(let app, let environment, let channelCount):
            changeStatus(app, environment) { $0.listedChannelCount = Int64(channelCount) }
        case .failed(let reason, let app, let environment):
            log(.channelUpkeepFailed, ["error": "\(reason)"])
            if let app, let environment {
                changeStatus(app, environment) { $0.lastFailure = makeFailure(reason) }
            } else {
                status.changePoolsWithConfiguredChannels { $0.lastFailure = makeFailure(reason) }
            }
        }
    }

    private static func makeFailure(_ reason: String) -> ChannelStatus.Failure {
        ChannelStatus.Failure(failedAtWallMilliseconds: WallClock.systemMilliseconds, reason: reason)
    }

    private static func makeLogFields(_ entry: ChannelEntry) -> Logger.Metadata {
        [
            "app": "\(entry.app)", "environment": "\(entry.environment)", "audience": "\(entry.audience)",
            "channel": "\(entry.channel)",
        ]
    }
}

extension ChannelStatus.RegistryReading {
    init(_ content: Reconciliation.RegistryContent, readAtWallMilliseconds: Int64) {
        self.init(readAtWallMilliseconds: readAtWallMilliseconds)
        reconciledAtWallMilliseconds = content.reconciledAtWallMilliseconds
        let endingEntries = content.entries.filter { $0.state == .deleting || $0.deletionDueWallMilliseconds != nil }
        plannedDeletionCount = endingEntries.count
        nextDeletionAtWallMilliseconds = endingEntries.map { $0.deletionDueWallMilliseconds ?? readAtWallMilliseconds }
            .min()
        unfinishedCreationCount = content.intents.count
        unpublishedChannelCount = content.entries.count { $0.state == .active && $0.isPublished != true }
    }
}
