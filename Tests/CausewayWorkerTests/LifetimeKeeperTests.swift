import CausewayConfiguration
import Foundation
import Kafka
import LiveActivity
import Logging
import Reactor
import Redis
import RedisTestbed
import Testbed
import Testing

@testable import ActivityStore
@testable import CausewayWorker
@testable import Observability

/// What the ``LifetimeKeeper`` does about due lives with missing or damaged data, about lives of apps that its worker
/// does not have, and about lives that have been due for long. (R35)
@Suite(.ownThread) struct LifetimeKeeperTests {
    /// When the lives of the tests began: a minute ago. The keeper forgets lives that began long ago.
    private let beganAtMilliseconds = Int64(Date().timeIntervalSince1970 * 1_000) - 60_000

    /// A keeper with a Redis server of its own. By default it reaches no broker.
    private final class KeeperFixture {
        private let directory: TemporaryDirectory
        private let server: RedisProcess
        let keeper: LifetimeKeeper
        let events = RecentEvents()
        let status = LifetimeStatus()

        init(bootstrapServers: String = "127.0.0.1:1") throws {
            directory = try TemporaryDirectory()
            let socket = directory.path("redis.sock")
            let arguments = ["--save", "", "--port", "0", "--unixsocket", socket, "--dir", directory.path]
            server = try RedisProcess(arguments + ["--logfile", ""])
            let text = """
                kafka: {bootstrapServers: "\(bootstrapServers)"}
                redis: {url: "unix://\(socket)"}
                apps: {ride: {bundleId: com.example.ride, teamId: TEAM123456, keyId: KEY1234567, keyFile: /key}}
                """
            let configuration = try ConfigurationLoader(environment: [:], requiresFiles: false)
                .load(text: text, file: nil)
            let logger = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
            keeper = try LifetimeKeeper(
                configuration,
                redis: RedisConfiguration(url: RedisURL("unix://\(socket)")),
                status: status,
                log: SharedLimitedLog(logger: logger, events: events)
            )
        }

        deinit {
            // The server must end first: `directory` is deleted as soon as this fixture is released.
            server.kill()
        }

        private func command(_ words: [[UInt8]]) -> [[UInt8]] {
            guard let client = BlockingClient(socketPath: directory.path("redis.sock")) else { return [] }
            client.appendCommand(bytes: words)
            return client.readReplyBytes()
        }

        private static func words(_ texts: String...) -> [[UInt8]] { texts.map { Array($0.utf8) } }

        /// Puts a life that is due into the timetable to which the activity's key belongs.
        ///
        /// - Parameter life: its kind, the UNIX time in milliseconds when it began, and the number of claims. Kind `b`:
        ///   a start began the life. Kind `r`: the activity waits for a restart.
        func putLife(
            _ key: [UInt8],
            _ life: String,
            dueMilliseconds: Int64 = 1,
            start: [UInt8]? = nil,
            update: [UInt8]? = nil
        ) {
            let number = key.withUnsafeBytes(LifetimeKey.timetableNumber)
            putLives([key], in: number, life, dueMilliseconds: dueMilliseconds)
            let keys = LifetimeKey.restartKeys(number)
            if let start { _ = command(Self.words("HSET") + [keys.starts, key, start]) }
            if let update { _ = command(Self.words("HSET") + [keys.updates, key, update]) }
        }

        func keptUpdate(_ key: [UInt8]) -> String? {
            let number = key.withUnsafeBytes(LifetimeKey.timetableNumber)
            return text(Self.words("HGET") + [LifetimeKey.restartKeys(number).updates, key])
        }

        func keptStart(_ key: [UInt8]) -> String? {
            let number = key.withUnsafeBytes(LifetimeKey.timetableNumber)
            return text(Self.words("HGET") + [LifetimeKey.restartKeys(number).starts, key])
        }

        func putLives(_ keys: [[UInt8]], in number: Int, _ life: String, dueMilliseconds: Int64) {
            let dueWords = Self.words("\(dueMilliseconds)")
            _ = command(Self.words("ZADD") + [LifetimeKey.timetableKey(number)] + keys.flatMap { dueWords + [$0] })
            _ = command(Self.words("HSET") + [LifetimeKey.livesKey(number)] + keys.flatMap { [$0] + Self.words(life) })
        }

        /// Replaces a timetable by a text, which the keeper cannot read.
        func damageTimetable(_ number: Int) {
            _ = command(Self.words("SET") + [LifetimeKey.timetableKey(number)] + Self.words("text"))
        }

        func removeTimetable(_ number: Int) { _ = command(Self.words("DEL") + [LifetimeKey.timetableKey(number)]) }

        func life(_ key: [UInt8]) -> String? {
            text(Self.words("HGET") + [LifetimeKey.livesKey(key.withUnsafeBytes(LifetimeKey.timetableNumber)), key])
        }

        func dueMilliseconds(_ key: [UInt8]) -> Int64? {
            text(
                Self.words("ZSCORE") + [
                    LifetimeKey.timetableKey(key.withUnsafeBytes(LifetimeKey.timetableNumber)), key,
                ]
            )
            .flatMap { Int64($0) }
        }

        func timetableEntryCount(_ number: Int) -> Int? {
            text(Self.words("ZCARD") + [LifetimeKey.timetableKey(number)]).flatMap { Int($0) }
        }

        private func text(_ words: [[UInt8]]) -> String? {
            command(words).first.map { String(decoding: $0, as: UTF8.self) }
        }

        var keys: [String] { command(Self.words("KEYS", "*")).map { String(decoding: $0, as: UTF8.self) } }
    }

    private static func activityKey(_ name: String) -> [UInt8] {
        ActivityKey.key(app: Array("com.example.ride".utf8), activity: Array(name.utf8))
    }

    @Test func `A life whose start is missing or damaged leaves the timetable`() async throws {
        let fixture = try KeeperFixture()
        fixture.putLife(Self.activityKey("missing"), "r \(beganAtMilliseconds) 0")
        fixture.putLife(Self.activityKey("damaged"), "r \(beganAtMilliseconds) 0", start: Array("?".utf8))
        fixture.putLife(Array("foreign".utf8), "b \(beganAtMilliseconds) 0")
        await fixture.keeper.poll()
        #expect(fixture.keys == [])
        #expect(fixture.events[.lifetimeNotEnded].count == 3 && fixture.events[.lifetimeEndsInterrupted].count == 0)
        let details = fixture.events[.lifetimeNotEnded].lastLineMetadata
        #expect(details.contains("error="), "\(details)")
        await fixture.keeper.poll()
        #expect(fixture.events[.lifetimeNotEnded].count == 3)
    }

    /// Redis keeps the newest update for the new start, but this update is damaged. The keeper must not only leave it
    /// out, but also replace it in Redis, because Redis refuses a start that is older than the kept update.
    ///
    /// In the first two cases, Redis takes the damaged update for newer than the start. In the third case, the update
    /// has no version.
    @Test(arguments: ["17900000070000000000000000000?", "179000000700000000000000000000{}", "?"])
    func `A restart leaves out a kept update that cannot be read, and reports it once`(update: String) async throws {
        let broker = try EmbeddedBroker()
        try broker.createTopic("causeway.commands", partitionCount: 1)
        let fixture = try KeeperFixture(bootstrapServers: broker.bootstrapServers)
        let key = Self.activityKey("a")
        let start = Self.startVersion + Self.start
        let life = "r \(beganAtMilliseconds) 0"
        fixture.putLife(key, life, start: Array(start.utf8), update: Array(update.utf8))
        await fixture.keeper.poll()
        #expect(fixture.events[.lifetimeEndsInterrupted].count == 0 && fixture.events[.lifetimeNotEnded].count == 0)
        #expect(fixture.keptUpdate(key) == start, "the kept update is not newer than the start")
        fixture.putLife(key, life)
        await fixture.keeper.poll()
        #expect(fixture.events[.lifetimeStateLost].count == 1)
        let commands = try Self.readCommands(2, from: broker)
        #expect(commands.allSatisfy { $0.contains(#"{"n":0}"#) && $0.contains(":1790000000.0\"") }, "\(commands)")
    }

    /// Each case: a start and an update that Redis keeps. One of them has a form or a field that only a newer release
    /// of Causeway knows.
    @Test(arguments: [
        (startVersion + "b\u{1}\u{2}", nil), (startVersion + startFromNewerRelease, nil),
        (startVersion + start, newerVersion + "b\u{1}"), (startVersion + start, newerVersion + #"{"later":1}"#),
    ])
    func `A restart that only a newer release can read stays in Redis, and is given up after eight hours`(
        start: String,
        update: String?
    ) async throws {
        let broker = try EmbeddedBroker()
        try broker.createTopic("causeway.commands", partitionCount: 1)
        let fixture = try KeeperFixture(bootstrapServers: broker.bootstrapServers)
        let key = Self.activityKey("a")
        let formatWaitMillisecondsMax = LifetimeCommand.unknownFormatWaitMillisecondsMax
        func putLife(agedMilliseconds: Int64) {
            let life = "r \(beganAtMilliseconds - agedMilliseconds) 0"
            fixture.putLife(key, life, start: Array(start.utf8), update: update.map { Array($0.utf8) })
        }
        for ageMilliseconds in [0, formatWaitMillisecondsMax - 120_000] {
            putLife(agedMilliseconds: ageMilliseconds)
            await fixture.keeper.poll()
            #expect(fixture.keptStart(key) == start && fixture.keptUpdate(key) == update ?? "")
            #expect(fixture.life(key) == "r \(beganAtMilliseconds - ageMilliseconds) 1")
            #expect(fixture.events[.lifetimeNotEnded].count == 0 && fixture.events[.lifetimeStateLost].count == 0)
            #expect(fixture.events[.lifetimeFormatUnknown].count == 0 && fixture.status.timetableActivityCount == 1)
        }
        putLife(agedMilliseconds: formatWaitMillisecondsMax)
        await fixture.keeper.poll()
        #expect(fixture.keys == [] && fixture.status.timetableActivityCount == 0)
        #expect(fixture.events[.lifetimeFormatUnknown].count == 1 && fixture.events[.lifetimeNotEnded].count == 0)
        #expect(fixture.events[.lifetimeFormatUnknown].lastLineMetadata.contains("activity=a"))
        #expect(fixture.status.restartCommandCount == 0)
    }

    @Test func `A restart does not wait for a newer release that would not help`() async throws {
        let broker = try EmbeddedBroker()
        try broker.createTopic("causeway.commands", partitionCount: 1)
        let fixture = try KeeperFixture(bootstrapServers: broker.bootstrapServers)
        let life = "r \(beganAtMilliseconds) 0"
        let update = Array((Self.newerVersion + "b").utf8)
        fixture.putLife(Self.activityKey("damaged"), life, start: Array((Self.startVersion + "{").utf8), update: update)
        // The update is older than the start, so the new start does not need it.
        let start = Array((Self.newestVersion + Self.start).utf8)
        fixture.putLife(Self.activityKey("a"), life, start: start, update: update)
        await fixture.keeper.poll()
        #expect(fixture.events[.lifetimeNotEnded].count == 1)
        #expect(try Self.readCommands(1, from: broker).first?.contains(#"{"n":0}"#) == true)
    }

    // The versions of commands as the timetable keeps them: ten digits of the timestamp, twenty of the sequence.
    private static let newerVersion = "179000000700000000000000000000"
    private static let newestVersion = "179000000800000000000000000000"
    private static let startVersion = "179000000000000000000000000000"

    private static let startFromNewerRelease = #"{"later":1,"# + start.dropFirst()
    private static let start =
        #"{"app":"com.example.ride","activity":"a","device":"d","aps":{"timestamp":1790000000,"event":"start","#
        + #""content-state":{"n":0},"attributes-type":"Ride","attributes":{"id":"a"},"alert":{"title":"t","body":"b"}}}"#

    private static func readCommands(_ count: Int64, from broker: EmbeddedBroker) throws -> [String] {
        let reader = try PartitionReader(
            properties: [("bootstrap.servers", broker.bootstrapServers)],
            topic: "causeway.commands"
        )
        defer { _ = reader.close(timeoutMilliseconds: 1_000) }
        var commands: [String] = []
        let isRead = try reader.read(0, offsets: 0..<count, timeoutMilliseconds: 60_000) { message in
            if let value = message.value { commands.append(String(decoding: Array(value), as: UTF8.self)) }
        }
        #expect(isRead && commands.count == count)
        return commands
    }

    private static func keyOfUnknownApp(_ name: String) -> [UInt8] {
        ActivityKey.key(app: Array("com.example.other".utf8), activity: Array(name.utf8))
    }

    /// This worker's configuration lacks the app; another worker may have it. This worker cannot end the activity, and
    /// a claim would only postpone the end. So this worker makes no claim until the life has been due for long.
    @Test func `A life of an app that the worker does not have is left as it is`() async throws {
        let fixture = try KeeperFixture()
        let key = Self.keyOfUnknownApp("a")
        let due = Int64(Date().timeIntervalSince1970 * 1_000) - 1
        fixture.putLife(key, "b \(beganAtMilliseconds) 0", dueMilliseconds: due)
        for _ in 1...3 { await fixture.keeper.poll() }
        #expect(fixture.life(key) == "b \(beganAtMilliseconds) 0")
        #expect(fixture.dueMilliseconds(key) == due)
        #expect(fixture.events[.lifetimeEndsInterrupted].count == 0 && fixture.events[.lifetimeNotEnded].count == 0)
        let unknownAppEvent = fixture.events[.lifetimesUnknownApp]
        #expect(
            unknownAppEvent.count == 1 && unknownAppEvent.lastLineMetadata.contains("com.example.other"),
            "\(unknownAppEvent)"
        )
    }

    @Test func `A life of any app leaves the timetable when it has been due for too long`() async throws {
        let fixture = try KeeperFixture()
        fixture.putLife(
            Self.keyOfUnknownApp("a"),
            "b \(beganAtMilliseconds - LifetimeKeeper.activityAgeMillisecondsMax) 0"
        )
        await fixture.keeper.poll()
        #expect(fixture.keys == [])
    }

    /// Lives of other apps are due first and stay in the timetable. The worker must still find the lives of its own
    /// apps.
    @Test func `Lives of other apps delay no end`() async throws {
        let fixture = try KeeperFixture()
        let key = Self.activityKey("own")
        let number = key.withUnsafeBytes(LifetimeKey.timetableNumber)
        let nowMilliseconds = Int64(Date().timeIntervalSince1970 * 1_000)
        let unknownAppCount = 3 * LifetimeKeeper.dueEntriesPerReadMax
        fixture.putLife(key, "r \(beganAtMilliseconds) 0", dueMilliseconds: nowMilliseconds - 1)
        fixture.putLives(
            (0..<unknownAppCount).map { Self.keyOfUnknownApp("\($0)") },
            in: number,
            "b \(beganAtMilliseconds) 0",
            dueMilliseconds: nowMilliseconds - 2
        )
        for _ in 1...4 { await fixture.keeper.poll() }
        // The keeper has found the life of the activity `own`. Redis lacks the start of this life, so the keeper
        // forgets the life and counts this event.
        #expect(fixture.events[.lifetimeNotEnded].count == 1)
        #expect(fixture.timetableEntryCount(number) == unknownAppCount)
    }

    /// The rank of a life is its place in the timetable, in the order of due times. The keeper reads on from the rank
    /// that it has reached. A new life that is due before the lives already read has a lower rank, so the keeper misses
    /// it if it only reads on.
    @Test func `A new life that is due before the lives already read is found soon`() async throws {
        let fixture = try KeeperFixture()
        let nowMilliseconds = Int64(Date().timeIntervalSince1970 * 1_000)
        fixture.putLives(
            (0..<20 * LifetimeKeeper.dueEntriesPerReadMax).map { Self.keyOfUnknownApp("\($0)") },
            in: 0,
            "b \(beganAtMilliseconds) 0",
            dueMilliseconds: nowMilliseconds
        )
        for _ in 1...2 { await fixture.keeper.poll() }
        fixture.putLives(
            [Self.activityKey("own")],
            in: 0,
            "r \(beganAtMilliseconds) 0",
            dueMilliseconds: nowMilliseconds - 1
        )
        for _ in 1...8 { await fixture.keeper.poll() }
        #expect(fixture.events[.lifetimeNotEnded].count == 1)
    }

    /// The code of Kafka's error TOPIC_AUTHORIZATION_FAILED, after which a producer does not send the record again.
    private static let topicAuthorizationFailedCode: Int32 = 29

    /// In two polls, Kafka refuses the first commands. Each time, a life of the first timetable is due.
    @Test func `A timetable whose commands Kafka does not take keeps no other timetable waiting`() async throws {
        let broker = try EmbeddedBroker()
        try broker.createTopic("causeway.commands", partitionCount: 1)
        let fixture = try KeeperFixture(bootstrapServers: broker.bootstrapServers)
        let keys = (0..<1_000).map { Self.activityKey("\($0)") }
        let firstKeys = keys.filter { $0.withUnsafeBytes(LifetimeKey.timetableNumber) == 0 }
        let lastNumber = LifetimeKey.timetableCount - 1
        let lastKey = try #require(keys.first { $0.withUnsafeBytes(LifetimeKey.timetableNumber) == lastNumber })
        func pollWithRefusal() async {
            broker.failNextRequests(.produce, with: [Self.topicAuthorizationFailedCode])
            await fixture.keeper.poll()
        }
        fixture.putLife(firstKeys[0], "b \(beganAtMilliseconds) 0")
        await pollWithRefusal()
        for key in [firstKeys[1], lastKey] { fixture.putLife(key, "b \(beganAtMilliseconds) 0") }
        await pollWithRefusal()
        // The second poll has claimed only the life of the last timetable.
        #expect(fixture.life(lastKey) == "b \(beganAtMilliseconds) 1")
        #expect(fixture.life(firstKeys[1]) == "b \(beganAtMilliseconds) 0")
        await fixture.keeper.poll()
        #expect(fixture.life(firstKeys[1]) == "b \(beganAtMilliseconds) 1")
    }

    /// Kafka refuses the command of a claimed life. Until the claim ends, no poll finds the life, so polls succeed
    /// although the life is not ended.
    @Test func `The keeper fails until a claim whose command Kafka refused has ended`() async throws {
        let broker = try EmbeddedBroker()
        try broker.createTopic("causeway.commands", partitionCount: 1)
        let fixture = try KeeperFixture(bootstrapServers: broker.bootstrapServers)
        await fixture.keeper.poll()
        #expect(!fixture.status.isFailing)
        fixture.putLife(Self.activityKey("a"), "b \(beganAtMilliseconds) 4")
        broker.failNextRequests(.produce, with: [Self.topicAuthorizationFailedCode])
        let refusedAt = ContinuousClock.now
        await fixture.keeper.poll(now: refusedAt)
        for seconds in [1, 319] {
            await fixture.keeper.poll(now: refusedAt + .seconds(seconds))
            #expect(fixture.status.isFailing, "\(seconds) s after the refusal, in a claim of 320 s")
        }
        #expect(fixture.events[.lifetimeEndsInterrupted].count == 1 && fixture.events[.lifetimeEndsResumed].count == 0)
        await fixture.keeper.poll(now: refusedAt + .seconds(400))
        #expect(!fixture.status.isFailing && fixture.events[.lifetimeEndsResumed].count == 1)
    }

    @Test func `The keeper fails while Redis cannot read a timetable`() async throws {
        let fixture = try KeeperFixture()
        fixture.damageTimetable(1)
        for _ in 1...2 { await fixture.keeper.poll() }
        #expect(fixture.status.isFailing && fixture.events[.lifetimeEndsInterrupted].count == 1)
        fixture.removeTimetable(1)
        await fixture.keeper.poll()
        #expect(!fixture.status.isFailing && fixture.events[.lifetimeEndsResumed].count == 1)
    }
}
