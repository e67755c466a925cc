extension MetricCatalog {
    static let audiences: [MetricDefinition] = audienceCounts + audienceTimes + audienceStates

    private static let audienceCounts: [MetricDefinition] = [
        .counter(
            .audienceCommands,
            "causeway_audience_commands_total",
            "commands",
            [.configuredApp],
            "Commands to audiences that were fanned out, each into one record for each range of its members.",
            "The others have come to something before: causeway_outcomes_total counts those."
        ),
        .counter(
            .audienceRanges,
            "causeway_audience_ranges_total",
            "ranges",
            [.configuredApp, .roundOutcome],
            "Ranges of commands that are finished, by the outcome that their results name.",
            "superseded: a newer command took over before all members of the range were reached. If most are, commands come faster than "
                + "rounds run; members show every other state, and none an old one."
        ),
        .counter(
            .audienceMembers,
            "causeway_audience_members_total",
            "members",
            [.configuredApp, .memberOutcome],
            "Members that had their turn in a round, by what became of it.",
            "The rate of delivered is what the rounds send. unregistered are dead tokens; failed were refused for a reason of their own, and "
                + "each has a result. expired: the command's time was over before the member's turn."
        ),
        .counter(
            .audiencePagesRead,
            "causeway_audience_pages_read_total",
            "pages",
            [],
            "Pages of members read from Redis.",
            "Some thirty to sixty members each. Zero while a round is under way: Redis is away, or pushes find no stream."
        ),
        .counter(
            .audiencePagesDamaged,
            "causeway_audience_pages_damaged_total",
            "pages",
            [],
            "Pages of members that could not be read, in whole or from some entry on.",
            "Never grows by itself: something else has written into the keys. The members behind the damage are not reached until they "
                + "register again."
        ),
        .counter(
            .audienceRecordsUnreadable,
            "causeway_audience_records_unreadable_total",
            "records",
            [],
            "Records of the fan-out topic that are none of Causeway's, or whose app is not configured any more; they are passed over.",
            "Only workers write that topic. After an app was removed from the configuration its last records count here."
        ),
        .counter(
            .audienceRoundsLost,
            "causeway_audience_rounds_lost_total",
            "rounds",
            [],
            "Rounds that another worker has claimed while this one was in them.",
            "A few when partitions move. Steady growth: two groups read the same topics, with the same Redis."
        ),
        .counter(
            .audienceMemberships,
            "causeway_audience_memberships_total",
            "changes",
            [.configuredApp, .membershipChange],
            "What audiences were told of activities and devices, each audience for itself: one joined, left, or moved to another token.",
            "moved also counts registrations that are read again, after a restart or a loss of Redis. Many left beside few joined: an app's "
                + "server registers without naming the audiences again."
        ),
        .counter(
            .audienceAppendsRepeated,
            "causeway_audience_appends_repeated_total",
            "entries",
            [],
            "Entries of members that went to a page a second time: it had been split by another worker, was full, or was not there yet.",
            "Some with each new audience and while it grows. As many as causeway_audience_memberships_total: one page takes all of the joins, or "
                + "something removes pages from Redis."
        ),
        .counter(
            .audiencePagesArranged,
            "causeway_audience_pages_arranged_total",
            "pages",
            [],
            "Pages of members that were made, compacted, split, or kept for longer.",
            "One for some fifty entries. Much more: members move or come again faster than pages grow."
        ),
    ]

    private static let audienceTimes: [MetricDefinition] = [
        .histogram(
            .audienceRangeTime,
            "causeway_audience_range_seconds",
            MetricBuckets.round,
            [.configuredApp],
            "From a command's record time to APNs' last answer of a range's members.",
            "Ranges of one command that take much longer than others: one worker is slower, or has more ranges."
        ),
        .histogram(
            .audienceCommandTime,
            "causeway_audience_command_seconds",
            MetricBuckets.round,
            [.configuredApp],
            "From a command's record time to APNs' last answer of all its members: the last phone.",
            "What the last of an audience feels. It falls with more workers, up to the number of ranges."
        ),
    ]

    private static let audienceStates: [MetricDefinition] = [
        .gauge(
            .audienceRounds,
            "causeway_audience_rounds",
            .count("rounds"),
            [.configuredApp],
            .lanes(.sum),
            "Ranges of audiences that have commands under way.",
            "0 between commands. A range whose last members are sent again and again stays for as long."
        ),
        .gauge(
            .audienceOldestRound,
            "causeway_audience_oldest_round_seconds",
            .secondsInMilliseconds,
            [.configuredApp],
            .lanes(.highest),
            "For how long the oldest round has had members whose turn has not come, since the command was admitted with which it began; 0: all "
                + "had their turn.",
            "Newer commands join a round, and it ends when all members had the newest. Growing: rounds stand still, or commands come faster "
                + "than rounds run. Members that are sent again do not count."
        ),
        .gauge(
            .audienceOldestRange,
            "causeway_audience_oldest_range_seconds",
            .secondsInMilliseconds,
            [.configuredApp],
            .lanes(.highest),
            "Since the admission of the oldest command that is not finished in some range; 0: there is none.",
            "Longer than the oldest round: few members keep a command unfinished, since APNs has put them off; see "
                + "causeway_audience_members_parked."
        ),
        .gauge(
            .audienceMembersParked,
            "causeway_audience_members_parked",
            .count("members"),
            [.configuredApp],
            .lanes(.sum),
            "Members whose push came to nothing for a reason that is not their own, and who wait to be sent the newest state.",
            "Hundreds for each range: APNs or the way to it is in trouble. One or two for hours: APNs answers 429 for these phones."
        ),
    ]
}
