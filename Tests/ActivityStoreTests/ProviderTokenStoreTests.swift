import LiveActivity
import RedisTestbed
import Testbed
import Testing

@testable import ActivityStore
@testable import Redis

/// The values of provider tokens that all workers share, on a real server.
@Suite(.serialized, .ownThread) struct ProviderTokenStoreTests {
    private let name = "TEAM123456/KEY1234567"

    private func share(_ server: RedisServer) throws -> ProviderTokenStore {
        try ProviderTokenStore(configuration: RedisConfiguration(url: RedisURL(server.unixURL)))
    }

    @Test func `A value that one worker writes is read by another`() throws {
        let server = try RedisServer()
        let (one, other) = (try share(server), try share(server))
        #expect(try other.read(name) == nil)
        // The values are encrypted, so they may hold any bytes.
        let text: [UInt8] = [0, 255, 13, 10, 0x24]
        try one.write(name, text: text, milliseconds: 100_000)
        let entry = try #require(try other.read(name))
        #expect(entry.text == text)
        #expect((90_000...100_000).contains(entry.remainingMilliseconds))
        #expect(try other.read("TEAM123456/KEY7654321") == nil)
    }

    @Test func `An expired value is deleted`() throws {
        let server = try RedisServer()
        let share = try share(server)
        try share.write(name, text: [1], milliseconds: 1)
        try eventually("a value that has expired", every: .milliseconds(1)) { try share.read(name) == nil }
    }

    @Test func `Only one of many workers gets the lease`() throws {
        let server = try RedisServer()
        let holders = try (0..<8).map { _ in try share(server) }
        let taken = try holders.map { try $0.acquireLease(name, milliseconds: 60_000) }
        #expect(taken == [true] + Array(repeating: false, count: 7))
        #expect(try holders[1].acquireLease("TEAM123456/KEY7654321", milliseconds: 60_000), "of each key its own")
    }

    @Test func `A server that was away is found again`() throws {
        let server = try RedisServer()
        let share = try share(server)
        try share.write(name, text: [1], milliseconds: 100_000)
        server.kill()
        #expect(throws: RedisError.self) { try share.read(name) }
        try server.start()
        #expect(try share.read(name) == nil)
    }

    @Test func `A write that Redis refuses is an error`() throws {
        let server = try RedisServer()
        let share = try share(server)
        #expect(throws: RedisError.self) { try share.write(name, text: [1], milliseconds: 0) }
    }
}
