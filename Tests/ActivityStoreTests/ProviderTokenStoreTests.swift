import LiveActivity
import RedisTestbed
import Testbed
import Testing

@testable import ActivityStore
@testable import Redis

/// Provider tokens that all workers share, on a real server. Each token is stored as an encrypted value.
@Suite(.serialized, .ownThread) struct ProviderTokenStoreTests {
    private let name = "TEAM123456/KEY1234567"

    private func tokenStore(_ server: RedisServer) throws -> ProviderTokenStore {
        try ProviderTokenStore(configuration: RedisConfiguration(url: RedisURL(server.unixURL)))
    }

    @Test func `A value that one worker writes is read by another`() throws {
        let server = try RedisServer()
        let (writer, reader) = (try tokenStore(server), try tokenStore(server))
        #expect(try reader.readToken(name) == nil)
        // The values are encrypted, so they may hold any bytes.
        let text: [UInt8] = [0, 255, 13, 10, 0x24]
        try writer.writeToken(name, text: text, timeToLiveMilliseconds: 100_000)
        let entry = try #require(try reader.readToken(name))
        #expect(entry.text == text)
        #expect((90_000...100_000).contains(entry.remainingMilliseconds))
        #expect(try reader.readToken("TEAM123456/KEY7654321") == nil)
    }

    @Test func `An expired value is deleted`() throws {
        let server = try RedisServer()
        let store = try tokenStore(server)
        try store.writeToken(name, text: [1], timeToLiveMilliseconds: 1)
        try eventually("a value that has expired", every: .milliseconds(1)) { try store.readToken(name) == nil }
    }

    @Test func `Only one of many workers gets the lease`() throws {
        let server = try RedisServer()
        let stores = try (0..<8).map { _ in try tokenStore(server) }
        let acquiredLeases = try stores.map { try $0.acquireLease(name, leaseMilliseconds: 60_000) }
        #expect(acquiredLeases == [true] + Array(repeating: false, count: 7))
        #expect(
            try stores[1].acquireLease("TEAM123456/KEY7654321", leaseMilliseconds: 60_000),
            "each key has its own lease"
        )
    }

    @Test func `A server that was away is found again`() throws {
        let server = try RedisServer()
        let store = try tokenStore(server)
        try store.writeToken(name, text: [1], timeToLiveMilliseconds: 100_000)
        server.kill()
        #expect(throws: RedisError.self) { try store.readToken(name) }
        try server.start()
        #expect(try store.readToken(name) == nil)
    }

    @Test func `A write that Redis refuses is an error`() throws {
        let server = try RedisServer()
        let store = try tokenStore(server)
        #expect(throws: RedisError.self) { try store.writeToken(name, text: [1], timeToLiveMilliseconds: 0) }
    }
}
