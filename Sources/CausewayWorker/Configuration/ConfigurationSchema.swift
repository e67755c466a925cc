import Logging

/// Every key there is. What is not here does not exist: not in the file, not in the environment.
enum ConfigurationSchema {
    /// The section whose members are named by the operator.
    static let appsSection = "apps"
    /// The most apps of one worker: its core counts them in a byte.
    static let appsMax = 255

    static let keys: [SchemaKey<WorkerConfiguration>] = [
        .choice("log.level", \.log.level),
        .choice("log.format", \.log.format),

        .text(
            "kafka.bootstrapServers",
            \.kafka.bootstrapServers,
            isRequired: true,
            complaint: ConfigurationRule.bootstrapServers
        ),
        .text("kafka.groupId", \.kafka.groupId, complaint: ConfigurationRule.groupIdentifier),
        .text("kafka.topics.commands", \.kafka.topics.commands, complaint: ConfigurationRule.topic),
        .text("kafka.topics.registrations", \.kafka.topics.registrations, complaint: ConfigurationRule.topic),
        .text("kafka.topics.results", \.kafka.topics.results, complaint: ConfigurationRule.topic),
        .text("kafka.topics.invalidations", \.kafka.topics.invalidations, complaint: ConfigurationRule.topic),
        .text("kafka.topics.deadLetters", \.kafka.topics.deadLetters, complaint: ConfigurationRule.topic),
        .properties("kafka.properties", \.kafka.properties),
        .properties("kafka.consumer", \.kafka.consumer),
        .properties("kafka.producer", \.kafka.producer),

        .text("redis.url", \.redis.url, isRequired: true, isSecret: true, complaint: ConfigurationRule.redisURL),
        .optional("redis.passwordFile", \.redis.passwordFile, isFile: true),
        .optional("redis.caFile", \.redis.caFile, isFile: true),
        .optional("redis.certificateFile", \.redis.certificateFile, isFile: true),
        .optional("redis.keyFile", \.redis.keyFile, isFile: true),
        .integer("redis.responseTimeoutMilliseconds", \.redis.responseTimeoutMilliseconds, 10...60_000),

        .text("apns.production.host", \.apns.production.host, complaint: ConfigurationRule.host),
        .integer("apns.production.port", \.apns.production.port, 1...65_535),
        .text("apns.sandbox.host", \.apns.sandbox.host, complaint: ConfigurationRule.host),
        .integer("apns.sandbox.port", \.apns.sandbox.port, 1...65_535),
        .optional("apns.caFile", \.apns.caFile, isFile: true),
        .integer("apns.connectionsPerPool", \.apns.connectionsPerPool, 1...16),
        .integer("apns.inFlightPerConnection", \.apns.inFlightPerConnection, 1...4_096),
        .integer("apns.requestTimeoutMilliseconds", \.apns.requestTimeoutMilliseconds, 100...60_000),
        .integer("apns.connectTimeoutMilliseconds", \.apns.connectTimeoutMilliseconds, 100...60_000),

        .integer("worker.lanes", \.worker.lanes, 0...256),
        .integer("worker.spacingMilliseconds", \.worker.spacingMilliseconds, 1_000...3_600_000),
        .integer("worker.drainMilliseconds", \.worker.drainMilliseconds, 0...600_000),
        .integer("worker.commandsPerLane", \.worker.commandsPerLane, 64...4_194_304),
        .integer("worker.attemptsMax", \.worker.attemptsMax, 1...10),
        .integer("worker.defaultExpirationSeconds.start", \.worker.defaultExpirationSeconds.start, 1...43_200),
        .integer("worker.defaultExpirationSeconds.update", \.worker.defaultExpirationSeconds.update, 1...43_200),
        .integer("worker.defaultExpirationSeconds.end", \.worker.defaultExpirationSeconds.end, 1...43_200),
    ]

    /// The keys of each member of `apps`.
    static let appKeys: [SchemaKey<WorkerConfiguration.App>] = [
        .text("bundleId", \.bundleId, isRequired: true, complaint: ConfigurationRule.bundleIdentifier),
        .text("teamId", \.teamId, isRequired: true, complaint: ConfigurationRule.appleIdentifier),
        .text("keyId", \.keyId, isRequired: true, complaint: ConfigurationRule.appleIdentifier),
        .text("keyFile", \.keyFile, isRequired: true, isFile: true, complaint: ConfigurationRule.path),
        .choices("environments", \.environments),
        .optional("sandboxKeyId", \.sandboxKeyId, complaint: ConfigurationRule.appleIdentifier),
        .optional("sandboxKeyFile", \.sandboxKeyFile, isFile: true),
    ]
}
