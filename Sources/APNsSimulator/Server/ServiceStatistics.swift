/// The counts of one thread or of all threads of the simulator, since the start or the last reset. `connectionsOpen` is
/// the present number.
public struct ServiceStatistics: Sendable {
    /// Requests to the push service that arrived completely. Invalid requests count too, and so do requests that a
    /// configured fault refuses, resets or leaves without a response.
    public internal(set) var requests = 0
    /// The number of accepted pushes to devices with `apns-priority` 5. `priority10Pushes` counts those with 10.
    public internal(set) var priority5Pushes = 0
    public internal(set) var priority10Pushes = 0
    /// Accepted broadcasts.
    public internal(set) var broadcasts = 0
    /// Requests to the management service. They are not part of `requests`.
    public internal(set) var managementRequests = 0
    public internal(set) var channelsCreated = 0
    public internal(set) var channelsDeleted = 0
    public internal(set) var connectionsAccepted = 0
    public internal(set) var connectionsOpen = 0
    /// How often the simulator verified a provider token. It verifies a connection's token in use only once, but
    /// verifies a refused token again at each request.
    public internal(set) var tokenVerifications = 0
    public internal(set) var goAways = 0
    /// Connections that the simulator closed without GOAWAY and close_notify.
    public internal(set) var connectionsCut = 0
    /// Connections that were left half open: the simulator sends nothing on them any more.
    public internal(set) var connectionsSilenced = 0
    /// Responses that Apple does not document: see `UndocumentedResponse`.
    public internal(set) var undocumentedResponses = 0
    /// Responses with a status below 200, which precede the actual response.
    public internal(set) var informationalResponses = 0
    public internal(set) var streamsRefused = 0
    public internal(set) var streamsReset = 0
    public internal(set) var requestsWithoutResponse = 0
    /// Pushes and broadcasts since the simulator's start that are missing in the push log, because the log could not
    /// be written. A reset does not change this number.
    public internal(set) var pushLogLinesLost = 0
    /// Requests to the push service in the last whole second.
    public internal(set) var requestsLastSecond = 0
    public internal(set) var requestsInBusiestSecond = 0
    private var countsByReason: [Int] = Array(repeating: 0, count: Reason.allCases.count)
    private var currentSecond: Int64 = 0
    private var requestsThisSecond = 0

    /// How many responses of both services had this reason; for `success`: how many were successful. Responses that
    /// Apple does not document are not counted here.
    public internal(set) subscript(reason: Reason) -> Int {
        get { countsByReason[Int(reason.rawValue)] }
        set { countsByReason[Int(reason.rawValue)] = newValue }
    }

    mutating func countRequest(nowMilliseconds: Int64) {
        advance(nowMilliseconds: nowMilliseconds)
        requests += 1
        requestsThisSecond += 1
    }

    /// If a second has ended, moves its count to `requestsLastSecond` and begins a new count. After a longer time,
    /// `requestsLastSecond` is 0.
    mutating func advance(nowMilliseconds: Int64) {
        let nowSeconds = nowMilliseconds / 1_000
        if nowSeconds == currentSecond { return }
        requestsLastSecond = nowSeconds == currentSecond + 1 ? requestsThisSecond : 0
        requestsInBusiestSecond = max(requestsInBusiestSecond, requestsThisSecond)
        requestsThisSecond = 0
        currentSecond = nowSeconds
    }

    /// Adds the counts of another thread. `requestsInBusiestSecond` becomes an upper bound, because the threads may
    /// have different busiest seconds.
    mutating func add(_ other: ServiceStatistics) {
        requests += other.requests
        priority5Pushes += other.priority5Pushes
        priority10Pushes += other.priority10Pushes
        broadcasts += other.broadcasts
        managementRequests += other.managementRequests
        channelsCreated += other.channelsCreated
        channelsDeleted += other.channelsDeleted
        connectionsAccepted += other.connectionsAccepted
        connectionsOpen += other.connectionsOpen
        tokenVerifications += other.tokenVerifications
        goAways += other.goAways
        connectionsCut += other.connectionsCut
        connectionsSilenced += other.connectionsSilenced
        undocumentedResponses += other.undocumentedResponses
        informationalResponses += other.informationalResponses
        streamsRefused += other.streamsRefused
        streamsReset += other.streamsReset
        requestsWithoutResponse += other.requestsWithoutResponse
        pushLogLinesLost += other.pushLogLinesLost
        requestsLastSecond += other.requestsLastSecond
        requestsInBusiestSecond += other.requestsInBusiestSecond
        for index in countsByReason.indices { countsByReason[index] += other.countsByReason[index] }
    }
}
