import APNs
import Audiences
import Delivery
import Kafka
import LiveActivity
import Logging
import Observability
import Reactor
import Redis

/// What every lane is built from. Made once at the start, and read by all lanes.
struct LaneSetup: @unchecked Sendable {
    /// One APNs pool of each lane.
    struct Pool {
        var index: PoolIndex
        var name: String
        var configuration: PoolConfiguration
        var tokens: ProviderTokenSource
        /// The index of the pool's signer in the registry.
        var signer: Int
    }

    var delivery: DeliveryConfiguration
    var audiences: AudiencesConfiguration
    var redis: RedisConfiguration
    var pools: [Pool]
    /// For the log: who may sign APNs' certificate.
    var apnsAuthorities: String
    var producer: Producer
    var topics: ProducedTopics
    var applications: [[UInt8]]
    var registry: MetricRegistry
    /// One for each lane; empty if traces are not exported.
    var traceRings: [TraceRing]
    var traceSamplesPerMillion: Int
    var logger: Logger
    /// Sends a request to the keeper of channels. Called rarely.
    var requestChannel: @Sendable (ChannelRequest) -> Void

    /// The topics that lanes write to.
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
