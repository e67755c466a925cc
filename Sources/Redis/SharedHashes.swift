/// Hashes and leases that the processes of a fleet share. For the control side, with the same configuration as the lanes.
///
/// Each call blocks its thread until the answer arrives, at most a few of the configuration's deadlines, on a loop of
/// its own. Not for several threads. No call is repeated.
public final class SharedHashes {
    /// Fields with their values, in the server's order.
    public typealias Hash = [(field: [UInt8], value: [UInt8])]

    private let connections: PrimaryConnections

    /// Creates the object without connecting.
    public init(configuration: RedisConfiguration) throws(RedisError) {
        connections = try PrimaryConnections(configuration: configuration)
    }

    /// All fields, read at one moment; empty if the hash does not exist.
    public func hash(_ key: [UInt8]) throws(RedisError) -> Hash {
        guard let parts = try ask(key, ["HGETALL"]).elements, parts.count.isMultiple(of: 2) else {
            throw RedisError(.protocolViolation)
        }
        var hash: Hash = []
        for index in stride(from: 0, to: parts.count, by: 2) {
            guard case .string(let field) = parts[index], case .string(let value) = parts[index + 1] else {
                throw RedisError(.protocolViolation)
            }
            hash.append((field, value))
        }
        return hash
    }

    /// The value of a field; nil if the hash has no such field.
    public func value(_ key: [UInt8], _ field: [UInt8]) throws(RedisError) -> [UInt8]? {
        switch try ask(key, ["HGET"], [field]) {
        case .string(let value): return value
        case .null: return nil
        default: throw RedisError(.protocolViolation)
        }
    }

    public func set(_ key: [UInt8], _ fields: Hash) throws(RedisError) {
        _ = try ask(key, ["HSET"], fields.flatMap { [$0.field, $0.value] })
    }

    public func remove(_ key: [UInt8], _ fields: [[UInt8]]) throws(RedisError) {
        if !fields.isEmpty { _ = try ask(key, ["HDEL"], fields) }
    }

    /// Makes the key expire after this time, unless it expires already.
    public func limitLife(_ key: [UInt8], milliseconds: Int64) throws(RedisError) {
        guard try ask(key, ["PTTL"]) == .integer(-1) else { return }
        _ = try ask(key, ["PEXPIRE"], [Array(String(milliseconds).utf8)])
    }

    /// Takes a lease, if no other process has it. The lease ends by itself after this time.
    public func takeLease(_ key: [UInt8], milliseconds: Int64) throws(RedisError) -> Bool {
        let words = ["1", "NX", "PX", String(milliseconds)].map { Array($0.utf8) }
        return try ask(key, ["SET"], words) != .null
    }

    public func isLeased(_ key: [UInt8]) throws(RedisError) -> Bool { try ask(key, ["EXISTS"]) == .integer(1) }

    public func endLease(_ key: [UInt8]) throws(RedisError) { _ = try ask(key, ["DEL"]) }

    private func ask(_ key: [UInt8], _ command: [String], _ rest: [[UInt8]] = []) throws(RedisError) -> RedisValue {
        do throws(RedisError) {
            let location = try connections.location(of: key)
            let words = command.map { Array($0.utf8) } + [key] + rest
            guard let reply = connections.send([(location, words)]).first else { throw RedisError(.closed) }
            return try reply.get().orItsError()
        } catch {
            // A failover may have happened, so search for the server again.
            connections.forget()
            throw error
        }
    }
}
