import Numbers

/// The faults that a test injects into the push service or the management service.
///
/// A share, from 0 to 1, is the part of the valid requests that gets a fault. A request is valid if its headers and its
/// body are valid. A request gets at most one of these faults, so the shares together are at most 1. Exception:
/// ``informationalShare`` is a part of all responses, and does not count in the sum.
public struct Faults: Sendable, Equatable {
    /// The delay of each response that is not late: a random time in this range.
    public var latencyMilliseconds: ClosedRange<Int> = 0...0
    /// The share of requests that get a 500 `InternalServerError`. Their pushes reach no phone.
    public var internalServerErrorShare = 0.0
    /// The share of requests that get a 503 `ServiceUnavailable`. Their pushes reach no phone.
    public var serviceUnavailableShare = 0.0
    /// The share of requests that get a 429 `TooManyRequests`. Their pushes reach no phone.
    public var tooManyRequestsShare = 0.0
    /// For each reason, the share of requests that get this reason, whether or not it is true of the request. Their
    /// pushes reach no phone.
    public var reasonShares: [SimulatedResponse: Double] = [:]
    /// The share of requests that get a 400 with a reason that Apple does not document. Their pushes reach no phone.
    public var unknownReasonShare = 0.0
    /// The share of requests that get a 503 with HTML instead of JSON, as from a proxy. Their pushes reach no phone.
    public var notJSONShare = 0.0
    /// The share of requests that are processed, but get their response only after ``lateMilliseconds``.
    public var lateShare = 0.0
    /// The delay of late responses. It should exceed the client's deadline, which is 10 s in a worker by default
    /// (`requestTimeoutMilliseconds`).
    public var lateMilliseconds = 15_000
    /// The share of requests whose stream is refused: RST_STREAM with REFUSED_STREAM. This code tells the client that
    /// the push was not processed.
    public var refusedShare = 0.0
    /// The share of requests whose stream is reset: RST_STREAM with ``resetCode``. The client cannot know
    /// whether the request was processed.
    public var resetShare = 0.0
    /// The error code of ``resetShare``: 2 is INTERNAL_ERROR, others are in RFC 9113 §7, and unknown codes are allowed.
    /// Do not use 7, REFUSED_STREAM, because it tells the client that the push was not processed. Set ``refusedShare``
    /// instead.
    public var resetCode: UInt32 = 2
    /// The share of requests that never get a response.
    public var noResponseShare = 0.0
    /// Whether the requests of ``resetShare`` and ``noResponseShare``, and those on half-open connections, are
    /// processed: their pushes then reach the phones.
    public var requestsWithoutResponseTakeEffect = true
    /// On each thread, the shares apply only to this many valid requests after the faults are set. Later requests are
    /// processed normally. Nil: no limit. ``informationalShare`` always applies.
    public var requestsSubjectToFaultsMax: Int?
    /// The share of responses that a 103 (Early Hints) precedes. A client must not take the 103 for the response (RFC
    /// 9113, section 8.1).
    public var informationalShare = 0.0
    /// A connection gets a GOAWAY after this many requests; 0: never. A connection that already had this many requests
    /// when the fault was set gets no GOAWAY.
    public var goAwayAfterRequests = 0
    /// How many of the last requests before the GOAWAY are not processed and get no response: if this is 3 and
    /// ``goAwayAfterRequests`` is 100, the requests 98 to 100. The GOAWAY tells the client to send them again.
    /// Exception: a request whose stream is below that of a processed request is processed, because the GOAWAY names
    /// only the highest processed stream.
    ///
    /// If the connection gets fewer requests than ``goAwayAfterRequests``, no GOAWAY comes, and the client waits until
    /// its deadline for these responses. If it already had that many requests when the fault was set, this happens to
    /// all its later requests.
    public var goAwayUnprocessedRequests = 0
    /// The GOAWAY that a connection gets after ``goAwayAfterRequests``. Its `lastStreamIdentifier` must be nil, because
    /// ``goAwayUnprocessedRequests`` decides it.
    public var goAway = GoAway()
    /// A connection is cut when it has had this many requests; 0: never. The simulator closes the connection without a
    /// GOAWAY and without TLS's close_notify. Responses that are not yet written are lost.
    public var cutAfterRequests = 0
    /// A connection that gets more requests than this is left half open, as after a network failure: the simulator
    /// sends nothing more on the connection, neither responses nor acknowledgements of PINGs. With 0, a connection is
    /// half open as soon as it is set up. Nil: never.
    public var silentAfterRequests: Int?
    /// Whether the simulator also stops reading from a connection that is left half open. The client's socket buffer
    /// then fills up.
    public var silentStopsReading = false
    /// How many streams a connection with a valid provider token may have open (SETTINGS_MAX_CONCURRENT_STREAMS); nil:
    /// ``SimulatorConfiguration/Limits/concurrentStreamsMax``. A change is sent to open connections at once.
    public var concurrentStreams: UInt32?
    /// The flow-control window of a new connection in bytes (RFC 9113, section 6.9.2); nil: HTTP/2's default,
    /// 65,535. APNs' value is not known. With a long round trip the window limits the throughput of a
    /// connection.
    public var connectionWindowBytes: Int?

    public init() {}

    /// Describes an invalid value; nil if all values are valid.
    var validationProblem: String? {
        requestProblem ?? connectionProblem
    }

    private var requestProblem: String? {
        let shares = Self.requestShares.map { self[keyPath: $0.path] } + reasonShares.values
        if (shares + [informationalShare]).contains(where: { !(0...1).contains($0) }) {
            return "a share is a number from 0 to 1"
        }
        if shares.reduce(0, +) > 1 + 1e-9 { return "the shares together are more than 1" }
        if reasonShares[.success] != nil { return "reasonShares: success is no reason" }
        if latencyMilliseconds.lowerBound < 0 || latencyMilliseconds.upperBound > Self.latencyMillisecondsMax {
            return "a latency is from 0 to \(Self.latencyMillisecondsMax) ms"
        }
        if !(0...Self.latencyMillisecondsMax).contains(lateMilliseconds) {
            return "lateMilliseconds is from 0 to \(Self.latencyMillisecondsMax)"
        }
        if let count = requestsSubjectToFaultsMax, count < 0 { return "requestsSubjectToFaultsMax is negative" }
        return nil
    }

    private var connectionProblem: String? {
        if goAwayAfterRequests < 0 { return "goAwayAfterRequests is negative" }
        if !(0...goAwayAfterRequests).contains(goAwayUnprocessedRequests) {
            return "goAwayUnprocessedRequests is from 0 to goAwayAfterRequests"
        }
        if let problem = goAway.validationProblem { return "goAway: \(problem)" }
        if goAway.lastStreamIdentifier != nil { return "goAway: lastStream follows from goAwayUnprocessedRequests" }
        if goAwayUnprocessedRequests > 0, goAway.graceMilliseconds > 0 {
            return
                "goAwayUnprocessedRequests cannot be set with graceMilliseconds: in two steps every request is processed"
        }
        if cutAfterRequests < 0 { return "cutAfterRequests is negative" }
        if let count = silentAfterRequests, count < 0 { return "silentAfterRequests is negative" }
        if let bytes = connectionWindowBytes, !(1...Self.connectionWindowBytesMax).contains(bytes) {
            return "a connection's window is from 1 to \(Self.connectionWindowBytesMax) bytes"
        }
        return nil
    }

    /// The shares of valid requests that get a fault: the key on the control interface, the property, and what these
    /// requests get. A request gets at most one of these faults, or one of ``reasonShares``, so all these shares
    /// together are at most 1. ``informationalShare`` is independent of them.
    static var requestShares: [(key: StaticString, path: WritableKeyPath<Faults, Double>, handling: RequestHandling)] {
        [
            ("internalServerErrorShare", \.internalServerErrorShare, .rejected(.internalServerError)),
            ("serviceUnavailableShare", \.serviceUnavailableShare, .rejected(.serviceUnavailable)),
            ("tooManyRequestsShare", \.tooManyRequestsShare, .rejected(.tooManyRequests)),
            ("refusedShare", \.refusedShare, .refused),
            ("resetShare", \.resetShare, .reset),
            ("noResponseShare", \.noResponseShare, .noResponse),
            ("unknownReasonShare", \.unknownReasonShare, .undocumented(.unknownReason)),
            ("notJSONShare", \.notJSONShare, .undocumented(.notJSON)),
            ("lateShare", \.lateShare, .late),
        ]
    }

    public static let latencyMillisecondsMax = 600_000
    public static let connectionWindowBytesMax = 1 << 24
}

/// A response that Apple does not document.
enum UndocumentedResponse {
    case unknownReason
    case notJSON

    /// The documented reason from which the response takes its HTTP status.
    var reason: SimulatedResponse {
        switch self {
        case .unknownReason: .badTopic
        case .notJSON: .serviceUnavailable
        }
    }

    /// The reason that the push log shows; empty for a body that is not JSON.
    var reasonText: String {
        switch self {
        case .unknownReason: "ReasonOfTomorrow"
        case .notJSON: ""
        }
    }

    var body: StaticString {
        switch self {
        case .unknownReason: #"{"reason":"ReasonOfTomorrow"}"#
        case .notJSON: "<html><body>503 Service Unavailable</body></html>"
        }
    }
}

/// What the service does with a valid request: `processed`, unless ``Faults`` demand another case.
enum RequestHandling {
    case processed
    case late
    case rejected(SimulatedResponse)
    case undocumented(UndocumentedResponse)
    case refused
    case reset
    case noResponse
}

/// The faults of a connection. Each number `…AfterRequests` says after how many requests of the connection a fault
/// happens; `Int.max`: never.
struct ConnectionFaults {
    var goAwayAfterRequests: Int
    var unprocessedRequestCount: Int
    var cutAfterRequests: Int
    var silentAfterRequests: Int
    var silentStopsReading: Bool

    init(_ faults: Faults) {
        goAwayAfterRequests = faults.goAwayAfterRequests > 0 ? faults.goAwayAfterRequests : .max
        unprocessedRequestCount = faults.goAwayUnprocessedRequests
        cutAfterRequests = faults.cutAfterRequests > 0 ? faults.cutAfterRequests : .max
        silentAfterRequests = faults.silentAfterRequests ?? .max
        silentStopsReading = faults.silentStopsReading
    }
}

/// Chooses the fault of each valid request at random.
///
/// Each share of ``Faults`` becomes a range of 32-bit numbers. A random number is drawn for the request, and the range
/// that contains this number decides. If no share is set, or after `requestsSubjectToFaultsMax` requests, the request
/// has no fault.
struct FaultSampler {
    let faults: Faults
    let connectionFaults: ConnectionFaults
    private let thresholds: [(upTo: UInt64, handling: RequestHandling)]
    private let earlyHintsThreshold: UInt64
    /// How many more requests the shares apply to; `Int.max`: no limit.
    private var remainingRequestCount: Int

    init(_ faults: Faults) {
        self.faults = faults
        connectionFaults = ConnectionFaults(faults)
        var shares: [(Double, RequestHandling)] = Faults.requestShares.map { (faults[keyPath: $0.path], $0.handling) }
        for response in SimulatedResponse.allCases {
            shares.append((faults.reasonShares[response] ?? 0, .rejected(response)))
        }
        var thresholds: [(upTo: UInt64, handling: RequestHandling)] = []
        var sum = 0.0
        for (share, handling) in shares where share > 0 {
            sum += share
            thresholds.append((UInt64(min(sum, 1) * 4_294_967_296), handling))
        }
        self.thresholds = thresholds
        earlyHintsThreshold = UInt64(faults.informationalShare * 4_294_967_296)
        remainingRequestCount = faults.requestsSubjectToFaultsMax ?? .max
    }

    /// Decides at random what happens to the next valid request.
    mutating func sampleHandling(_ random: inout SplitMix64) -> RequestHandling {
        if thresholds.isEmpty || remainingRequestCount == 0 { return .processed }
        if remainingRequestCount < .max { remainingRequestCount -= 1 }
        let randomNumber = random.next() >> 32
        for range in thresholds where randomNumber < range.upTo { return range.handling }
        return .processed
    }

    /// Decides at random whether a 103 (Early Hints) precedes the next response. Returns whether it does.
    func sampleEarlyHints(_ random: inout SplitMix64) -> Bool {
        earlyHintsThreshold > 0 && random.next() >> 32 < earlyHintsThreshold
    }

    func sampleLatencyMilliseconds(_ random: inout SplitMix64) -> Int64 {
        let range = faults.latencyMilliseconds
        if range.upperBound == 0 { return 0 }
        let possibleValueCount = UInt64(range.upperBound - range.lowerBound) + 1
        return Int64(range.lowerBound) + Int64(random.next() % possibleValueCount)
    }
}
