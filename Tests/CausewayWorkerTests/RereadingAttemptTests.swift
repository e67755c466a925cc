import Kafka
import Reactor
import Testbed
import Testing

@testable import CausewayWorker

/// The Kafka thread asks the brokers where rereadings begin. Some brokers may be unavailable. (R24)
@Suite(.ownThread) struct RereadingAttemptTests {
    private static let partitions = (0..<2)
        .map { TopicPartition(topic: TopicIdentifier(index: Intake.commandsTopicIndex), partition: Int32($0)) }

    private static func requestRereadings(of intake: Intake) throws {
        let requests = try partitions.map { partition in
            RereadingRequest(
                topic: partition.topic.index,
                partition: partition.partition,
                assignmentNumber: try #require(intake.assignments[partition]).assignmentNumber,
                firstMissingOffset: nil,
                rereadingIdentifier: 9,
                isPrimaryEmptied: true
            )
        }
        intake.setup.storeWatchMailbox.request(requests)
    }

    private static func runLoop(of intake: Intake, until event: String, _ isMet: () -> Bool) throws {
        try eventually(event, every: .milliseconds(1)) {
            intake.loop.runIteration(waitMilliseconds: 10)
            return isMet()
        }
    }

    /// The partitions have no records, so each rereading is complete as soon as the brokers have responded.
    @Test func `A partition without a leader does not delay the rereading of another partition`() throws {
        let broker = try EmbeddedBroker()
        for topic in ["commands", "registrations", "deferred", "fanout"] {
            try broker.createTopic("causeway.\(topic)", partitionCount: Self.partitions.count)
        }
        try withIntake(bootstrapServers: broker.bootstrapServers) { intake, _, _ in
            func isRereadingComplete(of partition: TopicPartition) -> Bool {
                intake.assignments[partition]?.rereading?.isComplete == true
            }
            try Self.runLoop(of: intake, until: "an assignment") {
                intake.isAnyBrokerUp == true && Self.partitions.allSatisfy { intake.assignments[$0] != nil }
            }
            try broker.setLeader(ofTopic: "causeway.commands", partition: 1, to: nil)
            try Self.requestRereadings(of: intake)
            try Self.runLoop(of: intake, until: "the rereading of the partition with a leader") {
                isRereadingComplete(of: Self.partitions[0])
            }
            #expect(intake.assignments[Self.partitions[1]]?.rereading == nil)
            #expect(intake.rereadingPartitionCount == 1)
            try broker.setLeader(ofTopic: "causeway.commands", partition: 1, to: 1)
            try Self.runLoop(of: intake, until: "the rereading of the other partition") {
                isRereadingComplete(of: Self.partitions[1])
            }
        }
    }

    /// No broker responds, so the first attempt takes its whole timeout.
    @Test func `After a failed attempt the Kafka thread does not wait for the brokers again at once`() throws {
        try withIntake { intake, _, _ in
            intake.partitionsAssigned(Self.partitions)
            intake.isAnyBrokerUp = true
            try Self.requestRereadings(of: intake)
            intake.rereadPartitions()
            #expect(intake.rereadingPartitionCount == Self.partitions.count)
            let beganAtMilliseconds = EventLoop.monotonicMilliseconds
            intake.rereadPartitions()
            #expect(
                EventLoop.monotonicMilliseconds - beganAtMilliseconds < Int64(Consumer.requestTimeoutMilliseconds) / 2
            )
        }
    }
}
