import Reactor

/// What Redis holds, for the control side: reads only, from primaries, over the same configuration as the lanes.
///
/// Each call blocks its thread until the answer is there, on a loop of its own. Not to be shared between threads.
public final class RedisQueries {
    /// Fields of a hash with their values, as the server gives them.
    public typealias Hash = [(field: [UInt8], value: [UInt8])]

    /// Attempts at one command: a cluster may change, and a connection be lost, in between.
    static let attemptsMax = 5
    /// Commands under way at a time.
    static let pipelineMax = 512
    /// What SCAN is asked to look at in one step.
    static let scanCount = 1_000
    /// Steps of SCAN over one server, which looks at as many keys in each.
    static let scanStepsMax = 1_000_000
    /// How long a call may wait for its replies, whatever the deadlines of its connections allow.
    static let blockedMillisecondsMax: Int64 = 60_000

    private let loop: EventLoop
    private let configuration: RedisConfiguration
    private var connections: [RedisURL.Location: CommandConnection] = [:]
    /// In a cluster, once known.
    private var map: SlotMap?
    /// With Sentinels, once known.
    private var primary: RedisURL.Location?

    /// Connects to nothing yet.
    public init(configuration: RedisConfiguration) throws(RedisError) {
        do throws(SystemError) {
            loop = try EventLoop()
        } catch {
            throw RedisError(.stream, error.description)
        }
        self.configuration = configuration
    }

    deinit {
        for connection in connections.values { connection.close() }
    }

    /// Ends all connections. A later call makes them anew.
    public func close() {
        forget()
    }

    // MARK: - Queries

    /// A hash's fields, in the server's order; empty if there is no such hash.
    public func hash(_ key: [UInt8]) throws(RedisError) -> Hash {
        try hashes([key])[0]
    }

    /// The same for many keys, in their order.
    public func hashes(_ keys: [[UInt8]]) throws(RedisError) -> [Hash] {
        var hashes: [Hash] = []
        hashes.reserveCapacity(keys.count)
        for start in stride(from: 0, to: keys.count, by: Self.pipelineMax) {
            let batch = Array(keys[start..<min(start + Self.pipelineMax, keys.count)])
            for reply in try ask(batch.map { (key: $0, command: [Array("HGETALL".utf8), $0]) }) {
                hashes.append(try Self.hash(reply))
            }
        }
        return hashes
    }

    /// The strings under many keys, in their order; empty where there is none.
    public func values(_ keys: [[UInt8]]) throws(RedisError) -> [[UInt8]] {
        var values: [[UInt8]] = []
        values.reserveCapacity(keys.count)
        for start in stride(from: 0, to: keys.count, by: Self.pipelineMax) {
            let batch = Array(keys[start..<min(start + Self.pipelineMax, keys.count)])
            for reply in try ask(batch.map { (key: $0, command: [Array("GET".utf8), $0]) }) {
                switch try Self.valid(reply) {
                case .string(let value): values.append(value)
                case .null: values.append([])
                default: throw RedisError(.protocolViolation)
                }
            }
        }
        return values
    }

    /// The keys that match a glob pattern, of all primaries, each once.
    ///
    /// A key that comes or goes meanwhile may be there or not; all others are.
    ///
    /// - Returns: `isComplete` is false if there are more than `keysMax`, or more than are looked at in ``scanStepsMax``.
    public func scan(
        match pattern: String,
        keysMax: Int = 1_000_000
    ) throws(RedisError) -> (keys: [[UInt8]], isComplete: Bool) {
        var keys: Set<[UInt8]> = []
        for location in try primaries() {
            var cursor = Array("0".utf8)
            var stepsLeft = Self.scanStepsMax
            repeat {
                guard stepsLeft > 0 else { return (Array(keys), false) }
                stepsLeft -= 1
                let command = ["SCAN", "", "MATCH", pattern, "COUNT", String(Self.scanCount)].map { Array($0.utf8) }
                let step = [command[0], cursor] + command[2...]
                guard case .array(let parts) = try Self.valid(try send([(location, step)])[0].get()), parts.count == 2,
                    case .string(let next) = parts[0], let found = parts[1].elements
                else { throw RedisError(.protocolViolation) }
                for case .string(let key) in found {
                    if keys.count >= keysMax, !keys.contains(key) { return (Array(keys), false) }
                    keys.insert(key)
                }
                cursor = next
            } while cursor != Array("0".utf8)
        }
        return (Array(keys), true)
    }

    /// The clock that the scripts read, UNIX milliseconds.
    ///
    /// - Parameter key: its server's clock; nil: that of any primary.
    public func serverTimeMilliseconds(for key: [UInt8]? = nil) throws(RedisError) -> Int64 {
        let reply = try Self.valid(try ask([(key: key ?? [], command: [Array("TIME".utf8)])])[0])
        guard let parts = reply.elements, parts.count == 2, let seconds = parts[0].text.flatMap({ Int64($0) }),
            let microseconds = parts[1].text.flatMap({ Int64($0) }), (0...9_999_999_999).contains(seconds)
        else { throw RedisError(.protocolViolation) }
        return seconds * 1_000 + microseconds / 1_000
    }

    private static func hash(_ reply: RedisValue) throws(RedisError) -> Hash {
        guard let elements = try valid(reply).elements, elements.count.isMultiple(of: 2) else {
            throw RedisError(.protocolViolation)
        }
        var hash: Hash = []
        for index in stride(from: 0, to: elements.count, by: 2) {
            guard case .string(let field) = elements[index], case .string(let value) = elements[index + 1] else {
                throw RedisError(.protocolViolation)
            }
            hash.append((field, value))
        }
        return hash
    }

    private static func valid(_ reply: RedisValue) throws(RedisError) -> RedisValue {
        if case .error(let text) = reply { throw text.withUnsafeBytes { RedisError(reply: $0) } }
        return reply
    }

    // MARK: - Servers

    private func primaries() throws(RedisError) -> [RedisURL.Location] {
        switch configuration.topology {
        case .single: [configuration.url.location]
        case .sentinel: [try sentinelsPrimary()]
        case .cluster: try slots().primaries
        }
    }

    private func location(of key: [UInt8]) throws(RedisError) -> RedisURL.Location {
        switch configuration.topology {
        case .single:
            return configuration.url.location
        case .sentinel:
            return try sentinelsPrimary()
        case .cluster:
            let map = try slots()
            let owner = map.owners[KeyPlace.slot(of: key)]
            guard owner != SlotMap.unowned else { throw RedisError(.clusterDown) }
            return map.primaries[Int(owner)]
        }
    }

    private func sentinelsPrimary() throws(RedisError) -> RedisURL.Location {
        if let primary { return primary }
        guard case .sentinel(let sentinels) = configuration.topology else { return configuration.url.location }
        let lookup = SentinelLookup(loop: loop, configuration: configuration, sentinels: sentinels)
        var found: Result<RedisURL.Location, RedisError>?
        // Between two calls the loop stands still, and its clock with it.
        loop.refreshClock()
        lookup.find { found = $0 }
        let location = try (turnUntil { found } ?? .failure(RedisError(.deadline))).get()
        primary = location
        return location
    }

    private func slots() throws(RedisError) -> SlotMap {
        if let map { return map }
        let lookup = SlotMapLookup(loop: loop, configuration: configuration)
        var found: Result<SlotMap, RedisError>?
        loop.refreshClock()
        lookup.find(candidates: configuration.url.locations) { found = $0 }
        let map = try (turnUntil { found } ?? .failure(RedisError(.deadline))).get()
        self.map = map
        return map
    }

    private func forget() {
        for connection in connections.values { connection.close() }
        connections = [:]
        map = nil
        primary = nil
    }

    // MARK: - Commands

    /// One command for each key, pipelined to the servers that have them, and again where that was wrong.
    private func ask(_ questions: [(key: [UInt8], command: [[UInt8]])]) throws(RedisError) -> [RedisValue] {
        var replies = [RedisValue](repeating: .null, count: questions.count)
        var open = Array(questions.indices)
        var failure = RedisError(.clusterDown)
        for _ in 0..<Self.attemptsMax {
            var commands: [(RedisURL.Location, [[UInt8]])] = []
            for index in open { commands.append((try location(of: questions[index].key), questions[index].command)) }
            var left: [Int] = []
            for (index, (command, result)) in zip(open, zip(commands, send(commands))) {
                switch followed(result, of: command) {
                case .success(.error(let text)):
                    failure = text.withUnsafeBytes { RedisError(reply: $0) }
                    guard failure.isRetriable else { throw failure }
                    left.append(index)
                case .success(let value):
                    replies[index] = value
                case .failure(let error):
                    failure = error
                    left.append(index)
                }
            }
            if left.isEmpty { return replies }
            open = left
            forget()
        }
        throw failure
    }

    /// The reply, or that of the server which the reply names: the map may be wrong for as long as a slot is on its way.
    private func followed(
        _ result: Result<RedisValue, RedisError>,
        of command: (location: RedisURL.Location, words: [[UInt8]])
    ) -> Result<RedisValue, RedisError> {
        guard case .success(.error(let text)) = result,
            let redirection = text.withUnsafeBytes({ Redirection(error: $0, answering: command.location) })
        else { return result }
        let asking = redirection.isAsk ? [(redirection.location, [Array("ASKING".utf8)])] : []
        return send(asking + [(redirection.location, command.words)]).last ?? result
    }

    private func send(_ commands: [(RedisURL.Location, [[UInt8]])]) -> [Result<RedisValue, RedisError>] {
        var results = [Result<RedisValue, RedisError>?](repeating: nil, count: commands.count)
        var answered = 0
        loop.refreshClock()
        for (index, (location, command)) in commands.enumerated() {
            connection(to: location)
                .send(command) { [weak self] result in
                    results[index] = result
                    answered += 1
                    if case .failure = result { self?.connections[location] = nil }
                }
        }
        let isAnswered: Void? = turnUntil { answered == commands.count ? () : nil }
        return results.map { $0 ?? .failure(RedisError(isAnswered == nil ? .deadline : .closed)) }
    }

    private func connection(to location: RedisURL.Location) -> CommandConnection {
        if let connection = connections[location], !connection.isOver { return connection }
        let connection = CommandConnection(
            loop: loop,
            url: configuration.url.at(location),
            configuration: configuration
        )
        connections[location] = connection
        return connection
    }

    /// Every connection has deadlines, which answer for a server that says nothing; the limit is for one that never comes to an end.
    ///
    /// - Returns: nil if the limit was reached.
    private func turnUntil<Value>(_ value: () -> Value?) -> Value? {
        let end = loop.nowMilliseconds + Self.blockedMillisecondsMax
        while true {
            if let value = value() { return value }
            if loop.nowMilliseconds >= end { return nil }
            loop.turn(waitMilliseconds: Int32(clamping: end - loop.nowMilliseconds))
        }
    }
}
