import Documents
import LiveActivity

extension RecordFormat {
    package static let invalidation = RecordFormat(
        name: "invalidation",
        title: "Invalidation",
        topicConfigurationKey: "invalidations",
        topic: "causeway.invalidations",
        introduction: """
            Workers write one invalidation for each token that APNs reports as dead. Delete the token from your own \
            tables, unless the app has registered it again since `invalidAt`. Workers no longer use it.
            """,
        keyMeaning: "the activity's id, or the device's id.",
        headers: [],
        isWrittenByProducers: false,
        variants: [
            Variant(
                name: "invalidation",
                title: "Invalidation",
                introduction: "",
                shape: RecordShape(
                    [
                        RecordField("app", .text, .always, "The app's bundle id."),
                        RecordField(
                            "activity",
                            .text,
                            .conditional("unless `device`"),
                            "The activity whose update token is dead."
                        ),
                        RecordField(
                            "device",
                            .text,
                            .conditional("unless `activity`"),
                            "The device whose push-to-start token is dead."
                        ),
                        RecordField("token", .token, .always, "The token."),
                        RecordField("environment", .environment, .always, "The environment of the token."),
                        RecordField(
                            "reason",
                            .text,
                            .always,
                            """
                            `ExpiredToken`: the activity ended or was dismissed. `Unregistered`: the app was deleted. \
                            `BadDeviceToken`: not a token of this environment.
                            """
                        ),
                        RecordField(
                            "invalidAt",
                            .count,
                            .always,
                            """
                            The time since which the token is dead, UNIX milliseconds. It is Apple's time if APNs sent \
                            one.
                            """
                        ),
                    ],
                    unlistedKeys: .ignored,
                    rules: [
                        RecordRule(
                            "It has either `activity` or `device`.",
                            ["oneOf": [["required": ["activity"]], ["required": ["device"]]]]
                        )
                    ]
                ),
                example: #"{"app": "com.example.match", "activity": "final-phone-21", "token": "5c1e0a77b2d4f839", "#
                    + #""environment": "production", "reason": "ExpiredToken", "invalidAt": 1790003600000}"#
            )
        ]
    )

    package static let channel = RecordFormat(
        name: "channel",
        title: "Channel",
        topicConfigurationKey: "channels",
        topic: "causeway.channels",
        introduction: """
            Workers write here which broadcast channel an audience has, so that apps can start activities on the \
            channel. A tombstone means that the channel was deleted. The topic is compacted.
            """,
        keyMeaning: "`app/environment/audience`.",
        headers: [],
        isWrittenByProducers: false,
        variants: [
            Variant(
                name: "channel",
                title: "Channel",
                introduction: "",
                shape: RecordShape(
                    [
                        RecordField("app", .text, .always, "The app's bundle id."),
                        RecordField(
                            "environment",
                            .environment,
                            .always,
                            "The channel exists only in this environment."
                        ),
                        RecordField("audience", .text, .always, "The audience."),
                        RecordField(
                            "channel",
                            .channelIdentifier,
                            .always,
                            "The channel's id, for `Activity.request(pushType: .channel(…))`."
                        ),
                        RecordField(
                            "storage",
                            .choice(ChannelStoragePolicy.allCases.map(\.name.description)),
                            .always,
                            "What APNs stores for offline phones: nothing, or the newest message."
                        ),
                        RecordField("createdAt", .count, .always, "The time of the creation, UNIX milliseconds."),
                        RecordField(
                            "state",
                            .choice(["active", "deleting"]),
                            .always,
                            "`deleting`: a worker is deleting the channel. Start no activities on it."
                        ),
                        RecordField(
                            "deleteAfter",
                            .count,
                            "The audience has ended, and the channel will be deleted after this time, UNIX milliseconds."
                        ),
                    ],
                    unlistedKeys: .ignored
                ),
                example: #"{"app": "com.example.match", "environment": "production", "audience": "cup-final", "#
                    + #""channel": "dHN0LXNyY2gtY2hubA==", "storage": "newest", "createdAt": 1790000000000, "state": "active"}"#
            )
        ]
    )

    /// The formats that have a schema.
    package static let all = [command, registration, result, invalidation, channel]
}
