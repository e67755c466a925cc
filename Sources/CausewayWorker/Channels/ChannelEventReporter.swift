import Logging
import Observability

/// Turns events of the channel keeper into log lines and metrics.
enum ChannelEventReporter {
    /// - Parameter pool: returns the index of the pool of an app in an environment; nil if the worker has no
    ///   such pool.
    static func report(
        _ note: ChannelEvent,
        _ log: SharedKindLog,
        _ status: ChannelStatus,
        pool: (_ app: String, _ environment: String) -> Int?
    ) {
        func count(_ app: String, _ environment: String, _ body: (inout ChannelStatus.Counts) -> Void) {
            if let pool = pool(app, environment) { status.change(pool, body) }
        }
        switch note {
        case .created(let entry):
            log(.channelCreated, fields(entry))
            count(entry.app, entry.environment) { $0.created += 1 }
        case .deleted(let entry):
            log(.channelDeleted, fields(entry))
            count(entry.app, entry.environment) { $0.deleted += 1 }
        case .lost(let entry):
            log(.channelLost, fields(entry))
        case .orphanDeleted(let channel, let app, let environment):
            log(.channelOrphanDeleted, ["channel": "\(channel)", "app": "\(app)", "environment": "\(environment)"])
            count(app, environment) { $0.orphans += 1 }
        case .unknown(let channels, let app, let environment):
            log(.channelsUnknown, ["channels": "\(channels)", "app": "\(app)", "environment": "\(environment)"])
        case .refused(let audience, let app, let environment, let text):
            log(
                .channelRefused,
                ["audience": "\(audience)", "app": "\(app)", "environment": "\(environment)", "error": "\(text)"]
            )
            count(app, environment) {
                $0.refused += 1
                $0.failure = failure("audience \(audience): \(text)")
            }
        case .registerRead(let app, let environment, let known):
            count(app, environment) {
                $0.known = Int64(known.entries.count)
                $0.lastSnapshot = ChannelStatus.Snapshot(known, atMilliseconds: wallMilliseconds())
            }
        case .listed(let app, let environment, let channels): count(app, environment) { $0.listed = Int64(channels) }
        case .failed(let text, let app, let environment):
            log(.channelTrouble, ["error": "\(text)"])
            if let app, let environment {
                count(app, environment) { $0.failure = failure(text) }
            } else {
                status.changeDeclared { $0.failure = failure(text) }
            }
        }
    }

    private static func failure(_ text: String) -> ChannelStatus.Failure {
        ChannelStatus.Failure(atMilliseconds: wallMilliseconds(), text: text)
    }

    private static func fields(_ entry: ChannelEntry) -> Logger.Metadata {
        [
            "app": "\(entry.app)", "environment": "\(entry.environment)", "audience": "\(entry.audience)",
            "channel": "\(entry.channel)",
        ]
    }
}

extension ChannelStatus.Snapshot {
    init(_ known: Reconciliation.Known, atMilliseconds: Int64) {
        self.init(atMilliseconds: atMilliseconds)
        reconciledAtMilliseconds = known.reconciledAt
        let ending = known.entries.filter { $0.state == .deleting || $0.deleteAfter != nil }
        deletionsPlanned = ending.count
        nextDeletionMilliseconds = ending.map { $0.deleteAfter ?? atMilliseconds }.min()
        creationsOpen = known.intents.count
        unpublished = known.entries.count { $0.state == .active && $0.isPublished != true }
    }
}
