/// The channel requests that run or wait, in one queue for each audience of an app. Requests of different audiences
/// run at the same time.
///
/// The requests of one audience run one after the other (R32): a creation takes seconds, and an end that arrives
/// meanwhile must take effect after the creation. A request that waits for an earlier one needs no permit yet.
///
/// This is a class, because Swift allows no mutating `async` call on a struct that an actor owns. Only the
/// actor ``ChannelKeeper`` uses the class.
final class ChannelRequestQueues {
    /// The maximum number of requests that run at one time: the number of permits. The owner of a permit runs one
    /// request after another.
    static let permitsMax = 16
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
    /// The audiences whose first request is ready to run, in the order in which the requests will run.
    private var readyKeys: [AudienceKey] = []
    private var usedPermitCount = 0
    private var requestCount = 0
    /// The caller that waits in ``awaitRoom(isolation:)``; nil if none waits.
    private var callerAwaitingRoom: CheckedContinuation<Void, Never>?

    /// Waits until one more request may be added. Only one caller may wait at a time.
    func awaitRoom(isolation: isolated (any Actor)? = #isolation) async {
        guard requestCount == Self.requestsMax else { return }
        await withCheckedContinuation { callerAwaitingRoom = $0 }
    }

    func add(_ request: ChannelRequest) {
        precondition(requestCount < Self.requestsMax, "a request came without room")
        let key = AudienceKey(request)
        requestCount += 1
        queues[key, default: []].append(request)
        if queues[key]?.count == 1 { readyKeys.append(key) }
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
    /// ``finish(_:)``. Returns nil if every request runs or waits for an earlier one of its audience.
    func takeNextReadyRequest() -> ChannelRequest? { readyKeys.isEmpty ? nil : queues[readyKeys.removeFirst()]?.first }

    /// Finishes a request that ``takeNextReadyRequest()`` returned. The next request of its audience becomes ready,
    /// behind the requests that are ready already.
    func finish(_ request: ChannelRequest) {
        let key = AudienceKey(request)
        requestCount -= 1
        queues[key]?.removeFirst()
        if queues[key]?.isEmpty == true { queues[key] = nil } else { readyKeys.append(key) }
        callerAwaitingRoom?.resume()
        callerAwaitingRoom = nil
    }
}
