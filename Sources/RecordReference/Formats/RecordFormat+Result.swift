import Documents
import LiveActivity

extension RecordFormat {
    package static let result = RecordFormat(
        name: "result",
        title: "Result",
        topicConfigurationKey: "results",
        topic: "causeway.results",
        introduction: """
            Workers write the outcome of each command. There are four kinds of result, because a command to an \
            audience has several results. Recognize each kind by the fields that its description names. After a crash, \
            a result may be written twice, with the same `command` and `outcome`. Ignore keys that you do not know.
            """,
        keyMeaning:
            "the id of the command's activity, audience or channel; for an `invalid` record, the key of that record.",
        headers: [
            ("traceparent", "The command's; with tracing, it names the worker's span."),
            ("tracestate", "The command's."),
        ],
        isWrittenByProducers: false,
        variants: [commandResult, rangeResult, audienceResult, broadcastResult]
    )

    private static let commandResult = Variant(
        name: "commandResult",
        title: "Result of a command",
        introduction: """
            It has `attempts`. Each command to an activity has such a result, and so has each start that a start to an \
            audience causes. A command to an audience or a channel has it only if nothing was sent. A member of an \
            audience has it if APNs refused its push permanently; the result has the audience's id and the outcome \
            `failed` or `unregistered`. An `invalid` registration has it, too.
            """,
        shape: RecordShape(
            [ResultFields.command, ResultFields.appIfKnown] + ResultFields.addressFields + [
                RecordField(
                    "outcome",
                    .choice(Outcome.allCases.map(\.name.description)),
                    .always,
                    "See the table of outcomes."
                ),
                RecordField(
                    "superseded",
                    .count,
                    "The number of older commands that this one replaced and that have no result of their own."
                ),
                ResultFields.status, ResultFields.reason,
                RecordField(
                    "cause",
                    .choice(["lifetime"]),
                    """
                    Present if Causeway wrote the command itself. `lifetime`: the `lifetimeSeconds` of the activity's \
                    policy were over. If the result has a `device`, the command is the start after such an end \
                    (`afterLifetime`).
                    """
                ),
                RecordField("apnsId", .uuid, "The `apns-id` of the push, with which Apple's console finds the push."),
                RecordField("priority", .integerChoice([5, 10]), "The priority of the push that was sent."),
                ResultFields.demoted,
                RecordField(
                    "budgetLeft",
                    .count,
                    """
                    How many pushes of priority 10 the activity's budget still allows. Present if the budget was \
                    checked.
                    """
                ),
                ResultFields.dropped,
                RecordField("policy", .policyName, "The policy that the command named."),
                RecordField("attempts", .count, .always, "The number of requests to APNs."),
                ResultFields.sentTimestamp,
                ResultFields.source,
                ResultFields.times([
                    .record, .init("received", "The worker received the record."), .admitted,
                    .init("sent", "The last push was sent."),
                    .init("responded", "APNs responded to the last push."),
                ]),
            ],
            unlistedKeys: .ignored
        ),
        example:
            #"{"command": "ride-3", "app": "com.example.ride", "activity": "phone-7-RideAttributes-0", "outcome": "accepted", "#
            + #""status": 200, "apnsId": "8f5bd1ac-5a5a-4a6e-9f0c-3d0f0b6f5f6e", "priority": 10, "budgetLeft": 14, "attempts": 1, "#
            + #""timestamp": 1790000004, "source": {"topic": "causeway.commands", "partition": 3, "offset": 17}, "#
            + #""times": {"record": 1790000004001, "received": 1790000004003, "admitted": 1790000004005, "sent": 1790000004006, "#
            + #""responded": 1790000004031}}"#,
        moreExamples: CommandResultExamples.moreExamples
    )

    private static let rangeResult = Variant(
        name: "rangeResult",
        title: "Result of a range of an audience",
        introduction:
            "It has `segments`. The members are divided into up to 256 ranges, and each range has a result.",
        shape: RecordShape(
            [
                ResultFields.command, ResultFields.app, ResultFields.audience,
                RecordField("segments", .segmentRange, .always, "The first and the last of the range's segments."),
                ResultFields.fanoutOutcome, ResultFields.members, ResultFields.source,
                ResultFields.times([.first, .last]),
            ],
            unlistedKeys: .ignored
        ),
        example:
            #"{"command": "final-goal-1", "app": "com.example.match", "audience": "cup-final", "segments": [0, 63], "#
            + #""outcome": "delivered", "members": {"delivered": 247484, "unregistered": 48}, "#
            + #""source": {"topic": "causeway.commands", "partition": 3, "offset": 17}, "#
            + #""times": {"first": 1790000004098, "last": 1790000009870}}"#
    )

    private static let audienceResult = Variant(
        name: "audienceResult",
        title: "Result of a command to an audience",
        introduction: "It has `ranges`. It is written after the last range or broadcast, and has the sums.",
        shape: RecordShape(
            [
                ResultFields.command, ResultFields.app, ResultFields.audience, ResultFields.fanoutOutcome,
                ResultFields.members,
                RecordField(
                    "broadcasts",
                    ResultFields.outcomeCounts,
                    """
                    How many broadcasts of the command had each outcome. Absent if there was no broadcast: for a \
                    start, and if the audience has no channel.
                    """
                ),
                RecordField(
                    "channel",
                    .choice(["none"]),
                    "The audience should have a channel, but had none in time, in one environment or in both."
                ),
                RecordField(
                    "channelReason",
                    .choice(ChannelAbsence.allCases.map(\.name.description)),
                    """
                    Why there was no channel. `notInTime`: the command waited 2 s, a start up to 30 s, or longer if \
                    Redis had lost the channel. `refused`: APNs refused to create it, see the worker's log. \
                    `notAwaited`: less than a minute ago, another command of the audience, or commands of too many \
                    other audiences, waited without success; or too many commands waited.
                    """
                ),
                RecordField("ranges", .integer(1...256), .always, "How many ranges the audience was divided into."),
                RecordField(
                    "reason",
                    .choice(["alertExpired"]),
                    "The alert was too old, so the state was sent without it."
                ),
                ResultFields.demoted, ResultFields.dropped,
                RecordField("timestamp", .unixSeconds, .always, "`aps.timestamp` of the push."),
                ResultFields.source,
                ResultFields.times([.record, .admitted, .first, .last]),
            ],
            unlistedKeys: .ignored
        ),
        example:
            #"{"command": "final-goal-1", "app": "com.example.match", "audience": "cup-final", "outcome": "delivered", "#
            + #""members": {"delivered": 989936, "unregistered": 192}, "ranges": 4, "timestamp": 1790000004, "#
            + #""source": {"topic": "causeway.commands", "partition": 3, "offset": 17}, "#
            + #""times": {"record": 1790000004001, "admitted": 1790000004005, "first": 1790000004098, "last": 1790000011013}}"#
    )

    private static let broadcastResult = Variant(
        name: "broadcastResult",
        title: "Result of a broadcast",
        introduction:
            "It has `channel` with an id, and no `attempts`. Each command that is sent to a broadcast channel has one.",
        shape: RecordShape(
            [
                ResultFields.command, ResultFields.app,
                RecordField("audience", .text, "The audience; absent if the command named the channel itself."),
                RecordField("channel", .text, .always, "The channel's id."),
                RecordField("environment", .environment, .always, "The environment of the channel."),
                RecordField(
                    "outcome",
                    .choice(MemberOutcome.allCases.map(\.name.description)),
                    .always,
                    "See the table of members' outcomes."
                ),
                ResultFields.status, ResultFields.reason,
                RecordField("advice", .text, "What to do about the reason."),
                ResultFields.dropped,
                ResultFields.source,
                ResultFields.times([.first, .last]),
            ],
            unlistedKeys: .ignored,
            rules: [RecordRule("It has no `attempts`.", ["properties": ["attempts": false]])]
        ),
        example: #"{"command": "final-goal-1", "app": "com.example.match", "audience": "cup-final", "#
            + #""channel": "dHN0LXNyY2gtY2hubA==", "environment": "production", "outcome": "delivered", "status": 200, "#
            + #""source": {"topic": "causeway.commands", "partition": 3, "offset": 17}, "#
            + #""times": {"first": 1790000004055, "last": 1790000004055}}"#
    )
}

/// Fields that several kinds of result have.
private enum ResultFields {
    static let command = RecordField(
        "command",
        .text,
        .always,
        "The command's `id`. If it has none: the position of its record, `topic/partition/offset`."
    )
    static let app = RecordField("app", .text, .always, "The app's bundle id.")
    static let appIfKnown = RecordField(
        "app",
        .text,
        "The app's bundle id. Absent if the record could not be read or the app is unknown."
    )
    static let addressFields = [
        RecordField("activity", .text, "The activity."),
        RecordField("audience", .text, "The audience of the command, or of the member whose push failed."),
        RecordField("channel", .text, "The channel that the command named itself, with its `environment`."),
        RecordField("environment", .environment, .conditional("with `channel`"), "The environment of the channel."),
        RecordField("device", .text, "The device of a start."),
    ]
    static let audience = RecordField("audience", .text, .always, "The audience.")
    static let status = RecordField("status", .integer(100...999), "The HTTP status of APNs' last response.")
    static let reason = RecordField("reason", .text, "Apple's reason, or Causeway's own: see the table of reasons.")
    static let demoted = RecordField(
        "demoted",
        .boolean,
        "`true`: the command requested priority 10, and a push was sent at 5, because a budget did not allow 10."
    )
    static let dropped = RecordField(
        "dropped",
        .array(of: .text, elementsMax: OversizeFields.fieldsMax),
        """
        The members of `content-state` that were dropped by the policy's `oversize`, because the body was too large. \
        If a command was held for a token and is sent later, only its result `held` names them.
        """
    )
    static let sentTimestamp = RecordField(
        "timestamp",
        .unixSeconds,
        """
        `aps.timestamp` of the push. It can be later than the command's, because it must be later than that of the \
        previous push.
        """
    )
    static let fanoutOutcome = RecordField(
        "outcome",
        .choice(FanoutOutcome.allCases.map(\.name.description)),
        .always,
        "See the table of audiences' outcomes."
    )
    static let outcomeCounts = FieldType.object(
        RecordShape(
            MemberOutcome.allCases.map {
                RecordField($0.name.description, .count, "How many had this outcome. Absent if none had it.")
            },
            unlistedKeys: .ignored,
            typeInWords: "object: a count for each outcome that occurred"
        )
    )
    static let members = RecordField("members", outcomeCounts, .always, "How many members had each outcome.")
    static let source = RecordField(
        "source",
        .object(
            RecordShape(
                [
                    RecordField("topic", .text, .always, "The topic of the record."),
                    RecordField("partition", .count, .always, "The partition of the record."),
                    RecordField("offset", .count, .always, "The offset of the record."),
                ],
                unlistedKeys: .ignored
            )
        ),
        .always,
        "The position of the command's record."
    )

    struct TimeField {
        var name: String
        var meaning: String

        init(_ name: String, _ meaning: String) {
            self.name = name
            self.meaning = meaning
        }

        static let record = TimeField("record", "The time of the command's record.")
        static let admitted = TimeField("admitted", "Redis decided about the command.")
        static let first = TimeField("first", "APNs' first response.")
        static let last = TimeField("last", "APNs' last response.")
    }

    static func times(_ times: [TimeField]) -> RecordField {
        RecordField(
            "times",
            .object(
                RecordShape(
                    times.map { RecordField($0.name, .count, $0.meaning + " UNIX milliseconds.") },
                    unlistedKeys: .ignored,
                    typeInWords: "object: those times that are known"
                )
            ),
            .always,
            "The times of the command's steps."
        )
    }
}
