import Glibc
import Kafka
import Logging
import Observability
import Reactor

/// The group gives partitions, and takes them.
extension Intake {
    func assigned(_ partitions: [TopicPartition]) {
        // While the consumer closes the lanes have ended: whatever comes goes again at once, and nothing of it is waited for.
        guard phase == .running else { return }
        for partition in partitions {
            // Partitions of the two topics with the same number meet in one lane.
            let lane = Int(partition.partition) % mailboxes.count
            let number = assignments.insert(partition, lane: lane)
            order(.assign, partition, number: number, lane: lane, committed: consumer.committedOffsets[partition])
        }
        noteMembership(.member)
        note(.partitionsAssigned, ["count": "\(partitions.count)"])
    }

    func revoked(_ partitions: [TopicPartition], lost: Bool) {
        note(.partitionsRevoked, ["count": "\(partitions.count)", "lost": "\(lost)"])
        if lost { noteMembership(.joining) } else { drain(partitions) }
        for partition in partitions {
            guard let assignment = assignments[partition] else { continue }
            order(.release, partition, number: assignment.number, lane: assignment.lane)
            assignments.remove(partition)
            stranded.remove(partition)
            unfetched.remove(partition)
        }
    }

    private func order(
        _ kind: LaneOrder.Kind,
        _ partition: TopicPartition,
        number: UInt32,
        lane: Int,
        committed: CommittedOffset? = nil
    ) {
        let isTaken = mailboxes[lane].orders
            .push(
                LaneOrder(
                    kind: kind,
                    topic: partition.topic.index,
                    partition: partition.partition,
                    assignment: number,
                    committed: committed.map { Handover.pass($0) }
                )
            )
        precondition(isTaken, "a lane has not taken its orders for thousands of partitions")
        mailboxes[lane].wakeup.signal()
    }

    /// Has the lanes settle what is under way in these partitions, until they have or the drain time is over. The consumer may not be
    /// polled meanwhile, but results are acknowledged and offsets stored.
    func drain(_ partitions: [TopicPartition]) {
        let draining = partitions.filter { assignments[$0] != nil }
        for partition in draining {
            guard let assignment = assignments[partition] else { continue }
            order(.revoke, partition, number: assignment.number, lane: assignment.lane)
        }
        loop.refreshClock()
        let deadline = loop.nowMilliseconds + drainMilliseconds
        while true {
            takeLaneReports()
            passDeliveryReports()
            wakeLanes()
            publishMetricsIfDue()
            if draining.allSatisfy({ assignments[$0]?.isDrained ?? true }) { return }
            loop.refreshClock()
            let left = deadline - loop.nowMilliseconds
            guard left > 0, !signals.isHurried else {
                let count = draining.count { !(assignments[$0]?.isDrained ?? true) }
                let cause = left > 0 ? "told again to stop" : "time"
                return note(.drainTimeOver, ["partitions": "\(count)", "cause": "\(cause)"])
            }
            var descriptor = pollfd(fd: wakeup.descriptor, events: Int16(POLLIN), revents: 0)
            _ = Glibc.poll(&descriptor, 1, Int32(min(left, Self.pollMilliseconds)))
            wakeup.drain()
        }
    }
}
