import Documents
import LiveActivity

extension RecordFormat {
    package static let registration = RecordFormat(
        name: "registration",
        title: "Registration",
        topicConfigurationKey: "registrations",
        topic: "causeway.registrations",
        introduction: """
            The app's server writes one registration for each token that it gets from a phone: the update token of an \
            activity, or the push-to-start token of a device. The topic is compacted: it keeps the newest record of \
            each key. So a device has a key for each attributes type. A record without a value (a tombstone) \
            unregisters what its key names: an activity, an attributes type of a device, or a whole device. To \
            unregister a device for good, write a tombstone with the key of each attributes type. After a tombstone \
            with only the device's id, the other keys keep their records, and workers read these again if Redis loses \
            its data.
            """,
        keyMeaning: """
            the activity's id; with `device`, the device's id, a slash and `attributesType`. The partitioner is that of \
            commands (`murmur2_random`). With another one, a tombstone is in another partition than the registration, \
            and compaction keeps the registration.
            """,
        headers: [],
        isWrittenByProducers: true,
        variants: [
            Variant(
                name: "registration",
                title: "Registration",
                introduction: "",
                shape: RegistrationFormat.shape,
                example: RegistrationFormat.example
            )
        ]
    )
}

private enum RegistrationFormat {
    static let example =
        #"{"app": "com.example.match", "activity": "final-phone-21", "token": "5c1e0a77b2d4f839", "environment": "production", "#
        + #""registeredAt": 1790000000000, "frequentUpdates": true, "audiences": ["cup-final"]}"#

    static let shape = RecordShape(
        [
            RecordField("app", .identifier, .always, "The app's bundle id, without escapes."),
            RecordField(
                "environment",
                .environment,
                .always,
                """
                Which of Apple's services the token is from: `sandbox` for builds from Xcode, `production` for \
                TestFlight and the App Store.
                """
            ),
            RecordField(
                "registeredAt",
                .unixMilliseconds,
                .always,
                """
                The time at which the app got the token. Of two registrations, the one with the later time applies. A \
                time that is more than \(Limits.timestampLeadSecondsMax) s after the record's time in Kafka counts as \
                \(Limits.timestampLeadSecondsMax) s after it. A tombstone has the time of its own record in Kafka, and \
                does not unregister a token with a later time: write it again after that time. If APNs reports the \
                token as dead since an earlier time, Causeway continues to use it.
                """
            ),
            RecordField("token", .token, .always, "The bytes of the token in hexadecimal digits."),
            RecordField(
                "activity",
                .identifier,
                .conditional("unless `device`"),
                "The activity that the update token reaches."
            ),
            RecordField(
                "device",
                .identifier,
                .conditional("unless `activity`"),
                "The device of the push-to-start token. You choose its id."
            ),
            RecordField(
                "attributesType",
                .identifier,
                .conditional("with `device`"),
                "The Swift type of the activities that the token starts."
            ),
            RecordField(
                "frequentUpdates",
                .boolean,
                .conditional("only with `activity`"),
                """
                `ActivityAuthorizationInfo().frequentPushesEnabled`. `true` selects the larger budget, \
                `frequentBudget`. Default: `false`.
                """
            ),
            RecordField(
                "shows",
                .either([.unixSeconds, .object(shownVersion)]),
                .conditional("only with `activity`"),
                """
                The version that the activity already shows. Starts and updates that are not newer are not sent: an \
                older one is `superseded`, an equal one is `duplicate`, and a held update has no further result. A \
                version that is more than \(Limits.timestampLeadSecondsMax) s after the record's time in Kafka does \
                not count.
                """
            ),
            RecordField(
                "audiences",
                .array(of: .identifier, elementsMax: Limits.audiencesPerRegistrationMax),
                """
                All audiences of the activity or device. It leaves all audiences that are not in this list. Default: \
                none.
                """
            ),
            RecordField(
                "channels",
                .boolean,
                .conditional("only with `device`"),
                """
                `true`: the device has iOS 18 or newer, so its activities can use a broadcast channel. Default: \
                `false`.
                """
            ),
        ],
        unlistedKeys: .refused,
        rules: [deviceRegistrationRule, activityRegistrationRule]
    )

    private static let shownVersion = RecordShape(
        [
            RecordField("timestamp", .unixSeconds, .always, "`aps.timestamp` of the command."),
            RecordField("sequence", .sequence, "Its `sequence`. Default: 0."),
        ],
        unlistedKeys: .refused
    )

    private static let deviceRegistrationRule = RecordRule(
        "With `device`, there is an `attributesType`, and no `activity`, `frequentUpdates` or `shows`.",
        [
            "if": ["required": ["device"]],
            "then": [
                "required": ["attributesType"],
                "properties": ["activity": false, "frequentUpdates": false, "shows": false],
            ],
        ]
    )

    private static let activityRegistrationRule = RecordRule(
        "Without `device`, there is an `activity`, and no `attributesType` or `channels`.",
        [
            "if": ["not": ["required": ["device"]]],
            "then": ["required": ["activity"], "properties": ["attributesType": false, "channels": false]],
        ]
    )
}
