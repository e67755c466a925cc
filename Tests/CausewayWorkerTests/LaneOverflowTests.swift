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
        for topic in ["commands", "registrations", "deferred", "fanout"] {
            try broker.createTopic("causeway.\(topic)", partitionCount: 1)
        }
        try Self.fillCommandsTopic(of: broker)
        try withIntake(bootstrapServers: broker.bootstrapServers) { intake, _, _ in
            defer { Self.discardRecords(of: intake) }
            try Self.runLoop(of: intake, until: "a paused lane") { intake.isPaused(lane: 0) }
            #expect(intake.consumer.pausedPartitions.contains(Self.partition))
            let waitingCount = intake.overflows[0].entries.count
            // Now librdkafka reads the partition as it reads a newly assigned one.
            intake.consumer.resume([Self.partition])
            try Self.runLoop(of: intake, until: "the first record") {
                intake.overflows[0].entries.count > waitingCount
            }
            for _ in 0..<50 { intake.loop.runIteration(waitMilliseconds: 10) }
            #expect(intake.overflows[0].entries.count == waitingCount + 1)
            #expect(intake.consumer.pausedPartitions.contains(Self.partition))
        }
    }

    private static func fillCommandsTopic(of broker: EmbeddedBroker) throws {
        let producer = try Producer(properties: [("bootstrap.servers", broker.bootstrapServers)])
        let topic = try producer.makeTopic("causeway.commands")
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
    private static func discardRecords(of intake: Intake) {
        for mailbox in intake.setup.mailboxes {
            while let entry = mailbox.inbox.pop() { entry.discard() }
        }
        for lane in intake.overflows.indices {
            for entry in intake.overflows[lane].entries { entry.discard() }
            intake.overflows[lane].entries = []
        }
    }
}
