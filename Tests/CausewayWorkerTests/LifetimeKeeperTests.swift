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

/// What the keeper of lifetimes does with lives that it cannot make a command for. (R34)
@Suite(.ownThread) struct LifetimeKeeperTests {
    /// A minute ago. Nothing is kept of lives that began long ago.
    private let began = Int64(Date().timeIntervalSince1970 * 1_000) - 60_000

    /// A keeper on a server of its own. There is no Kafka.
    private final class Scene {
        private let directory: TemporaryDirectory
        private let server: RedisProcess
        let keeper: LifetimeKeeper
        let events = RecentEvents()

        init() throws {
            directory = try TemporaryDirectory()
            let socket = directory.path("redis.sock")
            let arguments = ["--save", "", "--port", "0", "--unixsocket", socket, "--dir", directory.path]
            server = try RedisProcess(arguments + ["--logfile", ""])
            let text = """
                kafka: {bootstrapServers: "127.0.0.1:1"}
                redis: {url: "unix://\(socket)"}
                apps: {ride: {bundleId: com.example.ride, teamId: TEAM123456, keyId: KEY1234567, keyFile: /key}}
                """
            let configuration = try ConfigurationLoader(environment: [:], requiresFiles: false)
                .load(text: text, file: nil)
            let logger = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
            keeper = try LifetimeKeeper(
                configuration,
                redis: RedisConfiguration(url: RedisURL("unix://\(socket)")),
                status: LifetimeStatus(),
                log: SharedKindLog(logger: logger, events: events)
            )
        }

        deinit {
            // Before its directory is removed.
            server.kill()
        }

        private func command(_ words: [[UInt8]]) -> [[UInt8]] {
            guard let client = BlockingClient(socketPath: directory.path("redis.sock")) else { return [] }
            client.append(bytes: words)
            return client.replyBytes()
        }

        private static func words(_ texts: String...) -> [[UInt8]] { texts.map { Array($0.utf8) } }

        /// Puts a life that is due into its timetable.
        func put(_ key: [UInt8], _ life: String, start: [UInt8]? = nil) {
            let number = key.withUnsafeBytes(LifetimeKey.number)
            _ = command(Self.words("ZADD") + [LifetimeKey.stored(number)] + Self.words("1") + [key])
            _ = command(Self.words("HSET") + [LifetimeKey.lives(number), key] + Self.words(life))
            guard let start else { return }
            _ = command(Self.words("HSET") + [LifetimeKey.keptCommands(number).starts, key, start])
        }

        /// All keys of the server.
        var keys: [String] { command(Self.words("KEYS", "*")).map { String(decoding: $0, as: UTF8.self) } }
    }

    private static func activity(_ name: String) -> [UInt8] {
        ActivityKey.stored(app: Array("com.example.ride".utf8), activity: Array(name.utf8))
    }

    @Test func `A life whose start is missing or damaged leaves the timetable`() async throws {
        let scene = try Scene()
        scene.put(Self.activity("missing"), "r \(began) 0")
        scene.put(Self.activity("damaged"), "r \(began) 0", start: Array("?".utf8))
        scene.put(Array("foreign".utf8), "b \(began) 0")
        await scene.keeper.look()
        #expect(scene.keys == [])
        #expect(scene.events[.lifetimeForgotten].count == 3 && scene.events[.lifetimesAway].count == 0)
        let details = scene.events[.lifetimeForgotten].lastDetail
        #expect(details.contains("error="), "\(details)")
        await scene.keeper.look()
        #expect(scene.events[.lifetimeForgotten].count == 3)
    }

    /// An app that was removed from the configuration, or that only newer workers have. Workers without it would reject the command.
    @Test func `A life of an app that the worker does not have stays in the timetable without a command`() async throws
    {
        let scene = try Scene()
        let key = ActivityKey.stored(app: Array("com.example.other".utf8), activity: Array("a".utf8))
        scene.put(key, "b \(began) 0")
        await scene.keeper.look()
        #expect(scene.keys.count == 2)
        #expect(scene.events[.lifetimesAway].count == 0 && scene.events[.lifetimeForgotten].count == 0)
    }
}
