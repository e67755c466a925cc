import Documents
import LiveActivity

extension RecordFormat {
    package static let command = RecordFormat(
        name: "command",
        title: "Command",
        topicConfigurationKey: "commands",
        topic: "causeway.commands",
        introduction: """
            A producer writes one command for each new state: an address, and Apple's `aps` dictionary, which is \
            usually sent to APNs unchanged. Causeway may raise `timestamp`, remove or add an alert, drop `oversize` \
            members, and in a start to an audience set `input-push-token` or `input-push-channel`. The whole body that \
            APNs gets, `{"aps":…}` with the members of `payload`, has at most 4,096 bytes, or 5,120 if `channel` is an \
            id.
            """,
        keyMeaning: """
            the activity's id, or the audience's id, or the channel's id. Records with the same address must have the \
            same key, so that a partition keeps their order. All producers need the same partitioner: the Java \
            client's default, which librdkafka calls `murmur2_random`. Clients that are built on librdkafka (Python, \
            Go, .NET) must set it: `partitioner=murmur2_random`.
            """,
        headers: [
            ("traceparent", "W3C Trace Context. It is copied to the result."),
            ("tracestate", "W3C Trace Context. It is copied to the result."),
        ],
        isWrittenByProducers: true,
        variants: [
            Variant(
                name: "command",
                title: "Command",
                introduction: "",
                shape: CommandFormat.shape,
                example: CommandFormat.example
            )
        ]
    )
}

private enum CommandFormat {
    static let example =
        #"{"app": "com.example.match", "activity": "final-phone-21", "id": "final-goal-1", "aps": {"event": "update", "#
        + #""timestamp": 1790000004, "content-state": {"home": 1, "away": 0}, "#
        + #""alert": {"title": "Goal for Rovers", "body": "Adeyemi, 17"}}}"#

    static let shape = RecordShape(
        [
            RecordField(
                "app",
                .identifier,
                .always,
                "The app's bundle id, without escapes. It must be in the worker's configuration."
            ),
            RecordField(
                "activity",
                .identifier,
                .conditional("address"),
                """
                The activity's id, which you choose. It identifies one Live Activity on one device. In a start to an \
                audience, it is the template of the ids: `{device}` is replaced by each device's id.
                """
            ),
            RecordField(
                "audience",
                .identifier,
                .conditional("address"),
                "The audience whose members all get the command."
            ),
            RecordField(
                "channel",
                .either([.channelIdentifier, .boolean]),
                .conditional("address, or with `audience`"),
                """
                The id of a broadcast channel that you manage yourself. Or `true` together with `audience`: the \
                audience gets a channel, even if no pattern of the configuration matches it.
                """
            ),
            RecordField(
                "device",
                .identifier,
                .conditional("start of an activity"),
                "The device on which the activity starts, as its registration names it."
            ),
            RecordField("aps", .object(aps), .always, "Apple's dictionary."),
            RecordField(
                "payload",
                .object(
                    RecordShape(
                        [],
                        unlistedKeys: .passedOn,
                        forbiddenKeys: ["aps"],
                        typeInWords: "object without the key `aps`"
                    )
                ),
                "Your own keys. In the body, they are next to `aps`."
            ),
            RecordField(
                "id",
                .nonEmptyText(bytesMax: Limits.commandIdentifierBytesMax),
                """
                The id of the command in its result. Default: its position in Kafka, `topic/partition/offset`. Ids \
                that begin with `lifetime:` are for Causeway's own commands.
                """
            ),
            RecordField(
                "sequence",
                .sequence,
                "Orders commands with the same `aps.timestamp`. The command with the higher number is newer. Default: 0."
            ),
            RecordField(
                "priority",
                .integerChoice([5, 10]),
                """
                `apns-priority`. Default: 10 for a start, an end and an alert, otherwise 5. The budget can lower 10 to \
                5.
                """
            ),
            RecordField(
                "expiration",
                .unixSeconds,
                """
                The command is not sent after this time. Default: for a start, the policy's `startSeconds` after \
                `aps.timestamp`; for an update 8 hours after it, for an end 12 hours. 0, Apple's value for one \
                attempt, is not allowed.
                """
            ),
            RecordField("policy", .policyName, "A policy of the worker's configuration. Default: the app's."),
            RecordField(
                "token",
                .token,
                .conditional("with `environment`"),
                """
                The activity's update token, or the device's push-to-start token, in the same form as in a \
                registration.
                """
            ),
            RecordField(
                "environment",
                .environment,
                .conditional("with `token` or a channel's id"),
                "The environment of the token or the channel. Default for a channel: `production`."
            ),
        ],
        unlistedKeys: .refused,
        rules: [channelCommandRule, audienceCommandRule, activityCommandRule]
    )

    private static let aps = RecordShape(
        [
            RecordField(
                "event",
                .choice(Event.allCases.map(\.name.description)),
                .always,
                "What the push does to the activity."
            ),
            RecordField(
                "timestamp",
                .unixSeconds,
                .always,
                """
                The time at which this state was true. The newest state replaces older ones. At most \
                \(Limits.timestampLeadSecondsMax) s ahead of the worker's clock.
                """
            ),
            RecordField(
                "content-state",
                .appObject,
                .conditional("required, except in an end"),
                """
                The app's `ContentState`, as `JSONEncoder` with default strategies writes it. A `Date` in it is a \
                number of seconds since 2001, not since 1970. If the phone cannot decode the content state, it shows \
                nothing new.
                """
            ),
            RecordField(
                "attributes-type",
                .identifier,
                .conditional("start"),
                "The name of the app's Swift type that conforms to `ActivityAttributes`."
            ),
            RecordField(
                "attributes",
                .appObject,
                .conditional("start"),
                "The app's `ActivityAttributes`, encoded like `content-state`."
            ),
            RecordField(
                "alert",
                .object(alert),
                .conditional("in a start, otherwise optional"),
                "The alert, which plays a sound and lights up the screen."
            ),
            RecordField(
                "stale-date",
                .number,
                """
                UNIX seconds. After this time, the system marks the activity as outdated. APNs stores an undelivered \
                update until this time, 8 hours at most.
                """
            ),
            RecordField(
                "dismissal-date",
                .number,
                .conditional("only in an end"),
                """
                UNIX seconds. At this time, the system removes the ended activity from the Lock Screen: at most 4 \
                hours after the end, or at once if the time is past.
                """
            ),
            RecordField(
                "relevance-score",
                .number,
                "Of an app's activities, the Dynamic Island shows the one with the highest score."
            ),
            RecordField(
                "input-push-token",
                .integerChoice([1]),
                .conditional("only in a start"),
                "The activity gets an update token (iOS 18)."
            ),
            RecordField(
                "input-push-channel",
                .nonEmptyText(bytesMax: Limits.stringBytesMax),
                .conditional("only in a start"),
                "The id of the broadcast channel to which the new activity subscribes (iOS 18)."
            ),
        ],
        unlistedKeys: .passedOn,
        rules: [startRule, updateOrEndRule, dismissalRule, contentStateRule]
    )

    private static let alert = RecordShape(
        [
            RecordField(
                "title",
                localizableTextType,
                .conditional("start"),
                "The title, or the key of a text in the app."
            ),
            RecordField(
                "body",
                localizableTextType,
                .conditional("start"),
                "The text, or the key of a text in the app."
            ),
            RecordField("sound", .text, "`default`, or the name of a sound file in the app."),
        ],
        unlistedKeys: .passedOn
    )

    private static let localizableTextType = FieldType.either([
        .text,
        .object(
            RecordShape(
                [
                    RecordField("loc-key", .text, .always, "The key in the app's strings."),
                    RecordField(
                        "loc-args",
                        .array(of: .text, elementsMax: nil),
                        "What replaces the placeholders of that string."
                    ),
                ],
                unlistedKeys: .passedOn,
                typeInWords: "an object with `loc-key`"
            )
        ),
    ])
}

extension CommandFormat {
    private static let startCondition: DocumentValue = [
        "required": ["aps"],
        "properties": ["aps": apsStartCondition],
    ]

    private static let apsStartCondition: DocumentValue = [
        "required": ["event"], "properties": ["event": ["const": "start"]],
    ]

    private static let channelCommandRule = RecordRule(
        "A command with the id of a channel has no `activity`, `audience`, `device` or `token`, and is not a start.",
        [
            "if": ["required": ["channel"], "properties": ["channel": ["type": "string"]]],
            "then": [
                "properties": ["activity": false, "audience": false, "device": false, "token": false],
                "not": startCondition,
            ],
        ]
    )

    private static let audienceCommandRule = RecordRule(
        """
        A command to an audience has no `device`, `token` or `environment`. A start has an `activity` with `{device}` \
        in it; an update or end has no `activity`.
        """,
        [
            "if": ["required": ["audience"]],
            "then": [
                "properties": ["device": false, "token": false, "environment": false],
                "if": startCondition,
                "then": ["required": ["activity"], "properties": ["activity": ["pattern": "[{]device[}]"]]],
                "else": ["properties": ["activity": false]],
            ],
        ]
    )

    private static let activityCommandRule = RecordRule(
        """
        Every other command has an `activity` and no `channel`. A start has a `device`; an update or end has none. \
        `token` and `environment` are both present or both absent.
        """,
        [
            "if": [
                "not": [
                    "anyOf": [
                        ["required": ["audience"]],
                        ["required": ["channel"], "properties": ["channel": ["type": "string"]]],
                    ]
                ]
            ],
            "then": [
                "required": ["activity"],
                "properties": ["channel": false],
                "dependencies": ["token": ["environment"], "environment": ["token"]],
                "if": startCondition,
                "then": ["required": ["device"]],
                "else": ["properties": ["device": false]],
            ],
        ]
    )

    private static let nonEmptyTextSchema: DocumentValue = [
        "minLength": 1, "properties": ["loc-key": ["minLength": 1]],
    ]

    private static let startRule = RecordRule(
        """
        A start has `attributes-type`, `attributes`, and an `alert` whose `title` and `body` are not empty: the phone \
        ignores any other start. It has at most one of `input-push-token` and `input-push-channel`.
        """,
        [
            "if": apsStartCondition,
            "then": [
                "required": ["attributes-type", "attributes", "alert"],
                "properties": [
                    "alert": [
                        "required": ["title", "body"],
                        "properties": ["title": nonEmptyTextSchema, "body": nonEmptyTextSchema],
                    ]
                ],
                "not": ["required": ["input-push-token", "input-push-channel"]],
            ],
        ]
    )

    private static let updateOrEndRule = RecordRule(
        "Only a start has `input-push-token` or `input-push-channel`.",
        ["if": apsStartCondition, "else": ["properties": ["input-push-token": false, "input-push-channel": false]]]
    )

    private static let dismissalRule = RecordRule(
        "Only an end has `dismissal-date`.",
        [
            "if": ["required": ["dismissal-date"]],
            "then": ["properties": ["event": ["const": "end"]]],
        ]
    )

    private static let contentStateRule = RecordRule(
        "Only in an end is `content-state` optional.",
        ["if": ["properties": ["event": ["const": "end"]]], "else": ["required": ["content-state"]]]
    )
}
