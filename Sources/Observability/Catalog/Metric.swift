/// Every metric of a worker; ``MetricCatalog`` defines each of them.
public enum Metric: UInt8, CaseIterable, Sendable {
    // Records and their outcomes. Outcomes, dead letters and invalidations are counted when Kafka has acknowledged their
    // record, so that the counts equal the topics. A superseded command without a record is counted when it is merged away.
    case recordsReceived
    case outcomes
    case deadLetters
    case invalidations
    case deferred
    case coalesced
    case undecodable
    case trimmedBodies

    // Pushes. Spent budget and demotions are counted with a push's first attempt, because Redis draws on the budget once per version.
    case pushes
    case pushRetries
    case retryBudget
    case freshness
    case stage
    case budgetSpent
    case budgetDemotions
    case startBudgetWaits

    // Audiences.
    case audienceCommands
    case audienceRanges
    case audienceMembers
    case audienceRangeTime
    case audienceCommandTime
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

    // Waiting records and pushes.
    case recordsInProgress
    case recordsWaiting
    case pushesInFlight
    case pushesWaiting

    // APNs.
    case apnsConnections
    case apnsStreams
    case apnsGoAways
    case apnsRoundTrip
    case breakerOpen
    case providerTokenAge
    case keyFileRejected

    // Redis.
    case redisReady
    case redisServersAway
    case redisRoundTrip
    case redisReconnects
    case redisErrors
    case redisLosses

    // Kafka.
    case kafkaReady
    case kafkaErrors
    case partitionsAssigned
    case partitionsPaused
    case partitionsStuck
    case partitionsRereading
    case readAheadActive
    case consumerLag
    case oldestUnsettled
    case watermark

    // The worker itself.
    case laneBusyRatio
    case laneBusySeconds
    case kafkaThreadBusyRatio
    case kafkaThreadBusySeconds
    case turnAge
    case draining
    case logLinesSuppressed
    case channels
    case channelsListed
    case channelsCreated
    case channelsDeleted
    case channelOrphans
    case channelRefusals
    case lifetimesWaiting
    case lifetimesEnded
    case lifetimesRestarted
    case tracesExported
    case tracesDropped
    case tracePostsFailed
    case processCPU
    case processMemory
    case processVirtualMemory
    case processOpenDescriptors
    case processMaxDescriptors
    case processStartTime
    case buildInfo

    /// Whether a thread writes the metric into cells of its own. Otherwise the value is read when the metrics are requested.
    var hasCells: Bool {
        switch definition.source {
        case .lanes, .kafka: true
        case .request: false
        }
    }

    public var definition: MetricDefinition { MetricCatalog.definitions[Int(rawValue)] }
}

/// The definition of one metric: how it is collected, printed and explained.
public struct MetricDefinition: Sendable {
    public enum Kind: Sendable, Equatable {
        /// Only grows, starting from 0 with the process.
        case counter
        case gauge
        /// Has buckets with these upper bounds, ascending, in the stored unit. Larger values are only in the total.
        case histogram([Int64])

        /// The name in the exposition format.
        var name: String {
            switch self {
            case .counter: "counter"
            case .gauge: "gauge"
            case .histogram: "histogram"
            }
        }
    }

    /// The thread that writes the metric, and how the lanes' values are combined.
    public enum Source: Sendable, Equatable {
        case lanes(Combination)
        /// The Kafka thread.
        case kafka
        /// Read when the metrics are requested.
        case request
    }

    public enum Combination: Sendable, Equatable {
        case sum
        /// The highest of the lanes' values; for a flag: whether it is set in any lane.
        case highest
        /// The lowest of the lanes' values; for a flag: whether it is set in all lanes.
        case lowest
        /// One series per lane.
        case each
    }

    /// The unit, and the stored unit as its divisor: times are stored in whole microseconds or milliseconds.
    public struct Unit: Sendable, Equatable {
        public var name: String
        public var divisor: Int64

        static func count(_ name: String) -> Unit { Unit(name: name, divisor: 1) }
        static let secondsInMicroseconds = Unit(name: "seconds", divisor: 1_000_000)
        static let secondsInMilliseconds = Unit(name: "seconds", divisor: 1_000)
        static let ratioInMillionths = Unit(name: "0 to 1", divisor: 1_000_000)
        static let flag = Unit(name: "0 or 1", divisor: 1)
    }

    public var metric: Metric
    public var name: String
    public var kind: Kind
    public var unit: Unit
    public var source: Source
    /// At most two dimensions.
    public var dimensions: [MetricDimension]
    /// Whether series that are zero are left out, because far too many are possible.
    public var omitsZeros = false
    /// One line, for the exposition format.
    public var help: String
    /// What a change of the metric means, and what to do; for the page.
    public var meaning: String

    /// The names of the labels, in the order of the dimensions.
    public var labels: [String] { dimensions.flatMap(\.labels) }
}

/// A set of label values. It is known and bounded when the worker starts.
public enum MetricDimension: UInt8, CaseIterable, Sendable {
    case topic
    /// The configured apps, and one more value for records that name none.
    case app
    case configuredApp
    case outcome
    /// The outcome of a command to an audience, in one range or in all.
    case roundOutcome
    case memberOutcome
    /// The change of a member that was reported to an audience.
    case membershipChange
    /// An app in an environment.
    case pool
    /// A status of APNs, with a reason that Apple documents for it.
    case answer
    case goAwayReason
    case stage
    case environment
    case connectionState
    case signer
    case policy
    case wait
    case redisError
    case redisLoss
    case kafkaError
    case logKind
    case traceDrop
    case tracePostFailure
    /// Lanes and the Kafka thread. Only a label, without cells.
    case thread
    case lane
    /// A partition of a topic. Only a label, without cells.
    case partition
    case build

    public var labels: [String] {
        switch self {
        case .topic: ["topic"]
        case .app, .configuredApp: ["app"]
        case .outcome, .roundOutcome, .memberOutcome: ["outcome"]
        case .membershipChange: ["change"]
        case .pool: ["app", "environment"]
        case .answer: ["status", "reason"]
        case .goAwayReason, .traceDrop, .tracePostFailure: ["reason"]
        case .stage: ["stage"]
        case .environment: ["environment"]
        case .connectionState: ["state"]
        case .signer: ["team", "key_id"]
        case .policy: ["policy"]
        case .wait: ["for"]
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

/// The stages in which a record spends its time; `stage` in `causeway_stage_seconds`.
public enum LatencyPart: UInt8, CaseIterable, Sendable {
    /// From the record's own time to its receipt: Kafka, and the wait there.
    case queue
    /// From receipt to the verdict of Redis: merging, pace and Redis itself.
    case admit
    /// From the verdict to the stream: the wait for room on a connection.
    case stream
    /// From the stream to APNs' answer.
    case apns
    /// From the answer to the acknowledged result.
    case settle

    public var name: String { "\(self)" }
}

/// How Redis has lost writes; `cause` in `causeway_redis_losses_total`.
public enum RedisLoss: UInt8, CaseIterable, Sendable {
    /// A primary has lost all its data.
    case emptied
    /// A primary was restarted or replaced, so its last writes may be missing.
    case replaced

    public var name: String { "\(self)" }
}

/// What a held record waits for; `for` in `causeway_records_waiting`.
public enum RecordWait: UInt8, CaseIterable, Sendable {
    /// A reply of Redis, or Redis itself.
    case redis
    /// Its activity's pace, budget or back-off, or an older command of the activity.
    case pace
    /// Room on an APNs connection.
    case stream
    /// APNs' answer.
    case apns
    /// Kafka's acknowledgement of its result.
    case result

    public var name: String { "\(self)" }
}

/// `state` in `causeway_apns_connections`.
public enum ConnectionState: UInt8, CaseIterable, Sendable {
    case ready
    case opening
    case draining
    /// Wanted, but the process has as many connections as it may.
    case awaited

    public var name: String { "\(self)" }
}
