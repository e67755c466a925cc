import APNs
import Audiences
import Delivery
import Kafka
import LiveActivity
import Logging
import Observability
import Reactor
import Redis

/// The values from which every lane is built. Made once at the start, read by all lanes, and never changed: what a
/// reload changes is in the cores' configurations. So `@unchecked Sendable` is correct, although ``PoolConfiguration``
/// is not declared `Sendable`.
struct LaneSetup: @unchecked Sendable {
    /// The settings of one APNs pool. Every lane has such a pool.
    struct PoolSetup {
        var target: PoolTarget
        var traffic: PoolTraffic
        var name: String
        var configuration: PoolConfiguration
        var tokenSource: ProviderTokenSource
        /// The index of the pool's signing key in the labels of the metrics.
        var signingKeyIndex: Int
    }

    var deliveryConfiguration: DeliveryConfiguration
    var audiencesConfiguration: AudiencesConfiguration
    var redisConfiguration: RedisConfiguration
    var pools: [PoolSetup]
    /// Describes for the log which certificate authorities the APNs connections trust.
    var apnsAuthorities: String
    var producer: Producer
    var topics: ProducedTopics
    var bundleIds: [[UInt8]]
    var metricRegistry: MetricRegistry
    /// The ring of traces of each lane. Empty if traces are not exported.
    var traceRings: [TraceRing]
    var traceSamplesPerMillion: Int
    var logger: Logger
    /// Puts a request into the asynchronous stream that the channel keeper reads. A lane rarely has a request, so this
    /// need not be a ring (R2).
    var sendChannelRequest: @Sendable (ChannelRequest) -> Void

    /// The topics that lanes write to.
    struct ProducedTopics {
        var results: ProducerTopic
        var invalidations: ProducerTopic
        var deadLetters: ProducerTopic
        var deferred: ProducerTopic
        var fanout: ProducerTopic
        /// The topic to which a lane writes a start command for each device of an audience.
        var commands: ProducerTopic
    }
}
