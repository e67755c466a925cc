import CRdkafka

extension Consumer {
    /// The longest wait of one poll inside `close`. The deadline is checked between two polls.
    private static let pollTimeoutMilliseconds: Int32 = 100

    /// Closes the consumer: gives the partitions back through `partitionsRevoked`, commits, leaves the group and frees
    /// the client. Release every `Message` before this call: the client cannot be freed while one exists. After this
    /// call, no call that uses the client is allowed.
    ///
    /// If this consumer has had no assignment yet, first waits for one (`awaitAssignment`).
    ///
    /// If the result is `.unfinished`, this consumer may still be a member of the group. The group then removes it when
    /// its session times out.
    public func close(timeoutMilliseconds: Int64) -> CloseResult {
        guard isOpen else { return .closed }
        let deadline = Deadline(afterMilliseconds: timeoutMilliseconds)
        closingDeadline = deadline
        defer { isOpen = false }
        disableWakeup(of: queue)
        guard awaitAssignment(until: deadline), leaveGroup(until: deadline) else {
            callbackContext.keepUntilProcessEnds()
            return .unfinished
        }
        topics.destroyHandles()
        offsetCommits.destroyAcknowledgementQueue()
        rd_kafka_queue_destroy(queue)
        let closeResult = destroy(client, until: deadline)
        if closeResult == .unfinished { callbackContext.keepUntilProcessEnds() } else { topics.freeNames() }
        return closeResult
    }

    /// Waits until this consumer has had its first assignment. Returns false if the deadline passes first, or after a
    /// fatal error.
    ///
    /// Without this wait, closing could abort the process (see `hasHadAssignment`), or hang when the assignment
    /// arrives.
    private func awaitAssignment(until deadline: Deadline) -> Bool {
        while !hasHadAssignment {
            // After a fatal error no assignment comes any more.
            if deadline.hasPassed || fatalError != nil { return false }
            _ = poll(timeoutMilliseconds: deadline.remainingMilliseconds(atMost: Self.pollTimeoutMilliseconds))
        }
        return true
    }

    /// Leaves the group. Returns true if this consumer is no member any more. Returns false if the deadline passes
    /// first, or if librdkafka reports an error that is not fatal.
    ///
    /// Polls the queue meanwhile: librdkafka leaves the group in the background, and calls `partitionsRevoked` during a
    /// poll.
    private func leaveGroup(until deadline: Deadline) -> Bool {
        if let error = rd_kafka_consumer_close_queue(client, queue) {
            // After a fatal error the consumer is no member any more, so there is no group to leave.
            return KafkaError(consuming: error).isFatal
        }
        while rd_kafka_consumer_closed(client) == 0 {
            if deadline.hasPassed { return false }
            _ = poll(timeoutMilliseconds: deadline.remainingMilliseconds(atMost: Self.pollTimeoutMilliseconds))
        }
        return true
    }
}
