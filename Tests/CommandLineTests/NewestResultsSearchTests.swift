import CausewayConfiguration
import Kafka
import Testbed
import Testing

@testable import causeway

@Suite("The last results of an activity", .ownThread)
struct NewestResultsSearchTests {
    private func record(_ activity: String, _ number: Int, app: String = "m") -> (key: String, value: String) {
        (activity, #"{"command":"\#(number)","app":"\#(app)","activity":"\#(activity)","outcome":"accepted"}"#)
    }

    private func produce(
        _ records: [(key: String, value: String)],
        to broker: EmbeddedBroker,
        _ properties: [(name: String, value: String)] = []
    ) throws {
        let producer = try Producer(
            properties: [("bootstrap.servers", broker.bootstrapServers), ("linger.ms", "5")] + properties
        )
        let topic = try producer.makeTopic("causeway.results")
        for record in records {
            var (key, value) = record
            key.withUTF8 { key in
                value.withUTF8 { value in
                    _ = producer.produce(topic: topic, key: .init(key), value: .init(value), tag: 0)
                }
            }
        }
        var acknowledgedCount = 0
        _ = producer.flush(timeoutMilliseconds: 120_000) { _, error, _ in acknowledgedCount += error == 0 ? 1 : 0 }
        #expect(acknowledgedCount == records.count)
        _ = producer.close(timeoutMilliseconds: 5_000)
    }

    private func makeKafkaConfiguration(_ broker: EmbeddedBroker) -> WorkerConfiguration.Kafka {
        var kafka = WorkerConfiguration.Kafka()
        kafka.bootstrapServers = broker.bootstrapServers
        kafka.consumer = [KafkaProperty(name: "fetch.wait.max.ms", value: "10")]
        return kafka
    }

    private func commands(_ search: NewestResultsSearch) -> [String] {
        search.records.compactMap { $0["command"]?.text }
    }

    @Test func `Only the newest results of this app are read, newest first, and no more than requested`() throws {
        let broker = try EmbeddedBroker()
        try broker.createTopic("causeway.results", partitionCount: 2)
        var records: [(key: String, value: String)] = []
        for number in 0..<15_000 {
            records.append(record("noise-\(number % 100)", number))
            if number % 3_000 == 0 { records.append(record("final", number)) }
            if number % 5_000 == 0 { records.append(record("final", number, app: "other")) }
        }
        records.append((key: "final", value: "nonsense"))
        try produce(records, to: broker)
        func readNewest(of activity: String, _ count: Int) throws -> NewestResultsSearch {
            // The time limit is long, so that even a busy machine reads everything.
            try NewestResultsSearch(
                of: activity,
                app: "m",
                resultsMax: count,
                kafka: makeKafkaConfiguration(broker),
                searchMillisecondsMax: 120_000
            )
        }
        let newestResult = try readNewest(of: "final", 1)
        #expect(commands(newestResult) == ["12000"])
        #expect(newestResult.searchedOffsetCount == 2_000)
        #expect(!newestResult.isComplete)
        let threeResults = try readNewest(of: "final", 3)
        #expect(commands(threeResults) == ["12000", "9000", "6000"])
        let allResults = try readNewest(of: "final", 50)
        #expect(commands(allResults) == ["12000", "9000", "6000", "3000", "0"])
        #expect(allResults.isComplete)
        #expect(try readNewest(of: "nobody", 3).records.isEmpty)
    }

    @Test
    func
        `With another partitioner of the producer the right partition is found; with a random one every partition is read`()
        throws
    {
        for partitioner in ["consistent_random", "fnv1a", "random"] {
            let broker = try EmbeddedBroker()
            try broker.createTopic("causeway.results", partitionCount: 5)
            try produce((0..<40).map { record("a\($0)", $0) }, to: broker, [("partitioner", partitioner)])
            var kafka = makeKafkaConfiguration(broker)
            kafka.producer = [KafkaProperty(name: "partitioner", value: partitioner)]
            for number in 0..<10 {
                let newest = try NewestResultsSearch(of: "a\(number)", app: "m", resultsMax: 1, kafka: kafka)
                #expect(commands(newest) == ["\(number)"], "\(partitioner)")
            }
        }
    }

    @Test func `The policy of the last push is known; without Kafka, the report says that results cannot be read`()
        throws
    {
        let broker = try EmbeddedBroker()
        try broker.createTopic("causeway.results", partitionCount: 1)
        let texts = [#""priority":10,"policy":"slow""#, #""priority":5,"policy":"sports""#, #""attempts":0"#]
        try produce(texts.map { ("a", #"{"app":"m","activity":"a","outcome":"accepted",\#($0)}"#) }, to: broker)
        let section = ResultSection(of: "a", app: "m", resultsMax: 5, kafka: makeKafkaConfiguration(broker))
        #expect(section.policyName == "sports")
        #expect(section.lines(nowMilliseconds: 0).count == 5)
        var unreachableKafka = makeKafkaConfiguration(broker)
        unreachableKafka.bootstrapServers = "127.0.0.1:1"
        let sectionWithoutKafka = ResultSection(of: "a", app: "m", resultsMax: 5, kafka: unreachableKafka)
        #expect(sectionWithoutKafka.policyName == nil)
        #expect(sectionWithoutKafka.lines(nowMilliseconds: 0)[0].hasPrefix("results   cannot be read: "))
        #expect(sectionWithoutKafka.json["error"] != nil)
    }

    @Test func `The outcome is shown with its reason and the number of counted commands`() throws {
        let broker = try EmbeddedBroker()
        try broker.createTopic("causeway.results", partitionCount: 1)
        let texts = ["", #","superseded":99"#, #","reason":"r""#, #","reason":"r","superseded":1"#]
        try produce(texts.map { ("a", #"{"app":"m","activity":"a","outcome":"accepted"\#($0)}"#) }, to: broker)
        let lines = try NewestResultsSearch(of: "a", app: "m", resultsMax: 5, kafka: makeKafkaConfiguration(broker))
            .lines(nowMilliseconds: 0)
        let outcomes = lines.compactMap { $0.firstMatch(of: /accepted( \(.*\))?/)?.0 }
        #expect(
            outcomes == [
                "accepted (r, 1 superseded)", "accepted (r)", "accepted (99 superseded)", "accepted",
            ]
        )
    }

    @Test func `Nothing is committed for the workers' group`() throws {
        let broker = try EmbeddedBroker()
        try broker.createTopic("causeway.results", partitionCount: 1)
        try produce((0..<100).map { record("a", $0) }, to: broker)
        var kafka = makeKafkaConfiguration(broker)
        kafka.properties = [KafkaProperty(name: "auto.commit.interval.ms", value: "1")]
        #expect(commands(try NewestResultsSearch(of: "a", app: "m", resultsMax: 1, kafka: kafka)) == ["99"])
        let handler = RebalanceIgnorer()
        let consumer = try Consumer(
            properties: kafka.consumerProperties,
            topics: ["causeway.results"],
            handler: handler
        )
        let partition = TopicPartition(topic: TopicIdentifier(index: 0), partition: 0)
        #expect(try consumer.fetchCommittedOffsets(of: [partition]).map { try $0.get() } == [nil])
        _ = consumer.close(timeoutMilliseconds: 10_000)
    }
}

private final class RebalanceIgnorer: ConsumerHandler {
    func partitionsAssigned(_ partitions: [TopicPartition]) {}
    func partitionsRevoked(_ partitions: [TopicPartition], areLost: Bool) {}
}
