import ActivityStore
import Foundation
import Glibc
import Kafka
import LiveActivity
import Redis
import Testbed
import Testing

import enum CausewayRecords.JSONValue

@testable import causeway

/// Topics, the workers' committed offsets and a Redis, for `causeway replay`. No worker runs: each test itself writes
/// what workers would have read and settled.
final class ReplayScene: ConsumerHandler {
    static let app = "com.example.ride"
    static let commandsTopic = "causeway.commands"
    static let registrationsTopic = "causeway.registrations"

    /// A record to produce: its key is the activity or the audience, or the device and the attributes type.
    struct Record {
        var key: String
        /// The record's value; nil for a tombstone.
        var value: String?
        var timestampMilliseconds: Int64
    }

    let directory: TemporaryDirectory
    let broker: EmbeddedBroker
    let nowSeconds = Int64(Date().timeIntervalSince1970)
    private let server: RunningProgram
    let redis: RedisCommandLine
    private var assignedPartitions: [TopicPartition] = []

    /// - Parameter shapes: the content of the app's file of shapes; nil: the app has none.
    init(partitionCount: Int = 1, shapes: String? = nil) throws {
        directory = try TemporaryDirectory()
        broker = try EmbeddedBroker()
        for topic in ["commands", "registrations", "deferred", "fanout", "dead-letters"] {
            try broker.createTopic("causeway.\(topic)", partitionCount: topic == "commands" ? partitionCount : 1)
        }
        let (server, port) = try RunningProgram.startRedis(directory: directory)
        self.server = server
        redis = RedisCommandLine(port: port)
        if let shapes { try directory.write(shapes, to: "shapes.json") }
        let shapesMember = shapes == nil ? "" : #", shapes: {file: "\#(directory.path("shapes.json"))"}"#
        try directory.write(
            """
            kafka:
              bootstrapServers: "\(broker.bootstrapServers)"
              consumer: {fetch.wait.max.ms: 10}
            redis: {url: "redis://127.0.0.1:\(port)"}
            apps:
              ride: {bundleId: \(Self.app), teamId: TEAM123456, keyId: KEY1234567, keyFile: k\(shapesMember)}

            """,
            to: "causeway.yaml"
        )
    }

    /// Sets a parameter of Redis. Waits until Redis accepts connections.
    func configureRedis(_ parameter: String, _ value: String) throws {
        try eventually("Redis accepts CONFIG SET") { try redis.ask("CONFIG", "SET", parameter, value) == "OK" }
    }

    // MARK: - Records

    /// Makes an update.
    ///
    /// - Parameter otherMembers: further members of the record as JSON text, each with a comma behind it.
    func update(
        _ activity: String,
        at timestamp: Int64,
        state: Int = 1,
        hasAlert: Bool = false,
        app: String = ReplayScene.app,
        otherMembers: String = ""
    ) -> Record {
        let alertMember = hasAlert ? #","alert":{"title":"Goal","body":"2:1"}"# : ""
        let aps = #"{"event":"update","timestamp":\#(timestamp),"content-state":{"n":\#(state)}\#(alertMember)}"#
        let value = #"{"app":"\#(app)","activity":"\#(activity)",\#(otherMembers)"aps":\#(aps)}"#
        return Record(key: activity, value: value, timestampMilliseconds: timestamp * 1_000)
    }

    func end(_ activity: String, at timestamp: Int64) -> Record {
        var record = update(activity, at: timestamp)
        record.value = record.value?.replacing(#""event":"update""#, with: #""event":"end""#)
        return record
    }

    func start(_ activity: String, at timestamp: Int64) -> Record {
        let aps = #"""
            {"event":"start","timestamp":\#(timestamp),"attributes-type":"Ride","attributes":{},"content-state":{},
             "alert":{"title":"a","body":"b"}}
            """#
        let value = #"{"app":"\#(Self.app)","activity":"\#(activity)","device":"phone","aps":\#(aps)}"#
        return Record(key: activity, value: value, timestampMilliseconds: timestamp * 1_000)
    }

    func registration(_ activity: String, at seconds: Int64, token: String = "0af70af7") -> Record {
        let value = #"""
            {"app":"\#(Self.app)","activity":"\#(activity)","environment":"sandbox","token":"\#(token)",
             "registeredAt":\#(seconds * 1_000)}
            """#
        return Record(key: activity, value: value, timestampMilliseconds: seconds * 1_000)
    }

    func pushToStart(_ device: String, at seconds: Int64, type: String = "Ride") -> Record {
        let value = #"""
            {"app":"\#(Self.app)","device":"\#(device)","attributesType":"\#(type)","environment":"sandbox",
             "token":"0af70af8","registeredAt":\#(seconds * 1_000)}
            """#
        return Record(key: "\(device)/\(type)", value: value, timestampMilliseconds: seconds * 1_000)
    }

    func produce(_ records: [Record], to topic: String = ReplayScene.commandsTopic, partition: Int32 = 0) throws {
        let producer = try Producer(properties: [("bootstrap.servers", broker.bootstrapServers), ("linger.ms", "0")])
        let handle = try producer.makeTopic(topic)
        for record in records {
            let value = record.value.map { Array($0.utf8) }
            Array(record.key.utf8)
                .withUnsafeBytes { key in
                    func produce(_ value: UnsafeRawBufferPointer?) {
                        _ = producer.produce(
                            topic: handle,
                            partition: partition,
                            key: key,
                            value: value,
                            headers: ProducedHeaders(capacity: 0),
                            timestampMilliseconds: record.timestampMilliseconds,
                            tag: 0
                        )
                    }
                    if let value { value.withUnsafeBytes { produce($0) } } else { produce(nil) }
                }
        }
        var acknowledgedCount = 0
        _ = producer.flush(timeoutMilliseconds: 60_000) { _, error, _ in if error == 0 { acknowledgedCount += 1 } }
        #expect(acknowledgedCount == records.count)
        _ = producer.close(timeoutMilliseconds: 5_000)
    }

    /// Commits offsets of the workers' group, by partition.
    func commit(_ offsets: [Int32: Int64]) throws {
        // The pipe must outlive the consumer, which writes to it.
        let wakeup = WakeupPipe()
        let consumer = try Consumer(
            properties: [
                ("bootstrap.servers", broker.bootstrapServers), ("group.id", "causeway"), ("fetch.wait.max.ms", "10"),
                ("auto.offset.reset", "earliest"),
            ],
            topics: [Self.commandsTopic],
            handler: self
        )
        consumer.setWakeup(descriptor: wakeup.writeDescriptor)
        while assignedPartitions.isEmpty {
            if case .none = consumer.poll(), assignedPartitions.isEmpty {
                try #require(wakeup.waitBlocking(milliseconds: 120_000), "no partition was assigned")
            }
        }
        for (partition, offset) in offsets {
            let topic = TopicIdentifier(index: 0)
            #expect(consumer.storeOffset(topic: topic, partition: partition, nextOffset: offset) == nil)
        }
        #expect(consumer.commitStoredOffsets() == nil)
        assignedPartitions = []
        _ = consumer.close(timeoutMilliseconds: 5_000)
    }

    func partitionsAssigned(_ partitions: [TopicPartition]) { assignedPartitions = partitions }
    func partitionsRevoked(_ partitions: [TopicPartition], areLost: Bool) {}

    /// Returns the number of records that were ever written to a partition: the end of its log.
    func recordCount(of topic: String = ReplayScene.commandsTopic, partition: Int32 = 0) throws -> Int64 {
        let reader = try PartitionReader(properties: [("bootstrap.servers", broker.bootstrapServers)], topic: topic)
        defer { _ = reader.close(timeoutMilliseconds: 5_000) }
        return try reader.fetchWatermarks(of: partition, timeoutMilliseconds: 60_000).logEndOffset
    }

    /// Returns the records of the first commands partition from an offset on. `replayed` is the header with which a
    /// replay names the record that it copied.
    func records(from offset: Int64) throws -> [(
        key: String, value: String, replayed: String?, timestampMilliseconds: Int64
    )] {
        let end = try recordCount()
        let reader = try PartitionReader(
            properties: [("bootstrap.servers", broker.bootstrapServers), ("fetch.wait.max.ms", "10")],
            topic: Self.commandsTopic
        )
        defer { _ = reader.close(timeoutMilliseconds: 5_000) }
        var foundRecords: [(key: String, value: String, replayed: String?, timestampMilliseconds: Int64)] = []
        func text(_ bytes: UnsafeRawBufferPointer?) -> String {
            bytes.map { String(decoding: $0, as: UTF8.self) } ?? ""
        }
        let isRead = try reader.read(0, offsets: offset..<max(offset, end), timeoutMilliseconds: 60_000) { message in
            let replayed = message.headers?.lastValue(named: "replayed").map { text($0) }
            foundRecords.append((text(message.key), text(message.value), replayed, message.timestampMilliseconds))
        }
        #expect(isRead)
        return foundRecords
    }

    // MARK: - Redis

    @discardableResult
    func perform(_ activity: String, _ operation: StoreCall<[UInt8]>.Operation) throws -> StoreReply<[UInt8]> {
        let url = try RedisURL("redis://127.0.0.1:\(redis.port)")
        let store = try BlockingStore(configuration: RedisConfiguration(url: url))
        defer { store.close() }
        let subject = StoreSubject(app: Array(Self.app.utf8), kind: .activity, identifier: Array(activity.utf8))
        return try store.perform([StoreCall(tag: 0, subject: subject, operation: operation)])[0]
    }

    func register(_ activity: String) throws {
        let token = TokenRegistration(token: Array("0af7".utf8), environment: .sandbox, registeredAtMilliseconds: 5)
        try perform(
            activity,
            .register(token, allowsFrequentUpdates: nil, shownVersion: nil, source: .record, audiences: nil)
        )
    }

    /// Lets Redis admit an update or an end, as a lane does.
    func admit(
        _ activity: String,
        at timestamp: Int64,
        digest: UInt64 = 3,
        hasAlert: Bool = false,
        isEnd: Bool = false
    ) throws -> StoreVerdict {
        let admission = StateAdmission<[UInt8]>(
            isEnd: isEnd,
            version: Version(timestamp: timestamp, sequence: 0),
            digest: digest,
            pace: Policy(name: "default").pace,
            requestsHighPriority: false,
            mayUseReserve: false,
            mayReplaceHeldAlert: hasAlert,
            isTooOld: false,
            registration: nil
        )
        return try perform(activity, .admit(admission)).verdict
    }

    /// Registers a token, lets Redis admit a command of this timestamp, and settles the command.
    func admitAndSettle(
        _ activity: String,
        at timestamp: Int64,
        _ settlement: Settlement = .accepted,
        isEnd: Bool = false
    ) throws {
        try register(activity)
        #expect(try admit(activity, at: timestamp, isEnd: isEnd) == .send)
        let version = Version(timestamp: timestamp, sequence: 0)
        try perform(activity, .settle(version: version, settlement, digest: 3, retirement: nil))
    }

    func inspection(of activity: String) throws -> ActivityInspection {
        let url = try RedisURL("redis://127.0.0.1:\(redis.port)")
        let queries = try RedisQueries(configuration: RedisConfiguration(url: url))
        defer { queries.close() }
        let key = ActivityKey.key(app: Array(Self.app.utf8), activity: Array(activity.utf8))
        return try ActivityInspection(value: queries.readStrings([key])[0])
    }

    // MARK: - The program

    func process(_ arguments: [String], environment: [String: String] = [:]) -> Process {
        ProgramRun.process(
            ["replay"] + arguments + ["--config", directory.path("causeway.yaml")],
            environment: environment
        )
    }

    func replay(_ arguments: String...) throws -> ProgramRun { try ProgramRun.run(process(arguments)) }

    /// Returns how many records a replay with `--json` reports, by reason.
    func reasonCounts(_ run: ProgramRun) throws -> [String: Int] { try reportedCounts("counts", in: run) }
}

/// Returns the numbers in one object of the report that a replay with `--json` prints as its last line.
func reportedCounts(_ name: String, in run: ProgramRun) throws -> [String: Int] {
    let report = try #require(run.outputLines.last.flatMap { JSONValue(parsing: Array($0.utf8)) })
    guard case .object(let counts)? = report[name] else { return [:] }
    return counts.dictionary.compactMapValues { count in count.integerValue.map { Int($0) } }
}
