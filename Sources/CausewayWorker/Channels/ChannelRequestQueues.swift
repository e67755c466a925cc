/// The channel requests that run or wait, in one queue for each audience of an app in an environment. Requests of
/// different audiences run at the same time. Those of one audience run one after the other (R32): a creation takes
/// seconds, and an end that arrives meanwhile must take effect after the creation.
///
/// A pool here is an app in an environment. The pools with ready requests take turns. If there are several, no pool may
/// have all permits (``permitsMax``) or all places (``requestsMax``). So the requests of a pool whose APNs host does
/// not respond do not delay those of other pools. (R22)
final class ChannelRequestQueues {
    /// The maximum number of requests that run at one time: the number of permits. The owner of a permit runs one
    /// request after another.
    static let permitsMax = 16
    /// Each pool may have at least this many permits. Up to eight pools can all have this many at the same time, so
    /// that no pool waits for another.
    private static let permitsPerPoolMin = 2
    /// The number of places for requests that run or wait. Each pool gets an equal part, but at least
    /// `requestsPerPoolMin`.
    static let requestsMax = 4_096
    /// Each pool has at least this many places, even if all pools together then have more than `requestsMax`.
    static let requestsPerPoolMin = 256

    private struct PoolKey: Hashable {
        var app: String
        var environment: String?
    }

    private struct AudienceKey: Hashable {
        var pool: PoolKey
        var audience: String

        init(_ request: ChannelRequest) {
            pool = PoolKey(app: request.app, environment: request.environment)
            audience = request.audience
        }
    }

    /// The queue of each audience, oldest request first. The first request of a queue runs or is ready to run.
    private var queues: [AudienceKey: [ChannelRequest]] = [:]
    private struct PoolRequests {
        /// The audiences of the pool whose first request is ready to run, in the order in which the requests will run.
        var readyKeys: [AudienceKey] = []
        var runningCount = 0
        /// The number of the pool's requests that run or wait.
        var requestCount = 0
        var awaitsTurn = false
    }

    /// The requests of each pool that has had a request.
    private var requestsByPool: [PoolKey: PoolRequests] = [:]
    /// The pools that have a ready request and may run one more, in the order in which they run it.
    private var poolsAwaitingTurn: [PoolKey] = []
    /// The maximum number of requests of one pool that run at one time.
    private let runningRequestsPerPoolMax: Int
    /// The maximum number of requests of one pool that run or wait (R4).
    private let requestsPerPoolMax: Int
    private var usedPermitCount = 0
    /// The audiences whose first request runs: at most ``permitsMax``.
    private var runningKeys: Set<AudienceKey> = []

    /// - Parameter poolCount: the number of pools that may have requests.
    init(poolCount: Int) {
        runningRequestsPerPoolMax = max(Self.permitsMax / max(poolCount, 1), Self.permitsPerPoolMin)
        requestsPerPoolMax = max(Self.requestsMax / max(poolCount, 1), Self.requestsPerPoolMin)
    }

    /// Adds a request, unless the last request that waits for its audience is equal: the response to the waiting
    /// request goes to all lanes, and so serves both requests. A request that runs does not count as waiting: it may
    /// have read Redis before the event that the new request is about.
    ///
    /// - Returns: false if an equal request waits, or if the pool has no place left. A request that is not added does
    ///   no harm: lanes repeat requests, and the daily comparison with APNs' list finds ended audiences.
    @discardableResult
    func add(_ request: ChannelRequest) -> Bool {
        let key = AudienceKey(request)
        let queue = queues[key] ?? []
        guard queue.dropFirst(runningKeys.contains(key) ? 1 : 0).last != request,
            requestsByPool[key.pool, default: PoolRequests()].requestCount < requestsPerPoolMax
        else { return false }
        requestsByPool[key.pool, default: PoolRequests()].requestCount += 1
        queues[key, default: []].append(request)
        if queue.isEmpty { addReadyKey(key) }
        return true
    }

    /// Takes a permit to run requests.
    ///
    /// - Returns: false if all permits are taken. The caller then does nothing more: the owners of the permits also run
    ///   requests that become ready later.
    func acquirePermit() -> Bool {
        guard usedPermitCount < Self.permitsMax else { return false }
        usedPermitCount += 1
        return true
    }

    func releasePermit() { usedPermitCount -= 1 }

    /// Returns the next request to run, and counts it as running. The request stays in its queue: the audience's next
    /// request becomes ready only after ``finish(_:)``.
    ///
    /// - Returns: nil if no request is ready, or if each pool with a ready request already runs as many requests as it
    ///   may.
    func beginNextReadyRequest() -> ChannelRequest? {
        guard !poolsAwaitingTurn.isEmpty else { return nil }
        let pool = poolsAwaitingTurn.removeFirst()
        guard let key = requestsByPool[pool]?.readyKeys.removeFirst() else {
            preconditionFailure("a pool that awaits its turn has a ready request")
        }
        runningKeys.insert(key)
        requestsByPool[pool]?.runningCount += 1
        requestsByPool[pool]?.awaitsTurn = false
        queueForTurnIfReady(pool)
        return queues[key]?.first
    }

    private func addReadyKey(_ key: AudienceKey) {
        requestsByPool[key.pool, default: PoolRequests()].readyKeys.append(key)
        queueForTurnIfReady(key.pool)
    }

    private func queueForTurnIfReady(_ pool: PoolKey) {
        guard let requests = requestsByPool[pool], !requests.awaitsTurn, !requests.readyKeys.isEmpty,
            requests.runningCount < runningRequestsPerPoolMax
        else { return }
        requestsByPool[pool]?.awaitsTurn = true
        poolsAwaitingTurn.append(pool)
    }

    /// Finishes a request that ``beginNextReadyRequest()`` returned. The next request of its audience becomes ready,
    /// behind the requests of its pool that are ready already.
    func finish(_ request: ChannelRequest) {
        let key = AudienceKey(request)
        runningKeys.remove(key)
        queues[key]?.removeFirst()
        requestsByPool[key.pool]?.requestCount -= 1
        requestsByPool[key.pool]?.runningCount -= 1
        if queues[key]?.isEmpty == true { queues[key] = nil } else { addReadyKey(key) }
        queueForTurnIfReady(key.pool)
    }
}
