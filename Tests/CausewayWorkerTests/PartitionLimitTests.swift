import Audiences
import Delivery
import Kafka
import Reactor
import Testbed
import Testing

@testable import CausewayWorker

/// A lane has room for a limited number of partitions. While a large deployment starts, its first worker may be
/// assigned more partitions than its lanes have room for.
@Suite(.ownThread) struct PartitionLimitTests {
    private func partition(_ topic: Int32, _ number: Int) -> TopicPartition {
        TopicPartition(topic: TopicIdentifier(index: topic), partition: Int32(number))
    }

    @Test func `Each core of a lane gets at most the partitions that it has room for`() {
        var table = AssignmentTable()
        func assign(_ topic: Int32, _ number: Int, lane: Int = 0) -> Int? {
            table.insert(partition(topic, number), lane: lane).lane
        }
        let limit = Delivery.partitionsMax
        let lanes = (0..<limit + 2).map { assign(Intake.commandsTopicIndex, $0) }
        #expect(lanes.prefix(limit).allSatisfy { $0 == 0 })
        #expect(lanes.suffix(2) == [nil, nil])
        #expect(table.partitions(of: 0).count == limit && table.assignedPartitions.count == limit + 2)
        let otherCores = [assign(Intake.fanoutTopicIndex, 0), assign(Intake.commandsTopicIndex, limit + 2, lane: 1)]
        #expect(otherCores == [0, 1])

        // The end of an assignment makes room only if the lane had the partition.
        table.remove(partition(Intake.commandsTopicIndex, limit))
        let laneBefore = assign(Intake.deferredTopicIndex, 0)
        table.remove(partition(Intake.commandsTopicIndex, 0))
        let laneAfter = assign(Intake.deferredTopicIndex, 0)
        #expect(laneBefore == nil && laneAfter == 0)
        let laneAgain = assign(Intake.deferredTopicIndex, 0)
        #expect(laneAgain == 0, "a partition that is assigned again keeps its place")
    }

    /// The Kafka thread sends the lane a `LaneOrder` for each partition. No lane runs in this test, so all orders stay
    /// in the ring.
    @Test func `A lane's ring has room for the orders about all partitions of large topics`() throws {
        try withIntake { intake, setup, _ in
            let topics = [Intake.commandsTopicIndex, Intake.registrationsTopicIndex, Intake.fanoutTopicIndex]
            let partitions = topics.flatMap { topic in (0..<6_000).map { partition(topic, $0) } }
            intake.partitionsAssigned(partitions)
            let orders = setup.mailboxes[0].orders
            #expect(orders.count == LaneMailbox.partitionsMax)
            intake.partitionsRevoked(partitions, areLost: true)
            #expect(orders.count == 2 * LaneMailbox.partitionsMax)
        }
    }

    @Test func `A drain waits only for the partitions that the lane has`() throws {
        try withIntake { intake, setup, laneSetup in
            let thread = try LoopThread.start(name: "lane-0") { loop in
                let (mailbox, kafkaWakeup) = (setup.mailboxes[0], setup.kafkaWakeup)
                guard
                    let lane = try? Lane(
                        number: 0,
                        loop: loop,
                        mailbox: mailbox,
                        kafkaWakeup: kafkaWakeup,
                        setup: laneSetup
                    )
                else { return }
                // The lane is not started, so it opens no connections. It has no records, so it needs none.
                loop.run()
                lane.close()
            }
            defer {
                setup.stopLanes()
                thread.join()
            }
            let partitions = (0..<Delivery.partitionsMax + 4).map { partition(Intake.commandsTopicIndex, $0) }
            intake.partitionsAssigned(partitions)
            let beganAtMilliseconds = EventLoop.monotonicMilliseconds
            intake.drain(partitions)
            #expect(EventLoop.monotonicMilliseconds - beganAtMilliseconds < intake.setup.drainMilliseconds)
            let entries = partitions.map { intake.assignments[$0] }
            #expect(entries.prefix(Delivery.partitionsMax).allSatisfy { $0?.isDrained == true })
        }
    }

    /// No lane runs in this test, so none reports the partition as drained.
    @Test func `A drain ends when its time is over`() throws {
        try withIntake(workerKeys: ["drainMilliseconds": 200]) { intake, _, _ in
            let partitions = [partition(Intake.commandsTopicIndex, 0)]
            intake.partitionsAssigned(partitions)
            let beganAtMilliseconds = EventLoop.monotonicMilliseconds
            intake.partitionsRevoked(partitions, areLost: false)
            let passedMilliseconds = EventLoop.monotonicMilliseconds - beganAtMilliseconds
            #expect((200..<10_000).contains(passedMilliseconds))
            #expect(intake.assignments.assignedPartitions.isEmpty)
        }
    }
}
