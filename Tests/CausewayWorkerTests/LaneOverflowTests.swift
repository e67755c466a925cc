import Delivery
import Kafka
import Reactor
import Testbed
import Testing

@testable import CausewayWorker

/// A lane takes no records, so the Kafka thread pauses the lane's partitions. (R4)
@Suite(.ownThread) struct LaneOverflowTests {
    private static let partition = TopicPartition(
        topic: TopicIdentifier(index: Intake.commandsTopicIndex),
        partition: 0
    )
    /// More records than the lane's inbox and its overflow hold together.
    private static let recordCount = LaneMailbox.inboxCapacity + 2 * LaneOverflow.entriesMax

    /// No lane runs in this test, so the inbox stays full. If the overflow were full too, the Kafka thread would poll
    /// nothing for the other lanes either, and the group would give the worker's partitions to others.
    @Test func `A partition that is assigned while its lane is paused is paused with its first record`() throws {
        let broker = try EmbeddedBroker()
        try Self.makeTopics(of: broker, recordCount: Self.recordCount)
        try withIntake(bootstrapServers: broker.bootstrapServers) { intake, _, _ in
            defer { Self.discardRecords(of: intake) }
            try Self.runLoop(of: intake, until: "a paused lane") { intake.isPaused(lane: 0) }
            #expect(intake.consumer.pausedPartitions.contains(Self.partition))
            let waitingCount = intake.laneOverflows[0].entries.count
            // Now librdkafka reads the partition as it reads a newly assigned one.
            intake.consumer.resume([Self.partition])
            try Self.runLoop(of: intake, until: "the first record") {
                intake.laneOverflows[0].entries.count > waitingCount
            }
            for _ in 0..<50 { intake.loop.runIteration(waitMilliseconds: 10) }
            #expect(intake.laneOverflows[0].entries.count == waitingCount + 1)
            #expect(intake.consumer.pausedPartitions.contains(Self.partition))
        }
    }

    /// During an outage of Redis, a lane takes no records, however often partitions are assigned and revoked.
    @Test func `A revoked partition leaves no record in its lane's overflow`() throws {
        try withIntake { intake, _, _ in
            intake.laneOverflows[0].isPaused = true
            intake.partitionsAssigned([Self.partition])
            try Self.appendToOverflow(of: intake, [Self.partition])
            let revokedPartitions = (1...Int32(LaneOverflow.entriesMax / 2))
                .map { TopicPartition(topic: Self.partition.topic, partition: $0) }
            for _ in 0..<3 {
                intake.partitionsAssigned(revokedPartitions)
                try Self.appendToOverflow(of: intake, revokedPartitions)
                intake.partitionsRevoked(revokedPartitions, areLost: true)
                #expect(intake.laneOverflows[0].entries.map(\.partition) == [Self.partition.partition])
                #expect(intake.mayPoll)
            }
        }
    }

    /// A record keeps the memory of the batch in which it was fetched. So the lane must not wait for room before it
    /// discards a record.
    @Test func `A full lane keeps a record until its partition is revoked, and then discards it`() throws {
        let broker = try EmbeddedBroker()
        try Self.makeTopics(of: broker, recordCount: 1)
        try withIntake(bootstrapServers: broker.bootstrapServers) { intake, setup, laneSetup in
            let mailbox = setup.mailboxes[0]
            try Self.runLoop(of: intake, until: "the record") { mailbox.inbox.count == 1 }
            var laneSetup = laneSetup
            laneSetup.deliveryConfiguration.recordsMax = 64
            let lane = try setup.makeFirstLane(laneSetup)
            defer { lane.close() }
            lane.takeLaneOrders()
            try Self.fill(lane)
            lane.takeRecords()
            func countUntakenRecords() -> Int { mailbox.inbox.count + (lane.entryAwaitingRoom == nil ? 0 : 1) }
            #expect(countUntakenRecords() == 1)
            intake.partitionsRevoked([Self.partition], areLost: true)
            lane.takeLaneOrders()
            lane.takeRecords()
            #expect(countUntakenRecords() == 0)
        }
    }

    /// The first record of a partition stays unsettled. The partition's ledger has room for 64 offsets.
    @Test func `A partition whose ledger is full does not stop the lane's other partitions`() throws {
        let broker = try EmbeddedBroker()
        try Self.makeTopics(of: broker, recordCount: 65)
        try withIntake(bootstrapServers: broker.bootstrapServers) { intake, setup, laneSetup in
            defer { Self.discardRecords(of: intake) }
            let mailbox = setup.mailboxes[0]
            try Self.runLoop(of: intake, until: "the commands") { mailbox.inbox.count == 65 }
            try Self.writeRecords(to: "causeway.registrations", of: broker, count: 1)
            try Self.runLoop(of: intake, until: "the registration") { mailbox.inbox.count == 66 }
            let lane = try setup.makeFirstLane(laneSetup)
            defer { lane.close() }
            lane.partitions.ledgerWaitMillisecondsMax = 0
            lane.takeLaneOrders()
            lane.takeRecords()
            #expect(mailbox.inbox.count == 0 && lane.entryAwaitingRoom == nil)
            let entryIndex = try #require(
                lane.partitions.entryIndex(topic: Intake.registrationsTopicIndex, partition: 0)
            )
            #expect(lane.partitions[entryIndex].nextOffset == 1, "the lane has taken the registration")

            intake.takePartitionReports()
            #expect(intake.pausedPartitions.partitions == [Self.partition])
            #expect(intake.consumer.pausedPartitions == [Self.partition])
            #expect(intake.assignments[Self.partition]?.rewindRequestCount == 1)
        }
    }

    /// The partition's ledger has room for 64 offsets. A rewind would pause the partition for five seconds.
    @Test func `A record waits in the lane if the ledger is full only because of recent records`() throws {
        let broker = try EmbeddedBroker()
        try Self.makeTopics(of: broker, recordCount: 65)
        try withIntake(bootstrapServers: broker.bootstrapServers) { intake, setup, laneSetup in
            defer { Self.discardRecords(of: intake) }
            let mailbox = setup.mailboxes[0]
            try Self.runLoop(of: intake, until: "the commands") { mailbox.inbox.count == 65 }
            let lane = try setup.makeFirstLane(laneSetup)
            defer { lane.close() }
            lane.takeLaneOrders()
            lane.takeRecords()
            let entryIndex = try #require(
                lane.partitions.entryIndex(topic: Self.partition.topic.index, partition: Self.partition.partition)
            )
            #expect(lane.entryAwaitingRoom != nil)
            #expect(lane.partitions[entryIndex].nextOffset == 64)
            Self.acknowledgeOutgoingRecords(of: lane)
            lane.takeRecords()
            #expect(lane.entryAwaitingRoom == nil)
            #expect(lane.partitions[entryIndex].nextOffset == 65)
            #expect(lane.partitions[entryIndex].rewindRequestCount == 0)
        }
    }

    /// Settles the invalid records that the lane has taken.
    private static func acknowledgeOutgoingRecords(of lane: Lane) {
        while let outgoingRecord = lane.delivery.nextOutgoingRecord(now: lane.now) {
            lane.delivery.removeNextOutgoingRecord(outgoingRecord)
            lane.delivery.handleDeliveryReport(outgoingRecord, .acknowledged, now: lane.now)
        }
    }

    /// Gives the lane's core invalid records of the partition, whose results no one acknowledges, until the core has no
    /// room.
    private static func fill(_ lane: Lane) throws {
        let entryIndex = try #require(
            lane.partitions.entryIndex(topic: partition.topic.index, partition: partition.partition)
        )
        let indexInCore = lane.partitions[entryIndex].indexInCore
        Array("{}".utf8)
            .withUnsafeBytes { value in
                var offset: Int64 = 0
                while lane.delivery.canReceive {
                    let record = IncomingRecord(
                        partitionIndex: indexInCore,
                        offset: offset,
                        timestampMilliseconds: -1,
                        key: nil,
                        value: value
                    )
                    lane.delivery.receive(record, now: lane.now)
                    offset += 1
                }
            }
    }

    /// Adds a record of each partition to the overflow. The record has no message.
    private static func appendToOverflow(of intake: Intake, _ partitions: [TopicPartition]) throws {
        for partition in partitions {
            let assignment = try #require(intake.assignments[partition])
            let entry = InboxEntry(
                messageAddress: 0,
                assignmentNumber: assignment.assignmentNumber,
                rewindRequestCount: 0,
                topic: partition.topic.index,
                partition: partition.partition,
                recordByteCount: 100
            )
            intake.laneOverflows[0].append(entry, nowMilliseconds: 0)
        }
    }

    /// Makes the topics with one partition each, and writes records to the commands topic.
    static func makeTopics(of broker: EmbeddedBroker, recordCount: Int) throws {
        for topic in ["commands", "registrations", "deferred", "fanout"] {
            try broker.createTopic("causeway.\(topic)", partitionCount: 1)
        }
        try writeRecords(to: "causeway.commands", of: broker, count: recordCount)
    }

    private static func writeRecords(to topicName: String, of broker: EmbeddedBroker, count recordCount: Int) throws {
        let producer = try Producer(properties: [("bootstrap.servers", broker.bootstrapServers)])
        let topic = try producer.makeTopic(topicName)
        Array("{}".utf8)
            .withUnsafeBytes { value in
                for _ in 0..<recordCount {
                    _ = producer.produce(topic: topic, partition: 0, key: nil, value: value, tag: 0)
                }
            }
        var acknowledgedCount = 0
        _ = producer.flush(timeoutMilliseconds: 60_000) { _, error, _ in if error == 0 { acknowledgedCount += 1 } }
        #expect(acknowledgedCount == recordCount)
        _ = producer.close(timeoutMilliseconds: 5_000)
    }

    private static func runLoop(of intake: Intake, until event: String, _ isMet: () -> Bool) throws {
        try eventually(event, every: .milliseconds(1)) {
            intake.loop.runIteration(waitMilliseconds: 10)
            return isMet()
        }
    }

    /// Gives back the records that no lane has taken. The consumer cannot close before.
    static func discardRecords(of intake: Intake) {
        for mailbox in intake.setup.mailboxes {
            while let entry = mailbox.inbox.pop() { entry.discard() }
        }
        for lane in intake.laneOverflows.indices { intake.laneOverflows[lane].discardEntries { _ in true } }
    }
}
