/// The channel requests that run or wait, in one queue for each audience of an app. Requests of different audiences
/// run at the same time.
///
/// The requests of one audience run one after the other (R32): a creation takes seconds, and an end that arrives
/// meanwhile must take effect after the creation. A request that waits for an earlier one needs no permit yet.
///
/// The apps with ready requests take turns, and no app may have all permits if there are several apps. So the requests
/// of an app whose APNs host does not respond do not delay those of other apps. (R22)
///
/// This is a class, because Swift allows no mutating `async` call on a struct that an actor owns. Only the
/// actor ``ChannelKeeper`` uses the class.
final class ChannelRequestQueues {
    /// The maximum number of requests that run at one time: the number of permits. The owner of a permit runs one
    /// request after another.
    static let permitsMax = 16
    /// How many permits each app may have at least. With up to four apps, no app waits for another.
    private static let permitsPerAppMin = 4
    /// The maximum number of requests that run or wait here. Further requests stay in the `AsyncStream` that the lanes
    /// write to.
    static let requestsMax = 4_096

    private struct AudienceKey: Hashable {
        var app: String
        var audience: String

        init(_ request: ChannelRequest) {
            app = request.app
            audience = request.audience
        }
    }

    /// The queue of each audience, oldest request first. The first request runs or is ready to run.
    private var queues: [AudienceKey: [ChannelRequest]] = [:]
    private struct AppRequests {
        /// The audiences of the app whose first request is ready to run, in the order in which the requests will run.
        var readyKeys: [AudienceKey] = []
        /// The number of the app's requests that run.
        var runningCount = 0
        /// Whether `appsInTurn` has the app.
        var isInTurn = false
    }

    /// The requests of each app that has had one.
    private var requestsByApp: [String: AppRequests] = [:]
    /// The apps that have a ready request and may run one more, in the order in which they run it.
    private var appsInTurn: [String] = []
    /// The maximum number of requests of one app that run at one time.
    private let runningRequestsPerAppMax: Int
    private var usedPermitCount = 0
    private var requestCount = 0
    /// The caller that waits in ``awaitRoom(isolation:)``; nil if none waits.
    private var callerAwaitingRoom: CheckedContinuation<Void, Never>?

    /// - Parameter appCount: the number of apps that may have requests.
    init(appCount: Int) { runningRequestsPerAppMax = max(Self.permitsMax / max(appCount, 1), Self.permitsPerAppMin) }

    /// Waits until one more request may be added. Only one caller may wait at a time.
    func awaitRoom(isolation: isolated (any Actor)? = #isolation) async {
        guard requestCount == Self.requestsMax else { return }
        await withCheckedContinuation { callerAwaitingRoom = $0 }
    }

    /// Adds a request to the queue of its audience. Call this only after ``awaitRoom(isolation:)``.
    func add(_ request: ChannelRequest) {
        precondition(requestCount < Self.requestsMax, "a request came without room")
        let key = AudienceKey(request)
        requestCount += 1
        queues[key, default: []].append(request)
        if queues[key]?.count == 1 { addReadyKey(key) }
    }

    /// Takes a permit to run requests.
    ///
    /// - Returns: false if all permits are taken. The caller need not wait for a permit: the owners of the permits also
    ///   run requests that become ready later.
    func acquirePermit() -> Bool {
        guard usedPermitCount < Self.permitsMax else { return false }
        usedPermitCount += 1
        return true
    }

    func releasePermit() { usedPermitCount -= 1 }

    /// Returns the next request that is ready to run. Its audience's other requests become ready only after
    /// ``finish(_:)``. Returns nil if every request runs, waits for an earlier one of its audience, or belongs to an app
    /// that runs as many requests as it may. The owners of such an app's permits take its other requests later.
    func takeNextReadyRequest() -> ChannelRequest? {
        guard !appsInTurn.isEmpty else { return nil }
        let app = appsInTurn.removeFirst()
        guard let key = requestsByApp[app]?.readyKeys.removeFirst() else {
            preconditionFailure("an app in turn has a ready request")
        }
        requestsByApp[app]?.runningCount += 1
        requestsByApp[app]?.isInTurn = false
        putInTurnIfReady(app)
        return queues[key]?.first
    }

    private func addReadyKey(_ key: AudienceKey) {
        requestsByApp[key.app, default: AppRequests()].readyKeys.append(key)
        putInTurnIfReady(key.app)
    }

    /// Adds an app to `appsInTurn` if it has a ready request and may run one more.
    private func putInTurnIfReady(_ app: String) {
        guard let requests = requestsByApp[app], !requests.isInTurn, !requests.readyKeys.isEmpty,
            requests.runningCount < runningRequestsPerAppMax
        else { return }
        requestsByApp[app]?.isInTurn = true
        appsInTurn.append(app)
    }

    /// Finishes a request that ``takeNextReadyRequest()`` returned. The next request of its audience becomes ready,
    /// behind the requests of its app that are ready already.
    func finish(_ request: ChannelRequest) {
        let key = AudienceKey(request)
        requestCount -= 1
        queues[key]?.removeFirst()
        requestsByApp[key.app]?.runningCount -= 1
        if queues[key]?.isEmpty == true { queues[key] = nil } else { addReadyKey(key) }
        putInTurnIfReady(key.app)
        callerAwaitingRoom?.resume()
        callerAwaitingRoom = nil
    }
}
