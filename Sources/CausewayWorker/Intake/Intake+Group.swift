import Glibc
import Kafka
import Logging
import Observability
import Reactor

/// A share of nothing: others have all partitions, or there are none to share.
struct EmptyShare {
    static let intervalMilliseconds: Int64 = 5_000
    /// The Kafka thread waits so long for the answer, at most.
    static let timeoutMilliseconds: Int32 = 500

    /// The group has shared and given nothing, and it is not known that there is anything.
    private(set) var isUnconfirmed = false
    private var dueMilliseconds: Int64 = 0

    mutating func note(isEmpty: Bool) {
        isUnconfirmed = isEmpty
        dueMilliseconds = 0
    }

    func isDue(nowMilliseconds: Int64) -> Bool { isUnconfirmed && nowMilliseconds >= dueMilliseconds }

    mutating func postpone(nowMilliseconds: Int64) { dueMilliseconds = nowMilliseconds + Self.intervalMilliseconds }
}

/// The group gives partitions, and takes them.
extension Intake {
    func assigned(_ partitions: [TopicPartition]) {
        // While the consumer closes the lanes have ended: whatever comes goes again at once, and nothing of it is waited for.
        guard phase == .running else { return }
        for partition in partitions {
            // Partitions of the topics with the same number meet in one lane.
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
        // Until the group has shared again nobody may read them.
        noteMembership(.joining)
        if !lost { drain(partitions) }
        for partition in partitions {
            guard let assignment = assignments[partition] else { continue }
            order(.release, partition, number: assignment.number, lane: assignment.lane)
            assignments.remove(partition)
            stranded.remove(partition)
            unfetched.remove(partition)
            rereading.forget(partition)
            deferred.forget(partition)
        }
        noteMembership(.joining)
    }

    /// Given nothing, the brokers are asked whether there is anything: others have it then, and this worker stands by.
    func confirmEmptyShare() {
        guard emptyShare.isDue(nowMilliseconds: loop.nowMilliseconds), isBrokerUp == true else { return }
        expectQuiet(milliseconds: 2 * Int64(EmptyShare.timeoutMilliseconds))
        let count = try? consumer.partitionCount(
            of: TopicIdentifier(index: Self.commandsTopic),
            timeoutMilliseconds: EmptyShare.timeoutMilliseconds
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
        let revocationEnd = loop.nowMilliseconds + drainMilliseconds
        while true {
            takeLaneReports()
            passDeliveryReports()
            wakeLanes()
            publishMetricsIfDue()
            if draining.allSatisfy({ assignments[$0]?.isDrained ?? true }) { return }
            loop.refreshClock()
            // A signal to stop in the midst of a rebalance does not begin the time again.
            let left = min(revocationEnd, stopSchedule?.drainEndMilliseconds ?? .max) - loop.nowMilliseconds
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
