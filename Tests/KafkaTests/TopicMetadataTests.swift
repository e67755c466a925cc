import Testbed
import Testing

@testable import Kafka

/// A topic may have an error that ends by itself. For example, the partitions of a new topic have no leaders at first.
@Suite(.ownThread) struct TopicMetadataTests {
    private static let leaderNotAvailable: Int32 = 5
    /// The topic does not exist, or this client is not allowed to see it.
    private static let missingCodes: [Int32] = [3, 29]

    @Test func `A consumer does not take a topic with a temporary error for a missing one`() throws {
        let broker = try EmbeddedBroker()
        try broker.createTopic("commands", partitionCount: 4)
        let reader = try TestConsumer(broker, group: "g", topics: ["commands"])
        func count() throws(KafkaError) -> Int {
            try reader.consumer.fetchPartitionCount(of: TopicIdentifier(index: 0), timeoutMilliseconds: 60_000)
        }
        broker.setMetadataError(topic: "commands", code: Self.leaderNotAvailable)
        let error = #expect(throws: KafkaError.self) { try count() }
        #expect(error?.code == Self.leaderNotAvailable && error?.reason.hasPrefix("commands: ") == true)
        for code in Self.missingCodes {
            broker.setMetadataError(topic: "commands", code: code)
            #expect(try count() == 0)
        }
        broker.setMetadataError(topic: "commands", code: 0)
        #expect(try count() == 4)
    }

    @Test func `An administrator does not take a topic with a temporary error for a missing one`() throws {
        let broker = try EmbeddedBroker()
        try broker.createTopic("commands", partitionCount: 4)
        try broker.createTopic("other", partitionCount: 1)
        let administrator = try TopicAdministrator(properties: [("bootstrap.servers", broker.bootstrapServers)])
        defer { _ = administrator.close(timeoutMilliseconds: 5_000) }
        func counts(_ names: [String]) throws(KafkaError) -> [String: Int] {
            try administrator.fetchPartitionCounts(of: names, timeoutMilliseconds: 60_000)
        }
        broker.setMetadataError(topic: "commands", code: Self.leaderNotAvailable)
        let error = #expect(throws: KafkaError.self) { try counts(["commands", "other"]) }
        #expect(error?.code == Self.leaderNotAvailable && error?.reason.hasPrefix("commands: ") == true)
        #expect(try counts(["other", "missing"]) == ["other": 1], "the topics of others do not matter")
        for code in Self.missingCodes {
            broker.setMetadataError(topic: "commands", code: code)
            #expect(try counts(["commands", "other"]) == ["other": 1])
        }
        broker.setMetadataError(topic: "commands", code: 0)
        #expect(try counts(["commands", "other"]) == ["commands": 4, "other": 1])
    }
}
