/// Why a breaker opened.
public enum BreakerCause: UInt8, Sendable {
    /// APNs answers 5xx or not at all.
    case availability
    /// A burst of BadDeviceToken or DeviceTokenNotForTopic. Probably the environment or topic is wrong, not the tokens.
    case deviceTokens
    /// Several 403 in a row: the key, its team or its environment is wrong.
    case providerToken
}

/// The limits at which a pool stops sending because its pushes cannot succeed.
public struct BreakerConfiguration: Sendable, Hashable {
    /// Window over which 5xx and lost responses are counted. Range 100 to 600,000.
    public var windowMilliseconds: Int64 = 10_000
    /// The fewest answers in the window for which the share of failures is judged. Range 1 to 100,000.
    public var failureResponsesMin = 50
    /// The breaker opens above this share of failures, in per cent. Range 1 to 100.
    public var failurePercentMax = 50
    /// Answers over which suspect device tokens are counted. Range 1 to 100,000.
    public var suspectWindowResponses = 1_000
    /// The fewest suspect answers for which their share is judged. Range 1 to 100,000.
    public var suspectResponsesMin = 20
    /// The breaker opens above this share of suspect answers, in per cent. Range 1 to 100.
    public var suspectPercentMax = 5
    /// The breaker opens after this many 403 in a row. Range 1 to 1,000.
    public var forbiddenMax = 5
    /// The time from opening to the first probe, and from a failed probe to the next. Range 1 to 600,000.
    ///
    /// One push a second harms nobody, and the pool resumes within a second once the fault is repaired.
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

/// What one response says about the service and the configuration.
enum BreakerSample {
    /// APNs judged the push on its own: it accepted the push, or refused its payload, or its token or channel is dead.
    case succeeded
    /// 5xx, or no answer in time. A lost connection does not count: it says nothing about the next connection.
    case unavailable
    case suspect
    /// 403, or the 429 about provider tokens.
    case forbidden
    /// Says nothing about the service: counts as a response, but neither as success nor as failure. A probe that ends so has failed.
    case inconclusive

    init(kind: PushResponse.Kind, disposition: Disposition, status: UInt16, reason: Reason, isDeadline: Bool) {
        switch disposition {
        case .accepted, .tokenDead, .limited, .channelGone: self = .succeeded
        case .tokenSuspect, .topicSuspect: self = .suspect
        case .ambiguous: self = isDeadline ? .unavailable : .inconclusive
        case .retryLater where reason == .tooManyProviderTokenUpdates: self = .forbidden
        case .retryLater: self = status / 100 == 5 ? .unavailable : .succeeded
        case .providerRefused: self = .forbidden
        case .rejected: self = kind == .answered ? .succeeded : .inconclusive
        // The pool replaces an expired provider token automatically, one request at a time on a new connection.
        case .retryNow, .refreshProviderToken: self = .inconclusive
        }
    }
}

/// Decides from answers alone whether a pool may send. Does no I/O; time is an argument.
struct Breaker {
    enum State: Equatable {
        /// Every push may go. → `open` when one of the three limits is exceeded.
        case closed
        /// No push may go until the next probe is due. Answers to pushes still in flight are not counted. → `probing`
        /// when a probe is taken.
        case open(cause: BreakerCause, probeAtMilliseconds: Int64)
        /// One push is out as a probe. Its response leads to `closed`, or back to `open`.
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
    private var forbiddenInRow = 0

    init(_ configuration: BreakerConfiguration) {
        self.configuration = configuration
    }

    /// Whether all pushes may go.
    var isClosed: Bool { state == .closed }

    var cause: BreakerCause? {
        switch state {
        case .closed: nil
        case .open(let cause, _), .probing(let cause): cause
        }
    }

    /// When the next probe may go; nil unless the state is `open`.
    var probeAtMilliseconds: Int64? {
        if case .open(_, let probeAt) = state { probeAt } else { nil }
    }

    /// Whether a probe may go now. Its time must have come, and nothing else may be in flight, so that the next response is the probe's.
    func permitsProbe(inFlight: Int, nowMilliseconds: Int64) -> Bool {
        guard let probeAt = probeAtMilliseconds else { return false }
        return nowMilliseconds >= probeAt && inFlight == 0
    }

    /// A push was submitted. If the breaker is open, this push is the probe.
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
            if sample == .succeeded {
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
        case .succeeded: forbiddenInRow = 0
        case .unavailable: windowFailures += 1
        case .suspect: suspects += 1
        case .forbidden: forbiddenInRow += 1
        case .inconclusive: break
        }
    }

    private var exceeded: BreakerCause? {
        if forbiddenInRow >= configuration.forbiddenMax { return .providerToken }
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
