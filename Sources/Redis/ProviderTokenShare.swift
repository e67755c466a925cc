/// Where the processes of a fleet leave a provider token for each other: a text that nobody here understands, under a key that expires,
/// and a lease beside it. For the control side, over the same configuration as the lanes.
///
/// Each call blocks its thread until the answer is there, for a few of the configuration's deadlines at most, on a loop of its own. Not to
/// be shared between threads. No call is repeated: what failed is tried again with the next look.
public final class ProviderTokenShare {
    /// A text, and how long Redis keeps it yet: by that all agree on its age, whatever their clocks say.
    public struct Entry: Equatable {
        public var text: [UInt8]
        public var remainingMilliseconds: Int64
    }

    private let connections: PrimaryConnections

    /// Connects to nothing yet.
    public init(configuration: RedisConfiguration) throws(RedisError) {
        connections = try PrimaryConnections(configuration: configuration)
    }

    /// A key and its lease are in the same slot of a cluster, and no activity's.
    private static func key(_ name: String) -> String { "{causeway/provider-token/\(name)}" }
    private static func leaseKey(_ name: String) -> String { key(name) + ":lease" }

    /// What is there under this name; nil: nothing.
    public func read(_ name: String) throws(RedisError) -> Entry? {
        let key = Self.key(name)
        // In this order: a text that is replaced between the two is taken for younger than it is by a moment, never for older.
        let replies = try ask(name, [["GET", key], ["PTTL", key]].map { $0.map { Array($0.utf8) } })
        switch (replies[0], replies[1].integer) {
        case (.null, _): return nil
        case (.string(let text), let remaining?): return Entry(text: text, remainingMilliseconds: max(0, remaining))
        default: throw RedisError(.protocolViolation)
        }
    }

    /// Leaves a text for others, for so long.
    public func write(_ name: String, text: [UInt8], milliseconds: Int64) throws(RedisError) {
        let words = ["SET", Self.key(name), "", "PX", String(milliseconds)].map { Array($0.utf8) }
        _ = try ask(name, [[words[0], words[1], text, words[3], words[4]]])
    }

    /// Whether it is this process's turn to sign: nobody else's for so long. The lease ends by itself.
    public func takeLease(_ name: String, milliseconds: Int64) throws(RedisError) -> Bool {
        let words = ["SET", Self.leaseKey(name), "1", "NX", "PX", String(milliseconds)].map { Array($0.utf8) }
        return try ask(name, [words])[0] != .null
    }

    private func ask(_ name: String, _ commands: [[[UInt8]]]) throws(RedisError) -> [RedisValue] {
        do throws(RedisError) {
            let location = try connections.location(of: Array(Self.key(name).utf8))
            var replies: [RedisValue] = []
            for result in connections.send(commands.map { (location, $0) }) {
                replies.append(try result.get().orItsError())
            }
            return replies
        } catch {
            // The server may be another one by the next call.
            connections.forget()
            throw error
        }
    }
}
