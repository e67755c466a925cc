extension MetricCatalog {
    static let channels: [MetricDefinition] = [
        .gauge(
            .channels,
            "causeway_channels",
            .count("channels"),
            [.pool],
            .kafka,
            "Broadcast channels of audiences, at the last look. Each worker looks once a minute at what all share: take the highest.",
            "Apple allows 10,000 for an app in an environment. Above 8,000: shorten channels.keepSeconds, or give fewer audiences one."
        ),
        .gauge(
            .channelsListed,
            "causeway_channels_listed",
            .count("channels"),
            [.pool],
            .kafka,
            "Channels that APNs listed, whoever made them; 0 until this worker has asked, which one does once a day.",
            "Well above causeway_channels: others make channels too, or some have no owner. causeway channels reconcile says."
        ),
        .counter(
            .channelsCreated,
            "causeway_channels_created_total",
            "channels",
            [.pool],
            "Channels created by this worker.",
            "One for each audience that gets one, and one for each that somebody else has deleted."
        ),
        .counter(
            .channelsDeleted,
            "causeway_channels_deleted_total",
            "channels",
            [.pool],
            "Channels deleted by this worker, channels.keepSeconds after their audience had ended.",
            "Over days as many as are created; fewer: audiences never end."
        ),
        .counter(
            .channelOrphans,
            "causeway_channel_orphans_total",
            "channels",
            [.pool],
            "Channels without an owner that were deleted: a worker died, or lost APNs' answer, while it created them.",
            "A few after crashes. More: the management service answers too late; see causeway_channel_refusals_total."
        ),
        .counter(
            .channelRefusals,
            "causeway_channel_refusals_total",
            "channels",
            [.pool],
            "Channels that could not be created. Their audiences are pushed to by tokens alone.",
            "The log lines of kind channel-refused say why: the capability is off, the limit is reached, or APNs does not answer."
        ),
    ]
}
