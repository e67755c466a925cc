import Glibc
import Kafka
import Logging
import Observability
import Reactor

/// Handles the partitions that the consumer group assigns and revokes.
extension Intake {
    func partitionsAssigned(_ partitions: [TopicPartition]) {
        // While the consumer closes, the lanes have ended, and the consumer gives back newly assigned partitions at
        // once. So these partitions need no lane.
        guard phase == .running else { return }
        for partition in partitions {
            // All partitions with the same number go to the same lane, whatever their topic is. So a deferred command
            // returns to the lane that has its activity's newer states.
            let assignment = assignments.insert(partition, lane: Int(partition.partition) % setup.mailboxes.count)
            if assignment.lane == nil { writeLog(.partitionsTooMany, ["partition": "\(name(of: partition))"]) }
            noteIfUnmarked(partition)
            sendLaneOrder(.assign, partition, committedOffset: findCommittedOffset(of: partition))
        }
        if !consumer.partitionsWithUnknownOffset.isDisjoint(with: partitions) {
            // The wait for the coordinator may have lasted seconds.
            loop.refreshClock()
            partitionsWithoutPosition.postponeRequest(nowMilliseconds: loop.nowMilliseconds)
        }
        rereading.requestPublicationSoon()
        rereading.requestPartitionCountSoon()
        emptyAssignmentCheck.noteAssignment(isEmpty: assignments.assignedPartitions.isEmpty)
        if !emptyAssignmentCheck.isCauseUnknown { noteConsumerGroupState(.member) }
        writeLog(.partitionsAssigned, ["partitions": "\(partitions.count)"])
    }

    func partitionsRevoked(_ partitions: [TopicPartition], areLost: Bool) {
        writeLog(.partitionsRevoked, ["partitions": "\(partitions.count)", "lost": "\(areLost)"])
        // Until the group's next assignment, the worker does not count as a member of the group.
        noteConsumerGroupState(.joining)
        if !areLost { drain(partitions) }
        for partition in partitions {
            guard let entry = assignments[partition] else { continue }
            sendLaneOrder(.release, partition, settledEndOffset: findSettledEndOffset(of: partition, entry))
            assignments.remove(partition)
            partitionsWithoutPosition.remove(partition)
            unfetchedPartitions.remove(partition)
            rereading.remove(partition)
            pausedPartitions.remove(partition)
        }
        discardRecordsOfEndedAssignments()
        // Publish the number of assigned partitions again, because it has changed.
        noteConsumerGroupState(.joining)
    }

    /// Discards the records of ended assignments that wait for room in a lane's inbox. A full lane takes no records, so
    /// it would discard them late. Until then each of them keeps the memory of its fetched batch, and too many of them
    /// would end the polling (`mayPoll`).
    private func discardRecordsOfEndedAssignments() {
        for lane in laneOverflows.indices {
            laneOverflows[lane]
                .discardEntries { assignments[$0.topic, $0.partition]?.assignmentNumber != $0.assignmentNumber }
        }
    }

    /// After an empty assignment, asks the brokers whether the commands topic has partitions. If it has some, other
    /// workers own them, and this worker is on standby.
    func checkEmptyAssignmentIfDue() {
        guard emptyAssignmentCheck.isRequestDue(nowMilliseconds: loop.nowMilliseconds), isAnyBrokerUp == true else {
            return
        }
        noteBlocking(milliseconds: 2 * Int64(EmptyAssignmentCheck.requestTimeoutMilliseconds))
        let count = try? consumer.fetchPartitionCount(
            of: TopicIdentifier(index: Self.commandsTopicIndex),
            timeoutMilliseconds: EmptyAssignmentCheck.requestTimeoutMilliseconds
        )
        loop.refreshClock()
        if let count {
            setup.metricRegistry.condition.change { $0.isCommandsTopicMissing = count == 0 }
            if count > 0 {
                emptyAssignmentCheck.noteAssignment(isEmpty: false)
                return noteConsumerGroupState(.member)
            }
        }
        emptyAssignmentCheck.postponeRequest(nowMilliseconds: loop.nowMilliseconds)
    }

    /// Gives the lane of an assigned partition an order. Does nothing if the partition is not assigned, or if its lane
    /// had no room for it.
    func sendLaneOrder(
        _ kind: LaneOrder.Kind,
        _ partition: TopicPartition,
        rereadsSettledRecords: Bool = false,
        settledEndOffset: Int64 = 0,
        committedOffset: CommittedOffset? = nil
    ) {
        guard let assignment = assignments[partition], let lane = assignment.lane else { return }
        let isPushed = setup.mailboxes[lane].orders
            .push(
                LaneOrder(
                    kind: kind,
                    topic: partition.topic.index,
                    partition: partition.partition,
                    assignmentNumber: assignment.assignmentNumber,
                    rereadsSettledRecords: rereadsSettledRecords,
                    settledEndOffset: settledEndOffset,
                    committedOffset: committedOffset.map { RingBox.passRetained($0) }
                )
            )
        precondition(isPushed, "the lane's ring has room for its orders")
        setup.mailboxes[lane].wakeup.signal()
    }

    /// Lets the lanes settle what is in flight in these partitions. Returns when all these partitions are drained, when
    /// the drain time is over, or when a second stop signal has come.
    ///
    /// Meanwhile the Kafka thread must not poll the consumer. The thread still takes acknowledgements of results,
    /// stores offsets and publishes metrics.
    func drain(_ partitions: [TopicPartition]) {
        let drainingPartitions = partitions.filter { assignments[$0]?.lane != nil }
        for partition in drainingPartitions { sendLaneOrder(.revoke, partition) }
        loop.refreshClock()
        let revocationEndMilliseconds = loop.nowMilliseconds + setup.drainMilliseconds
        while true {
            takePartitionReports()
            passDeliveryReports()
            wakeLanes()
            publishMetricsIfDue()
            if drainingPartitions.allSatisfy({ assignments[$0]?.isDrained ?? true }) { return }
            loop.refreshClock()
            // If a stop is requested during a rebalance, the drain ends at the earlier of two deadlines: that of the
            // rebalance, and that of the stop.
            let remainingMilliseconds =
                min(revocationEndMilliseconds, stopSchedule?.drainEndMilliseconds ?? .max) - loop.nowMilliseconds
            guard remainingMilliseconds > 0, !signals.isStoppingAtOnce else {
                let count = drainingPartitions.count { !(assignments[$0]?.isDrained ?? true) }
                let cause = remainingMilliseconds > 0 ? "a second stop signal" : "time"
                return writeLog(.drainTimeOver, ["partitions": "\(count)", "cause": "\(cause)"])
            }
            var descriptor = pollfd(fd: setup.wakeup.descriptor, events: Int16(POLLIN), revents: 0)
            _ = Glibc.poll(&descriptor, 1, Int32(min(remainingMilliseconds, Self.pollIntervalMilliseconds)))
            setup.wakeup.reset()
        }
    }
}
