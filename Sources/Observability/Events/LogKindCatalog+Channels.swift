import Logging

extension LogKindCatalog {
    static let channels: [LogKindDefinition] = [
        define(
            .channelCreated,
            "channel-created",
            .info,
            message: "a channel was created",
            meaning: """
                An audience now has a broadcast channel. The worker publishes it on kafka.topics.channels for the app \
                servers.
                """
        ),
        define(
            .channelDeleted,
            "channel-deleted",
            .info,
            message: "a channel was deleted",
            meaning: "The channel's audience ended channels.keepSeconds ago, or an operator deleted the channel."
        ),
        define(
            .channelLost,
            "channel-lost",
            .warning,
            message: "APNs no longer has a channel",
            meaning: """
                Another program deleted the channel, or the app's Broadcast Capability was turned off. A new channel \
                is created and published, but subscribers of the old one get no more broadcasts.
                """,
            action: "Find out who deletes channels. Activities that start from now on subscribe to the new channel."
        ),
        define(
            .channelOrphanDeleted,
            "channel-orphan-deleted",
            .warning,
            message: "a channel without an owner was deleted",
            meaning: """
                A worker crashed, or lost APNs' response, while it created the channel. The channel had not been \
                published, so no phone was subscribed.
                """,
            action: """
                Nothing, after a crash. If this line continues to appear, the management service responds too slowly; \
                see channel-refused.
                """
        ),
        define(
            .channelRefused,
            "channel-refused",
            .warning,
            message: "a channel could not be created",
            meaning: "Members with tokens are still reached. Devices start activities without a channel.",
            action: """
                Read `error`. FeatureNotEnabled: enable the Broadcast Capability on developer.apple.com. \
                CannotCreateChannelConfig: use fewer channels.
                """
        ),
        define(
            .channelsUnknown,
            "channels-unknown",
            .info,
            message: "APNs has channels that Causeway does not know",
            meaning: """
                Another program created them, or their creator is unknown. Causeway does not change them. They count \
                towards the limit of 10,000.
                """,
            action: "If nobody needs them, run causeway channels reconcile --delete-unknown."
        ),
        define(
            .channelUpkeepFailed,
            "channel-upkeep-failed",
            .warning,
            message: "work on broadcast channels failed",
            meaning: """
                Redis, Kafka or APNs' management service does not respond, or a record of the channels topic or an \
                entry in Redis cannot be read. The next check tries again.
                """,
            action: """
                Read `error`. The network policy must allow the port of the management service (2196, in the sandbox \
                2195).
                """
        ),
    ]
}
