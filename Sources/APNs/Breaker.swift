/// Why a breaker opened.
public enum BreakerCause: UInt8, Sendable {
    /// Too many pushes got a 5xx or no response in time.
    case availability
    /// A burst of BadDeviceToken or DeviceTokenNotForTopic. Probably the environment or topic is wrong, not
    /// the tokens.
    case deviceTokens
    /// Several 403 responses, and none between them that accepts the provider token: the key, its team or its
    /// environment is wrong.
    case providerToken
}

/// The limits at which a pool stops sending because its pushes cannot succeed.
public struct BreakerConfiguration: Sendable, Hashable {
    /// The time window over which 5xx responses and timed-out pushes are counted. Range 100 to 600,000.
    public var windowMilliseconds: Int64 = 10_000
    /// The share of failures is judged once the window has this many responses. Range 1 to 100,000.
    public var failureResponsesMin = 50
    /// The breaker opens above this share of failures, in per cent. Range 1 to 100.
    public var failurePercentMax = 50
    /// Suspect responses (BadDeviceToken, DeviceTokenNotForTopic) are counted over this many responses. Range
    /// 1 to 100,000.
    public var suspectWindowResponses = 1_000
    /// The share of suspect responses is judged once there are this many of them. Range 1 to 100,000.
    public var suspectResponsesMin = 20
    /// The breaker opens above this share of suspect responses, in per cent. Range 1 to 100.
    public var suspectPercentMax = 5
    /// The breaker opens after this many 403 responses without a response between them that accepts the
    /// provider token. Range 1 to 1,000.
    public var forbiddenMax = 5
    /// The time from opening to the first probe, and from a failed probe to the next. Range 1 to 600,000.
    ///
    /// One probe a second is no load for APNs, and the pool resumes within a second after the fault is
    /// repaired.
    public var probeMilliseconds: Int64 = 1_000

    public init() {}

    func validate() throws(ConfigurationError) {
        try require("breaker.windowMilliseconds", windowMilliseconds, in: 100...600_000)
        try require("breaker.failureResponsesMin", failureResponsesMin, in: 1...100_000)
        try require("breaker.failurePercentMax", failurePercentMax, in: 1...100)
        try require("breaker.suspectWindowResponses", suspectWindowResponses, in: 1...100_000)
        try require("breaker.suspectResponsesMin", suspectResponsesMin, in: 1...100_000)
        try require("breaker.suspectPercentMax", suspectPercentMax, in: 1...100)
        try require("breaker.forbiddenMax", forbiddenMax, in: 1...1_000)
        try require("breaker.probeMilliseconds", probeMilliseconds, in: 1...600_000)
    }
}

/// The breaker's classification of one response.
enum BreakerSample {
    /// APNs works: it accepted the push, refused its payload, limited it (429), or reported a dead token or
    /// channel.
    case succeeded
    /// A 5xx, or no response in time. A lost connection is `inconclusive`, because the next connection may
    /// work.
    case unavailable
    /// BadDeviceToken or DeviceTokenNotForTopic. APNs judges these only after it has accepted the provider
    /// token.
    case suspect
    /// 429 about a device token. APNs works, but may answer 429 before it checks the provider token.
    case limited
    /// 403, or the 429 about provider tokens.
    case forbidden
    /// The response tells nothing about APNs. It counts as a response, neither as success nor as failure. A
    /// probe with this sample fails.
    case inconclusive

    init(kind: PushResponse.Kind, disposition: Disposition, status: UInt16, reason: Reason, isDeadline: Bool) {
        switch disposition {
        case .accepted, .tokenDead, .channelGone: self = .succeeded
        case .limited: self = .limited
        case .tokenSuspect, .topicSuspect: self = .suspect
        case .ambiguous: self = isDeadline ? .unavailable : .inconclusive
        case .retryLater where reason == .tooManyProviderTokenUpdates: self = .forbidden
        case .retryLater: self = .unavailable
        case .providerRefused: self = .forbidden
        case .rejected: self = kind == .answered ? .succeeded : .inconclusive
        // The pool replaces an expired provider token automatically, one request at a time on a new
        // connection.
        case .retryNow, .refreshProviderToken: self = .inconclusive
        }
    }
}

/// A pool's circuit breaker: decides from the responses whether the pool may send. While open, it lets one
/// push at a time through as a probe, which tests whether pushes succeed again. Does no I/O; time is an
/// argument.
struct Breaker {
    enum State: Equatable {
        /// Every push may be sent. → `open` when a limit of ``BreakerConfiguration`` is exceeded.
        case closed
        /// No push may be sent until the next probe is due. Responses to pushes still in flight are not
        /// counted. → `probing` when a probe is taken.
        case open(cause: BreakerCause, probeAtMilliseconds: Int64)
        /// One push is in flight as a probe. Its response leads to `closed`, or back to `open`.
        case probing(cause: BreakerCause)
    }

    /// The change that `record` made.
    enum Transition: Equatable {
        case none
        case opened(BreakerCause)
        /// A probe failed; the next one is scheduled.
        case postponed
        case closed
    }

    private(set) var state = State.closed
    private let configuration: BreakerConfiguration
    private var windowStartMilliseconds: Int64 = 0
    private var windowResponses = 0
    private var windowFailures = 0
    private var suspectResponses = 0
    private var suspects = 0
    /// 403 responses since the last response that accepts the provider token.
    private var forbiddenCount = 0

    init(_ configuration: BreakerConfiguration) {
        self.configuration = configuration
    }

    /// Whether all pushes may be sent.
    var isClosed: Bool { state == .closed }

    var cause: BreakerCause? {
        switch state {
        case .closed: nil
        case .open(let cause, _), .probing(let cause): cause
        }
    }

    /// When the next probe may be sent; nil unless the state is `open`.
    var probeAtMilliseconds: Int64? {
        if case .open(_, let probeAt) = state { probeAt } else { nil }
    }

    /// Whether a probe may be sent now. The probe must be due, and no push may be in flight, so that the next
    /// response is the probe's.
    func permitsProbe(inFlight: Int, nowMilliseconds: Int64) -> Bool {
        guard let probeAt = probeAtMilliseconds else { return false }
        return nowMilliseconds >= probeAt && inFlight == 0
    }

    /// Notes that a push was submitted. If the breaker is open, this push is the probe.
    mutating func submitted() {
        if case .open(let cause, _) = state {
            state = .probing(cause: cause)
        }
    }

    /// Counts the outcome of a push.
    mutating func record(_ sample: BreakerSample, nowMilliseconds: Int64) -> Transition {
        switch state {
        case .open:
            return .none
        case .probing(let cause):
            if sample == .succeeded || sample == .limited && cause != .providerToken {
                self = Breaker(configuration)
                return .closed
            }
            open(cause, nowMilliseconds: nowMilliseconds)
            return .postponed
        case .closed:
            count(sample, nowMilliseconds: nowMilliseconds)
            guard let cause = exceeded else { return .none }
            open(cause, nowMilliseconds: nowMilliseconds)
            return .opened(cause)
        }
    }

    private mutating func count(_ sample: BreakerSample, nowMilliseconds: Int64) {
        if nowMilliseconds - windowStartMilliseconds >= configuration.windowMilliseconds {
            windowStartMilliseconds = nowMilliseconds
            windowResponses = 0
            windowFailures = 0
        }
        if suspectResponses >= configuration.suspectWindowResponses {
            suspectResponses = 0
            suspects = 0
        }
        windowResponses += 1
        suspectResponses += 1
        switch sample {
        case .succeeded: forbiddenCount = 0
        // A 5xx or a timeout says nothing about the provider token, so the count of 403 responses stays.
        case .unavailable: windowFailures += 1
        case .suspect:
            suspects += 1
            forbiddenCount = 0
        case .forbidden: forbiddenCount += 1
        case .limited, .inconclusive: break
        }
    }

    private var exceeded: BreakerCause? {
        if forbiddenCount >= configuration.forbiddenMax { return .providerToken }
        if suspects >= configuration.suspectResponsesMin,
            suspects * 100 > suspectResponses * configuration.suspectPercentMax
        {
            return .deviceTokens
        }
        if windowResponses >= configuration.failureResponsesMin,
            windowFailures * 100 > windowResponses * configuration.failurePercentMax
        {
            return .availability
        }
        return nil
    }

    private mutating func open(_ cause: BreakerCause, nowMilliseconds: Int64) {
        state = .open(cause: cause, probeAtMilliseconds: nowMilliseconds + configuration.probeMilliseconds)
    }
}
