import Glibc
import Kafka
import Logging
import Observability
import Reactor

/// An assignment without partitions: other workers have all of them, or the topic has none.
///
/// A member id does not show that the group has assigned partitions: brokers hand one out at the first request to join (KIP-394). So the
/// worker counts as a member when it has an assignment. An empty one counts only after the brokers have said that the topic has
/// partitions.
struct EmptyAssignment {
    static let intervalMilliseconds: Int64 = 5_000
    /// How long the Kafka thread waits for the answer.
    static let timeoutMilliseconds: Int32 = 500

    /// Whether the group has given this worker no partitions, and it is not known that the topic has any.
    private(set) var isUnconfirmed = false
    private var dueMilliseconds: Int64 = 0

    mutating func note(isEmpty: Bool) {
        isUnconfirmed = isEmpty
        dueMilliseconds = 0
    }

    func isDue(nowMilliseconds: Int64) -> Bool { isUnconfirmed && nowMilliseconds >= dueMilliseconds }

    mutating func postpone(nowMilliseconds: Int64) { dueMilliseconds = nowMilliseconds + Self.intervalMilliseconds }
}

/// Partitions that the group assigns and revokes.
extension Intake {
    func assigned(_ partitions: [TopicPartition]) {
        // While the consumer closes, the lanes have ended. Partitions that are assigned now are given back at once, and nothing waits for
        // them.
        guard phase == .running else { return }
        for partition in partitions {
            // Partitions with the same number, of all topics, meet in one lane.
            let lane = Int(partition.partition) % mailboxes.count
            let number = assignments.insert(partition, lane: lane)
            order(.assign, partition, number: number, lane: lane, committed: consumer.committedOffsets[partition])
        }
        rereading.publishSoon()
        rereading.askForPartitions()
        emptyShare.note(isEmpty: assignments.all.isEmpty)
        if !emptyShare.isUnconfirmed { noteMembership(.member) }
        note(.partitionsAssigned, ["count": "\(partitions.count)"])
    }

    func revoked(_ partitions: [TopicPartition], lost: Bool) {
        note(.partitionsRevoked, ["count": "\(partitions.count)", "lost": "\(lost)"])
        // Nobody may read these partitions until the group has assigned them again.
        noteMembership(.joining)
        if !lost { drain(partitions) }
        for partition in partitions {
            guard let assignment = assignments[partition] else { continue }
            order(.release, partition, number: assignment.number, lane: assignment.lane)
            assignments.remove(partition)
            stranded.remove(partition)
            unfetched.remove(partition)
            rereading.remove(partition)
            deferred.remove(partition)
        }
        noteMembership(.joining)
    }

    /// After an empty assignment, asks the brokers whether the topic has partitions. If it has, other workers own them, and this worker
    /// is on standby.
    func confirmEmptyShare() {
        guard emptyShare.isDue(nowMilliseconds: loop.nowMilliseconds), isBrokerUp == true else { return }
        expectQuiet(milliseconds: 2 * Int64(EmptyAssignment.timeoutMilliseconds))
        let count = try? consumer.partitionCount(
            of: TopicIdentifier(index: Self.commandsTopic),
            timeoutMilliseconds: EmptyAssignment.timeoutMilliseconds
        )
        loop.refreshClock()
        if let count {
            registry.condition.change { $0.isTopicMissing = count == 0 }
            if count > 0 {
                emptyShare.note(isEmpty: false)
                return noteMembership(.member)
            }
        }
        emptyShare.postpone(nowMilliseconds: loop.nowMilliseconds)
    }

    func order(
        _ kind: LaneOrder.Kind,
        _ partition: TopicPartition,
        number: UInt32,
        lane: Int,
        isReadAgain: Bool = false,
        committed: CommittedOffset? = nil
    ) {
        let isTaken = mailboxes[lane].orders
            .push(
                LaneOrder(
                    kind: kind,
                    topic: partition.topic.index,
                    partition: partition.partition,
                    assignment: number,
                    isReadAgain: isReadAgain,
                    committed: committed.map { Handover.pass($0) }
                )
            )
        precondition(isTaken, "the lane's ring has room for its orders")
        mailboxes[lane].wakeup.signal()
    }

    /// Has the lanes settle what is in flight in these partitions, until they are done or the drain time has ended.
    ///
    /// The consumer must not be polled meanwhile. Results are still acknowledged, offsets are stored, and metrics are published.
    func drain(_ partitions: [TopicPartition]) {
        let draining = partitions.filter { assignments[$0] != nil }
        for partition in draining {
            guard let assignment = assignments[partition] else { continue }
            order(.revoke, partition, number: assignment.number, lane: assignment.lane)
        }
        loop.refreshClock()
        let revocationEnd = loop.nowMilliseconds + drainMilliseconds
        while true {
            takeLaneReports()
            passDeliveryReports()
            wakeLanes()
            publishMetricsIfDue()
            if draining.allSatisfy({ assignments[$0]?.isDrained ?? true }) { return }
            loop.refreshClock()
            // A signal to stop in the middle of a rebalance must not extend the drain time.
            let left = min(revocationEnd, stopSchedule?.drainEndMilliseconds ?? .max) - loop.nowMilliseconds
            guard left > 0, !signals.isStoppingAtOnce else {
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
