extension ConfigurationSchema {
    /// The texts that ``GeneratedConfigurationText`` shows about `apps` and the sections in it.
    static let appSectionTexts = [
        "apps": """
        The apps whose commands are accepted, 1 to 255. Each has a name of your choice, 1 to 32 lowercase letters and \
        digits. The name appears only in logs, in metrics, on /statusz and in variables: \
        CAUSEWAY_APPS_MATCH_KEY_FILE is the keyFile of `match`. If you configure by environment only, \
        CAUSEWAY_APPS=match,ride names the apps.
        """,
        "apps.*.channels": """
        Broadcast channels (iOS 18 and newer): one request reaches all subscribers of an audience. The app needs \
        Apple's Broadcast Capability.
        """,
        "apps.*.shapes": """
        What the app's phones can decode. APNs accepts a content state that does not fit the app's Swift types, and \
        phones show nothing. With a file of shapes, such a command does not reach APNs.
        """,
    ]

    /// The keys of each app in `apps`.
    static let appSectionKeys: [SchemaKey<WorkerConfiguration.App>] = [
        .text(
            "bundleId",
            \.bundleId,
            .bundleId,
            meaning: """
                The bundle id that commands name in `app`; each bundle id once. 1 to 155 letters, digits, dots and \
                hyphens.
                """
        )
        .required(example: "com.example.match"),
        .text("teamId", \.teamId, .appleIdentifier, meaning: "The team id at Apple: 10 uppercase letters and digits.")
            .required(example: "EXAMPLE123"),
        .text(
            "keyId",
            \.keyId,
            .appleIdentifier,
            meaning: "The id of the key that signs provider tokens: 10 uppercase letters and digits."
        )
        .required(example: "EXAMPLEKEY"),
        .text("keyFile", \.keyFile, .path, meaning: "The .p8 file of the key keyId.")
            .required(example: "/etc/causeway/AuthKey_EXAMPLEKEY.p8")
            .asFilePath,
        .environments(
            "environments",
            \.environments,
            meaning: "The environments of the app's tokens. The worker opens connections only for these."
        ),
        .optionalText(
            "sandboxKeyId",
            \.sandboxKeyId,
            .appleIdentifier,
            meaning: """
                The id of a key for the sandbox only, because Apple ties new keys to one environment; set it together \
                with sandboxKeyFile or not at all.
                """
        )
        .whenUnset("keyId"),
        .optionalFile("sandboxKeyFile", \.sandboxKeyFile, meaning: "The .p8 file of the key sandboxKeyId.")
            .whenUnset("keyFile"),
        .text(
            "policy",
            \.policy,
            .policyName,
            meaning: "The policy for the app's commands, unless a command names another one in `policy`."
        )
        .describingAllowedValues("A name in `policies`")
        .asReloadable,
        .texts(
            "channels.audiences",
            \.channels.audiences,
            .audiencePattern,
            meaning: """
                Audiences that get a channel automatically; a * at the end matches any ending: ["match-*"]. Any other \
                audience gets a channel by a command with `"channel": true`, or by `causeway channels create`.
                """
        ),
        .choice(
            "channels.storage",
            \.channels.storage,
            meaning: """
                What APNs stores for offline phones. newest: the last message, for 8 h at most. none: nothing, and \
                Apple allows the channel more broadcasts. A change applies only to new channels.
                """
        ),
        .integer(
            "channels.keepSeconds",
            \.channels.keepSeconds,
            0...2_592_000,
            meaning: """
                Seconds from the end of an audience to the deletion of its channel. After the deletion, its \
                subscribers get no more broadcasts.
                """
        ),
        .environments(
            "channels.environments",
            \.channels.environments,
            meaning: "The environments that get channels: a channel belongs to one of Apple's environments."
        ),
        .optionalFile(
            "shapes.file",
            \.shapes.file,
            meaning: """
                The file with the shapes of all ActivityAttributes of the app, at most 65,536 bytes. `ActivityShapes` \
                writes it in the app's test. A running worker reads the file again when it changes.
                """
        )
        .whenUnset("no check")
        .asReloadable,
        .choice(
            "shapes.mode",
            \.shapes.mode,
            meaning: """
                What happens to a command that no phone could decode. refuse: it is `invalid` and goes to the dead \
                letters. warn: it is sent, counted in causeway_undecodable_total, and named in the log.
                """
        )
        .asReloadable,
    ]
}
