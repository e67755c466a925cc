import Logging
import Reactor
import Redis
import RedisTestbed
import Testbed
import Testing

@testable import APNs
@testable import CausewayWorker
@testable import Observability

/// The workers of a fleet share the tokens of a new key, and those that follow a refusal, through a real Redis server.
@Suite(.ownThread) struct ProviderTokenSharerTests {
    /// Several workers with the same key.
    private final class Fleet {
        let directory: TemporaryDirectory
        private let server: RedisServer
        private static let tokenKey = "{causeway/provider-token/TEAM123456/KEY1234567}"
        let sources: [ProviderTokenSource]
        private var sharers: [ProviderTokenSharer] = []
        let wallClock = WallClock()

        init(workerCount: Int) throws {
            wallClock.bootOffsetMilliseconds = WallClock.systemMilliseconds - WallClock.bootMilliseconds
            directory = try TemporaryDirectory()
            let server = try RedisServer()
            self.server = server
            let keyFile = try Self.writeKey("first", in: directory)
            sources = try (0..<workerCount)
                .map { _ in
                    try ProviderTokenSource(
                        key: SigningKey(path: keyFile),
                        keyId: "KEY1234567",
                        teamId: "TEAM123456"
                    )
                }
            try directory.write("AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=", to: "cipher.key")
            let cipher = try ProviderTokenCipher(keyFile: directory.path("cipher.key"))
            let logger = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
            sharers = try sources.map { source in
                try ProviderTokenSharer(
                    [source],
                    redis: RedisConfiguration(url: RedisURL(server.unixURL)),
                    cipher: cipher,
                    wallClock: wallClock,
                    log: SharedLimitedLog(logger: logger, events: RecentEvents())
                )
            }
        }

        /// Writes the P-256 key of a new certificate as a signing key, and returns its file.
        static func writeKey(_ name: String, in directory: TemporaryDirectory) throws -> String {
            try GeneratedCertificate.write(directory: directory.path(name), hosts: ["localhost"]).keyFile
        }

        var unixSeconds: Int64 { wallClock.wallMilliseconds / 1_000 }

        /// Lets the clock of all workers and of Redis advance, or sets it back. So the shared token of the first key
        /// gets older, or younger. No worker has the lease to sign any longer.
        func advance(bySeconds seconds: Int64) {
            wallClock.bootOffsetMilliseconds? += seconds * 1_000
            let remainingMilliseconds = ProviderTokenRenewal.timeToLiveMilliseconds - seconds * 1_000
            server.command("PEXPIRE", Self.tokenKey, "\(remainingMilliseconds)")
            server.command("DEL", Self.tokenKey + ":lease")
        }

        func poll() async { for sharer in sharers { await sharer.poll() } }
        func tokenTexts() -> Set<String?> { Set(sources.map { $0.provideToken(unixSeconds: unixSeconds)?.text }) }
    }

    @Test func `All workers try a new key with one token`() async throws {
        let fleet = try Fleet(workerCount: 3)
        await fleet.poll()
        let newKey = try SigningKey(path: Fleet.writeKey("second", in: fleet.directory))
        for source in fleet.sources { try source.offer(newKey, keyId: "NEXTKEY000") }
        #expect(fleet.sources.allSatisfy { $0.beginKeyTrial(unixSeconds: fleet.unixSeconds) == nil })
        await fleet.poll()
        let trialTokens = fleet.sources.map { $0.beginKeyTrial(unixSeconds: fleet.unixSeconds) }
        #expect(Set(trialTokens.map { $0?.text }).count == 1 && trialTokens[0] != nil)
        for (source, token) in zip(fleet.sources, trialTokens) {
            source.endKeyTrial(of: try #require(token), .accepted)
        }
        await fleet.poll()
        #expect(fleet.tokenTexts() == [trialTokens[0]?.text])
    }

    /// APNs refuses the fleet's token after 21 minutes.
    @Test func `After a refusal, one worker signs for all`() async throws {
        let fleet = try Fleet(workerCount: 3)
        await fleet.poll()
        let refusedTexts = fleet.tokenTexts()
        #expect(refusedTexts.count == 1)
        fleet.advance(bySeconds: 1_260)
        for source in fleet.sources {
            let token = try #require(source.provideToken(unixSeconds: fleet.unixSeconds))
            source.forgetRefusedToken(token, unixSeconds: fleet.unixSeconds)
        }
        #expect(fleet.tokenTexts() == [nil], "the shared token is awaited")
        await fleet.poll()
        let newTexts = fleet.tokenTexts()
        #expect(newTexts.count == 1 && newTexts.isDisjoint(with: refusedTexts))
    }

    /// Redis' clock was ahead, so the workers used its time, and they follow it back. By the new time, the fleet's
    /// token was issued ten minutes in the future.
    @Test func `After Redis' clock was set back, one worker signs for all`() async throws {
        let fleet = try Fleet(workerCount: 3)
        await fleet.poll()
        let earlierTexts = fleet.tokenTexts()
        fleet.advance(bySeconds: -600)
        #expect(fleet.tokenTexts() == [nil], "a shared token is awaited")
        #expect(fleet.sources.filter { !$0.awaitsSharedToken }.isEmpty)
        await fleet.poll()
        let newTexts = fleet.tokenTexts()
        #expect(newTexts.count == 1 && newTexts.isDisjoint(with: earlierTexts) && !newTexts.contains(nil))
    }
}
