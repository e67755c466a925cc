import APNs
import Delivery
import Kafka
import LiveActivity
import Logging
import Observability
import Reactor
import Redis

/// What every lane is built from: made once at start, read by all.
struct LanePlan: @unchecked Sendable {
    /// One APNs pool of each lane.
    struct Pool {
        var index: PoolIndex
        var name: String
        var configuration: PoolConfiguration
        var tokens: ProviderTokenSource
        /// Which of the registry's signers signs for it.
        var signer: Int
    }

    var delivery: DeliveryConfiguration
    /// For Redis, one for each of `delivery.policies`, in their order.
    var paces: [PaceArguments]
    var startBudgets: [BucketNumbers]
    var redis: RedisConfiguration
    var pools: [Pool]
    var producer: Producer
    var topics: ProducedTopics
    var applications: [[UInt8]]
    var registry: MetricRegistry
    /// One for each lane; empty: traces are not exported.
    var traceRings: [TraceRing]
    var traceSamplesPerMillion: Int
    var logger: Logger

    /// The topics that are written to.
    struct ProducedTopics {
        var results: ProducerTopic
        var invalidations: ProducerTopic
        var deadLetters: ProducerTopic
    }
}

/// What a lane goes by and can be given anew while it runs: an immutable value, made once for all lanes.
struct LaneNumbers: Sendable {
    var delivery: DeliveryNumbers
    /// For Redis, one for each policy, in their order.
    var paces: [PaceArguments]
    var startBudgets: [BucketNumbers]

    init(_ delivery: DeliveryNumbers) {
        self.delivery = delivery
        paces = delivery.policies.map { PaceArguments(PaceNumbers($0)) }
        startBudgets = delivery.policies.map { BucketNumbers($0.startBudget) }
    }
}

extension LanePlan {
    mutating func take(_ numbers: LaneNumbers) {
        paces = numbers.paces
        startBudgets = numbers.startBudgets
        delivery.readAheadLagRecords = numbers.delivery.readAheadLagRecords
    }
}
