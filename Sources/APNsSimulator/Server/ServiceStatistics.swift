/// The counts of one thread or of all threads of the simulator, since the start or the last reset. Two exceptions:
/// `openConnectionCount` is the present number, and a reset does not change `lostPushLogLineCount`.
public struct ServiceStatistics: Sendable {
    /// Complete requests to the push service, both valid and invalid ones. Requests that a configured fault refuses,
    /// resets or leaves without a response count too.
    public internal(set) var requestCount = 0
    /// The number of accepted pushes to devices with `apns-priority` 5. `priority10PushCount` counts those with 10.
    public internal(set) var priority5PushCount = 0
    public internal(set) var priority10PushCount = 0
    /// Accepted broadcasts.
    public internal(set) var broadcastCount = 0
    /// Requests to the management service. They are not part of `requestCount`.
    public internal(set) var managementRequestCount = 0
    public internal(set) var createdChannelCount = 0
    public internal(set) var deletedChannelCount = 0
    public internal(set) var acceptedConnectionCount = 0
    public internal(set) var openConnectionCount = 0
    /// How often the simulator verified a provider token. While a connection uses an accepted token, this token is not
    /// verified again. A refused token is verified again at each request. Exception: on a connection that got
    /// `ExpiredProviderToken`, no token is verified any more.
    public internal(set) var tokenVerificationCount = 0
    public internal(set) var goAwayCount = 0
    /// Connections that the simulator closed without GOAWAY and close_notify.
    public internal(set) var cutConnectionCount = 0
    /// Connections that were left half open: the simulator sends nothing on them any more.
    public internal(set) var halfOpenConnectionCount = 0
    /// Responses that Apple does not document: see `UndocumentedResponse`.
    public internal(set) var undocumentedResponseCount = 0
    /// Responses with a status below 200, which precede the actual response.
    public internal(set) var informationalResponseCount = 0
    public internal(set) var refusedStreamCount = 0
    public internal(set) var resetStreamCount = 0
    public internal(set) var requestWithoutResponseCount = 0
    /// Pushes and broadcasts since the simulator's start that are missing in the push log, because the log could not
    /// be written. A reset does not change this number.
    public internal(set) var lostPushLogLineCount = 0
    /// Requests to the push service in the last whole second.
    public internal(set) var lastSecondRequestCount = 0
    public internal(set) var busiestSecondRequestCount = 0
    private var countsByResponse: [Int] = Array(repeating: 0, count: SimulatedResponse.allCases.count)
    private var currentSecond: Int64 = 0
    private var currentSecondRequestCount = 0

    /// How many responses of both services had this reason; for `success`: how many were successful. Responses that
    /// Apple does not document are not counted here.
    public internal(set) subscript(response: SimulatedResponse) -> Int {
        get { countsByResponse[Int(response.rawValue)] }
        set { countsByResponse[Int(response.rawValue)] = newValue }
    }

    mutating func countRequest(nowMilliseconds: Int64) {
        finishSecondIfOver(nowMilliseconds: nowMilliseconds)
        requestCount += 1
        currentSecondRequestCount += 1
    }

    /// If `currentSecond` is over, begins to count the present second. `lastSecondRequestCount` becomes the count of
    /// the second just before it; 0 if no request came in that second.
    mutating func finishSecondIfOver(nowMilliseconds: Int64) {
        let nowSeconds = nowMilliseconds / 1_000
        if nowSeconds == currentSecond { return }
        lastSecondRequestCount = nowSeconds == currentSecond + 1 ? currentSecondRequestCount : 0
        busiestSecondRequestCount = max(busiestSecondRequestCount, currentSecondRequestCount)
        currentSecondRequestCount = 0
        currentSecond = nowSeconds
    }

    /// Adds the counts of another thread. `busiestSecondRequestCount` may become too high: it is the sum of the
    /// threads' busiest seconds, which may be different seconds.
    mutating func add(_ other: ServiceStatistics) {
        requestCount += other.requestCount
        priority5PushCount += other.priority5PushCount
        priority10PushCount += other.priority10PushCount
        broadcastCount += other.broadcastCount
        managementRequestCount += other.managementRequestCount
        createdChannelCount += other.createdChannelCount
        deletedChannelCount += other.deletedChannelCount
        acceptedConnectionCount += other.acceptedConnectionCount
        openConnectionCount += other.openConnectionCount
        tokenVerificationCount += other.tokenVerificationCount
        goAwayCount += other.goAwayCount
        cutConnectionCount += other.cutConnectionCount
        halfOpenConnectionCount += other.halfOpenConnectionCount
        undocumentedResponseCount += other.undocumentedResponseCount
        informationalResponseCount += other.informationalResponseCount
        refusedStreamCount += other.refusedStreamCount
        resetStreamCount += other.resetStreamCount
        requestWithoutResponseCount += other.requestWithoutResponseCount
        lostPushLogLineCount += other.lostPushLogLineCount
        lastSecondRequestCount += other.lastSecondRequestCount
        busiestSecondRequestCount += other.busiestSecondRequestCount
        for index in countsByResponse.indices { countsByResponse[index] += other.countsByResponse[index] }
    }
}
