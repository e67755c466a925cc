import Logging

extension LogKindCatalog {
    static let channels: [LogKindDefinition] = [
        line(
            .channelCreated,
            "channel-created",
            .info,
            "a channel was created",
            "An audience has a broadcast channel now; kafka.topics.channels tells app servers of it."
        ),
        line(
            .channelDeleted,
            "channel-deleted",
            .info,
            "a channel was deleted",
            "Its audience ended channels.keepSeconds ago, or somebody asked for it."
        ),
        line(
            .channelLost,
            "channel-lost",
            .warning,
            "a channel is gone from APNs",
            "Somebody else deleted it, or the app's capability was turned off. Another is created and published; who had subscribed to the first "
                + "hears no more.",
            "Find out who deletes channels. Phones that start from now on subscribe to the new one."
        ),
        line(
            .channelOrphanDeleted,
            "channel-orphan-deleted",
            .warning,
            "a channel without an owner was deleted",
            "A worker died, or lost APNs' answer, between creating it and telling of it. Nobody had subscribed.",
            "Nothing after a crash. If it goes on: the management service answers too late, see channel-refused."
        ),
        line(
            .channelRefused,
            "channel-refused",
            .warning,
            "a channel could not be created",
            "The audience's members with tokens are reached all the same; devices start without a channel.",
            "Read `error`: FeatureNotEnabled wants the Broadcast Capability on developer.apple.com, CannotCreateChannelConfig fewer channels."
        ),
        line(
            .channelsUnknown,
            "channels-unknown",
            .info,
            "APNs has channels that are not ours",
            "Others made them, or it cannot be told who did. They are left alone, and count against the limit of 10,000.",
            "If nobody needs them: causeway channels reconcile --delete-unknown."
        ),
        line(
            .channelTrouble,
            "channel-trouble",
            .warning,
            "channels cannot be looked after",
            "Redis, Kafka or APNs' management does not answer; what is due is done by a later look.",
            "Read `error`. The network policy must let out the management's port (2196, in the sandbox 2195)."
        ),
    ]
}
