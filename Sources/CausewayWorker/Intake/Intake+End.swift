import Kafka
import Logging
import Observability
import Reactor

/// The worker stops, or cannot go on.
extension Intake {
    func stop() {
        phase = .draining
        note(.workerDraining, ["milliseconds": "\(drainMilliseconds)"])
        let partitions = assignments.all
        consumer.pause(partitions)
        drain(partitions)
        leaveLoop()
    }

    func fail(_ error: KafkaError) {
        note(.kafkaFatal, ["error": "\(error)"])
        signals.fail(error)
        phase = .draining
        leaveLoop()
    }

    private func leaveLoop() {
        for overflow in overflows {
            for entry in overflow.entries { entry.discard() }
        }
        for mailbox in mailboxes {
            _ = mailbox.orders.push(LaneOrder(kind: .stop))
            mailbox.wakeup.signal()
        }
        loop.stop()
    }

    /// When a worker that was told to stop ends what; nil before that.
    var stopSchedule: StopSchedule? {
        signals.stopToldMilliseconds.map {
            StopSchedule(toldMilliseconds: $0, drainMilliseconds: drainMilliseconds)
        }
    }

    /// After the lanes have ended, so that no record of the consumer and no call of the producer is under way: commits, leaves the
    /// group, and closes both clients.
    func close() {
        takeLaneReports()
        publishMetrics()
        metrics.board.expectQuiet(untilMilliseconds: .max)
        phase = .closed
        assignments.removeAll()
        noteMembership(.left)
        loop.refreshClock()
        let schedule =
            stopSchedule
            ?? StopSchedule(toldMilliseconds: loop.nowMilliseconds, drainMilliseconds: drainMilliseconds)
        if case .unfinished = consumer.close(deadlineMilliseconds: wait(until: schedule.consumerEndMilliseconds)) {
            note(.kafkaCloseLate, ["client": "consumer"])
        }
        let flushMilliseconds = wait(until: schedule.flushEndMilliseconds)
        if !producer.flush(timeoutMilliseconds: flushMilliseconds, { _, _, _ in }) {
            note(.kafkaCloseLate, ["client": "producer", "missed": "results were not acknowledged in time"])
        }
        if case .unfinished = producer.close(deadlineMilliseconds: wait(until: schedule.endMilliseconds)) {
            note(.kafkaCloseLate, ["client": "producer"])
        }
    }

    private func wait(until endMilliseconds: Int64) -> Int64 {
        loop.refreshClock()
        return StopSchedule.wait(
            until: endMilliseconds,
            nowMilliseconds: loop.nowMilliseconds,
            isHurried: signals.isHurried
        )
    }
}
