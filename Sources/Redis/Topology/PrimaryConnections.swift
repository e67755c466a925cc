import Reactor

/// Connections to the primaries of whatever topology is configured, for the control side.
///
/// Each call blocks its thread until the answers are there, for a few of the configuration's deadlines at most, on a loop of its own; when
/// it is over (its task is cancelled, as a rule), it ends without them. Not to be shared between threads.
final class PrimaryConnections {
    /// A command, and the server that is to have it.
    typealias Command = (location: RedisURL.Location, words: [[UInt8]])
    /// What came of one.
    typealias Answer = Result<RedisValue, RedisError>

    /// How long a call may wait for its replies, whatever the deadlines of its connections allow.
    static let blockedMillisecondsMax: Int64 = 60_000
    /// How soon a call ends that is over.
    private static let cancellationMilliseconds: Int64 = 50

    private let loop: EventLoop
    private let configuration: RedisConfiguration
    private let isOver: () -> Bool
    private var connections: [RedisURL.Location: CommandConnection] = [:]
    /// In a cluster, once known.
    private var map: SlotMap?
    private var lastPrimaries: [RedisURL.Location] = []
    /// With Sentinels, once known.
    private var primary: RedisURL.Location?

    /// Connects to nothing yet.
    init(
        configuration: RedisConfiguration,
        isOver: @escaping () -> Bool = { Task.isCancelled }
    ) throws(RedisError) {
        do throws(SystemError) {
            loop = try EventLoop()
        } catch {
            throw RedisError(.stream, error.description)
        }
        self.configuration = configuration
        self.isOver = isOver
    }

    deinit { forget() }

    /// Ends all connections and forgets who is primary: the next call finds out again.
    func forget() {
        for connection in connections.values { connection.close() }
        connections = [:]
        map = nil
        primary = nil
    }

    /// The next call finds out which servers there are; connections stay.
    func searchAgain() {
        map = nil
        primary = nil
    }

    // MARK: - Servers

    /// The primaries, each with those of the slots that it has; without a cluster, all of them.
    func primaries(having slots: [Int]) throws(RedisError) -> [(location: RedisURL.Location, slots: [Int])] {
        guard case .cluster = configuration.topology else { return try primaries().map { ($0, slots) } }
        let map = try self.slots()
        return map.primaries.enumerated()
            .map { position, location in (location, slots.filter { map.owners[$0] == UInt16(position) }) }
    }

    func primaries() throws(RedisError) -> [RedisURL.Location] {
        switch configuration.topology {
        case .single: [configuration.url.location]
        case .sentinel(let sentinels): [try primary(by: sentinels)]
        case .cluster: try slots().primaries
        }
    }

    func location(of key: [UInt8]) throws(RedisError) -> RedisURL.Location {
        switch configuration.topology {
        case .single:
            return configuration.url.location
        case .sentinel(let sentinels):
            return try primary(by: sentinels)
        case .cluster:
            let map = try slots()
            let owner = map.owners[key.withUnsafeBytes { KeyPlace.slot(of: $0) }]
            guard owner != SlotMap.unowned else { throw RedisError(.clusterDown) }
            return map.primaries[Int(owner)]
        }
    }

    private func primary(by sentinels: RedisURL) throws(RedisError) -> RedisURL.Location {
        if let primary { return primary }
        let lookup = SentinelLookup(loop: loop, configuration: configuration, sentinels: sentinels)
        let location = try found { lookup.find($0) }
        primary = location
        return location
    }

    private func slots() throws(RedisError) -> SlotMap {
        if let map { return map }
        let lookup = SlotMapLookup(loop: loop, configuration: configuration)
        // Those that were primaries last know as well as those that are configured, which may have gone.
        let others = configuration.url.locations.filter { !lastPrimaries.contains($0) }
        let map = try found {
            lookup.find(candidates: lastPrimaries.shuffled().prefix(SlotMapLookup.attemptsMax / 2) + others, $0)
        }
        self.map = map
        lastPrimaries = map.primaries
        return map
    }

    private func found<Value>(
        _ find: (@escaping (Result<Value, RedisError>) -> Void) -> Void
    ) throws(RedisError) -> Value {
        var found: Result<Value, RedisError>?
        // Between two calls the loop stands still, and its clock with it.
        loop.refreshClock()
        find { found = $0 }
        return try (turnUntil { found } ?? .failure(RedisError(.deadline))).get()
    }

    // MARK: - Commands

    /// Sends commands all at once. A reply that names another server is followed there, once: the map may be wrong for as long as a slot is
    /// on its way.
    ///
    /// - Returns: what came of each, in their order. No command is repeated.
    func send(_ commands: [Command]) -> [Answer] {
        zip(commands, transmit(commands)).map { followed($0.1, of: $0.0) }
    }

    private func followed(_ answer: Answer, of command: Command) -> Answer {
        guard case .success(.error(let text)) = answer,
            let redirection = text.withUnsafeBytes({ Redirection(error: $0, answering: command.location) })
        else { return answer }
        if !redirection.isAsk { map = nil }
        let asking = redirection.isAsk ? [(redirection.location, [Array("ASKING".utf8)])] : []
        return transmit(asking + [(redirection.location, command.words)]).last ?? answer
    }

    /// Sends commands all at once, and follows no reply elsewhere.
    func transmit(_ commands: [Command]) -> [Answer] {
        var results = [Answer?](repeating: nil, count: commands.count)
        var answered = 0
        loop.refreshClock()
        for (index, (location, words)) in commands.enumerated() {
            connection(to: location)
                .send(words) { [weak self] result in
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
    /// - Returns: nil if the limit was reached, or it is over.
    private func turnUntil<Value>(_ value: () -> Value?) -> Value? {
        let end = loop.nowMilliseconds + Self.blockedMillisecondsMax
        while true {
            if let value = value() { return value }
            if loop.nowMilliseconds >= end || isOver() { return nil }
            loop.turn(waitMilliseconds: Int32(min(Self.cancellationMilliseconds, end - loop.nowMilliseconds)))
        }
    }
}
