import Kafka
import Logging
import Observability
import Reactor

/// The end of the Kafka thread: the worker is stopping, or cannot continue.
extension Intake {
    /// Drains all partitions, and then ends the lanes and this thread's loop. Then `Worker` calls ``close()``.
    func stop() {
        phase = .draining
        writeLog(.workerDraining, ["milliseconds": "\(setup.drainMilliseconds)"])
        let partitions = assignments.assignedPartitions
        consumer.pause(partitions)
        drain(partitions)
        stopLanesAndLoop()
    }

    /// Ends the lanes and this thread's loop without draining, because the Kafka clients no longer work.
    func fail(_ error: KafkaError) {
        writeLog(.kafkaFatal, ["error": "\(error)"])
        signals.fail(error)
        phase = .draining
        stopLanesAndLoop()
    }

    private func stopLanesAndLoop() {
        for lane in laneOverflows.indices { laneOverflows[lane].discardEntries { _ in true } }
        for mailbox in setup.mailboxes {
            _ = mailbox.orders.push(LaneOrder(kind: .stop))
            mailbox.wakeup.signal()
        }
        loop.stop()
    }

    /// The deadlines of a stop; nil until a stop is requested.
    var stopSchedule: StopSchedule? {
        signals.stopRequestedAtMilliseconds.map {
            StopSchedule(requestedAtMilliseconds: $0, drainMilliseconds: setup.drainMilliseconds)
        }
    }

    /// Commits the settled offsets, leaves the group, and closes both clients.
    ///
    /// Call this after the lanes have ended. Then no lane has a record of the consumer or uses the producer.
    func close() {
        takePartitionReports()
        publishMetrics()
        metrics.published.noteIterationPause(untilMilliseconds: .max)
        phase = .closed
        assignments.removeAll()
        noteConsumerGroupState(.left)
        loop.refreshClock()
        let schedule =
            stopSchedule
            ?? StopSchedule(requestedAtMilliseconds: loop.nowMilliseconds, drainMilliseconds: setup.drainMilliseconds)
        if case .unfinished = consumer.close(
            timeoutMilliseconds: computeRemainingMilliseconds(until: schedule.consumerEndMilliseconds)
        ) {
            writeLog(.kafkaCloseLate, ["client": "consumer"])
        }
        let flushMilliseconds = computeRemainingMilliseconds(until: schedule.flushEndMilliseconds)
        if !setup.producer.flush(timeoutMilliseconds: flushMilliseconds, { _, _, _ in }) {
            writeLog(.kafkaCloseLate, ["client": "producer", "missed": "results were not acknowledged in time"])
        }
        if case .unfinished = setup.producer.close(
            timeoutMilliseconds: computeRemainingMilliseconds(until: schedule.producerEndMilliseconds)
        ) {
            writeLog(.kafkaCloseLate, ["client": "producer"])
        }
    }

    private func computeRemainingMilliseconds(until endMilliseconds: Int64) -> Int64 {
        loop.refreshClock()
        return StopSchedule.computeRemainingMilliseconds(
            until: endMilliseconds,
            nowMilliseconds: loop.nowMilliseconds,
            isStoppingAtOnce: signals.isStoppingAtOnce
        )
    }
}
