import CRdkafka

extension Consumer {
    /// How long one wait inside `close` takes at most before the deadline is looked at again.
    private static let waitMilliseconds: Int32 = 100

    /// Gives the partitions back, by way of `revoked`, commits, leaves the group and frees the client, all before the
    /// deadline or not at all. Afterwards no other call is allowed.
    ///
    /// Every `Message` must be gone first: the client cannot be freed while one is held.
    ///
    /// librdkafka 2.0.2 aborts the process if a cooperative-sticky member closes before its first assignment, so that is
    /// waited for; and it can hang if an assignment arrives during the close, which the deadline bounds. In both cases
    /// the outcome is `.unfinished`: the group learns of the departure by the session timeout.
    public func close(deadlineMilliseconds: Int64) -> CloseOutcome {
        guard isOpen else { return .closed }
        let deadline = Deadline(afterMilliseconds: deadlineMilliseconds)
        closingDeadline = deadline
        defer { isOpen = false }
        disableWakeup(of: queue)
        guard awaitAssignment(until: deadline), leaveGroup(until: deadline) else {
            abandon()
            return .unfinished
        }
        topics.destroyHandles()
        commits.destroyQueue()
        rd_kafka_queue_destroy(queue)
        let outcome = destroy(handle, until: deadline)
        if outcome == .unfinished { abandon() } else { topics.freeNames() }
        return outcome
    }

    private func awaitAssignment(until deadline: Deadline) -> Bool {
        while !hasHadAssignment {
            // No assignment follows a fatal error.
            if deadline.hasPassed || fatalError != nil { return false }
            _ = poll(waitMilliseconds: deadline.wait(atMostMilliseconds: Self.waitMilliseconds))
        }
        return true
    }

    /// Leaving is asynchronous, and its callbacks arrive on our own queue, so they run on this thread as always.
    private func leaveGroup(until deadline: Deadline) -> Bool {
        if let error = rd_kafka_consumer_close_queue(handle, queue) {
            // After a fatal error there is no membership left to give back.
            return KafkaError(consuming: error).isFatal
        }
        while rd_kafka_consumer_closed(handle) == 0 {
            if deadline.hasPassed { return false }
            _ = poll(waitMilliseconds: deadline.wait(atMostMilliseconds: Self.waitMilliseconds))
        }
        return true
    }

    /// The client's threads may go on and use the callbacks' context, so that is never freed.
    private func abandon() {
        _ = Unmanaged.passRetained(callbacks)
    }
}
