import LiveActivity

extension ConfigurationSchema {
    /// The texts that ``GeneratedConfigurationText`` shows about `policies` and the sections in it.
    static let policySectionTexts = [
        "policies": """
        Pace and budget: how often one activity may get a push, and with which priority. Apple publishes none of \
        these numbers, so you can choose them. Each key names the source of its default: documented by Apple \
        ("Starting and updating Live Activities with ActivityKit push notifications", "Displaying live data with \
        Live Activities"), said by an Apple engineer (threads of developer.apple.com/forums), measured in the \
        field (by others; it may change with any release), or our choice.

        A policy is a set of numbers with a name of your choice, 1 to 64 letters, digits, hyphens and underscores. \
        There are at most 64 policies, including `default`. A key that a policy does not set has the default from \
        this file, not the value in `default`. `default` exists even if you do not write it. A variable: \
        CAUSEWAY_POLICIES_DEFAULT_BUDGET_PUSHES. CAUSEWAY_POLICIES=sports names policies that no file has. \
        examples/policies.yaml has example policies.
        """,
        "policies.*.budget": """
        Pushes of priority 10 to one activity. Documented by Apple: the phone counts them, drops or delays those \
        over its budget without an error to the sender, and does not count priority 5. Said by an Apple engineer: the \
        numbers are not published and may change (thread 747624); one push every 3 s uses up any budget (797554). \
        Causeway drops no push: it sends pushes over the budget at priority 5.
        """,
        "policies.*.frequentBudget": """
        The same budget while the user allows the app frequent updates, which the app reports as `frequentUpdates` \
        when it registers its token. Documented by Apple: the budget is larger then, and can still run out.
        """,
        "policies.*.startBudget": """
        Starts on one device, for all its activities. If the bucket is empty, a start waits. If it waits too long, it \
        expires with the reason startBudget. Said by an Apple engineer: each phone has this budget. It is fixed, the \
        same in both environments, and frequent updates do not increase it (thread 799505).
        """,
        "policies.*.expiration": """
        How long a start or an alert is valid, and how long APNs may store a push for an unreachable phone if the \
        command has no `expiration`. Without an expiration APNs would store it for up to 30 days. The limit is 12 \
        hours, because an activity does not last longer: documented by Apple.
        """,
    ]

    /// The keys of each policy in `policies`. A missing key has the built-in default, never the value of another
    /// policy. So a change to the policy `default` changes no other policy.
    static let policySectionKeys: [SchemaKey<Policy>] = policyKeyDefinitions.map(\.asReloadable)

    private static let policyKeyDefinitions: [SchemaKey<Policy>] = [
        .integer(
            "spacingMilliseconds",
            \.spacingMilliseconds,
            1_000...3_600_000,
            meaning: """
                The minimum time between two pushes of one activity; meanwhile a newer state replaces the waiting one. \
                The minimum is one second, because aps.timestamp counts whole seconds and the older of two is dropped: \
                documented by Apple.
                """
        )
        .sourceOfDefault(
            """
            Our choice: as often as the timestamps allow. Measured in the field: since iOS 18 a phone redraws an \
            activity every 5 to 15 s at most (Apple to 9to5Mac, September 2024), so 5000 loses little.
            """
        ),
        .integer(
            "budget.pushes",
            \.budget.pushes,
            1...Policy.Bucket.pushesMax,
            meaning: "The size of the bucket, in pushes. Every activity starts with a full bucket."
        )
        .sourceOfDefault("Measured in the field: about 15 per hour (pushward.app/docs/limits)."),
        .integer(
            "budget.refillPerHour",
            \.budget.refillPerHour,
            1...Policy.Bucket.refillPerHourMax,
            meaning: "Pushes that are added to the bucket in an hour, evenly."
        )
        .sourceOfDefault("Measured in the field: about 15 per hour (pushward.app/docs/limits)."),
        .integer(
            "budget.reservedForAlerts",
            \.budget.reservedForAlerts,
            0...Policy.Bucket.pushesMax,
            meaning: "How many of `pushes` are reserved for alerts and ends. Not more than `pushes`."
        )
        .sourceOfDefault("Our choice: a third."),
        .integer(
            "frequentBudget.pushes",
            \.frequentBudget.pushes,
            1...Policy.Bucket.pushesMax,
            meaning: "The size of the bucket, in pushes."
        )
        .sourceOfDefault(
            """
            Measured in the field: a phone with iOS 26.6 had 229 to 236 left (github.com/kylebshr/luka-ios, issue \
            146). Our choice is a lower value.
            """
        ),
        .integer(
            "frequentBudget.refillPerHour",
            \.frequentBudget.refillPerHour,
            1...Policy.Bucket.refillPerHourMax,
            meaning: "Pushes that are added to the bucket in an hour, evenly."
        )
        .sourceOfDefault(
            "Our choice: one bucket an hour, as for `budget`. How fast a phone refills its own budget is not known."
        ),
        .integer(
            "frequentBudget.reservedForAlerts",
            \.frequentBudget.reservedForAlerts,
            0...Policy.Bucket.pushesMax,
            meaning: "How many of `pushes` are reserved for alerts and ends. Not more than `pushes`."
        )
        .sourceOfDefault("Our choice: a quarter."),
        .integer(
            "startBudget.pushes",
            \.startBudget.pushes,
            1...Policy.Bucket.pushesMax,
            meaning: "The size of the bucket, in starts."
        )
        .sourceOfDefault(
            """
            Said by an Apple engineer: starts stop after about 10 in a short time (799505). Our choice is a \
            lower value.
            """
        ),
        .integer(
            "startBudget.refillPerHour",
            \.startBudget.refillPerHour,
            1...Policy.Bucket.refillPerHourMax,
            meaning: "Starts that are added to the bucket in an hour, evenly."
        )
        .sourceOfDefault("Our choice: how fast a phone refills its own budget is not known."),
        .integer(
            "throttledSpacingMillisecondsMax",
            \.throttledSpacingMillisecondsMax,
            1_000...3_600_000,
            meaning: """
                Each 429 TooManyRequests for a token doubles the spacing of its activity, up to this limit. Not less \
                than spacingMilliseconds. Apple documents the response, but not the rate that causes it.
                """
        )
        .sourceOfDefault("Our choice."),
        .integer(
            "throttleRecoveryMilliseconds",
            \.throttleRecoveryMilliseconds,
            1_000...3_600_000,
            meaning: "Time without a 429 after which one doubling of the spacing is undone. After twice this time, two "
                + "are."
        )
        .sourceOfDefault("Our choice."),
        .integer(
            "lifetimeSeconds",
            \.lifetimeSeconds,
            0...Policy.lifetimeSecondsMax,
            meaning: """
                Seconds from the start of an activity until Causeway ends it with its last state. 0: Causeway does not \
                end it. iOS ends an activity after 8 hours, and the app gets to know this only when it runs: \
                documented by Apple. 28200 (7 h 50 min) ends the activity before iOS does. Use at least 300; smaller \
                values are for tests. If the app started the activity, the time counts from its earliest \
                registration or accepted command that Causeway knows. A registration uses the app's policy.
                """
        )
        .sourceOfDefault("Our choice: a producer ends its activities itself."),
        .choice(
            "afterLifetime",
            \.afterLifetime,
            meaning: """
                What happens after lifetimeSeconds has ended an activity. end: nothing. restart: the activity is \
                started again on its device with the state that it showed last. The new start has the attributes, the \
                custom keys and the alert of the former start, but not the sound. It counts against the device's \
                startBudget and expires like every other start. Only an activity that a start to its device began can \
                be started again. Redis keeps the start and the last update, up to 9 kB for each activity.
                """
        )
        .sourceOfDefault("Our choice: a start is visible, so the producer decides."),
        .integer(
            "expiration.startSeconds",
            \.expiration.startSeconds,
            1...43_200,
            meaning: """
                The maximum age of a start when it is sent, and the time for which APNs stores it, both counted from \
                its aps.timestamp. If the command has an earlier `expiration`, that applies. A late start confuses \
                the user.
                """
        )
        .sourceOfDefault("Our choice."),
        .integer(
            "expiration.alertSeconds",
            \.expiration.alertSeconds,
            1...43_200,
            meaning: """
                The maximum age of the alert of an update or an end when it is sent, counted from its command's \
                aps.timestamp. If the alert is older, the state is sent without it.
                """
        )
        .sourceOfDefault("Our choice."),
        .integer(
            "expiration.updateSeconds",
            \.expiration.updateSeconds,
            1...43_200,
            meaning: """
                How long APNs stores an update without a stale date. An update with a stale date is stored until that \
                date, 8 hours at most.
                """
        )
        .sourceOfDefault("Our choice."),
        .integer("expiration.endSeconds", \.expiration.endSeconds, 1...43_200, meaning: "How long APNs stores an end.")
            .sourceOfDefault("Documented by Apple: an ended activity stays on the Lock Screen for up to four hours."),
        .texts(
            "oversize",
            \.oversize,
            .contentStateFieldName,
            meaning: """
                What to drop if a body is too large for APNs: more than 4,096 bytes, or 5,120 to a channel that the \
                command names. The listed members of content-state are dropped one after the other, in this order, \
                until the body fits. The result names them (`dropped`). Use dots for members of nested objects: \
                [lineups, match.commentary]. The app's Swift type must declare them as optional. A start's attributes \
                are never dropped. Members are not dropped to make space for an older alert that a newer state \
                carries; the alert is dropped instead. If the body is still too large, or the list is empty, the \
                command is invalid.
                """
        )
        .describingAllowedValues("at most \(OversizeFields.fieldsMax) names of letters, digits, '_', '-' and dots")
        .sourceOfDefault("Our choice: only the producer knows which members a phone does not need."),
    ]
}
