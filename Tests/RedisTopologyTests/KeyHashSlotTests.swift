import Reactor
import RedisTestbed
import Testbed
import Testing

@testable import Redis

/// The hash slots and fingerprints of keys, and the redirections of calls to other servers.
@Suite(.ownThread) struct KeyHashSlotTests {
    @Test func `The hash slot of a key is the one that a server computes`() throws {
        let server = try RedisServer([
            "--cluster-enabled", "yes", "--cluster-port", String(try Listener.findUnusedLoopbackPort()),
        ])
        let client = try #require(BlockingClient(port: server.port))
        var random = SystemRandomNumberGenerator()
        var keys = ["{}", "{}x", "{", "}", "a{b}c", "a{{b}}c", "{a}{b}", "foo{}{bar}", "{user1000}.following"]
        for _ in 0..<2_000 {
            let letters = (0..<Int.random(in: 1...40, using: &random)).map { _ in "ab{}:/z.-é".randomElement() ?? "a" }
            keys.append(String(letters))
        }
        for key in keys {
            #expect(client.command("CLUSTER", "KEYSLOT", key) == [String(slot(key))], "\(key)")
            // Causeway writes keys in this form. The id in such a key may have any bytes.
            for sign in ["=", "/"] {
                let keyWithHashTag = "{com.example\(sign)\(key)}"
                #expect(
                    client.command("CLUSTER", "KEYSLOT", keyWithHashTag) == [String(slot(keyWithHashTag))],
                    "\(keyWithHashTag)"
                )
            }
        }
    }

    private func slot(_ key: String) -> Int { Array(key.utf8).withUnsafeBytes { KeyHashSlot($0).hashSlot } }

    @Test func `Different keys have different fingerprints`() {
        let fingerprints = Set(
            (0..<100_000).map { activity in TopologyCaller.withKey(of: activity) { KeyHashSlot($0).fingerprint } }
        )
        #expect(fingerprints.count == 100_000 && !fingerprints.contains(0))
    }

    @Test(
        arguments: [
            ("MOVED 3999 127.0.0.1:6381", false, 3_999, "127.0.0.1:6381"),
            ("ASK 0 ::1:6381", true, 0, "[::1]:6381"),
            ("MOVED 16383 node-2.example.com:1", false, 16_383, "node-2.example.com:1"),
            ("MOVED 1 :6381", false, 1, "here:6381"), ("ASK 1 ?:6381", true, 1, "here:6381"),
        ]
    )
    func `A redirection is read`(text: String, isAsk: Bool, slot: Int, location: String) throws {
        let redirection = try #require(self.redirection(text))
        #expect(redirection.isAsk == isAsk && redirection.hashSlot == slot)
        #expect(redirection.location.description == location)
    }

    @Test(arguments: [
        "", "MOVED", "MOVED 1", "MOVED x a:1", "MOVED 16384 a:1", "MOVED -1 a:1", "MOVED 1 a", "MOVED 1 a:",
        "MOVED 1 a:0",
        "MOVED 1 a:65536", "MOVED 1 a:99999999999999999999", "MOVEDX 1 a:1", "moved 1 a:1", "ERR 1 a:1",
        "MOVED 1 \(String(repeating: "a", count: 256)):1", "MOVED 1 a\0:1",
    ])
    func `A text that is no redirection is not followed`(text: String) {
        #expect(redirection(text) == nil)
    }

    private func redirection(_ text: String) -> Redirection? {
        Array(text.utf8).withUnsafeBytes { Redirection(error: $0, from: .host("here", port: 1)) }
    }

    @Test func `After ASK, the next call of the key goes to another server, once`() {
        var askRedirections = AskRedirections()
        askRedirections.insert(7, nodeIndex: 3)
        askRedirections.insert(8, nodeIndex: 4)
        askRedirections.insert(7, nodeIndex: 5)
        #expect(askRedirections.count == 2)
        #expect(
            askRedirections.nodeIndex(for: 7) == 5 && askRedirections.nodeIndex(for: 8) == 4
                && askRedirections.nodeIndex(for: 9) == nil
        )
        askRedirections.remove(7)
        askRedirections.remove(7)
        #expect(askRedirections.count == 1 && askRedirections.nodeIndex(for: 7) == nil)
        // This fingerprint has the same index in the table as fingerprint 8, so it replaces the entry of 8.
        let otherFingerprint = UInt64(8 + AskRedirections.capacity)
        askRedirections.insert(otherFingerprint, nodeIndex: 6)
        #expect(
            askRedirections.count == 1 && askRedirections.nodeIndex(for: 8) == nil
                && askRedirections.nodeIndex(for: otherFingerprint) == 6
        )
        askRedirections.removeAll(forNode: 6)
        #expect(askRedirections.count == 0 && askRedirections.nodeIndex(for: otherFingerprint) == nil)
        for fingerprint in 1...100_000 as ClosedRange<UInt64> {
            askRedirections.insert(fingerprint &* 0x9E37_79B9_7F4A_7C15, nodeIndex: 1)
        }
        #expect(askRedirections.count <= AskRedirections.capacity)
    }
}
