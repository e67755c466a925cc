/// Every metric of a worker; ``MetricCatalog`` defines each of them.
///
/// A case has the metric's name on `/metrics` in camel case, without `causeway_`, `_seconds` and a counter's `_total`.
/// A duration whose case would then differ from a counter's by a plural "s" alone ends with `Duration`:
/// `audienceRangeDuration`, beside `audienceRanges`. `CatalogTests` checks this. Values are counted and set in the unit
/// of the definition, such as milliseconds (``MetricDefinition/Unit``), not in seconds.
public enum Metric: UInt8, CaseIterable, Sendable {
    // Metrics about records and their outcomes. An outcome, dead letter or invalidation is counted when Kafka has
    // acknowledged its record, so the counts equal the records on the topics. A superseded command without a result of
    // its own is counted when a newer command replaces it.
    case recordsReceived
    case outcomes
    case deadLetters
    case invalidations
    case deferred
    case commandsReplaced
    case alertsCarried
    case undecodable
    case bodiesWithDroppedFields

    // Metrics about pushes. A retry of a push adds nothing to the draws and demotions, because Redis draws from a
    // budget only once for each version, at the first attempt.
    case pushes
    case pushRetries
    case retryBudgetRatio
    case freshness
    case latency
    case budgetDraws
    case budgetDemotions
    case startBudgetWaits

    // Metrics about audiences: their commands, members and pages.
    case audienceCommands
    case audienceRanges
    case audienceMembers
    case audienceRangeDuration
    case audienceCommandDuration
    case audienceRounds
    case audienceOldestRound
    case audienceOldestRange
    case audienceMembersParked
    case audiencePagesRead
    case audiencePagesDamaged
    case audienceRecordsUnreadable
    case audienceRoundsLost
    case audienceMemberships
    case audienceAppendsRepeated
    case audiencePagesArranged

    // Metrics about the records and pushes that wait or are in progress now.
    case recordsInProgress
    case recordsWaiting
    case pushesInFlight
    case pushesWaiting

    // Metrics about APNs: the connections to it, the circuit breakers, and the keys that sign provider tokens.
    case apnsConnections
    case apnsStreamsMax
    case apnsGoaway
    case apnsRoundTrip
    case breakerOpen
    case providerTokenAge
    case keyFileRejected

    // Metrics about Redis: its connections, errors and losses of data.
    case redisReady
    case redisServersUnavailable
    case redisRoundTrip
    case redisReconnects
    case redisErrors
    case redisLosses

    // Metrics about Kafka and the partitions that this worker reads.
    case kafkaReady
    case kafkaErrors
    case partitionsAssigned
    case partitionsPaused
    case partitionsStuck
    case partitionsRereading
    case deferredWaiting
    case deferredOldest
    case readAheadActive
    case consumerLagRecords
    case oldestUnsettled
    case committableOffset

    // Metrics about the worker's threads, its clock, its stop, its configuration and its log.
    case laneBusyRatio
    case laneBusy
    case kafkaThreadBusyRatio
    case kafkaThreadBusy
    case iterationAge
    case clockDifference
    case draining
    case configurationRejected
    case logLinesSuppressed

    // Metrics about broadcast channels.
    case channels
    case channelsListed
    case channelsCreated
    case channelsDeleted
    case channelOrphans
    case channelRefusals

    // Metrics about the lifetimes of activities.
    case lifetimesWaiting
    case lifetimesFailing
    case lifetimesEnded
    case lifetimesRestarted

    // Metrics about the export of traces.
    case tracesExported
    case tracesDropped
    case tracePostsFailed

    // Metrics about the process: its CPU time, memory, file descriptors, start and build.
    case processCpu
    case processResidentMemoryBytes
    case processVirtualMemoryBytes
    case processOpenFds
    case processMaxFds
    case processStartTime
    case buildInfo

    /// Whether ``MetricTotals`` has the values of the metric. If not, they are read at each request of `/metrics`.
    var isInMetricTotals: Bool {
        switch definition.source {
        case .lanes, .kafkaThread: true
        case .readOnRequest: false
        }
    }

    public var definition: MetricDefinition { MetricCatalog.definitions[Int(rawValue)] }
}

/// The definition of one metric: how it is collected, printed and explained.
public struct MetricDefinition: Sendable {
    public enum Kind: Sendable, Equatable {
        /// A value that only grows, and starts at 0 with the process.
        case counter
        case gauge
        /// A distribution. The numbers are the buckets' upper bounds, ascending, in the stored unit. A value above the
        /// last bound counts in no bucket, only in the total.
        case histogram([Int64])

        /// The kind's name in Prometheus' text format.
        var name: String {
            switch self {
            case .counter: "counter"
            case .gauge: "gauge"
            case .histogram: "histogram"
            }
        }
    }

    /// Where the values of a metric come from; for lanes, also how the lanes' values are combined.
    ///
    /// Exceptions: ``MetricRegistry`` itself sets the metrics about channels, traces and lifetimes. It also adds the
    /// suppressed log lines of threads that are neither lanes nor the Kafka thread.
    public enum Source: Sendable, Equatable {
        case lanes(Aggregation)
        /// The Kafka thread counts or sets the values.
        case kafkaThread
        /// The values are read at each request of `/metrics`.
        case readOnRequest
    }

    public enum Aggregation: Sendable, Equatable {
        /// The sum over the lanes and the Kafka thread.
        case sum
        /// The highest value of any lane; for a flag: whether it is set in any lane.
        case highest
        /// The lowest value of any lane; for a flag: whether it is set in all lanes.
        case lowest
        /// Every lane has its own series.
        case perLane
    }

    /// The unit of a metric. A value is stored as a whole number, and printed divided by `divisor`. For example,
    /// 1,500,000 stored microseconds are printed as 1.5 seconds.
    public struct Unit: Sendable, Equatable {
        public var name: String
        public var divisor: Int64

        static func count(_ name: String) -> Unit { Unit(name: name, divisor: 1) }
        static let secondsStoredAsMicroseconds = Unit(name: "seconds", divisor: 1_000_000)
        static let secondsStoredAsMilliseconds = Unit(name: "seconds", divisor: 1_000)
        static let ratioStoredAsMillionths = Unit(name: "0 to 1", divisor: 1_000_000)
        static let flag = Unit(name: "0 or 1", divisor: 1)
    }

    public var metric: Metric
    public var name: String
    public var kind: Kind
    public var unit: Unit
    public var source: Source
    /// The dimensions by which the metric is split, at most two.
    public var dimensions: [MetricDimension]
    /// Whether series with the value 0 are left out, because the metric has very many possible series. Exception: the
    /// responses of APNs that alerts need are always printed (``ResponseTable/isShownAtZero(_:)``).
    public var omitsZeros = false
    /// The help text of the exposition format, in one line.
    public var help: String
    /// What a change of the metric means and what to do, for `METRICS.md`.
    public var meaning: String

    /// The names of the labels, in the order of the dimensions.
    public var labelNames: [String] { dimensions.flatMap(\.labelNames) }
}

/// A property by which a metric is split into series, such as the app. Each of its values has one text for each label.
/// The values are fixed when the worker starts, except the partitions.
public enum MetricDimension: UInt8, CaseIterable, Sendable {
    case topic
    /// The configured apps, and one more value for records that name no configured app.
    case app
    case configuredApp
    case outcome
    /// The outcome of a command to an audience: in one range, or over all ranges.
    case fanoutOutcome
    case memberOutcome
    /// How an audience's members changed: `joined`, `left` or `updated`. A member is updated if it registered again
    /// (usually with a new token) and was already in all audiences that it names.
    case membershipChange
    /// An app in an environment. If broadcasts have a pool of their own, its environment is "production-broadcasts" or
    /// "sandbox-broadcasts".
    case pool
    /// A status of APNs and its reason, as ``ResponseTable`` counts them.
    case response
    case goAwayReason
    case latencyPart
    case environment
    case connectionPhase
    case signingKey
    case policy
    case recordWait
    case redisError
    case redisLoss
    case kafkaError
    case logKind
    case traceDropReason
    case tracePostFailure
    /// A lane or the Kafka thread. The values of a metric with this dimension are read at each request of `/metrics`,
    /// so ``MetricLayout`` has no place for them.
    case thread
    /// A lane. When a lane counts, it gives no index for this dimension, because it counts only its own values.
    case lane
    /// A partition of a topic. The values of a metric with this dimension are in ``PartitionReading``s, so
    /// ``MetricLayout`` has no place for them.
    case partition
    case build

    public var labelNames: [String] {
        switch self {
        case .topic: ["topic"]
        case .app, .configuredApp: ["app"]
        case .outcome, .fanoutOutcome, .memberOutcome: ["outcome"]
        case .membershipChange: ["change"]
        case .pool: ["app", "environment"]
        case .response: ["status", "reason"]
        case .goAwayReason, .traceDropReason, .tracePostFailure: ["reason"]
        case .latencyPart: ["part"]
        case .environment: ["environment"]
        case .connectionPhase: ["state"]
        case .signingKey: ["team", "key_id"]
        case .policy: ["policy"]
        case .recordWait: ["for"]
        case .redisError, .kafkaError: ["code"]
        case .redisLoss: ["cause"]
        case .logKind: ["kind"]
        case .thread: ["thread"]
        case .lane: ["lane"]
        case .partition: ["topic", "partition"]
        case .build: ["version", "librdkafka", "openssl", "hiredis"]
        }
    }
}

/// The parts of the time that a command takes, the values of the label `part` of `causeway_latency_seconds`.
public enum LatencyPart: UInt8, CaseIterable, Sendable {
    /// From the record's timestamp to its receipt: the time in Kafka.
    case queue
    /// From the record's receipt until Redis allows the first attempt of the push: merging, pace, and Redis itself. For
    /// a deferred command: from its first receipt until Redis allows the first attempt after its return. This time
    /// includes the deferral and all attempts before the deferral.
    case admit
    /// From the end of `admit` until the last attempt of the push is sent: the wait for a free stream, and earlier
    /// attempts.
    case stream
    /// From the sending of the last attempt to APNs' response: the network and APNs itself.
    case apns
    /// From APNs' response until Kafka has acknowledged the result.
    case settle

    public var name: String { "\(self)" }
}

/// How Redis has lost writes, the label `cause` of `causeway_redis_losses_total`.
public enum RedisLoss: UInt8, CaseIterable, Sendable {
    /// A primary has lost all its data.
    case emptied
    /// A primary was restarted or replaced, so its last writes may be missing.
    case replaced

    public var name: String { "\(self)" }
}

/// What a record in progress waits for, the label `for` of `causeway_records_waiting`.
public enum RecordWait: UInt8, CaseIterable, Sendable {
    /// A reply of Redis, or a connection to Redis.
    case redis
    /// The time at which the record may be sent (pace, budgets, back-off), or an older command of its activity, which
    /// goes first. Also counts every wait that no other case names.
    case pace
    /// A free stream on an APNs connection, for the push of the record.
    case stream
    /// APNs' response to the record's push. Pushes to an audience's members belong to no record, and are not counted.
    case apns
    /// The acknowledgements that settle the record: Kafka's for its result, and Redis' for its outcome.
    case result

    public var name: String { "\(self)" }
}

/// The phase of an APNs connection, the label `state` of `causeway_apns_connections`.
public enum ConnectionPhase: UInt8, CaseIterable, Sendable {
    case ready
    case opening
    case draining
    /// A connection that the pool wants but may not open yet, because the process has as many connections as it may
    /// have: in total, or to each address of the host.
    case awaited

    public var name: String { "\(self)" }
}
