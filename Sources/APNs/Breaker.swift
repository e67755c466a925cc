/// Why a breaker opened.
public enum BreakerCause: UInt8, Sendable {
    /// APNs answers 5xx or not at all.
    case availability
    /// A burst of BadDeviceToken or DeviceTokenNotForTopic: probably a wrong environment or topic, not dead tokens.
    case deviceTokens
    /// One 403 after another: the key, its team or its environment is wrong.
    case providerToken
}

/// When a pool stops sending because what it sends cannot succeed.
public struct BreakerConfiguration: Sendable, Hashable {
    /// Window over which 5xx and lost answers are counted. Range 100 to 600,000.
    public var windowMilliseconds: Int64 = 10_000
    /// Answers in the window before their failures count. Range 1 to 100,000.
    public var failureAnswersMin = 50
    /// Opens above this share of failures, in per cent. Range 1 to 100.
    public var failurePercentMax = 50
    /// Answers over which suspect device tokens are counted. Range 1 to 100,000.
    public var suspectWindowAnswers = 1_000
    /// Suspect answers before their share counts. Range 1 to 100,000.
    public var suspectAnswersMin = 20
    /// Opens above this share of suspect answers, in per cent. Range 1 to 100.
    public var suspectPercentMax = 5
    /// Opens after so many 403 in a row. Range 1 to 1,000.
    public var forbiddenMax = 5
    /// From opening to the first probe, and from each probe that fails to the next: one push a second harms nobody, and so the pool goes
    /// on within a second of what was wrong being repaired. Range 1 to 600,000.
    public var probeMilliseconds: Int64 = 1_000

    public init() {}

    func validate() throws(ConfigurationError) {
        try require("breaker.windowMilliseconds", windowMilliseconds, in: 100...600_000)
        try require("breaker.failureAnswersMin", failureAnswersMin, in: 1...100_000)
        try require("breaker.failurePercentMax", failurePercentMax, in: 1...100)
        try require("breaker.suspectWindowAnswers", suspectWindowAnswers, in: 1...100_000)
        try require("breaker.suspectAnswersMin", suspectAnswersMin, in: 1...100_000)
        try require("breaker.suspectPercentMax", suspectPercentMax, in: 1...100)
        try require("breaker.forbiddenMax", forbiddenMax, in: 1...1_000)
        try require("breaker.probeMilliseconds", probeMilliseconds, in: 1...600_000)
    }
}

/// What an answer tells about the service and the configuration.
enum BreakerSample {
    /// The push was judged on its own: accepted, its token or channel dead, or its payload refused.
    case succeeded
    /// 5xx, or no answer within its time. A lost connection is none: it says nothing about the next one.
    case unavailable
    case suspect
    /// 403, or the 429 that concerns the provider token.
    case forbidden
    /// Says nothing, yet is no success.
    case indifferent

    init(kind: PushAnswer.Kind, disposition: Disposition, status: UInt16, reason: Reason, isDeadline: Bool) {
        switch disposition {
        case .accepted, .tokenDead, .limited, .channelGone: self = .succeeded
        case .tokenSuspect, .topicSuspect: self = .suspect
        case .ambiguous: self = isDeadline ? .unavailable : .indifferent
        case .retryLater where reason == .tooManyProviderTokenUpdates: self = .forbidden
        case .retryLater: self = status / 100 == 5 ? .unavailable : .succeeded
        case .providerRefused: self = .forbidden
        case .rejected: self = kind == .answered ? .succeeded : .indifferent
        // The pool replaces an expired provider token by itself, one request at a time on a new connection.
        case .retryNow, .refreshProviderToken: self = .indifferent
        }
    }
}

/// Decides, from answers alone, whether a pool may send. Pure; time is an argument.
struct Breaker {
    enum State: Equatable {
        /// Everything goes. Leaves to `open` when one of the three shares is exceeded.
        case closed
        /// Nothing goes until the time of the next probe; answers to what is still in flight are not counted. Leaves to
        /// `probing` when a probe is taken.
        case open(cause: BreakerCause, probeAtMilliseconds: Int64)
        /// One push is out. Its answer leads to `closed`, or back to `open`.
        case probing(cause: BreakerCause)
    }

    /// What `record` changed.
    enum Transition: Equatable {
        case none
        case opened(BreakerCause)
        /// A probe failed; the next one comes later.
        case postponed
        case closed
    }

    private(set) var state = State.closed
    private let configuration: BreakerConfiguration
    private var windowStartMilliseconds: Int64 = 0
    private var windowAnswers = 0
    private var windowFailures = 0
    private var suspectAnswers = 0
    private var suspects = 0
    private var forbiddenInRow = 0

    init(_ configuration: BreakerConfiguration) {
        self.configuration = configuration
    }

    /// Whether every push may go.
    var isClosed: Bool { state == .closed }

    var cause: BreakerCause? {
        switch state {
        case .closed: nil
        case .open(let cause, _), .probing(let cause): cause
        }
    }

    /// When the next probe may go; nil unless open.
    var probeAtMilliseconds: Int64? {
        if case .open(_, let probeAt) = state { probeAt } else { nil }
    }

    /// Whether a probe may go now: its time has come, and nothing else is in flight, so that its answer is the only one
    /// that can come.
    func permitsProbe(inFlight: Int, nowMilliseconds: Int64) -> Bool {
        guard let probeAt = probeAtMilliseconds else { return false }
        return nowMilliseconds >= probeAt && inFlight == 0
    }

    /// A push was submitted while not closed: it is the probe.
    mutating func submitted() {
        if case .open(let cause, _) = state {
            state = .probing(cause: cause)
        }
    }

    /// A push came to its answer.
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
            windowAnswers = 0
            windowFailures = 0
        }
        if suspectAnswers >= configuration.suspectWindowAnswers {
            suspectAnswers = 0
            suspects = 0
        }
        windowAnswers += 1
        suspectAnswers += 1
        switch sample {
        case .succeeded: forbiddenInRow = 0
        case .unavailable: windowFailures += 1
        case .suspect: suspects += 1
        case .forbidden: forbiddenInRow += 1
        case .indifferent: break
        }
    }

    private var exceeded: BreakerCause? {
        if forbiddenInRow >= configuration.forbiddenMax { return .providerToken }
        if suspects >= configuration.suspectAnswersMin,
            suspects * 100 > suspectAnswers * configuration.suspectPercentMax
        {
            return .deviceTokens
        }
        if windowAnswers >= configuration.failureAnswersMin,
            windowFailures * 100 > windowAnswers * configuration.failurePercentMax
        {
            return .availability
        }
        return nil
    }

    private mutating func open(_ cause: BreakerCause, nowMilliseconds: Int64) {
        state = .open(cause: cause, probeAtMilliseconds: nowMilliseconds + configuration.probeMilliseconds)
    }
}
