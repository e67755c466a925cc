/// Shares APNs' provider tokens among all workers. Redis keeps a token's text until the text expires, and gives a lease
/// to the one worker that signs the next token. Used only outside the lanes. Not thread-safe.
///
/// Each call blocks its thread until the reply arrives. It fails, and is not repeated, if Redis is silent or slow, or
/// if the task is cancelled (``PrimaryConnections``).
public final class ProviderTokenStore {
    /// A token's text, and how long Redis still keeps it. All workers see the same remaining time, even if their clocks
    /// differ.
    public struct StoredToken: Equatable {
        public var text: [UInt8]
        public var remainingMilliseconds: Int64
    }

    private let connections: PrimaryConnections

    /// Opens no connection. The first call connects.
    public init(configuration: RedisConfiguration) throws(RedisError) {
        connections = try PrimaryConnections(configuration: configuration)
    }

    /// The key of a token's text. The key of the lease has the same hash tag (the part in braces). So a cluster stores
    /// both in one hash slot.
    private static func tokenKey(_ name: String) -> String { "{causeway/provider-token/\(name)}" }
    private static func leaseKey(_ name: String) -> String { tokenKey(name) + ":lease" }

    /// Reads the text under this name; nil if there is none.
    public func readToken(_ name: String) throws(RedisError) -> StoredToken? {
        let key = Self.tokenKey(name)
        // Read the remaining time after the text. If another worker replaces the text in between, this worker has the
        // old text with the new time, and reads the new text at its next check. In the other order, it would have the
        // new text with the old, short time, and would replace it too early.
        let replies = try send(name, [["GET", key], ["PTTL", key]].map { $0.map { Array($0.utf8) } })
        switch (replies[0], replies[1].integer) {
        case (.null, _): return nil
        case (.string(let text), let remaining?):
            return StoredToken(text: text, remainingMilliseconds: max(0, remaining))
        default: throw RedisError(.protocolViolation)
        }
    }

    /// Stores a token's text for all workers. Redis deletes the text after `timeToLiveMilliseconds`.
    public func writeToken(_ name: String, text: [UInt8], timeToLiveMilliseconds: Int64) throws(RedisError) {
        let words = ["SET", Self.tokenKey(name), "", "PX", String(timeToLiveMilliseconds)].map { Array($0.utf8) }
        _ = try send(name, [[words[0], words[1], text, words[3], words[4]]])
    }

    /// Takes the lease to sign a token. The lease ends after `leaseMilliseconds`.
    ///
    /// - Returns: false if any worker has the lease already, including this one.
    public func acquireLease(_ name: String, leaseMilliseconds: Int64) throws(RedisError) -> Bool {
        let words = ["SET", Self.leaseKey(name), "1", "NX", "PX", String(leaseMilliseconds)].map { Array($0.utf8) }
        return try send(name, [words])[0] != .null
    }

    private func send(_ name: String, _ commands: [[[UInt8]]]) throws(RedisError) -> [RedisValue] {
        do throws(RedisError) {
            let location = try connections.findLocation(of: Array(Self.tokenKey(name).utf8))
            var replies: [RedisValue] = []
            for result in connections.send(commands.map { (location, $0) }) {
                replies.append(try result.get().valueOrThrow())
            }
            return replies
        } catch {
            // After an error there may be another primary, so the next call searches for it.
            connections.closeAll()
            throw error
        }
    }
}
