import Reactor

/// A Redis cluster: a connection to each primary, and the map from slots to primaries.
///
/// The servers' errors correct the map. MOVED changes the owner of its slot at once, and starts a look-up of
/// all slots. ASK redirects only the next call with the same key. Once it has a map, the cluster looks up the slots at
/// most once a second, with jitter so that not all workers ask at once. It repeats the look-up while a slot has no
/// server or a server with slots cannot be reached, and so finds the replica that replaces the server.
final class Cluster {
    /// The shortest time between two look-ups of the slots, once the cluster has a map.
    static let refreshSpacingMilliseconds: Int64 = 1_000
    /// The longest random delay before a look-up of the slots, unless the last look-up failed.
    static let refreshJitterMilliseconds: Int64 = 250
    /// How long the connection to a server without slots stays after an ASK has named the server. While a
    /// slot moves to this server, further ASKs may name it.
    static let askedServerKeepMilliseconds: Int64 = 60_000
    /// The maximum number of servers with a connection: all primaries, and some servers that join or leave.
    static let nodesMax = SlotMap.primariesMax + 24

    private struct Node {
        let location: RedisURL.Location
        /// Whether the server has slots, by the last look-up or by a later MOVED.
        var isMapped: Bool
        /// When an ASK last named the server, on the monotonic clock; `.min`: never.
        var askedAtMilliseconds = Int64.min
        /// When the connection to the server closes, on the monotonic clock; `.max`: no time is set.
        var retiresAtMilliseconds = Int64.max
    }

    private enum Timer: UInt64 {
        case refresh, retirement
    }

    private let loop: EventLoop
    private let configuration: RedisConfiguration
    private weak var handler: (any RedisHandler)?
    private let makeSession: (RedisConfiguration) -> any RedisSession
    private let lookup: SlotMapLookup

    /// The servers; nil for a free index. A server keeps its index, because the slots and the ASK table refer
    /// to it.
    private var nodes: ContiguousArray<Node?> = []
    /// The connection of each server, at the server's index in `nodes`. It is a separate array, because every
    /// call reads it.
    private var connections: ContiguousArray<RedisConnection?> = []
    private var slotOwners: ContiguousArray<UInt16>
    private var askRedirections = AskRedirections()
    private var replicas: [RedisURL.Location] = []

    private var isClosed = false
    private var hasMap = false
    private var isRefreshRequested = false
    private var refreshTimer = TimerIdentifier.none
    private var retirementTimer = TimerIdentifier.none
    private var lookupStartedAtMilliseconds = Int64.min
    private var pause = ReconnectPause()

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
        lookup = SlotMapLookup(loop: loop, configuration: configuration)
        slotOwners = ContiguousArray(repeating: SlotMap.unowned, count: KeySlot.slotCount)
    }

    func connect() {
        startLookup()
    }

    func close() {
        guard !isClosed else { return }
        isClosed = true
        lookup.cancel()
        loop.cancel(refreshTimer)
        loop.cancel(retirementTimer)
        for connection in connections { connection?.close() }
    }

    var isReady: Bool { connections.contains { $0?.isReady ?? false } }

    /// The number of servers that have slots but are not ready. Until a look-up has succeeded, the servers are unknown,
    /// and the number is 1.
    var unavailableServers: Int {
        guard hasMap else { return 1 }
        return nodes.indices.count { nodes[$0]?.isMapped == true && connections[$0]?.isReady != true }
    }

    var outstandingCount: Int { connections.reduce(0) { $0 + ($1?.outstandingCount ?? 0) } }

    // MARK: - Keys

    func connection(for key: UnsafeRawBufferPointer) -> RedisConnection? {
        let keySlot = KeySlot(key)
        if askRedirections.count > 0, let node = askRedirections.node(for: keySlot.fingerprint) {
            return askedConnection(node, keySlot.fingerprint)
        }
        let owner = Int(slotOwners[keySlot.slot])
        guard owner < connections.count, let connection = connections[owner], connection.isReady else {
            // The slot may have a new owner, so look up the slots again.
            requestRefresh()
            return nil
        }
        connection.prepareCall(keyFingerprint: keySlot.fingerprint)
        return connection
    }

    private func askedConnection(_ node: Int, _ fingerprint: UInt64) -> RedisConnection? {
        guard let connection = connections[node], connection.isReady, connection.hasRoomForAskedCall else {
            return nil
        }
        askRedirections.remove(fingerprint)
        connection.prepareAskedCall(keyFingerprint: fingerprint)
        return connection
    }

    // MARK: - Servers

    private func nodeIndex(of connection: RedisConnection) -> Int? {
        connections.firstIndex { $0 === connection }
    }

    /// Returns the index of a server. Connects to the server if it is new.
    ///
    /// - Returns: nil if there are too many servers.
    private func findOrAddNode(at location: RedisURL.Location) -> Int? {
        if let knownIndex = nodes.firstIndex(where: { $0?.location == location }) {
            nodes[knownIndex]?.retiresAtMilliseconds = .max
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
        serverConfiguration.url = configuration.url.at(location)
        serverConfiguration.callsPerCommandMax = 1
        let connection = RedisConnection(
            loop: loop,
            configuration: serverConfiguration,
            session: makeSession(serverConfiguration),
            handler: handler,
            owner: self
        )
        nodes[freeIndex] = Node(location: location, isMapped: false)
        connections[freeIndex] = connection
        connection.connect()
        return freeIndex
    }

    /// For each server without slots, sets when its connection closes, if no time is set yet. If an ASK has named the
    /// server recently, this is `askedServerKeepMilliseconds` after the last ASK. Otherwise it is twice the response
    /// deadline from now: by then its last calls have their replies or have failed.
    private func retireUnmappedNodes() {
        let now = loop.nowMilliseconds
        let graceMilliseconds = 2 * configuration.responseDeadlineMilliseconds
        for index in nodes.indices {
            guard let node = nodes[index], !node.isMapped, node.retiresAtMilliseconds == .max else { continue }
            let asked = node.askedAtMilliseconds
            let isAsked = asked != .min && now - asked < Self.askedServerKeepMilliseconds
            nodes[index]?.retiresAtMilliseconds =
                isAsked ? asked + Self.askedServerKeepMilliseconds : now + graceMilliseconds
        }
        scheduleRetirement()
    }

    private func scheduleRetirement() {
        let due = nodes.reduce(Int64.max) { min($0, $1?.retiresAtMilliseconds ?? .max) }
        loop.cancel(retirementTimer)
        retirementTimer = .none
        guard due != .max else { return }
        retirementTimer = loop.schedule(
            afterMilliseconds: due - loop.nowMilliseconds,
            handler: self,
            tag: Timer.retirement.rawValue
        )
    }

    private func removeRetiredNodes() {
        for index in nodes.indices {
            guard let node = nodes[index], node.retiresAtMilliseconds <= loop.nowMilliseconds else { continue }
            remove(index)
        }
        scheduleRetirement()
    }

    private func remove(_ index: Int) {
        let connection = connections[index]
        nodes[index] = nil
        connections[index] = nil
        askRedirections.removeAll(for: index)
        connection?.close()
    }

    // MARK: - The slots

    /// Requests a look-up of the slots soon. Does nothing if one is already requested.
    private func requestRefresh() {
        guard !isRefreshRequested, !isClosed else { return }
        isRefreshRequested = true
        if !lookup.isRunning { scheduleRefresh() }
    }

    private func scheduleRefresh() {
        guard refreshTimer == .none else { return }
        var wait = Int64.random(in: 0...Self.refreshJitterMilliseconds)
        if lookupStartedAtMilliseconds != .min {
            wait += max(0, lookupStartedAtMilliseconds + Self.refreshSpacingMilliseconds - loop.nowMilliseconds)
        }
        startRefreshTimer(wait)
    }

    private func startRefreshTimer(_ milliseconds: Int64) {
        // The handler of an error may already have scheduled a look-up. This look-up replaces that one.
        loop.cancel(refreshTimer)
        refreshTimer = loop.schedule(afterMilliseconds: milliseconds, handler: self, tag: Timer.refresh.rawValue)
    }

    private func startLookup() {
        isRefreshRequested = false
        lookupStartedAtMilliseconds = loop.nowMilliseconds
        lookup.find(candidates: candidates()) { [weak self] result in
            self?.handle(result)
        }
    }

    /// Returns the servers to ask for the slots: first the servers that are ready, then all others. Each
    /// group is shuffled to spread the load.
    private func candidates() -> [RedisURL.Location] {
        let known = nodes.compactMap { $0?.location }
        let ready = nodes.indices.filter { connections[$0]?.isReady ?? false }.compactMap { nodes[$0]?.location }
            .shuffled()
        let others = (known + replicas + configuration.url.locations).shuffled()
        var seen: Set<RedisURL.Location> = []
        return (ready + others).filter { seen.insert($0).inserted }
    }

    private func handle(_ result: Result<SlotMap, RedisError>) {
        switch result {
        case .success(let map):
            pause.reset()
            apply(map)
            // Look up again until each slot has a server that is ready.
            if isRefreshRequested || !areAllSlotsServed { scheduleRefresh() }
        case .failure(let error):
            handler?.redisLost(error)
            guard !isClosed else { return }
            startRefreshTimer(max(pause.nextMilliseconds(), hasMap ? Self.refreshSpacingMilliseconds : 0))
        }
    }

    private func apply(_ map: SlotMap) {
        hasMap = true
        replicas = map.replicas
        for index in nodes.indices { nodes[index]?.isMapped = false }
        // A primary has no index if all indices are in use, because servers without slots still have theirs.
        let nodeIndices = map.primaries.map { findOrAddNode(at: $0) }
        for case let index? in nodeIndices { nodes[index]?.isMapped = true }
        for slot in slotOwners.indices {
            let owner = map.owners[slot]
            let nodeIndex = owner == SlotMap.unowned ? nil : nodeIndices[Int(owner)]
            slotOwners[slot] = nodeIndex.map { UInt16($0) } ?? SlotMap.unowned
        }
        retireUnmappedNodes()
    }

    /// Whether all slots have a server, and all servers with slots are ready.
    private var areAllSlotsServed: Bool {
        !slotOwners.contains(SlotMap.unowned)
            && nodes.indices.allSatisfy { nodes[$0]?.isMapped != true || connections[$0]?.isReady == true }
    }

    private func follow(_ redirection: Redirection, keyFingerprint: UInt64) {
        // If all indices are in use, only the next look-up can help.
        guard let index = findOrAddNode(at: redirection.location) else { return requestRefresh() }
        if redirection.isAsk {
            nodes[index]?.askedAtMilliseconds = loop.nowMilliseconds
            if keyFingerprint != 0 { askRedirections.insert(keyFingerprint, node: index) }
        } else {
            nodes[index]?.isMapped = true
            slotOwners[redirection.slot] = UInt16(index)
            requestRefresh()
        }
    }
}

extension Cluster: ConnectionOwner, TimerHandler {
    func locate(for connection: RedisConnection) { connection.continueConnecting(to: connection.location) }

    func connectionBecameReady(_ connection: RedisConnection) {}

    func connectionWasLost(_ connection: RedisConnection) {
        guard let index = nodeIndex(of: connection) else { return }
        // Removes the ASK entries that name this server. The next calls with these keys go to the slots' owners,
        // which say where the keys are now.
        askRedirections.removeAll(for: index)
        if nodes[index]?.retiresAtMilliseconds != .max {
            remove(index)
        } else {
            requestRefresh()
        }
    }

    func serverRefused(_ call: OutstandingCall, on connection: RedisConnection, error: UnsafeRawBufferPointer) {
        if let redirection = Redirection(error: error, from: connection.location) {
            follow(redirection, keyFingerprint: call.keyFingerprint)
        } else if call.kind == .call, RedisError(reply: error).concernsSlots {
            requestRefresh()
        }
    }

    func timerFired(tag: UInt64) {
        switch Timer(rawValue: tag) {
        case .refresh:
            refreshTimer = .none
            // If all servers have become ready since the look-up was scheduled, it is not needed any more.
            if isRefreshRequested || !hasMap || !areAllSlotsServed { startLookup() }
        case .retirement:
            retirementTimer = .none
            removeRetiredNodes()
        case nil:
            preconditionFailure("a timer that no cluster sets")
        }
    }
}

extension RedisError {
    /// Whether the error says that the server does not have the key's slot or may not write it.
    fileprivate var concernsSlots: Bool {
        switch code {
        case .clusterDown, .readOnly, .masterDown, .moved, .ask: true
        default: false
        }
    }
}
