import APNs
import Audiences
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
    var audiences: AudiencesConfiguration
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
    /// Asks the keeper of channels. Called rarely.
    var requestChannel: @Sendable (ChannelRequest) -> Void

    /// The topics that are written to.
    struct ProducedTopics {
        var results: ProducerTopic
        var invalidations: ProducerTopic
        var deadLetters: ProducerTopic
        var deferred: ProducerTopic
        var fanout: ProducerTopic
        /// For the starts of an audience's devices.
        var commands: ProducerTopic
    }
}
