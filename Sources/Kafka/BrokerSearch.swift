import CRdkafka

/// Whether a client has had an answer from a broker since it was made. Does not wait.
func hasMetBroker(_ client: OpaquePointer) -> Bool {
    if rd_kafka_controllerid(client, 0) >= 0 { return true }
    guard let identifier = rd_kafka_clusterid(client, 0) else { return false }
    rd_kafka_mem_free(client, identifier)
    return true
}

/// Waits until a client has had an answer from a broker. Meanwhile errors go to the client's log handler.
///
/// - Parameter whileWaiting: called about every half second.
/// - Returns: whether there was an answer.
func awaitBroker(_ client: OpaquePointer, timeoutMilliseconds: Int32, _ whileWaiting: () -> Void) -> Bool {
    let deadline = Deadline(afterMilliseconds: Int64(timeoutMilliseconds))
    // A request that times out starts again from the beginning. So later requests wait longer, to find a slow
    // broker too.
    var attemptMilliseconds: Int32 = 500
    while !hasMetBroker(client) {
        if deadline.hasPassed { return false }
        var answer: UnsafePointer<rd_kafka_metadata>?
        let wait = deadline.wait(atMostMilliseconds: attemptMilliseconds)
        let code = rd_kafka_metadata(client, 0, nil, &answer, wait)
        if let answer { rd_kafka_metadata_destroy(answer) }
        if code == RD_KAFKA_RESP_ERR_NO_ERROR { return true }
        rd_kafka_poll(client, 0)
        whileWaiting()
        attemptMilliseconds = min(attemptMilliseconds + 250, 5_000)
    }
    return true
}

extension Producer {
    /// Whether a broker has answered since the producer was made.
    public var hasMetBroker: Bool { isOpen && Kafka.hasMetBroker(handle) }
}

extension Consumer {
    /// Whether a broker has answered since the consumer was made.
    public var hasMetBroker: Bool { isOpen && Kafka.hasMetBroker(handle) }
}

extension TopicAdministrator {
    /// Waits until a broker has answered.
    ///
    /// - Parameter whileWaiting: called about every half second.
    /// - Returns: whether a broker has answered.
    public func awaitBroker(timeoutMilliseconds: Int32, _ whileWaiting: () -> Void) -> Bool {
        precondition(isOpen)
        return Kafka.awaitBroker(handle, timeoutMilliseconds: timeoutMilliseconds, whileWaiting)
    }
}

extension PartitionReader {
    /// Waits until a broker has answered.
    ///
    /// - Parameter whileWaiting: called about every half second.
    /// - Returns: whether a broker has answered.
    public func awaitBroker(timeoutMilliseconds: Int32, _ whileWaiting: () -> Void) -> Bool {
        precondition(isOpen)
        return Kafka.awaitBroker(handle, timeoutMilliseconds: timeoutMilliseconds, whileWaiting)
    }
}
