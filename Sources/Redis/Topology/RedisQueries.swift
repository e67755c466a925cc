/// Reads data from the primaries and never writes, for code outside the lanes. Each call runs the object's own event
/// loop, and blocks its thread until the reply arrives. Not thread-safe.
public final class RedisQueries {
    /// A hash's fields with their values, in the server's order.
    public typealias HashFields = [(field: [UInt8], value: [UInt8])]

    /// The maximum number of attempts of a command. It is tried again because the cluster may have changed, or the
    /// connection may have been lost. It is not tried again after a cancellation, or after an error that is proven to
    /// be its own (`RedisError.isRetriable` is false). SCAN, and the search for the servers, are tried only once.
    static let attemptsMax = 5
    /// The maximum number of commands that are sent before their replies are read. One server may get all of them, so
    /// the number must not exceed ``CommandConnection/commandsMax``.
    static let pipelinedCommandsMax = 512
    /// About how many keys the server checks in one step of SCAN (its argument COUNT). A step must be short, because
    /// the calls of workers wait until the step ends.
    static let keysPerScanStep = 1_000
    /// The maximum number of steps of SCAN on one server.
    public static let scanStepsMax = 1_000_000

    private let connections: PrimaryConnections
    private let isCancelled: () -> Bool

    /// Opens no connection. The first call connects.
    ///
    /// - Parameter isCancelled: asked while a call waits. If it returns true, the call ends with an error.
    public init(
        configuration: RedisConfiguration,
        isCancelled: @escaping () -> Bool = { Task.isCancelled }
    ) throws(RedisError) {
        connections = try PrimaryConnections(configuration: configuration, isCancelled: isCancelled)
        self.isCancelled = isCancelled
    }

    /// Closes all connections. A later call connects again.
    public func close() { connections.closeAll() }

    // MARK: - Reading keys

    /// Reads a hash's fields, in the server's order; empty if the hash does not exist.
    public func readHash(_ key: [UInt8]) throws(RedisError) -> HashFields {
        try readHashes([key])[0]
    }

    /// Reads the fields of many hashes, in the order of the keys.
    public func readHashes(_ keys: [[UInt8]]) throws(RedisError) -> [HashFields] {
        var hashes: [HashFields] = []
        hashes.reserveCapacity(keys.count)
        for start in stride(from: 0, to: keys.count, by: Self.pipelinedCommandsMax) {
            let batch = Array(keys[start..<min(start + Self.pipelinedCommandsMax, keys.count)])
            for reply in try send(batch.map { (key: $0, command: [Array("HGETALL".utf8), $0]) }) {
                hashes.append(try Self.parseHash(reply))
            }
        }
        return hashes
    }

    /// Reads the strings under many keys, in the order of the keys; empty for a key that does not exist.
    public func readStrings(_ keys: [[UInt8]]) throws(RedisError) -> [[UInt8]] {
        var values: [[UInt8]] = []
        values.reserveCapacity(keys.count)
        for start in stride(from: 0, to: keys.count, by: Self.pipelinedCommandsMax) {
            let batch = Array(keys[start..<min(start + Self.pipelinedCommandsMax, keys.count)])
            for reply in try send(batch.map { (key: $0, command: [Array("GET".utf8), $0]) }) {
                switch try reply.valueOrThrow() {
                case .string(let value): values.append(value)
                case .null: values.append([])
                default: throw RedisError(.protocolViolation)
                }
            }
        }
        return values
    }

    /// Reads the score of a member of a sorted set; nil if the set has no such member or does not exist.
    public func readScore(of member: [UInt8], in key: [UInt8]) throws(RedisError) -> Double? {
        let reply = try send([(key: key, command: [Array("ZSCORE".utf8), key, member])])[0].valueOrThrow()
        if case .null = reply { return nil }
        guard let score = reply.text.flatMap({ Double($0) }), score.isFinite else {
            throw RedisError(.protocolViolation)
        }
        return score
    }

    /// Finds the keys that match a glob pattern on all primaries. Returns each key once. A key that is created, deleted
    /// or moved to another primary during the scan may be found or not; a complete scan finds all others.
    ///
    /// - Returns: the keys. `isComplete` is false if the scan ended early, at `keysMax` keys or after `stepsMax` steps
    ///   on one server.
    public func scanKeys(
        match pattern: String,
        keysMax: Int = 1_000_000,
        stepsMax: Int = scanStepsMax
    ) throws(RedisError) -> (keys: [[UInt8]], isComplete: Bool) {
        var keys: Set<[UInt8]> = []
        for location in try connections.findPrimaries() {
            var cursor = Array("0".utf8)
            var remainingStepCount = stepsMax
            repeat {
                guard remainingStepCount > 0 else { return (Array(keys), false) }
                remainingStepCount -= 1
                let command = ["SCAN", "", "MATCH", pattern, "COUNT", String(Self.keysPerScanStep)]
                    .map { Array($0.utf8) }
                let stepCommand = [command[0], cursor] + command[2...]
                guard case .array(let parts) = try connections.send([(location, stepCommand)])[0].get().valueOrThrow(),
                    parts.count == 2,
                    case .string(let nextCursor) = parts[0], let foundKeys = parts[1].elements
                else { throw RedisError(.protocolViolation) }
                for case .string(let key) in foundKeys {
                    if keys.count >= keysMax, !keys.contains(key) { return (Array(keys), false) }
                    keys.insert(key)
                }
                cursor = nextCursor
            } while cursor != Array("0".utf8)
        }
        return (Array(keys), true)
    }

    /// Reads a server's clock, in UNIX milliseconds. The scripts use the same clock.
    ///
    /// - Parameter key: the server of this key is asked; nil for any primary.
    public func readServerWallMilliseconds(for key: [UInt8]? = nil) throws(RedisError) -> Int64 {
        try Self.parseTime(send([(key: key ?? [], command: [Array("TIME".utf8)])])[0])
    }

    /// Reads the clock of each primary, in UNIX milliseconds, in no particular order. Leaves out a primary that does
    /// not reply or refuses to say the time.
    ///
    /// - Throws: if the primaries cannot be found.
    public func readPrimaryWallMilliseconds() throws(RedisError) -> [Int64] {
        let primaries = try connections.findPrimaries()
        var times: [Int64] = []
        for result in connections.send(primaries.map { ($0, [Array("TIME".utf8)]) }) {
            if let reply = try? result.get(), let time = try? Self.parseTime(reply) { times.append(time) }
        }
        // If a primary has not replied, other servers may be the primaries now. So the next call searches for them.
        if times.count < primaries.count { connections.forgetPrimaries() }
        return times
    }

    private static func parseTime(_ reply: RedisValue) throws(RedisError) -> Int64 {
        guard let parts = try reply.valueOrThrow().elements, parts.count == 2,
            let seconds = parts[0].text.flatMap({ Int64($0) }),
            let microseconds = parts[1].text.flatMap({ Int64($0) }), (0...9_999_999_999).contains(seconds)
        else { throw RedisError(.protocolViolation) }
        return seconds * 1_000 + microseconds / 1_000
    }

    private static func parseHash(_ reply: RedisValue) throws(RedisError) -> HashFields {
        guard let elements = try reply.valueOrThrow().elements, elements.count.isMultiple(of: 2) else {
            throw RedisError(.protocolViolation)
        }
        var hash: HashFields = []
        for index in stride(from: 0, to: elements.count, by: 2) {
            guard case .string(let field) = elements[index], case .string(let value) = elements[index + 1] else {
                throw RedisError(.protocolViolation)
            }
            hash.append((field, value))
        }
        return hash
    }

    // MARK: - Sending commands by key

    /// Sends one command for each key to the key's server, all of them together. Repeats failed commands after a new
    /// search for the servers, up to `attemptsMax` attempts in all.
    private func send(_ keyCommands: [(key: [UInt8], command: [[UInt8]])]) throws(RedisError) -> [RedisValue] {
        var replies = [RedisValue](repeating: .null, count: keyCommands.count)
        var remainingIndices = Array(keyCommands.indices)
        var lastFailure = RedisError(.clusterDown)
        for _ in 0..<Self.attemptsMax {
            var commands: [PrimaryConnections.Command] = []
            for index in remainingIndices {
                let location = try connections.findLocation(of: keyCommands[index].key)
                commands.append((location, keyCommands[index].command))
            }
            var failedIndices: [Int] = []
            for (index, result) in zip(remainingIndices, connections.send(commands)) {
                switch result {
                case .success(.error(let text)):
                    lastFailure = text.withUnsafeBytes { RedisError(reply: $0) }
                    guard lastFailure.isRetriable else { throw lastFailure }
                    failedIndices.append(index)
                case .success(let value):
                    replies[index] = value
                case .failure(let error):
                    lastFailure = error
                    failedIndices.append(index)
                }
            }
            if failedIndices.isEmpty { return replies }
            if isCancelled() { throw lastFailure }
            remainingIndices = failedIndices
            connections.closeAll()
        }
        throw lastFailure
    }
}
