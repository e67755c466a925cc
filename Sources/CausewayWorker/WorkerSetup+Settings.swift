import APNs
import Audiences
import CausewayConfiguration
import Delivery
import Kafka
import LiveActivity
import Logging
import Observability
import Redis

/// Makes the settings of the lanes, their cores and the Kafka thread from the configuration. After a reload, gives the
/// lanes their new settings.
extension WorkerSetup {
    /// Makes the settings that a reload can change while a lane runs, without the contracts of the apps, which the
    /// caller adds.
    static func makeReloadableSettings(_ configuration: WorkerConfiguration) -> ReloadableSettings {
        let worker = configuration.worker
        var settings = ReloadableSettings(appCount: configuration.apps.count)
        settings.policies = configuration.policies
        for (index, app) in configuration.apps.enumerated() {
            // Every app names an existing policy, because the configuration has been checked.
            settings.apps[index].defaultPolicyIndex = configuration.policies.firstIndex { $0.name == app.policy } ?? 0
        }
        settings.retryMillisecondsMax = Int64(worker.retryMillisecondsMax)
        settings.deferAfterMilliseconds = Int64(worker.deferAfterMilliseconds)
        settings.deferredDelayMilliseconds = Int64(worker.deferredDelayMilliseconds)
        settings.readAheadLagRecords = Int64(worker.readAheadLagRecords)
        settings.readAheadMillisecondsMax = Int64(worker.readAheadMillisecondsMax)
        return settings
    }

    /// Makes the configuration of the core `Delivery`, which is the same for all lanes. `WorkerSetup.init` adds the
    /// apps' contracts, and the limits that follow from the memory budget.
    static func makeDeliveryConfiguration(_ configuration: WorkerConfiguration) -> DeliveryConfiguration {
        var deliveryConfiguration = DeliveryConfiguration(
            apps: configuration.apps.map { app in
                DeliveryConfiguration.App(
                    bundleId: Array(app.bundleId.utf8),
                    hasProductionPool: app.environments.contains(.production),
                    hasSandboxPool: app.environments.contains(.sandbox)
                )
            },
            seed: UInt64.random(in: .min ... .max)
        )
        deliveryConfiguration.apply(makeReloadableSettings(configuration))
        deliveryConfiguration.commandsTopic = Array(configuration.kafka.topics.commands.utf8)
        deliveryConfiguration.registrationsTopic = Array(configuration.kafka.topics.registrations.utf8)
        deliveryConfiguration.deferredTopic = Array(configuration.kafka.topics.deferred.utf8)
        deliveryConfiguration.supersededResults = configuration.kafka.supersededResults
        deliveryConfiguration.creditsPerPoolMax =
            configuration.apns.connectionsPerPool * configuration.apns.inFlightPerConnection
        return deliveryConfiguration
    }

    private var audiencesConfiguration: AudiencesConfiguration {
        var audiencesConfiguration = AudiencesConfiguration(
            apps: deliveryConfiguration.apps,
            reloadable: deliveryConfiguration.reloadable,
            seed: deliveryConfiguration.seed
        )
        audiencesConfiguration.commandsTopic = deliveryConfiguration.commandsTopic
        audiencesConfiguration.consumerSessionTimeoutMilliseconds = Int64(
            configuration.kafka.sessionTimeoutMilliseconds
        )
        if case .cluster = redisConfiguration.topology { audiencesConfiguration.hasSeveralStoreServers = true }
        for (index, app) in configuration.apps.enumerated() {
            let environments = app.channels.environments.filter(app.environments.contains)
            audiencesConfiguration.channelRules[UInt16(index)] =
                AudienceChannelRule(patterns: app.channels.audiences, environments: environments)
        }
        audiencesConfiguration.fanoutRecordsMax = memoryBudget.fanoutRecordsMax(
            configured: audiencesConfiguration.fanoutRecordsMax
        )
        audiencesConfiguration.fanoutRecordBytesMax = memoryBudget.fanoutRecordBytesMax
        audiencesConfiguration.pageBytesMax = memoryBudget.pageBytesMax(configured: audiencesConfiguration.pageBytesMax)
        audiencesConfiguration.pagesMax = memoryBudget.pagesMax(
            configured: audiencesConfiguration.pagesMax,
            appCount: deliveryConfiguration.apps.count
        )
        audiencesConfiguration.limitTableBytes(to: Int(memoryBudget.audienceTableBytesPerLane))
        return audiencesConfiguration
    }

    func makeLaneSetup(_ producer: Producer) throws(KafkaError) -> LaneSetup {
        return LaneSetup(
            deliveryConfiguration: deliveryConfiguration,
            audiencesConfiguration: audiencesConfiguration,
            redisConfiguration: redisConfiguration,
            pools: pools,
            apnsAuthorities: configuration.apns.caFile.map { "\($0) (apns.caFile)" } ?? "the system's (no apns.caFile)",
            producer: producer,
            topics: .init(
                results: try producer.makeTopic(configuration.kafka.topics.results),
                invalidations: try producer.makeTopic(configuration.kafka.topics.invalidations),
                deadLetters: try producer.makeTopic(configuration.kafka.topics.deadLetters),
                deferred: try producer.makeTopic(configuration.kafka.topics.deferred),
                fanout: try producer.makeTopic(configuration.kafka.topics.fanout),
                commands: try producer.makeTopic(configuration.kafka.topics.commands)
            ),
            bundleIds: configuration.apps.map { Array($0.bundleId.utf8) },
            metricRegistry: metricRegistry,
            traceRings: traceRings,
            traceSamplesPerMillion: configuration.tracing.samplesPerMillion,
            logger: logger,
            sendChannelRequest: { [continuation = channelRequests.continuation] in continuation.yield($0) }
        )
    }

    func makeIntakeSetup(_ producer: Producer) throws(KafkaError) -> IntakeSetup {
        IntakeSetup(
            consumerProperties: try consumerProperties,
            topics: [
                configuration.kafka.topics.commands, configuration.kafka.topics.registrations,
                configuration.kafka.topics.deferred, configuration.kafka.topics.fanout,
            ],
            producer: producer,
            mailboxes: mailboxes,
            wakeup: kafkaWakeup,
            drainMilliseconds: Int64(configuration.worker.drainMilliseconds),
            inboxBytesMax: Int(memoryBudget.inboxBytesPerLane),
            storeWatchMailbox: storeWatchMailbox,
            rereadCommandAgeMillisecondsMax: Int64(configuration.redis.rereadMinutes) * 60_000,
            metricRegistry: metricRegistry,
            logger: logger
        )
    }

    /// librdkafka's properties of the consumer: first those that limit its memory, then the configured ones. If a
    /// property occurs twice, the configured value applies.
    private var consumerProperties: [KafkaProperties.Property] {
        get throws(KafkaError) {
            let configuredProperties = try configuration.kafka.consumerProperties
            return memoryBudget.makeConsumerProperties(for: configuredProperties) + configuredProperties
        }
    }

    /// The contract of each app when the worker starts; nil for an app without shapes.
    var initialContracts: [ContractRule?] { deliveryConfiguration.reloadable.apps.map(\.contract) }

    /// Gives the settings and contracts of a reloaded configuration to the lanes, through their mailboxes. Tells the
    /// lifetime keeper whether any policy limits lifetimes.
    ///
    /// - Parameters:
    ///   - configuration: has all apps with which the worker started, also those that the reloaded file no longer
    ///     names.
    ///   - contracts: the contract of each app of `configuration`; nil for an app without shapes.
    func offerSettings(of configuration: WorkerConfiguration, contracts: [ContractRule?]) {
        var settings = Self.makeReloadableSettings(configuration)
        for (index, contract) in contracts.enumerated() { settings.apps[index].contract = contract }
        metricRegistry.lifetimeStatus.hasLifetimeLimits = configuration.limitsLifetimes
        for mailbox in mailboxes { mailbox.offerSettings(settings) }
    }
}

extension ReloadableSettings {
    /// Reads the contracts of all apps from their files of shapes.
    mutating func readContracts(of configuration: WorkerConfiguration) throws {
        for (index, app) in configuration.apps.enumerated() { apps[index].contract = try app.readContractRule() }
    }
}
