import Reactor

/// Connections to the primaries of any topology, for code outside the lanes. Not thread-safe.
///
/// Each call runs the object's own event loop, and blocks its thread until the replies arrive. The call gets errors
/// instead of replies in three cases:
/// - The servers are silent for ``RedisConfiguration/replyDeadlineMilliseconds``.
/// - One step of the call takes `blockedMillisecondsMax`.
/// - `isCancelled` returns true. By default, this means that the task is cancelled.
///
/// When a call has returned, none of its commands waits for a reply any more.
final class PrimaryConnections {
    typealias Command = (location: RedisURL.Location, arguments: [[UInt8]])
    typealias ReplyResult = Result<RedisValue, RedisError>

    /// The longest time that one step of a call waits: a search for the primaries, or an exchange of commands and
    /// replies. The reply deadline is not enough, because each reply restarts it.
    static let blockedMillisecondsMax: Int64 = 60_000
    /// How often a waiting call asks `isCancelled`.
    private static let cancellationCheckIntervalMilliseconds: Int64 = 50

    private let loop: EventLoop
    private let configuration: RedisConfiguration
    private let isCancelled: () -> Bool
    private var connections: [RedisURL.Location: CommandConnection] = [:]
    /// The cluster's hash slots; nil if the next call must look them up.
    private var hashSlotMap: HashSlotMap?
    private var lastPrimaries: [RedisURL.Location] = []
    /// The primary that the Sentinels named; nil if the next call must ask them.
    private var sentinelPrimary: RedisURL.Location?

    /// Opens no connection. The first call connects.
    init(
        configuration: RedisConfiguration,
        isCancelled: @escaping () -> Bool = { Task.isCancelled }
    ) throws(RedisError) {
        do throws(SystemError) {
            loop = try EventLoop()
        } catch {
            throw RedisError(.stream, error.description)
        }
        self.configuration = configuration
        self.isCancelled = isCancelled
    }

    deinit { closeAll() }

    /// Closes all connections and forgets the primaries, so that the next call searches for them.
    func closeAll() {
        for connection in connections.values { connection.close() }
        connections = [:]
        hashSlotMap = nil
        sentinelPrimary = nil
    }

    /// Forgets the primaries but keeps the connections. The next call searches for the primaries.
    func forgetPrimaries() {
        hashSlotMap = nil
        sentinelPrimary = nil
    }

    // MARK: - Finding the primaries

    /// Returns all primaries, each with those of the given `hashSlots` that it owns, perhaps none. Without a cluster,
    /// the only primary owns all of them.
    func findPrimaries(having hashSlots: [Int]) throws(RedisError) -> [(location: RedisURL.Location, hashSlots: [Int])]
    {
        guard case .cluster = configuration.topology else { return try findPrimaries().map { ($0, hashSlots) } }
        let map = try findHashSlotMap()
        return map.primaries.enumerated()
            .map { position, location in
                (location, hashSlots.filter { map.primaryIndicesByHashSlot[$0] == UInt16(position) })
            }
    }

    func findPrimaries() throws(RedisError) -> [RedisURL.Location] {
        switch configuration.topology {
        case .single: [configuration.url.firstLocation]
        case .sentinel(let sentinels): [try findPrimary(by: sentinels)]
        case .cluster: try findHashSlotMap().primaries
        }
    }

    /// Returns the location of the primary that has this key.
    func findLocation(of key: [UInt8]) throws(RedisError) -> RedisURL.Location {
        switch configuration.topology {
        case .single:
            return configuration.url.firstLocation
        case .sentinel(let sentinels):
            return try findPrimary(by: sentinels)
        case .cluster:
            let map = try findHashSlotMap()
            let primaryIndex = map.primaryIndicesByHashSlot[key.withUnsafeBytes { KeyHashSlot.hashSlot(of: $0) }]
            guard primaryIndex != HashSlotMap.noOwner else { throw RedisError(.clusterDown) }
            return map.primaries[Int(primaryIndex)]
        }
    }

    private func findPrimary(by sentinels: RedisURL) throws(RedisError) -> RedisURL.Location {
        if let sentinelPrimary { return sentinelPrimary }
        let lookup = SentinelLookup(loop: loop, configuration: configuration, sentinels: sentinels)
        let location = try runLookup { lookup.find($0) }
        sentinelPrimary = location
        closeConnections(except: [location])
        return location
    }

    private func findHashSlotMap() throws(RedisError) -> HashSlotMap {
        if let hashSlotMap { return hashSlotMap }
        let lookup = HashSlotMapLookup(loop: loop, configuration: configuration)
        // Ask primaries of the last map first, because the configured servers may no longer exist. But use only half of
        // the attempts for these, so that the configured servers are asked too.
        let otherLocations = configuration.url.locations.filter { !lastPrimaries.contains($0) }
        let map = try runLookup {
            lookup.find(
                asking: lastPrimaries.shuffled().prefix(HashSlotMapLookup.attemptsMax / 2) + otherLocations,
                $0
            )
        }
        hashSlotMap = map
        lastPrimaries = map.primaries
        closeConnections(except: map.primaries)
        return map
    }

    /// Closes the connections to all servers except those at `locations`.
    private func closeConnections(except locations: [RedisURL.Location]) {
        for (location, connection) in connections where !locations.contains(location) {
            connection.close()
            connections[location] = nil
        }
    }

    private func runLookup<Value>(
        _ find: (@escaping (Result<Value, RedisError>) -> Void) -> Void
    ) throws(RedisError) -> Value {
        var result: Result<Value, RedisError>?
        // The loop does not run between two calls, so its clock is out of date.
        loop.refreshClock()
        find { result = $0 }
        return try (runLoopUntil { result } ?? .failure(RedisError(.deadline))).get()
    }

    // MARK: - Sending commands to primaries

    /// Sends all commands together. If a server redirects a command to another server (MOVED or ASK), sends it there,
    /// but follows no second redirection.
    ///
    /// - Returns: the results, in the order of the commands. A failed command is not repeated.
    func send(_ commands: [Command]) -> [ReplyResult] {
        zip(commands, sendWithoutRedirection(commands)).map { followRedirection($0.1, of: $0.0) }
    }

    /// If the reply is an error MOVED or ASK, sends the command to the server that the error names, and returns that
    /// server's reply.
    private func followRedirection(_ reply: ReplyResult, of command: Command) -> ReplyResult {
        guard case .success(.error(let text)) = reply,
            let redirection = text.withUnsafeBytes({ Redirection(error: $0, from: command.location) })
        else { return reply }
        if !redirection.isAsk { hashSlotMap = nil }
        let askingCommands = redirection.isAsk ? [(redirection.location, [Array("ASKING".utf8)])] : []
        let redirectedReply = sendWithoutRedirection(askingCommands + [(redirection.location, command.arguments)]).last
        // Only a search for the primaries closes connections that are no longer needed, and no search follows an ASK.
        // So close the connection to the server that ASK named, unless this server is in `hashSlotMap`.
        if redirection.isAsk, let hashSlotMap { closeConnections(except: hashSlotMap.primaries) }
        return redirectedReply ?? reply
    }

    /// Sends all commands together. Redirections to other servers are not followed, but returned as error replies.
    func sendWithoutRedirection(_ commands: [Command]) -> [ReplyResult] {
        var results = [ReplyResult?](repeating: nil, count: commands.count)
        var replyCount = 0
        loop.refreshClock()
        // The loop does not run between two calls. This iteration notices which connections the servers have closed
        // since the last call.
        loop.runIteration(waitMilliseconds: 0)
        for (index, (location, arguments)) in commands.enumerated() {
            connection(to: location)
                .send(arguments) { [weak self] result in
                    results[index] = result
                    replyCount += 1
                    if case .failure = result { self?.connections[location] = nil }
                }
        }
        let _: Void? = runLoopUntil { replyCount == commands.count ? () : nil }
        return zip(commands, results)
            .map { command, result in
                if let result { return result }
                // This command got no reply in time. Close its connection: otherwise such commands would wait there
                // during later calls, and in the end exceed `CommandConnection.commandsMax`.
                connections.removeValue(forKey: command.location)?.close()
                return .failure(RedisError(.deadline))
            }
    }

    private func connection(to location: RedisURL.Location) -> CommandConnection {
        if let connection = connections[location], !connection.isClosed { return connection }
        let connection = CommandConnection(
            loop: loop,
            url: configuration.url.replacingLocations(with: location),
            configuration: configuration
        )
        connections[location] = connection
        return connection
    }

    /// Runs the loop until `getValue` returns a value.
    ///
    /// - Returns: nil if `blockedMillisecondsMax` has passed or `isCancelled` has returned true.
    private func runLoopUntil<Value>(_ getValue: () -> Value?) -> Value? {
        let endMilliseconds = loop.nowMilliseconds + Self.blockedMillisecondsMax
        while true {
            if let value = getValue() { return value }
            if loop.nowMilliseconds >= endMilliseconds || isCancelled() { return nil }
            loop.runIteration(
                waitMilliseconds: Int32(
                    min(Self.cancellationCheckIntervalMilliseconds, endMilliseconds - loop.nowMilliseconds)
                )
            )
        }
    }
}
