import APNs
import Delivery
import Glibc
import Kafka
import LiveActivity
import Logging
import Reactor
import Redis

/// What a configuration comes to: everything that the threads are built from, checked before any of them starts.
struct WorkerPlan: @unchecked Sendable {
    let laneCount: Int
    let mailboxes: [LaneMailbox]
    let wakeup: Wakeup
    private let configuration: WorkerConfiguration
    private let delivery: DeliveryConfiguration
    private let redis: RedisConfiguration
    private let pools: [LanePlan.Pool]
    private let logger: Logger

    init(configuration: WorkerConfiguration, logger: Logger) throws {
        let cores = max(1, Int(sysconf(Int32(_SC_NPROCESSORS_ONLN))))
        laneCount = configuration.worker.lanes == 0 ? cores : configuration.worker.lanes
        wakeup = try Wakeup()
        mailboxes = try (0..<laneCount)
            .map { _ in try LaneMailbox(recordsMax: configuration.worker.commandsPerLane) }
        self.configuration = configuration
        self.logger = logger
        delivery = Self.delivery(configuration)
        redis = try RedisConfiguration(configuration.redis)
        pools = try Self.pools(configuration, logger: logger)
        try Consumer.check(properties: configuration.kafka.consumerProperties)
        try Producer.check(properties: configuration.kafka.producerProperties)
    }

    /// The one producer of the process. Whoever makes it closes it.
    func makeProducer() throws(KafkaError) -> Producer {
        try Producer(properties: configuration.kafka.producerProperties)
    }

    func lane(_ producer: Producer) throws(KafkaError) -> LanePlan {
        LanePlan(
            delivery: delivery,
            paces: configuration.policies.map { PaceArguments(PaceNumbers($0)) },
            startBudgets: configuration.policies.map { BucketNumbers($0.startBudget) },
            redis: redis,
            pools: pools,
            producer: producer,
            topics: .init(
                results: try producer.topic(configuration.kafka.topics.results),
                invalidations: try producer.topic(configuration.kafka.topics.invalidations),
                deadLetters: try producer.topic(configuration.kafka.topics.deadLetters)
            ),
            applications: configuration.apps.map { Array($0.bundleId.utf8) },
            logger: logger
        )
    }

    func intake(_ producer: Producer) -> IntakePlan {
        IntakePlan(
            consumerProperties: configuration.kafka.consumerProperties,
            topics: [configuration.kafka.topics.commands, configuration.kafka.topics.registrations],
            producer: producer,
            mailboxes: mailboxes,
            wakeup: wakeup,
            drainMilliseconds: Int64(configuration.worker.drainMilliseconds),
            logger: logger
        )
    }

    /// Has every lane leave its loop.
    func stopLanes() {
        for mailbox in mailboxes {
            _ = mailbox.orders.push(LaneOrder(kind: .stop))
            mailbox.wakeup.signal()
        }
    }

    private static func delivery(_ configuration: WorkerConfiguration) -> DeliveryConfiguration {
        let worker = configuration.worker
        var delivery = DeliveryConfiguration(
            applications: configuration.apps.map { app in
                var application = DeliveryConfiguration.Application(
                    bundleIdentifier: Array(app.bundleId.utf8),
                    hasProduction: app.environments.contains(.production),
                    hasSandbox: app.environments.contains(.sandbox)
                )
                // The configuration was checked: every app names a policy that is there.
                application.policy = configuration.policies.firstIndex { $0.name == app.policy } ?? 0
                return application
            },
            seed: UInt64.random(in: .min ... .max)
        )
        delivery.commandsTopic = Array(configuration.kafka.topics.commands.utf8)
        delivery.registrationsTopic = Array(configuration.kafka.topics.registrations.utf8)
        delivery.recordsMax = worker.commandsPerLane
        delivery.inFlightMaxPerApplication =
            configuration.apns.connectionsPerPool * configuration.apns.inFlightPerConnection
        delivery.policies = configuration.policies
        delivery.attemptsMax = UInt8(clamping: worker.attemptsMax)
        delivery.readAheadLagRecords = Int64(worker.readAheadLagRecords)
        delivery.readAheadMaxMilliseconds = Int64(worker.readAheadMaxMilliseconds)
        return delivery
    }

    private static func signer(
        _ key: (keyId: String, keyFile: String),
        of app: WorkerConfiguration.App,
        logger: Logger
    ) throws -> ProviderTokenSource {
        let signingKey = try SigningKey(path: key.keyFile)
        if signingKey.isReadableByOthers {
            logger.warning(
                "the key file is readable by others: chmod o-r, or defaultMode 0440",
                metadata: ["file": "\(key.keyFile)"]
            )
        }
        return try ProviderTokenSource(key: signingKey, keyIdentifier: key.keyId, teamIdentifier: app.teamId)
    }

    private static func pools(_ configuration: WorkerConfiguration, logger: Logger) throws -> [LanePlan.Pool] {
        let tls = try TLSContext.client(caFile: configuration.apns.caFile, applicationProtocols: ["h2"])
        var signers: [String: ProviderTokenSource] = [:]
        return try configuration.apps.enumerated()
            .flatMap { position, app in
                try app.environments.map { environment in
                    let key = app.signingKey(for: environment)
                    let name = "\(app.teamId)/\(key.keyId)/\(key.keyFile)"
                    let source = try signers[name] ?? signer(key, of: app, logger: logger)
                    signers[name] = source
                    let endpoint = configuration.apns.endpoint(for: environment)
                    var pool = PoolConfiguration(
                        host: endpoint.host,
                        port: UInt16(clamping: endpoint.port),
                        tls: tls,
                        profile: try PushProfile(liveActivitiesOf: app.bundleId)
                    )
                    pool.connectionsMax = configuration.apns.connectionsPerPool
                    pool.inFlightMax = configuration.apns.inFlightPerConnection
                    pool.requestTimeoutMilliseconds = Int64(configuration.apns.requestTimeoutMilliseconds)
                    pool.connectTimeoutMilliseconds = Int64(configuration.apns.connectTimeoutMilliseconds)
                    try pool.validate()
                    return LanePlan.Pool(
                        index: PoolIndex(
                            application: UInt16(position),
                            environment: environment == .production ? .production : .sandbox
                        ),
                        name: "\(app.name)/\(environment.rawValue)",
                        configuration: pool,
                        tokens: source
                    )
                }
            }
    }
}
