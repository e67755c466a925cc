import CRdkafka
import Glibc

/// The topics that a `Consumer` or `PartitionReader` reads: for each, its name as a C string and librdkafka's handle.
///
/// The handle stores the topic's index, in the pointer that librdkafka keeps for the application. Each record refers to
/// the handle of its topic, so the topic is found without comparing names.
struct ClientTopics {
    private var topicHandles: [OpaquePointer] = []
    private var names: [UnsafeMutablePointer<CChar>] = []

    /// Creates the handle of a topic. The topic's index is the number of topics that were added before.
    mutating func add(_ name: String, to client: OpaquePointer) throws(KafkaError) {
        guard !name.isEmpty, !name.hasPrefix("^"), !name.utf8.contains(0) else {
            throw KafkaError(RD_KAFKA_RESP_ERR__INVALID_ARG, "topic \"\(name)\": must be a topic's name, not a pattern")
        }
        guard !names.contains(where: { strcmp($0, name) == 0 }) else {
            throw KafkaError(RD_KAFKA_RESP_ERR__INVALID_ARG, "topic \"\(name)\": named twice")
        }
        let configuration = rd_kafka_default_topic_conf_dup(client)
        rd_kafka_topic_conf_set_opaque(configuration, UnsafeMutableRawPointer(bitPattern: topicHandles.count + 1))
        guard let handle = rd_kafka_topic_new(client, name, configuration) else {
            let code = rd_kafka_last_error()
            rd_kafka_topic_conf_destroy(configuration)
            throw KafkaError(code, "topic \"\(name)\": \(String(cString: rd_kafka_err2str(code)))")
        }
        guard let copy = strdup(name) else {
            rd_kafka_topic_destroy(handle)
            throw KafkaError(RD_KAFKA_RESP_ERR__FAIL, "topic \"\(name)\": out of memory")
        }
        topicHandles.append(handle)
        names.append(copy)
    }

    func handle(of topic: TopicIdentifier) -> OpaquePointer { topicHandles[Int(topic.index)] }

    func name(of topic: TopicIdentifier) -> UnsafeMutablePointer<CChar> { names[Int(topic.index)] }

    func identifier(named name: UnsafePointer<CChar>) -> TopicIdentifier? {
        names.firstIndex { strcmp($0, name) == 0 }.map { TopicIdentifier(index: Int32($0)) }
    }

    /// Destroys the handles. Destroy the client only afterwards: its destruction waits until no handle is left.
    mutating func destroyHandles() {
        for handle in topicHandles { rd_kafka_topic_destroy(handle) }
        topicHandles.removeAll()
    }

    mutating func freeNames() {
        for name in names { free(name) }
        names.removeAll()
    }
}

/// A list of partitions with offsets, in the form that librdkafka's functions take. It is freed with this value.
struct PartitionList: ~Copyable {
    private let pointer: UnsafeMutablePointer<rd_kafka_topic_partition_list_t>

    init(capacity: Int) {
        pointer = rd_kafka_topic_partition_list_new(Int32(clamping: capacity))
    }

    init(_ partitions: some Collection<TopicPartition>, of topics: ClientTopics) {
        self.init(capacity: partitions.count)
        for partition in partitions {
            add(topics.name(of: partition.topic), partition.partition)
        }
    }

    deinit {
        rd_kafka_topic_partition_list_destroy(pointer)
    }

    /// Adds a partition to the list. If `offset` is nil, the partition has no offset in the list.
    ///
    /// - Parameter metadata: the bytes to commit with the offset; empty for none.
    borrowing func add(
        _ topic: UnsafePointer<CChar>,
        _ partition: Int32,
        offset: Int64? = nil,
        metadata: [UInt8] = []
    ) {
        let element = rd_kafka_topic_partition_list_add(pointer, topic, partition)
        if let offset { element?.pointee.offset = offset }
        // Copy into memory from `malloc`: librdkafka frees the copy with `free` when it destroys the list.
        guard !metadata.isEmpty, let copy = malloc(metadata.count) else { return }
        metadata.withUnsafeBytes { copy.copyMemory(from: $0.baseAddress.unsafelyUnwrapped, byteCount: $0.count) }
        element?.pointee.metadata = copy
        element?.pointee.metadata_size = metadata.count
    }

    /// Calls `body` with the list. The pointer is valid only while `body` runs.
    borrowing func withPointer<Result>(
        _ body: (UnsafeMutablePointer<rd_kafka_topic_partition_list_t>) -> Result
    ) -> Result {
        body(pointer)
    }

    /// Maps each element, in order. An element's topic is valid only while `body` runs.
    borrowing func map<Result>(_ body: (rd_kafka_topic_partition_t) -> Result) -> [Result] {
        UnsafeBufferPointer(start: pointer.pointee.elems, count: Int(pointer.pointee.cnt)).map(body)
    }
}
