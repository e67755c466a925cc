/// Every metric that a worker shows; ``MetricCatalog`` says what each of them is.
public enum Metric: UInt8, CaseIterable, Sendable {
    // Records and what became of them.
    case recordsReceived
    case outcomes
    case deadLetters
    case invalidations
    case deferred
    case coalesced

    // Pushes.
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

    // What waits.
    case recordsHeld
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
    case partitionsStandingStill
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

    /// Whether a thread writes it into cells of its own; what is not is read when the metrics are asked for.
    var hasCells: Bool {
        switch definition.source {
        case .lanes, .kafka: true
        case .request: false
        }
    }

    public var definition: MetricDefinition { MetricCatalog.definitions[Int(rawValue)] }
}

/// What one metric is: enough to collect it, to print it, and to explain it.
public struct MetricDefinition: Sendable {
    public enum Kind: Sendable, Equatable {
        /// Only grows, from 0 at the start of the process.
        case counter
        case gauge
        /// Upper bounds of the buckets in the stored unit, ascending; what is above the last is counted in the total.
        case histogram([Int64])

        /// As the exposition format spells it.
        var name: String {
            switch self {
            case .counter: "counter"
            case .gauge: "gauge"
            case .histogram: "histogram"
            }
        }
    }

    /// Who writes it, and how the lanes' values become one.
    public enum Source: Sendable, Equatable {
        case lanes(Combination)
        /// The Kafka thread.
        case kafka
        /// Read when the metrics are asked for.
        case request
    }

    public enum Combination: Sendable, Equatable {
        case sum
        /// The highest of the lanes' values: "any".
        case highest
        /// The lowest of the lanes' values: "all".
        case lowest
        /// Each lane is a series of its own.
        case each
    }

    /// The unit, and how many of the stored unit make one of it: times are stored as whole microseconds or milliseconds.
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
    /// At most two.
    public var dimensions: [MetricDimension]
    /// Series that have never counted anything are left out: the table of what could be counted is large.
    public var omitsZeros = false
    /// One line, for the exposition.
    public var help: String
    /// What a change of it means, and what to do then; for the page.
    public var meaning: String

    /// The names of the labels, in the order of the dimensions.
    public var labels: [String] { dimensions.flatMap(\.labels) }
}

/// A set of label values that is known, and bounded, when the worker starts.
public enum MetricDimension: UInt8, CaseIterable, Sendable {
    case topic
    /// The configured apps, and one more for records that name none.
    case app
    case configuredApp
    case outcome
    /// What became of a command to an audience, in one range or in all.
    case roundOutcome
    case memberOutcome
    /// What an audience was told of a member.
    case membershipChange
    /// An app in an environment.
    case pool
    /// A status of APNs with the reason that Apple documents for it.
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
    /// Lanes and the Kafka thread; a label, no cells.
    case thread
    case lane
    /// A topic's partition; a label, no cells.
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

/// The ways that a record spends its time; `stage` in `causeway_stage_seconds`.
public enum DeliveryStage: UInt8, CaseIterable, Sendable {
    /// From the record's own time to its receipt: Kafka, and whatever waits there.
    case queue
    /// From receipt to the verdict of Redis: merging, pace, and Redis itself.
    case admit
    /// From the verdict to the stream: waiting for room on a connection.
    case stream
    /// From the stream to APNs' answer.
    case apns
    /// From the answer to the acknowledged result.
    case settle

    public var name: String { "\(self)" }
}

/// How Redis has lost writes; `cause` in `causeway_redis_losses_total`.
public enum RedisLoss: UInt8, CaseIterable, Sendable {
    /// A primary has forgotten everything.
    case emptied
    /// A primary is another process than before: what was written last may be missing.
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
    /// Wanted, and the process has as many as it may.
    case awaited

    public var name: String { "\(self)" }
}
