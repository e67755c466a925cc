/// The requests that run or wait, a line for each audience. The requests of one audience run one after the other: a creation takes
/// seconds, and an end that comes meanwhile must count after it. (R32) Different audiences run side by side; a request that waits for an
/// earlier one of its audience takes no slot from the other audiences.
///
/// A class, so that the keeper can wait inside a call. Only the keeper's actor uses it.
final class AudienceQueues {
    /// The most requests that run at one time.
    static let slotsMax = 16
    /// The most requests that run or wait. The others stay in the stream of requests.
    static let requestsMax = 4_096

    private struct Key: Hashable {
        var app: String
        var audience: String

        init(_ request: ChannelRequest) {
            app = request.app
            audience = request.audience
        }
    }

    /// Oldest first. The first request of a line runs or is ready.
    private var lines: [Key: [ChannelRequest]] = [:]
    /// The audiences whose first request is ready to run, in the order of their turns.
    private var ready: [Key] = []
    private var slots = 0
    private var requests = 0
    private var room: CheckedContinuation<Void, Never>?

    /// Returns when one more request may be added. One caller at a time.
    func awaitRoom(isolation: isolated (any Actor)? = #isolation) async {
        guard requests == Self.requestsMax else { return }
        await withCheckedContinuation { room = $0 }
    }

    func add(_ request: ChannelRequest) {
        precondition(requests < Self.requestsMax, "a request came without room")
        let key = Key(request)
        requests += 1
        lines[key, default: []].append(request)
        if lines[key]?.count == 1 { ready.append(key) }
    }

    /// - Returns: false if all slots are taken; one of them then runs what is ready.
    func takeSlot() -> Bool {
        guard slots < Self.slotsMax else { return false }
        slots += 1
        return true
    }

    func leaveSlot() { slots -= 1 }

    /// The request whose turn has come; nil if all requests run or wait for an earlier one.
    func nextReady() -> ChannelRequest? { ready.isEmpty ? nil : lines[ready.removeFirst()]?.first }

    /// Ends a request that ``nextReady()`` returned. The next one of its audience is ready after what is ready already.
    func end(_ request: ChannelRequest) {
        let key = Key(request)
        requests -= 1
        lines[key]?.removeFirst()
        if lines[key]?.isEmpty == true { lines[key] = nil } else { ready.append(key) }
        room?.resume()
        room = nil
    }
}
