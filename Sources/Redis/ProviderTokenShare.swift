import Reactor

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

    /// How long a call may wait for its replies, whatever the deadlines of its connections allow.
    static let blockedMillisecondsMax: Int64 = 60_000

    private let loop: EventLoop
    private let configuration: RedisConfiguration
    private var connections: [RedisURL.Location: CommandConnection] = [:]
    private var map: SlotMap?
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

    // MARK: - Commands

    private func ask(_ name: String, _ commands: [[[UInt8]]]) throws(RedisError) -> [RedisValue] {
        do throws(RedisError) {
            // Between two calls the loop stands still, and its clock with it.
            loop.refreshClock()
            let place = try location(of: Array(Self.key(name).utf8))
            var replies: [RedisValue] = []
            for (command, result) in zip(commands, send(commands, to: place)) {
                let reply = try followed(try result.get(), of: command, from: place)
                if case .error(let text) = reply { throw text.withUnsafeBytes { RedisError(reply: $0) } }
                replies.append(reply)
            }
            return replies
        } catch {
            // The server may be another one by the next call.
            for connection in connections.values { connection.close() }
            connections = [:]
            map = nil
            primary = nil
            throw error
        }
    }

    /// The reply, or that of the server which it names: a slot may be on its way for longer than a look waits.
    private func followed(
        _ reply: RedisValue,
        of command: [[UInt8]],
        from place: RedisURL.Location
    ) throws(RedisError) -> RedisValue {
        guard case .error(let text) = reply,
            let redirection = text.withUnsafeBytes({ Redirection(error: $0, answering: place) })
        else { return reply }
        if !redirection.isAsk { map = nil }
        let asking = redirection.isAsk ? [[Array("ASKING".utf8)]] : []
        guard let last = send(asking + [command], to: redirection.location).last else { return reply }
        return try last.get()
    }

    private func send(_ commands: [[[UInt8]]], to place: RedisURL.Location) -> [Result<RedisValue, RedisError>] {
        let connection = connection(to: place)
        var results: [Result<RedisValue, RedisError>] = []
        for command in commands { connection.send(command) { results.append($0) } }
        turnUntil { results.count == commands.count }
        let missing = commands.count - results.count
        return results + repeatElement(.failure(RedisError(.deadline)), count: missing)
    }

    private func location(of key: [UInt8]) throws(RedisError) -> RedisURL.Location {
        switch configuration.topology {
        case .single:
            return configuration.url.location
        case .sentinel(let sentinels):
            if let primary { return primary }
            let lookup = SentinelLookup(loop: loop, configuration: configuration, sentinels: sentinels)
            var found: Result<RedisURL.Location, RedisError>?
            lookup.find { found = $0 }
            turnUntil { found != nil }
            let location = try (found ?? .failure(RedisError(.deadline))).get()
            primary = location
            return location
        case .cluster:
            let map = try slots()
            let owner = map.owners[KeyPlace.slot(of: key)]
            guard owner != SlotMap.unowned else { throw RedisError(.clusterDown) }
            return map.primaries[Int(owner)]
        }
    }

    private func slots() throws(RedisError) -> SlotMap {
        if let map { return map }
        let lookup = SlotMapLookup(loop: loop, configuration: configuration)
        var found: Result<SlotMap, RedisError>?
        lookup.find(candidates: configuration.url.locations) { found = $0 }
        turnUntil { found != nil }
        let map = try (found ?? .failure(RedisError(.deadline))).get()
        self.map = map
        return map
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
    private func turnUntil(_ isDone: () -> Bool) {
        let end = loop.nowMilliseconds + Self.blockedMillisecondsMax
        while !isDone(), loop.nowMilliseconds < end {
            loop.turn(waitMilliseconds: Int32(clamping: end - loop.nowMilliseconds))
        }
    }
}
