extension MetricCatalog {
    static let channels: [MetricDefinition] = [
        .gauge(
            .channels,
            "causeway_channels",
            .count("channels"),
            [.pool],
            .kafkaThread,
            help:
                """
                Broadcast channels of audiences at the last check. Each worker checks once a minute, so use the \
                highest value of all workers.
                """,
            meaning:
                """
                Apple allows 10,000 per app and environment. Above 8,000, shorten channels.keepSeconds or give fewer \
                audiences a channel.
                """
        ),
        .gauge(
            .channelsListed,
            "causeway_channels_listed",
            .count("channels"),
            [.pool],
            .kafkaThread,
            help:
                """
                Channels in the last list that any worker got from APNs, including those of other programs; 0 before \
                the first list. A worker requests the list once a day, before it creates channels, and after it has \
                deleted some.
                """,
            meaning:
                """
                If this is far above causeway_channels, other programs create channels too, or some channels have no \
                owner. Run causeway channels reconcile.
                """
        ),
        .counter(
            .channelsCreated,
            "causeway_channels_created_total",
            .count("channels"),
            [.pool],
            help: "Channels created by this worker.",
            meaning:
                """
                One for each audience that gets a channel, and one for each replacement of a channel that another \
                program deleted.
                """
        ),
        .counter(
            .channelsDeleted,
            "causeway_channels_deleted_total",
            .count("channels"),
            [.pool],
            help: "Channels deleted by this worker, channels.keepSeconds after their audience ended.",
            meaning:
                "Over days this equals the number of created channels. If it is lower, producers do not end audiences."
        ),
        .counter(
            .channelOrphans,
            "causeway_channel_orphans_total",
            .count("channels"),
            [.pool],
            help: "Deleted channels without an owner: a worker crashed, or lost APNs' response, while it created them.",
            meaning:
                """
                A few are normal after crashes. If there are more, the management service responds too late; see \
                causeway_channel_refusals_total.
                """
        ),
        .counter(
            .channelRefusals,
            "causeway_channel_refusals_total",
            .count("channels"),
            [.pool],
            help:
                "Failed attempts to create a channel. Until one succeeds, the audience is reached through tokens only.",
            meaning:
                """
                The log kind channel-refused says why: the app has no Broadcast Capability, the limit of channels is \
                reached, or APNs does not respond.
                """
        ),
    ]
}
