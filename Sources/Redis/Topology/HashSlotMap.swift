import Reactor

/// The server of each hash slot, as one server of a cluster reported it.
struct HashSlotMap: Equatable {
    /// The maximum number of primaries of a cluster. Redis recommends at most about this number of servers.
    static let primariesMax = 1_000
    static let noOwner = UInt16.max

    private(set) var primaries: [RedisURL.Location] = []
    /// Replicas of the primaries. A later look-up may also ask these for the hash slots.
    private(set) var replicaLocations: [RedisURL.Location] = []
    /// The owner of each hash slot: an index in `primaries`, or `noOwner`.
    private(set) var primaryIndicesByHashSlot = [UInt16](repeating: noOwner, count: KeyHashSlot.hashSlotCount)

    /// Reads the reply to CLUSTER SLOTS: ranges of hash slots, each with its primary and replicas. Uses only the host
    /// and the port of a server. Returns nil if the reply has another form, too many hash slots or too many primaries.
    ///
    /// - Parameter replyingServer: the server that replied. Its host is used for a server that is listed without a
    ///   host, or with `?`.
    init?(slots reply: RedisValue, from replyingServer: RedisURL.Location) {
        guard let ranges = reply.elements else { return nil }
        var primaryIndices: [RedisURL.Location: UInt16] = [:]
        // Refuse a reply whose ranges have more hash slots together than a cluster has. This limits the work for a
        // wrong reply. A hash slot in two ranges is not noticed.
        var remainingHashSlotCount = Int64(KeyHashSlot.hashSlotCount)
        for range in ranges {
            guard let parts = range.elements, parts.count >= 3,
                let firstHashSlot = parts[0].integer, let lastHashSlot = parts[1].integer,
                firstHashSlot >= 0, firstHashSlot <= lastHashSlot, lastHashSlot < Int64(KeyHashSlot.hashSlotCount),
                lastHashSlot - firstHashSlot < remainingHashSlotCount,
                let primary = Self.parseLocation(parts[2], replyingServer)
            else { return nil }
            remainingHashSlotCount -= lastHashSlot - firstHashSlot + 1
            let primaryIndex = primaryIndices[primary] ?? UInt16(clamping: primaries.count)
            if primaryIndices.updateValue(primaryIndex, forKey: primary) == nil {
                guard primaries.count < Self.primariesMax else { return nil }
                primaries.append(primary)
            }
            for hashSlot in Int(firstHashSlot)...Int(lastHashSlot) { primaryIndicesByHashSlot[hashSlot] = primaryIndex }
            for replica in parts[3...].compactMap({ Self.parseLocation($0, replyingServer) })
            where replicaLocations.count < Self.primariesMax && !replicaLocations.contains(replica) {
                replicaLocations.append(replica)
            }
        }
    }

    private static func parseLocation(_ server: RedisValue, _ replyingServer: RedisURL.Location) -> RedisURL.Location? {
        guard let parts = server.elements, parts.count >= 2, let port = parts[1].integer.flatMap(UInt64.init(exactly:))
        else { return nil }
        if parts[0] == .null { return RedisURL.Location(announced: "", port: port, by: replyingServer) }
        return parts[0].text.flatMap { RedisURL.Location(announced: $0, port: port, by: replyingServer) }
    }
}

/// Asks servers of a cluster for the hash slots, one after the other, until one gives a valid reply. Only one look-up
/// may run at a time.
final class HashSlotMapLookup {
    typealias Completion = (Result<HashSlotMap, RedisError>) -> Void

    /// The maximum number of servers that one look-up asks.
    static let attemptsMax = 8

    private let loop: EventLoop
    private let configuration: RedisConfiguration
    private var serversToAsk: ArraySlice<RedisURL.Location> = []
    private var failures = LookupFailures()
    private var connection: CommandConnection?
    private var completion: Completion?

    init(loop: EventLoop, configuration: RedisConfiguration) {
        self.loop = loop
        self.configuration = configuration
    }

    var isRunning: Bool { completion != nil }

    /// Begins a look-up.
    ///
    /// - Parameters:
    ///   - serversToAsk: the servers in the order in which they are asked. Not empty.
    ///   - completion: the loop calls it once, unless the look-up is cancelled.
    func find(asking serversToAsk: [RedisURL.Location], _ completion: @escaping Completion) {
        precondition(!isRunning, "one look-up at a time")
        self.serversToAsk = serversToAsk.prefix(Self.attemptsMax)
        self.completion = completion
        failures = LookupFailures()
        askNextServer()
    }

    func cancel() {
        completion = nil
        connection?.close()
        connection = nil
    }

    private func askNextServer(after error: RedisError) {
        failures.append(error)
        askNextServer()
    }

    private func askNextServer() {
        guard let server = serversToAsk.popFirst() else { return finish(.failure(failures.summary)) }
        let connection = CommandConnection(
            loop: loop,
            url: configuration.url.replacingLocations(with: server),
            configuration: configuration
        )
        self.connection = connection
        connection.send(["CLUSTER", "SLOTS"]) { [weak self] reply in
            guard let self, completion != nil else { return }
            connection.close()
            handleReply(reply, from: server)
        }
    }

    private func handleReply(_ reply: Result<RedisValue, RedisError>, from server: RedisURL.Location) {
        switch reply {
        case .success(.error(let text)):
            askNextServer(after: RedisError(reply: text, from: server))
        case .success(let value):
            guard let map = HashSlotMap(slots: value, from: server) else {
                return askNextServer(
                    after: RedisError(.protocolViolation, "\(server): invalid reply to CLUSTER SLOTS")
                )
            }
            // A server that has just joined the cluster, or was removed from it, knows no hash slots.
            guard !map.primaries.isEmpty else {
                return askNextServer(after: RedisError(.clusterDown, "\(server): the server knows no cluster slots"))
            }
            finish(.success(map))
        case .failure(let error):
            askNextServer(after: error)
        }
    }

    private func finish(_ result: Result<HashSlotMap, RedisError>) {
        let completion = completion
        cancel()
        completion?(result)
    }
}
