import CRdkafka
import Reactor

/// A Kafka cluster inside this process, for tests and the demo: librdkafka's mock cluster, in memory, on loopback.
///
/// It differs from a real cluster:
/// - A group has at most one member. A second member gets no assignment while the first is in the group.
/// - The member of a new group gets its partitions after 3 s; in a group that had a member before, after about the
///   session timeout.
/// - It cannot look up offsets by time, delete topics, or keep data over a restart.
/// - It ignores `fetch.min.bytes`, and responds to a fetch with one batch per partition. If a fetch finds no records,
///   the response comes after the whole `fetch.wait.max.ms`, even if records arrive meanwhile.
/// - A partition keeps at most 100,000 batches, and at most `retainedBytesPerPartition`. It deletes older batches even
///   if nobody has read them. Their reader gets an error; with `auto.offset.reset=earliest`, it loses the records
///   silently.
public final class EmbeddedBroker {
    /// Bytes that a partition keeps, counted in the compressed form that the producer sent.
    public static let retainedBytesPerPartition = 5 * 1024 * 1024

    /// The kinds of requests that a test can make fail, with their API keys in Kafka's protocol.
    public enum APIKey: Int16, Sendable {
        case produce = 0
        case offsetCommit = 8
        case offsetFetch = 9
        case heartbeat = 12
        case syncGroup = 14
    }

    private let client: OpaquePointer
    private let cluster: OpaquePointer
    private let defaultPartitionCount: Int32

    /// - Parameters:
    ///   - brokerCount: the number of brokers. Each gets an ephemeral port on loopback, and a number from 1.
    ///   - defaultPartitionCount: how many partitions a topic gets if its creation does not say how many.
    public init(brokerCount: Int = 1, defaultPartitionCount: Int = 4) throws(KafkaError) {
        precondition((1...64).contains(brokerCount) && (1...10_000).contains(defaultPartitionCount))
        let configuration = ClientConfiguration()
        try configuration.apply(
            defaults: [("client.id", "embedded-broker"), ("log_level", "0")],
            overrides: [],
            rules: []
        )
        let client = try configuration.makeClient(RD_KAFKA_PRODUCER)
        guard let cluster = rd_kafka_mock_cluster_new(client, Int32(brokerCount)) else {
            rd_kafka_destroy(client)
            throw KafkaError(RD_KAFKA_RESP_ERR__FAIL, "cannot start the embedded broker")
        }
        self.client = client
        self.cluster = cluster
        self.defaultPartitionCount = Int32(defaultPartitionCount)
    }

    deinit {
        rd_kafka_mock_cluster_destroy(cluster)
        rd_kafka_destroy(client)
    }

    /// The value for `bootstrap.servers`.
    public var bootstrapServers: String { String(cString: rd_kafka_mock_cluster_bootstraps(cluster)) }

    /// Creates a topic.
    ///
    /// - Parameter partitionCount: 1 to 10,000; nil for the default number.
    public func createTopic(_ name: String, partitionCount: Int? = nil) throws(KafkaError) {
        let count = partitionCount.map { Int32(clamping: $0) } ?? defaultPartitionCount
        try throwIfFailed(rd_kafka_mock_topic_create(cluster, name, count, 1), "topic \"\(name)\"")
    }

    /// Makes the next requests of this kind fail: one request for each of `errors` (`rd_kafka_resp_err_t`), in their
    /// order. For the error -195 (`_TRANSPORT`), the broker closes the connection without a response.
    public func failNextRequests(_ apiKey: APIKey, with errors: [Int32]) {
        let codes = errors.map { rd_kafka_resp_err_t($0) }
        rd_kafka_mock_push_request_errors_array(cluster, apiKey.rawValue, codes.count, codes)
    }

    /// Delays every response of a broker; -1 means all brokers.
    public func setRoundTripTime(milliseconds: Int, broker: Int32 = -1) throws(KafkaError) {
        try throwIfFailed(
            rd_kafka_mock_broker_set_rtt(cluster, broker, Int32(clamping: milliseconds)),
            "broker \(broker)"
        )
    }

    /// Closes a broker's connections and refuses new ones; -1 means all brokers. The broker keeps its port.
    public func takeDown(broker: Int32 = -1) throws(KafkaError) {
        // Let no program start meanwhile. A program that is being started has a copy of the broker's listening socket,
        // so the port would still be in use when the mock cluster binds it again, and the mock cluster would end this
        // process.
        try ProcessStartLock.runExclusively { () throws(KafkaError) in
            try throwIfFailed(rd_kafka_mock_broker_set_down(cluster, broker), "broker \(broker)")
        }
    }

    public func bringUp(broker: Int32 = -1) throws(KafkaError) {
        try throwIfFailed(rd_kafka_mock_broker_set_up(cluster, broker), "broker \(broker)")
    }

    /// Gives a partition another leader, or takes its leader away, so that nobody can read or write the partition.
    ///
    /// - Parameter broker: the number of the new leader; nil for none.
    public func setLeader(ofTopic topic: String, partition: Int32, to broker: Int32?) throws(KafkaError) {
        try throwIfFailed(
            rd_kafka_mock_partition_set_leader(cluster, topic, partition, broker ?? -1),
            "topic \"\(topic)\" [\(partition)]"
        )
    }

    /// Makes the brokers report this error for a topic in the responses to metadata requests; 0: no error.
    public func setMetadataError(topic: String, code: Int32) {
        rd_kafka_mock_topic_set_error(cluster, topic, rd_kafka_resp_err_t(code))
    }

    private func throwIfFailed(_ code: rd_kafka_resp_err_t, _ subject: String) throws(KafkaError) {
        guard code == RD_KAFKA_RESP_ERR_NO_ERROR else {
            throw KafkaError(code, "\(subject): \(String(cString: rd_kafka_err2str(code)))")
        }
    }
}
