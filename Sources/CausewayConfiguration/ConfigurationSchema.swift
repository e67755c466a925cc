import LiveActivity
import Logging

/// All keys. A key that is not here is unknown, in the file and in the environment.
enum ConfigurationSchema {
    static let keys: [SchemaKey<WorkerConfiguration>] = [
        .choice("log.level", \.log.level).reloadable,
        .choice("log.format", \.log.format),

        .text("http.host", \.http.host, complaint: ConfigurationRule.numericAddress),
        .integer("http.port", \.http.port, 0...65_535),

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
        .text("kafka.topics.deferred", \.kafka.topics.deferred, complaint: ConfigurationRule.topic),
        .text("kafka.topics.fanout", \.kafka.topics.fanout, complaint: ConfigurationRule.topic),
        .text("kafka.topics.channels", \.kafka.topics.channels, complaint: ConfigurationRule.topic),
        .choice("kafka.supersededResults", \.kafka.supersededResults),
        .properties("kafka.properties", \.kafka.properties),
        .propertyFiles("kafka.propertyFiles", \.kafka.propertyFiles),
        .properties("kafka.consumer", \.kafka.consumer),
        .properties("kafka.producer", \.kafka.producer),

        .choice("redis.mode", \.redis.mode),
        .text("redis.url", \.redis.url, isRequired: true, isSecret: true, complaint: ConfigurationRule.redisURL),
        .optional("redis.sentinelURL", \.redis.sentinelURL, isSecret: true, complaint: ConfigurationRule.sentinelURL),
        .optional("redis.sentinelPasswordFile", \.redis.sentinelPasswordFile, isFile: true),
        .optional("redis.passwordFile", \.redis.passwordFile, isFile: true),
        .optional("redis.caFile", \.redis.caFile, isFile: true),
        .optional("redis.certificateFile", \.redis.certificateFile, isFile: true),
        .optional("redis.keyFile", \.redis.keyFile, isFile: true),
        .integer("redis.responseTimeoutMilliseconds", \.redis.responseTimeoutMilliseconds, 10...60_000),
        .integer("redis.replicas", \.redis.replicas, 0...16),
        .integer("redis.rereadMinutes", \.redis.rereadMinutes, 1...720),

        .text("apns.production.host", \.apns.production.host, complaint: ConfigurationRule.host),
        .integer("apns.production.port", \.apns.production.port, 1...65_535),
        .text(
            "apns.production.managementHost",
            \.apns.production.managementHost,
            complaint: ConfigurationRule.host
        ),
        .integer("apns.production.managementPort", \.apns.production.managementPort, 1...65_535),
        .text("apns.sandbox.host", \.apns.sandbox.host, complaint: ConfigurationRule.host),
        .integer("apns.sandbox.port", \.apns.sandbox.port, 1...65_535),
        .text("apns.sandbox.managementHost", \.apns.sandbox.managementHost, complaint: ConfigurationRule.host),
        .integer("apns.sandbox.managementPort", \.apns.sandbox.managementPort, 1...65_535),
        .optional("apns.caFile", \.apns.caFile, isFile: true),
        .optional("apns.sharedTokenKeyFile", \.apns.sharedTokenKeyFile, isFile: true),
        .integer("apns.connectionsPerPool", \.apns.connectionsPerPool, 1...16),
        .integer("apns.inFlightPerConnection", \.apns.inFlightPerConnection, 1...4_096),
        .integer("apns.requestTimeoutMilliseconds", \.apns.requestTimeoutMilliseconds, 100...60_000),
        .integer("apns.connectTimeoutMilliseconds", \.apns.connectTimeoutMilliseconds, 100...60_000),

        .integer("worker.lanes", \.worker.lanes, 0...256),
        .integer("worker.drainMilliseconds", \.worker.drainMilliseconds, 0...600_000),
        .integer("worker.memoryMebibytes", \.worker.memoryMebibytes, 0...1_048_576),
        .integer("worker.commandsPerLane", \.worker.commandsPerLane, 64...4_194_304),
        .integer("worker.retryMaxMilliseconds", \.worker.retryMaxMilliseconds, 1_000...3_600_000).reloadable,
        .integer("worker.deferAfterMilliseconds", \.worker.deferAfterMilliseconds, 100...600_000).reloadable,
        .integer("worker.deferredDelayMilliseconds", \.worker.deferredDelayMilliseconds, 100...600_000).reloadable,
        .integer("worker.readAheadLagRecords", \.worker.readAheadLagRecords, 1...1_000_000_000).reloadable,
        .integer("worker.readAheadMaxMilliseconds", \.worker.readAheadMaxMilliseconds, 1...600_000).reloadable,

        .optional("tracing.endpoint", \.tracing.endpoint, complaint: ConfigurationRule.collectorURL),
        .optional("tracing.caFile", \.tracing.caFile, isFile: true),
        .optional("tracing.headersFile", \.tracing.headersFile, isFile: true),
        .integer("tracing.samplesPerMillion", \.tracing.samplesPerMillion, 0...1_000_000),
    ]

    /// The keys of each member of `apps`.
    static let appKeys: [SchemaKey<WorkerConfiguration.App>] = [
        .text("bundleId", \.bundleId, isRequired: true, complaint: ConfigurationRule.bundleIdentifier),
        .text("teamId", \.teamId, isRequired: true, complaint: ConfigurationRule.appleIdentifier),
        .text("keyId", \.keyId, isRequired: true, complaint: ConfigurationRule.appleIdentifier),
        .text("keyFile", \.keyFile, isRequired: true, isFile: true, complaint: ConfigurationRule.path),
        .environments("environments", \.environments),
        .optional("sandboxKeyId", \.sandboxKeyId, complaint: ConfigurationRule.appleIdentifier),
        .optional("sandboxKeyFile", \.sandboxKeyFile, isFile: true),
        .text("policy", \.policy, complaint: ConfigurationRule.policyName).reloadable,
        .texts("channels.audiences", \.channels.audiences, complaint: ConfigurationRule.audiencePattern),
        .choice("channels.storage", \.channels.storage),
        .integer("channels.keepSeconds", \.channels.keepSeconds, 0...2_592_000),
        .environments("channels.environments", \.channels.environments),
    ]

    /// The keys of each member of `policies`. A key that is left out has the built-in default, not the value of another
    /// policy. So a change to `default` never changes other policies.
    static let policyKeys: [SchemaKey<Policy>] = policyNumbers.map(\.reloadable)

    private static let policyNumbers: [SchemaKey<Policy>] = [
        .integer("spacingMilliseconds", \.spacingMilliseconds, 1_000...3_600_000),
        .integer("budget.pushes", \.budget.pushes, 1...Policy.Bucket.pushesMax),
        .integer("budget.refillPerHour", \.budget.refillPerHour, 1...Policy.Bucket.refillPerHourMax),
        .integer("budget.reservedForAlerts", \.budget.reservedForAlerts, 0...Policy.Bucket.pushesMax),
        .integer("frequentBudget.pushes", \.frequentBudget.pushes, 1...Policy.Bucket.pushesMax),
        .integer("frequentBudget.refillPerHour", \.frequentBudget.refillPerHour, 1...Policy.Bucket.refillPerHourMax),
        .integer("frequentBudget.reservedForAlerts", \.frequentBudget.reservedForAlerts, 0...Policy.Bucket.pushesMax),
        .integer("startBudget.pushes", \.startBudget.pushes, 1...Policy.Bucket.pushesMax),
        .integer("startBudget.refillPerHour", \.startBudget.refillPerHour, 1...Policy.Bucket.refillPerHourMax),
        .integer("throttledSpacingMaxMilliseconds", \.throttledSpacingMaxMilliseconds, 1_000...3_600_000),
        .integer("throttleRecoveryMilliseconds", \.throttleRecoveryMilliseconds, 1_000...3_600_000),
        .integer("expiration.startSeconds", \.expiration.startSeconds, 1...43_200),
        .integer("expiration.alertSeconds", \.expiration.alertSeconds, 1...43_200),
        .integer("expiration.updateSeconds", \.expiration.updateSeconds, 1...43_200),
        .integer("expiration.endSeconds", \.expiration.endSeconds, 1...43_200),
    ]
}
