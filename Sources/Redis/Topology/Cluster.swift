import Reactor

/// A Redis cluster: a connection to each primary, and the map from hash slots to primaries. The error MOVED changes the
/// owner of its hash slot at once, and starts a look-up of all hash slots. The error ASK redirects only the next call
/// with the same key.
///
/// The look-up is repeated while a hash slot has no server that is ready, to find the replica that replaces a lost
/// server. Once there is a map, look-ups begin at most once a second, at random times, so that not all workers ask at
/// the same moment.
final class Cluster {
    /// The shortest time between two look-ups of the hash slots, once the cluster has a map.
    static let lookupIntervalMillisecondsMin: Int64 = 1_000
    /// The longest random delay before a look-up of the hash slots. After a failed look-up, `lookupPause` decides the
    /// delay instead.
    static let lookupJitterMillisecondsMax: Int64 = 250
    /// The maximum number of servers with a connection: all primaries, and 24 servers that are joining or leaving.
    static let nodesMax = HashSlotMap.primariesMax + 24

    /// A server of the cluster that this client has a connection to.
    private struct Node {
        let location: RedisURL.Location
        /// Whether the server has hash slots, by the last look-up or by a later MOVED.
        var hasHashSlots: Bool
        /// When an ASK last named this server, on the monotonic clock; `.min` if none did.
        var lastAskAtMilliseconds = Int64.min
        /// When the connection to the server closes, on the monotonic clock; `.max` if no time is set.
        var closesAtMilliseconds = Int64.max
    }

    private enum ClusterTimer: UInt64 {
        case lookup, retirement
    }

    private let loop: EventLoop
    private let configuration: RedisConfiguration
    private weak var handler: (any RedisHandler)?
    private let makeSession: (RedisConfiguration) -> any RedisSession
    private let lookup: HashSlotMapLookup

    /// The servers; nil at a free index. A server keeps its index, because `hashSlotOwners` and `askRedirections` refer
    /// to servers by index.
    private var nodes: ContiguousArray<Node?> = []
    /// The connection of each server, at the server's index in `nodes`. The connections have an array of their own,
    /// because every call reads a connection but no ``Node``.
    private var connections: ContiguousArray<RedisConnection?> = []
    private var hashSlotOwners: ContiguousArray<UInt16>
    private var askRedirections = AskRedirections()
    private var replicaLocations: [RedisURL.Location] = []

    private var isClosed = false
    private var hasHashSlotMap = false
    private var isLookupRequested = false
    private var lookupTimer = TimerIdentifier.none
    private var retirementTimer = TimerIdentifier.none
    private var lookupStartedAtMilliseconds = Int64.min
    private var lookupPause = RetryPause()

    /// Makes a cluster without connections; ``connect()`` looks up the servers.
    ///
    /// - Parameters:
    ///   - handler: held weakly.
    ///   - makeSession: called for each new connection, with the connection's configuration.
    init(
        loop: EventLoop,
        configuration: RedisConfiguration,
        handler: any RedisHandler,
        makeSession: @escaping (RedisConfiguration) -> any RedisSession
    ) {
        precondition(configuration.url.database == 0, "a cluster has one database")
        self.loop = loop
        self.configuration = configuration
        self.handler = handler
        self.makeSession = makeSession
        lookup = HashSlotMapLookup(loop: loop, configuration: configuration)
        hashSlotOwners = ContiguousArray(repeating: HashSlotMap.noOwner, count: KeyHashSlot.hashSlotCount)
    }

    func connect() {
        startLookup()
    }

    func close() {
        guard !isClosed else { return }
        isClosed = true
        lookup.cancel()
        loop.cancel(lookupTimer)
        loop.cancel(retirementTimer)
        for connection in connections { connection?.close() }
    }

    var isReady: Bool { connections.contains { $0?.isReady ?? false } }

    /// The number of servers that have hash slots but are not ready; 1 until a look-up has found the servers.
    var unavailableServerCount: Int {
        guard hasHashSlotMap else { return 1 }
        return nodes.indices.count { nodes[$0]?.hasHashSlots == true && connections[$0]?.isReady != true }
    }

    var outstandingCallCount: Int { connections.reduce(0) { $0 + ($1?.outstandingCallCount ?? 0) } }

    // MARK: - Finding the connection for a key

    func connection(for key: UnsafeRawBufferPointer) -> RedisConnection? {
        let keyHashSlot = KeyHashSlot(key)
        if askRedirections.count > 0, let nodeIndex = askRedirections.nodeIndex(for: keyHashSlot.fingerprint) {
            return connectionAfterAsk(toNode: nodeIndex, keyFingerprint: keyHashSlot.fingerprint)
        }
        let owner = Int(hashSlotOwners[keyHashSlot.hashSlot])
        guard owner < connections.count, let connection = connections[owner], connection.isReady else {
            // The hash slot may have a new owner, so look up all hash slots again.
            requestLookup()
            return nil
        }
        connection.setNextKeyFingerprint(keyHashSlot.fingerprint)
        return connection
    }

    private func connectionAfterAsk(toNode nodeIndex: Int, keyFingerprint: UInt64) -> RedisConnection? {
        guard let connection = connections[nodeIndex], connection.isReady, connection.hasRoomForAskingAndCall else {
            return nil
        }
        askRedirections.remove(keyFingerprint)
        connection.sendAsking(keyFingerprint: keyFingerprint)
        return connection
    }

    // MARK: - The table of servers

    private func nodeIndex(of connection: RedisConnection) -> Int? {
        connections.firstIndex { $0 === connection }
    }

    /// Returns the index of a server. Connects to the server if it is new.
    ///
    /// - Returns: nil if there are too many servers.
    private func findOrAddNode(at location: RedisURL.Location) -> Int? {
        if let knownIndex = nodes.firstIndex(where: { $0?.location == location }) {
            nodes[knownIndex]?.closesAtMilliseconds = .max
            return knownIndex
        }
        var freeIndex = nodes.firstIndex { $0 == nil }
        if freeIndex == nil && nodes.count < Self.nodesMax {
            nodes.append(nil)
            connections.append(nil)
            freeIndex = nodes.count - 1
        }
        guard let freeIndex else { return nil }
        var serverConfiguration = configuration
        serverConfiguration.url = configuration.url.replacingLocations(with: location)
        serverConfiguration.callsPerCommandMax = 1
        let connection = RedisConnection(
            loop: loop,
            configuration: serverConfiguration,
            session: makeSession(serverConfiguration),
            handler: handler,
            delegate: self
        )
        nodes[freeIndex] = Node(location: location, hasHashSlots: false)
        connections[freeIndex] = connection
        connection.connect()
        return freeIndex
    }

    /// Sets when the connections to servers without hash slots close. A time that is already set stays. Otherwise:
    /// - If the last ASK that named the server is less than `connectionKeptAfterAskMilliseconds` ago: this time after
    ///   the ASK.
    /// - If not: after twice the reply deadline. By then the server's last calls have their replies or have failed.
    private func setCloseTimesOfNodesWithoutHashSlots() {
        let nowMilliseconds = loop.nowMilliseconds
        let graceMilliseconds = 2 * configuration.replyDeadlineMilliseconds
        for index in nodes.indices {
            guard let node = nodes[index], !node.hasHashSlots, node.closesAtMilliseconds == .max else { continue }
            let (lastAskAtMilliseconds, keepMilliseconds) = (
                node.lastAskAtMilliseconds, configuration.connectionKeptAfterAskMilliseconds
            )
            let isAskRecent =
                lastAskAtMilliseconds != .min && nowMilliseconds - lastAskAtMilliseconds < keepMilliseconds
            nodes[index]?.closesAtMilliseconds =
                isAskRecent ? lastAskAtMilliseconds + keepMilliseconds : nowMilliseconds + graceMilliseconds
        }
        scheduleRetirement()
    }

    private func scheduleRetirement() {
        let dueMilliseconds = nodes.reduce(Int64.max) { min($0, $1?.closesAtMilliseconds ?? .max) }
        loop.cancel(retirementTimer)
        retirementTimer = .none
        guard dueMilliseconds != .max else { return }
        retirementTimer = loop.schedule(
            afterMilliseconds: dueMilliseconds - loop.nowMilliseconds,
            handler: self,
            tag: ClusterTimer.retirement.rawValue
        )
    }

    private func removeRetiredNodes() {
        for index in nodes.indices {
            guard let node = nodes[index], node.closesAtMilliseconds <= loop.nowMilliseconds else { continue }
            removeNode(index)
        }
        scheduleRetirement()
    }

    private func removeNode(_ index: Int) {
        let connection = connections[index]
        nodes[index] = nil
        connections[index] = nil
        askRedirections.removeAll(forNode: index)
        connection?.close()
    }

    // MARK: - Looking up the hash slots

    /// Requests a look-up of the hash slots soon. Does nothing if one is already requested.
    private func requestLookup() {
        guard !isLookupRequested, !isClosed else { return }
        isLookupRequested = true
        if !lookup.isRunning { scheduleLookupUnlessScheduled() }
    }

    /// Schedules the next look-up, at the earliest `lookupIntervalMillisecondsMin` after the previous one began. Does
    /// nothing if a look-up is scheduled already.
    private func scheduleLookupUnlessScheduled() {
        guard lookupTimer == .none else { return }
        var waitMilliseconds = Int64.random(in: 0...Self.lookupJitterMillisecondsMax)
        if lookupStartedAtMilliseconds != .min {
            waitMilliseconds += max(
                0,
                lookupStartedAtMilliseconds + Self.lookupIntervalMillisecondsMin - loop.nowMilliseconds
            )
        }
        scheduleLookup(afterMilliseconds: waitMilliseconds)
    }

    /// Schedules the next look-up, and cancels one that is scheduled already: after a failed look-up, the handler may
    /// have requested one inside `redisDisconnected`, which would begin too early.
    private func scheduleLookup(afterMilliseconds milliseconds: Int64) {
        loop.cancel(lookupTimer)
        lookupTimer = loop.schedule(afterMilliseconds: milliseconds, handler: self, tag: ClusterTimer.lookup.rawValue)
    }

    private func startLookup() {
        isLookupRequested = false
        lookupStartedAtMilliseconds = loop.nowMilliseconds
        lookup.find(asking: findServersToAsk()) { [weak self] result in
            self?.handleLookupResult(result)
        }
    }

    /// Returns the servers to ask for the hash slots: first the servers that are ready, then all others. Each group is
    /// shuffled, to spread the load.
    private func findServersToAsk() -> [RedisURL.Location] {
        let knownLocations = nodes.compactMap { $0?.location }
        let readyLocations = nodes.indices.filter { connections[$0]?.isReady ?? false }
            .compactMap { nodes[$0]?.location }
            .shuffled()
        let otherLocations = (knownLocations + replicaLocations + configuration.url.locations).shuffled()
        var seenLocations: Set<RedisURL.Location> = []
        return (readyLocations + otherLocations).filter { seenLocations.insert($0).inserted }
    }

    private func handleLookupResult(_ result: Result<HashSlotMap, RedisError>) {
        switch result {
        case .success(let map):
            lookupPause.reset()
            applyHashSlotMap(map)
            // Look up again until each hash slot has a server that is ready.
            if isLookupRequested || !areAllHashSlotsServed { scheduleLookupUnlessScheduled() }
        case .failure(let error):
            handler?.redisDisconnected(error)
            guard !isClosed else { return }
            let intervalMillisecondsMin = hasHashSlotMap ? Self.lookupIntervalMillisecondsMin : 0
            scheduleLookup(afterMilliseconds: max(lookupPause.nextPauseMilliseconds(), intervalMillisecondsMin))
        }
    }

    /// Connects to the map's primaries, and sends later calls to them. Connections to servers without hash slots close
    /// later.
    private func applyHashSlotMap(_ map: HashSlotMap) {
        hasHashSlotMap = true
        replicaLocations = map.replicaLocations
        for index in nodes.indices { nodes[index]?.hasHashSlots = false }
        // There may be no free index for a new primary, because servers that lost their hash slots keep theirs for a
        // while. The primary's hash slots then have no server until a later look-up.
        let nodeIndices = map.primaries.map { findOrAddNode(at: $0) }
        for case let index? in nodeIndices { nodes[index]?.hasHashSlots = true }
        for hashSlot in hashSlotOwners.indices {
            let primaryIndex = map.primaryIndicesByHashSlot[hashSlot]
            let nodeIndex = primaryIndex == HashSlotMap.noOwner ? nil : nodeIndices[Int(primaryIndex)]
            hashSlotOwners[hashSlot] = nodeIndex.map { UInt16($0) } ?? HashSlotMap.noOwner
        }
        setCloseTimesOfNodesWithoutHashSlots()
    }

    /// Whether all hash slots have a server, and all servers with hash slots are ready.
    private var areAllHashSlotsServed: Bool {
        !hashSlotOwners.contains(HashSlotMap.noOwner)
            && nodes.indices.allSatisfy { nodes[$0]?.hasHashSlots != true || connections[$0]?.isReady == true }
    }

    /// Acts on an error MOVED or ASK, so that the next call with the key goes to the server that the error names.
    private func followRedirection(_ redirection: Redirection, keyFingerprint: UInt64) {
        // If no index is free, the cluster cannot connect to the server that the error names. Look up the hash slots
        // again, because an index may be free then.
        guard let index = findOrAddNode(at: redirection.location) else { return requestLookup() }
        if redirection.isAsk {
            nodes[index]?.lastAskAtMilliseconds = loop.nowMilliseconds
            // Note when to close the connection, because this server may never get hash slots. A look-up does this too,
            // but ASK starts no look-up.
            setCloseTimesOfNodesWithoutHashSlots()
            if keyFingerprint != 0 { askRedirections.insert(keyFingerprint, nodeIndex: index) }
        } else {
            nodes[index]?.hasHashSlots = true
            hashSlotOwners[redirection.hashSlot] = UInt16(index)
            requestLookup()
        }
    }
}

extension Cluster: ConnectionDelegate, TimerHandler {
    func connectionNeedsLocation(_ connection: RedisConnection) {
        connection.continueConnecting(to: connection.location)
    }

    func connectionBecameReady(_ connection: RedisConnection) {}

    func connectionWasLost(_ connection: RedisConnection) {
        guard let index = nodeIndex(of: connection) else { return }
        // Remove the ASK entries that name this server. The next calls with their keys go to the owners of the hash
        // slots, which say where the keys are now.
        askRedirections.removeAll(forNode: index)
        if nodes[index]?.closesAtMilliseconds != .max {
            removeNode(index)
        } else {
            requestLookup()
        }
    }

    func serverReturnedError(_ call: OutstandingCall, on connection: RedisConnection, error: UnsafeRawBufferPointer) {
        if let redirection = Redirection(error: error, from: connection.location) {
            followRedirection(redirection, keyFingerprint: call.keyFingerprint)
        } else if call.kind == .sessionCall, RedisError(reply: error).requiresLookup {
            requestLookup()
        }
    }

    func timerFired(tag: UInt64) {
        switch ClusterTimer(rawValue: tag) {
        case .lookup:
            lookupTimer = .none
            // The servers may have become ready since the timer was set. So look up only if this is still needed: a
            // look-up was requested, there is no map, or a hash slot has no ready server.
            if isLookupRequested || !hasHashSlotMap || !areAllHashSlotsServed { startLookup() }
        case .retirement:
            retirementTimer = .none
            removeRetiredNodes()
        case nil:
            preconditionFailure("a timer that no cluster sets")
        }
    }
}

extension RedisError {
    /// Whether the error shows that the hash slot map may be outdated. Either the server does not have the key's hash
    /// slot (`moved`, `ask`), or it is now a replica (`readOnly`, `masterDown`), or the cluster does not serve all hash
    /// slots (`clusterDown`).
    fileprivate var requiresLookup: Bool {
        switch code {
        case .clusterDown, .readOnly, .masterDown, .moved, .ask: true
        default: false
        }
    }
}
