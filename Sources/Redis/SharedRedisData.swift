/// Hashes, timetables and leases that all workers share, for code outside the lanes. Not thread-safe.
///
/// Each call blocks its thread until the reply arrives. The call fails if Redis is silent or slow, or if the task is
/// cancelled (``PrimaryConnections``). A failed call is not repeated.
public final class SharedRedisData {
    /// A hash's fields with their values, in the server's order.
    public typealias HashFields = [(field: [UInt8], value: [UInt8])]

    private let connections: PrimaryConnections

    /// Opens no connection. The first call connects.
    public init(configuration: RedisConfiguration) throws(RedisError) {
        connections = try PrimaryConnections(configuration: configuration)
    }

    /// Reads all fields of a hash; none if the hash does not exist. Also asks the server that has the hash for
    /// `INFO server`.
    public func readHashAndServer(_ key: [UInt8]) throws(RedisError) -> (fields: HashFields, server: ServerInformation)
    {
        let (reply, server) = try sendAndReadServer(key, ["HGETALL"])
        guard let parts = reply.elements, parts.count.isMultiple(of: 2) else { throw RedisError(.protocolViolation) }
        var hash: HashFields = []
        for index in stride(from: 0, to: parts.count, by: 2) {
            guard case .string(let field) = parts[index], case .string(let value) = parts[index + 1] else {
                throw RedisError(.protocolViolation)
            }
            hash.append((field, value))
        }
        return (hash, server)
    }

    /// Reads the value of a field; nil if the hash has no such field.
    public func readField(_ key: [UInt8], _ field: [UInt8]) throws(RedisError) -> [UInt8]? {
        switch try send(key, ["HGET"], [field]) {
        case .string(let value): return value
        case .null: return nil
        default: throw RedisError(.protocolViolation)
        }
    }

    /// Reads the values of several fields of a hash; nil for each field that the hash does not have.
    public func readFields(_ key: [UInt8], _ fields: [[UInt8]]) throws(RedisError) -> [[UInt8]?] {
        try Self.parseValues(send(key, ["HMGET"], fields), of: fields)
    }

    /// Reads the values of several fields as ``readFields(_:_:)`` does. Also asks the server that has the hash for
    /// `INFO server`.
    public func readFieldsAndServer(_ key: [UInt8], _ fields: [[UInt8]])
        throws(RedisError) -> (values: [[UInt8]?], server: ServerInformation)
    {
        let (reply, server) = try sendAndReadServer(key, ["HMGET"], fields)
        return (try Self.parseValues(reply, of: fields), server)
    }

    private static func parseValues(_ reply: RedisValue, of fields: [[UInt8]]) throws(RedisError) -> [[UInt8]?] {
        guard let parts = reply.elements, parts.count == fields.count else { throw RedisError(.protocolViolation) }
        return parts.map { if case .string(let value) = $0 { value } else { nil } }
    }

    public func setFields(_ key: [UInt8], _ fields: HashFields) throws(RedisError) {
        _ = try send(key, ["HSET"], fields.flatMap { [$0.field, $0.value] })
    }

    public func removeFields(_ key: [UInt8], _ fields: [[UInt8]]) throws(RedisError) {
        if !fields.isEmpty { _ = try send(key, ["HDEL"], fields) }
    }

    /// A condition for a change of a hash: `field` must have the value `expectedValue`. If it has, the call also sets
    /// `field` to `newValue`, unless `newValue` is nil.
    public struct FieldCondition {
        var field: [UInt8]
        var expectedValue: [UInt8]
        var newValue: [UInt8]?

        public init(_ field: [UInt8], _ expectedValue: [UInt8], newValue: [UInt8]? = nil) {
            (self.field, self.expectedValue, self.newValue) = (field, expectedValue, newValue)
        }
    }

    /// Adds fields that the hash does not have, in one atomic step. Existing fields keep their values.
    ///
    /// - Returns: the number of added fields; nil, without any change, if the condition does not hold.
    public func addMissingFields(_ key: [UInt8], _ fields: HashFields, if condition: FieldCondition? = nil)
        throws(RedisError)
        -> Int?
    {
        let conditionArguments = condition.map { [$0.field, $0.expectedValue, $0.newValue ?? []] } ?? [[], [], []]
        guard
            case .integer(let count) = try callScript(
                Self.addFieldsScript,
                key,
                conditionArguments + fields.flatMap { [$0.field, $0.value] }
            )
        else { throw RedisError(.protocolViolation) }
        return count < 0 ? nil : Int(count)
    }

    private static let addFieldsScript = """
        if ARGV[1] ~= '' and redis.call('HGET', KEYS[1], ARGV[1]) ~= ARGV[2] then return -1 end
        local added = 0
        for index = 4, #ARGV, 2 do
          if not redis.call('HGET', KEYS[1], ARGV[index]) then
            redis.call('HSET', KEYS[1], ARGV[index], ARGV[index + 1])
            added = added + 1
          end
        end
        if ARGV[3] ~= '' then redis.call('HSET', KEYS[1], ARGV[1], ARGV[3]) end
        return added
        """

    /// Removes the condition's field if the condition holds, in one atomic step. Ignores the condition's `newValue`.
    ///
    /// - Returns: whether the condition held.
    public func removeField(_ key: [UInt8], if condition: FieldCondition) throws(RedisError) -> Bool {
        try callScript(Self.removeFieldScript, key, [condition.field, condition.expectedValue]) == .integer(1)
    }

    private static let removeFieldScript = """
        if redis.call('HGET', KEYS[1], ARGV[1]) ~= ARGV[2] then return 0 end
        return redis.call('HDEL', KEYS[1], ARGV[1])
        """

    /// Sets fields of several hashes, and makes Redis delete each hash after `timeToLiveMilliseconds`. Both commands
    /// are sent together, so that no hash stays forever if the process ends before the reply.
    public func setFields(_ hashes: [(key: [UInt8], fields: HashFields)], timeToLiveMilliseconds: Int64)
        throws(RedisError)
    {
        let timeToLive = Array(String(timeToLiveMilliseconds).utf8)
        _ = try sendAll(
            hashes.flatMap { key, fields -> [KeyCommand] in
                [(key, ["HSET"], fields.flatMap { [$0.field, $0.value] }), (key, ["PEXPIRE"], [timeToLive])]
            }
        )
    }

    /// A lease that this process has taken. Redis may have ended it since.
    public struct Lease: Sendable {
        fileprivate let key: [UInt8]
        /// A random value, which Redis stores under the key. It shows whether the key still has this lease, or already
        /// a later lease of another process.
        fileprivate let identifier: [UInt8]
    }

    /// Takes a lease, which ends after `leaseMilliseconds`.
    ///
    /// - Returns: nil if any process has the lease already, including this one.
    public func acquireLease(_ key: [UInt8], leaseMilliseconds: Int64) throws(RedisError) -> Lease? {
        let lease = Lease(key: key, identifier: Array(String(UInt64.random(in: .min ... .max)).utf8))
        let options = ["NX", "PX", String(leaseMilliseconds)].map { Array($0.utf8) }
        return try send(key, ["SET"], [lease.identifier] + options) == .null ? nil : lease
    }

    /// Makes a lease end `leaseMilliseconds` from now. Does nothing if the lease has ended.
    public func extendLease(_ lease: Lease, leaseMilliseconds: Int64) throws(RedisError) {
        let arguments = [lease.identifier, Array(String(leaseMilliseconds).utf8)]
        _ = try callScript(Self.extendLeaseScript, lease.key, arguments)
    }

    public func isLeased(_ key: [UInt8]) throws(RedisError) -> Bool { try send(key, ["EXISTS"]) == .integer(1) }

    /// Ends a lease. Does nothing if the lease has ended.
    public func releaseLease(_ lease: Lease) throws(RedisError) {
        _ = try callScript(Self.releaseLeaseScript, lease.key, [lease.identifier])
    }

    private static let extendLeaseScript =
        "if redis.call('GET', KEYS[1]) == ARGV[1] then redis.call('PEXPIRE', KEYS[1], ARGV[2]) end"
    private static let releaseLeaseScript =
        "if redis.call('GET', KEYS[1]) == ARGV[1] then redis.call('DEL', KEYS[1]) end"

    private typealias KeyCommand = (key: [UInt8], command: [String], arguments: [[UInt8]])

    private func send(_ key: [UInt8], _ command: [String], _ arguments: [[UInt8]] = []) throws(RedisError) -> RedisValue
    {
        guard let reply = try sendAll([(key, command, arguments)]).first else { throw RedisError(.closed) }
        return reply
    }

    /// Sends a command together with `INFO server`. The information is about the server that has replied to the
    /// command, unless a cluster redirected the command to another server. If the user may not call INFO, the
    /// information is empty.
    private func sendAndReadServer(_ key: [UInt8], _ command: [String], _ arguments: [[UInt8]] = [])
        throws(RedisError) -> (reply: RedisValue, server: ServerInformation)
    {
        try closingConnectionsAfterErrors { () throws(RedisError) -> (reply: RedisValue, server: ServerInformation) in
            let location = try connections.findLocation(of: key)
            let replies = connections.send([
                (location, command.map { Array($0.utf8) } + [key] + arguments),
                (location, ["INFO", "server"].map { Array($0.utf8) }),
            ])
            guard replies.count == 2 else { throw RedisError(.closed) }
            return (try replies[0].get().valueOrThrow(), ServerInformation(reply: try replies[1].get()))
        }
    }

    /// Sends all commands together. If some of them fail, throws the first error.
    private func sendAll(_ keyCommands: [KeyCommand]) throws(RedisError) -> [RedisValue] {
        try closingConnectionsAfterErrors { () throws(RedisError) in
            var commands: [PrimaryConnections.Command] = []
            for (key, command, arguments) in keyCommands {
                commands.append(
                    (try connections.findLocation(of: key), command.map { Array($0.utf8) } + [key] + arguments)
                )
            }
            var values: [RedisValue] = []
            for reply in connections.send(commands) { values.append(try reply.get().valueOrThrow()) }
            return values
        }
    }

    /// Calls a script. Loads the script first, because the server may not have it. All keys must have the same hash
    /// tag.
    func callScript(
        _ script: String,
        _ key: [UInt8],
        furtherKeys: [[UInt8]] = [],
        _ arguments: [[UInt8]]
    ) throws(RedisError) -> RedisValue {
        try closingConnectionsAfterErrors { () throws(RedisError) in
            let location = try connections.findLocation(of: key)
            let loadCommand = ["SCRIPT", "LOAD", script].map { Array($0.utf8) }
            guard let loadReply = connections.send([(location, loadCommand)]).first,
                case .string(let digest) = try loadReply.get().valueOrThrow()
            else { throw RedisError(.protocolViolation) }
            let keyCount = Array(String(1 + furtherKeys.count).utf8)
            let words = [Array("EVALSHA".utf8), digest, keyCount, key] + furtherKeys + arguments
            guard let reply = connections.send([(location, words)]).first else { throw RedisError(.closed) }
            return try reply.get().valueOrThrow()
        }
    }

    /// Runs `body`. If it throws an error, closes all connections, so that the next call searches for the primaries
    /// again: they may have changed.
    private func closingConnectionsAfterErrors<Value>(_ body: () throws(RedisError) -> Value) throws(RedisError)
        -> Value
    {
        do throws(RedisError) {
            return try body()
        } catch {
            connections.closeAll()
            throw error
        }
    }
}
