import Logging
import Observability

/// Turns events of the keeper into log lines and metrics.
enum ChannelNotes {
    typealias Place = (board: ChannelBoard, pool: Int)

    /// - Parameter place: finds the counts of an app in an environment; nil for an app without a pool.
    static func tell(_ note: ChannelNote, _ log: SharedKindLog, place: (_ app: String, _ environment: String) -> Place?)
    {
        func count(_ app: String, _ environment: String, _ body: (inout ChannelBoard.Counts) -> Void) {
            if let place = place(app, environment) { place.board.change(place.pool, body) }
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
            count(app, environment) { $0.refused += 1 }
        case .counted(let app, let environment, let channels): count(app, environment) { $0.known = Int64(channels) }
        case .listed(let app, let environment, let channels): count(app, environment) { $0.listed = Int64(channels) }
        case .trouble(let text): log(.channelTrouble, ["error": "\(text)"])
        }
    }

    private static func fields(_ entry: ChannelEntry) -> Logger.Metadata {
        [
            "app": "\(entry.app)", "environment": "\(entry.environment)", "audience": "\(entry.audience)",
            "channel": "\(entry.channel)",
        ]
    }
}
