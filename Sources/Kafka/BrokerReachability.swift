import CRdkafka

/// Whether a broker has responded to the client since the client was made. Does not wait.
func hasReachedBroker(_ client: OpaquePointer) -> Bool {
    if rd_kafka_controllerid(client, 0) >= 0 { return true }
    guard let identifier = rd_kafka_clusterid(client, 0) else { return false }
    rd_kafka_mem_free(client, identifier)
    return true
}

/// Waits until a broker has responded to the client. Meanwhile the client's errors go to its event handler.
///
/// - Parameter whileWaiting: called after each request without a response: about every half second at first, later
///   about every 5 s.
/// - Returns: whether a broker has responded.
func awaitBroker(_ client: OpaquePointer, timeoutMilliseconds: Int32, _ whileWaiting: () -> Void) -> Bool {
    let deadline = Deadline(afterMilliseconds: Int64(timeoutMilliseconds))
    // Wait for each response longer than for the previous one, up to 5 s. A response that comes after its wait is
    // discarded. If every wait were half a second, a broker that needs two seconds would never seem to respond.
    var requestTimeoutMilliseconds: Int32 = 500
    while !hasReachedBroker(client) {
        if deadline.hasPassed { return false }
        var metadata: UnsafePointer<rd_kafka_metadata>?
        let waitMilliseconds = deadline.remainingMilliseconds(atMost: requestTimeoutMilliseconds)
        let code = rd_kafka_metadata(client, 0, nil, &metadata, waitMilliseconds)
        if let metadata { rd_kafka_metadata_destroy(metadata) }
        if code == RD_KAFKA_RESP_ERR_NO_ERROR { return true }
        rd_kafka_poll(client, 0)
        whileWaiting()
        requestTimeoutMilliseconds = min(requestTimeoutMilliseconds + 250, 5_000)
    }
    return true
}

extension Producer {
    /// Whether a broker has responded since the producer was made.
    public var hasReachedBroker: Bool { isOpen && Kafka.hasReachedBroker(client) }
}

extension Consumer {
    /// Whether a broker has responded since the consumer was made.
    public var hasReachedBroker: Bool { isOpen && Kafka.hasReachedBroker(client) }
}

extension TopicAdministrator {
    /// Waits until a broker has responded.
    ///
    /// - Parameter whileWaiting: called after each request without a response: about every half second at first, later
    ///   about every 5 s.
    /// - Returns: whether a broker has responded.
    public func awaitBroker(timeoutMilliseconds: Int32, _ whileWaiting: () -> Void) -> Bool {
        precondition(isOpen)
        return Kafka.awaitBroker(client, timeoutMilliseconds: timeoutMilliseconds, whileWaiting)
    }
}

extension PartitionReader {
    /// Waits until a broker has responded.
    ///
    /// - Parameter whileWaiting: called after each request without a response: about every half second at first, later
    ///   about every 5 s.
    /// - Returns: whether a broker has responded.
    public func awaitBroker(timeoutMilliseconds: Int32, _ whileWaiting: () -> Void) -> Bool {
        precondition(isOpen)
        return Kafka.awaitBroker(client, timeoutMilliseconds: timeoutMilliseconds, whileWaiting)
    }
}
