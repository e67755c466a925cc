import APNs
import Audiences
import CausewayConfiguration
import Delivery
import Kafka
import LiveActivity
import Logging
import Observability
import Reactor
import Redis

/// The parts from which the worker's threads are built. `init` makes most of them, so that most faults of the
/// configuration show before any thread starts.
///
/// `@unchecked Sendable` is correct: the values do not change after `init`, and the objects are `Sendable`. The
/// compiler cannot know this, because the type ``PoolConfiguration`` is not declared `Sendable`.
struct WorkerSetup: @unchecked Sendable {
    let laneCount: Int
    let memoryBudget: MemoryBudget
    let mailboxes: [LaneMailbox]
    let kafkaWakeup: Wakeup
    /// The wall clock of all lanes and of the Kafka thread. ``ClockWatch`` corrects it.
    let wallClock = WallClock()
    let configuration: WorkerConfiguration
    let deliveryConfiguration: DeliveryConfiguration
    let redisConfiguration: RedisConfiguration
    let pools: [LaneSetup.PoolSetup]
    let metricRegistry: MetricRegistry
    let log: SharedLimitedLog
    /// Watches the files with the keys for provider tokens.
    let keyFileWatcher: KeyFileWatcher
    private let tokenSources: [ConfiguredSigningKey: ProviderTokenSource]
    /// Encrypts the provider tokens that workers share in Redis; nil if every worker signs its own tokens.
    private let tokenCipher: ProviderTokenCipher?
    let storeWatchMailbox = StoreWatchMailbox()
    /// The lanes' requests to the channel keeper. A full buffer discards new requests. This does no harm: lanes repeat
    /// requests, and once a day the keeper looks for audiences that have ended.
    let channelRequests = AsyncStream.makeStream(of: ChannelRequest.self, bufferingPolicy: .bufferingOldest(4_096))
    let traceRings: [TraceRing]
    /// Sends traces to the collector; nil if traces are not exported.
    let traceExporter: TraceExporter?
    let logger: Logger

    init(
        configuration: WorkerConfiguration,
        logger: Logger,
        events: RecentEvents = RecentEvents(),
        version: String
    ) throws {
        laneCount = Self.laneCount(of: configuration)
        let memoryBudget = try MemoryBudget(configuration, laneCount: laneCount)
        self.memoryBudget = memoryBudget
        kafkaWakeup = try Wakeup()
        let recordsMax = memoryBudget.recordsMax(configured: configuration.worker.commandsPerLane)
        mailboxes = try (0..<laneCount).map { _ in try LaneMailbox(recordsMax: recordsMax) }
        self.configuration = configuration
        self.logger = logger
        var deliveryConfiguration = Self.makeDeliveryConfiguration(configuration)
        try deliveryConfiguration.reloadable.readContracts(of: configuration)
        deliveryConfiguration.recordsMax = recordsMax
        deliveryConfiguration.usedBlockBytesMax = memoryBudget.usedBlockBytesMax
        deliveryConfiguration.allocatedBlockBytesMax = memoryBudget.allocatedBlockBytesMax
        deliveryConfiguration.blockChunkBytes = memoryBudget.blockChunkBytes
        self.deliveryConfiguration = deliveryConfiguration
        redisConfiguration = try RedisConfiguration(configuration.redis)
        let tokenSources = try Self.makeTokenSources(configuration)
        self.tokenSources = tokenSources
        let keys = tokenSources.keys.sorted { ($0.teamId, $0.file) < ($1.teamId, $1.file) }
        let labels = Self.makeLabels(configuration, tokenSources: tokenSources, keys: keys, version: version)
        metricRegistry = MetricRegistry(labels: labels, laneCount: laneCount, events: events)
        metricRegistry.lifetimeStatus.hasLifetimeLimits = configuration.limitsLifetimes
        let log = SharedLimitedLog(logger: logger, events: metricRegistry.events)
        self.log = log
        Self.warnOfKeysReadableByOthers(keys, tokenSources: tokenSources, log)
        keyFileWatcher = KeyFileWatcher(
            tokenSources,
            apps: configuration.apps,
            metricRegistry: metricRegistry,
            log: log
        )
        tokenCipher = try configuration.apns.sharedTokenKeyFile.map { try ProviderTokenCipher(keyFile: $0) }
        pools = try Self.makePools(configuration, tokenSources: tokenSources, keys: keys, laneCount: laneCount)
        (traceRings, traceExporter) = try Self.makeTraceRingsAndExporter(
            configuration,
            laneCount: laneCount,
            counters: metricRegistry.traceCounters,
            log
        )
        warnOfSecretsReadableByOthers(configuration)
    }

    /// Returns how many lanes a worker with this configuration has on this machine: `worker.lanes` or, if that is 0,
    /// one for each processor, at most 256.
    static func laneCount(of configuration: WorkerConfiguration) -> Int {
        configuration.worker.lanes == 0 ? min(256, ProcessorLimit().processorCount) : configuration.worker.lanes
    }

    /// Makes the producer that all lanes share. The caller must close it.
    func makeProducer() throws(KafkaError) -> Producer {
        try Producer(properties: producerProperties)
    }

    private var producerProperties: [KafkaProperties.Property] {
        get throws(KafkaError) { memoryBudget.producerProperties + (try configuration.kafka.producerProperties) }
    }

    /// Makes the actor that shares provider tokens between all workers; nil if tokens are not shared.
    func makeProviderTokenSharer() throws(RedisError) -> ProviderTokenSharer? {
        guard let tokenCipher else { return nil }
        return try ProviderTokenSharer(
            Array(tokenSources.values),
            redis: redisConfiguration,
            cipher: tokenCipher,
            wallClock: wallClock,
            log: log
        )
    }

    /// Makes the keeper of the audiences' channels; nil if no app may have channels. Also notes in the channel status
    /// which pools have configured channels.
    func makeChannelKeeper() throws -> ChannelKeeper? {
        let (status, log, labels) = (metricRegistry.channelStatus, log, metricRegistry.labels)
        let apps = configuration.apps
        let findPool: @Sendable (_ bundleId: String, _ environment: String) -> Int? = {
            bundleId,
            environment in
            let appName = apps.first { $0.bundleId == bundleId }?.name ?? ""
            return labels.pools.firstIndex { $0.app == appName && $0.environment == environment }
        }
        for app in apps where !app.channels.audiences.isEmpty {
            for environment in app.channels.environments {
                guard let pool = findPool(app.bundleId, "\(environment.name)") else { continue }
                status.change(pool) { $0.hasConfiguredChannels = true }
            }
        }
        return try ChannelKeeper.make(
            configuration,
            redis: redisConfiguration,
            wallClock: wallClock,
            tokenSource: { app, environment in
                guard let source = tokenSources[app.signingKey(for: environment)] else {
                    preconditionFailure("every configured key has a token source")
                }
                return source
            },
            report: { event in ChannelEventReporter.report(event, log, status, findPool: findPool) }
        )
    }

    /// Makes the keeper of limited lifetimes. While no policy limits a lifetime, the keeper does nothing; a reload may
    /// add such a policy.
    func makeLifetimeKeeper() throws -> LifetimeKeeper {
        try LifetimeKeeper(configuration, redis: redisConfiguration, status: metricRegistry.lifetimeStatus, log: log)
    }

    func makeClockWatch() throws(RedisError) -> ClockWatch {
        try ClockWatch(redis: redisConfiguration, wallClock: wallClock, condition: metricRegistry.condition, log: log)
    }

    /// Makes the actor that notices when Redis has lost data.
    ///
    /// - Parameters:
    ///   - channelKeeper: is told if a Redis Cluster may have lost hashes of audiences; nil if no app may have
    ///     channels.
    ///   - onFault: called if `redis.mode` is not `cluster`, although the Redis server belongs to a cluster.
    func makeStoreWatch(
        _ channelKeeper: ChannelKeeper?,
        onFault: @escaping @Sendable (ConfigurationFault) -> Void
    ) throws(RedisError) -> StoreWatch {
        var possibleHashLoss: PossibleHashLoss?
        if case .cluster = redisConfiguration.topology { possibleHashLoss = channelKeeper?.possibleHashLoss }
        return try StoreWatch(
            redis: redisConfiguration,
            consumerGroup: configuration.kafka.groupId,
            topics: [configuration.kafka.topics.commands, configuration.kafka.topics.registrations],
            mailbox: storeWatchMailbox,
            log: log,
            kafkaWakeup: kafkaWakeup,
            reportFault: onFault,
            reportMemberCompleteness: { [mailboxes, possibleHashLoss] completeAtMilliseconds in
                for mailbox in mailboxes { mailbox.setMembersComplete(atMilliseconds: completeAtMilliseconds) }
                possibleHashLoss?.noteMembers(areMissing: completeAtMilliseconds == nil)
            }
        )
    }

    /// Passes the channel keeper's response to all lanes, not only to the one that sent the request: all lanes may have
    /// commands or broadcasts that wait for this channel. Does nothing if the configuration does not have the request's
    /// app.
    func passToLanes(_ response: ChannelResponse, to request: ChannelRequest) {
        let (name, content): (String, LaneChannelResponse.Content) =
            switch response {
            case .channel(let entry):
                (
                    entry.environment,
                    AudienceChannel(entry).map(LaneChannelResponse.Content.channel)
                        ?? .failed(isRegistryComplete: true)
                )
            case .endNoted(let environment): (environment, .endNoted)
            case .lookedUp(let environment, let isFound): (environment, .lookedUp(isFound: isFound))
            case .failed(let environment, _, let isRegistryComplete):
                (environment, .failed(isRegistryComplete: isRegistryComplete))
            }
        guard let appIndex = configuration.apps.firstIndex(where: { $0.bundleId == request.app }),
            let environment = APNsEnvironment.allCases.first(where: { $0.name.description == name })
        else { return }
        let laneResponse = LaneChannelResponse(
            appIndex: UInt16(appIndex),
            audienceDigest: Array(request.audience.utf8).withUnsafeBytes { AudienceDigest(of: $0) },
            environment: environment,
            content: content
        )
        for mailbox in mailboxes {
            mailbox.channelResponses.append(laneResponse)
            mailbox.wakeup.signal()
        }
    }

    /// Orders every lane to end its event loop.
    func stopLanes() {
        for mailbox in mailboxes {
            _ = mailbox.orders.push(LaneOrder(kind: .stop))
            mailbox.wakeup.signal()
        }
    }

    /// Makes a ring for the traces of each lane, and the exporter that empties the rings. If traces are not exported,
    /// there are no rings, and the exporter is nil.
    private static func makeTraceRingsAndExporter(
        _ configuration: WorkerConfiguration,
        laneCount: Int,
        counters: TraceCounters,
        _ log: SharedLimitedLog
    ) throws -> ([TraceRing], TraceExporter?) {
        guard let collector = try makeTraceCollector(configuration.tracing) else { return ([], nil) }
        let rings = (0..<laneCount).map { _ in TraceRing(counters) }
        let exporter = try TraceExporter(
            collector,
            encoder: SpanEncoder(configuration),
            rings: rings,
            counters: counters,
            log: log
        )
        return (rings, exporter)
    }

    /// Makes the client of the trace collector; nil if traces are not exported.
    static func makeTraceCollector(_ tracing: WorkerConfiguration.Tracing) throws -> TraceCollector? {
        guard let address = tracing.endpoint.flatMap(CollectorAddress.init) else { return nil }
        if let file = tracing.headersFile { _ = try CollectorHeaders.readLines(path: file) }
        let tls = address.isSecure ? try TLSContext.client(caFile: tracing.caFile, applicationProtocols: []) : nil
        return TraceCollector(address: address, tls: tls, headersFile: tracing.headersFile)
    }
}
