extension MetricCatalog {
    static let audiences: [MetricDefinition] = audienceCounters + audienceTimes + audienceStates

    private static let audienceCounters: [MetricDefinition] = [
        .counter(
            .audienceCommands,
            "causeway_audience_commands_total",
            .count("commands"),
            [.configuredApp],
            help: "Commands to audiences that were fanned out, each into one record per range of its members.",
            meaning: "Commands that ended before their fan-out are counted in causeway_outcomes_total only."
        ),
        .counter(
            .audienceRanges,
            "causeway_audience_ranges_total",
            .count("ranges"),
            [.configuredApp, .fanoutOutcome],
            help: "Finished ranges of commands, by the outcome in their results.",
            meaning:
                """
                superseded: a newer command took over before all members of the range were reached. If most ranges are \
                superseded, commands arrive faster than rounds end. Then members skip some states, but never get an \
                old one.
                """
        ),
        .counter(
            .audienceMembers,
            "causeway_audience_members_total",
            .count("members"),
            [.configuredApp, .memberOutcome],
            help: "Members that had their turn in a round, by outcome.",
            meaning:
                """
                The rate of delivered is the rate at which rounds send. unregistered: dead tokens. failed: APNs \
                refused the push, which has a result, or the push cannot be made; no retry helps. expired: the command \
                expired before the member's turn.
                """
        ),
        .counter(
            .audiencePagesRead,
            "causeway_audience_pages_read_total",
            .count("pages"),
            [],
            help: "Pages of members read from Redis.",
            meaning:
                """
                A page has about 30 to 60 members. If it is zero during a round, Redis is unreachable, or no HTTP/2 \
                stream is free for pushes.
                """
        ),
        .counter(
            .audiencePagesDamaged,
            "causeway_audience_pages_damaged_total",
            .count("pages"),
            [],
            help: "Pages of members in which all entries, or the last entries, could not be read.",
            meaning: "Grows only if another program has written to these Redis keys. Members "
                + "whose entries cannot be read get no pushes until they register again."
        ),
        .counter(
            .audienceRecordsUnreadable,
            "causeway_audience_records_unreadable_total",
            .count("records"),
            [],
            help:
                """
                Skipped records of the fan-out topic: not written by Causeway, or for an app that is no longer \
                configured.
                """,
            meaning:
                """
                Only workers should write to that topic. After an app was removed from the configuration, its last \
                records are counted here.
                """
        ),
        .counter(
            .audienceRoundsLost,
            "causeway_audience_rounds_lost_total",
            .count("rounds"),
            [],
            help: "Rounds that another worker took over while this worker ran them, or whose claim Redis lost.",
            meaning:
                """
                A few are normal when partitions move, or after a failover of Redis. Steady growth: two consumer groups use \
                the same topics and the same Redis.
                """
        ),
        .counter(
            .audienceMemberships,
            "causeway_audience_memberships_total",
            .count("changes"),
            [.configuredApp, .membershipChange],
            help:
                "Changes of activities and devices in audiences, counted per audience: joined, left, or updated.",
            meaning:
                """
                updated: another token or other data, or a registration that is read again after a restart or after \
                Redis lost data. If many leave and few join, an app's server registers tokens without naming the \
                audiences again.
                """
        ),
        .counter(
            .audienceAppendsRepeated,
            "causeway_audience_appends_repeated_total",
            .count("entries"),
            [],
            help:
                """
                Entries of members that were written to a page a second time: another worker had split the page, or \
                the page was full or missing.
                """,
            meaning: """
                Some are normal for each new audience and while it grows. If there are as many as \
                causeway_audience_memberships_total, all members join on one page, or another program removes pages \
                from Redis.
                """
        ),
        .counter(
            .audiencePagesArranged,
            "causeway_audience_pages_arranged_total",
            .count("pages"),
            [],
            help: "Pages of members that were created, compacted, split, or kept for longer.",
            meaning:
                """
                About one per fifty entries is normal. If there are far more, members change or register again faster \
                than pages grow.
                """
        ),
    ]

    private static let audienceTimes: [MetricDefinition] = [
        .histogram(
            .audienceRangeDuration,
            "causeway_audience_range_seconds",
            MetricBuckets.audienceMicroseconds,
            [.configuredApp],
            help: "Time from a command's record to APNs' last response for the members of a range.",
            meaning:
                "If some ranges of a command take much longer than others, one worker is slower, or has more ranges."
        ),
        .histogram(
            .audienceCommandDuration,
            "causeway_audience_command_seconds",
            MetricBuckets.audienceMicroseconds,
            [.configuredApp],
            help: "Time from a command's record to APNs' last response for all its members: the last phone.",
            meaning: "The delay for the last member of an audience. More workers reduce it, up to the number of ranges."
        ),
    ]

    private static let audienceStates: [MetricDefinition] = [
        .gauge(
            .audienceRounds,
            "causeway_audience_rounds",
            .count("rounds"),
            [.configuredApp],
            .lanes(.sum),
            help: "Ranges of audiences with unfinished commands.",
            meaning: "0 between commands. A range stays as long as pushes to its last members are retried."
        ),
        .gauge(
            .audienceOldestRound,
            "causeway_audience_oldest_round_seconds",
            .secondsStoredAsMilliseconds,
            [.configuredApp],
            .lanes(.highest),
            help: "Age of the oldest round with members that have not had their turn, counted from the "
                + "admission of the command that began it; 0 if all members had their turn.",
            meaning:
                """
                A newer command joins the round, which ends when all members have the newest state. If this grows, \
                rounds do not advance, or commands arrive faster than rounds end. Members whose pushes are retried do \
                not count.
                """
        ),
        .gauge(
            .audienceOldestRange,
            "causeway_audience_oldest_range_seconds",
            .secondsStoredAsMilliseconds,
            [.configuredApp],
            .lanes(.highest),
            help:
                "Time since the admission of the oldest command that is unfinished in some range; 0 if there is none.",
            meaning: "If it is longer than the oldest round, a few members keep a command unfinished "
                + "because their pushes are retried; see causeway_audience_members_parked."
        ),
        .gauge(
            .audienceMembersParked,
            "causeway_audience_members_parked",
            .count("members"),
            [.configuredApp],
            .lanes(.sum),
            help:
                """
                Members whose push must be retried because of an outage or a limit of APNs. They then get the newest \
                state.
                """,
            meaning:
                """
                Hundreds per range: APNs or the network to it has a problem. One or two for hours: APNs responds with \
                429 to the pushes for these phones.
                """
        ),
    ]
}
