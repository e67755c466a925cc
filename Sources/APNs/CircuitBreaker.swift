/// Why the circuit breaker of a pool opened.
public enum BreakerCause: UInt8, Sendable {
    /// Too many pushes got a 5xx (except 503 Shutdown), or no response in time.
    case unavailability
    /// Too many pushes to devices got BadDeviceToken or DeviceTokenNotForTopic. Probably the environment or the topic
    /// is wrong, not the tokens.
    case deviceTokens
    /// APNs refuses the provider, usually its token: several pushes got `providerRefused` (``ResponseDisposition``) or
    /// 429 TooManyProviderTokenUpdates, and no response between them showed that APNs accepts the token.
    case providerToken

    /// The name of this cause in log lines.
    public var name: String { "\(self)" }
}

/// The limits at which a pool's circuit breaker opens. The pool then stops sending, because its pushes cannot succeed.
public struct CircuitBreakerConfiguration: Sendable, Hashable {
    /// The time in which the breaker counts ended pushes and failures. Then it begins again with counts of 0. Failures
    /// are timeouts, and 5xx responses except 503 Shutdown. Range 100 to 600,000.
    public var failureWindowMilliseconds: Int64 = 10_000
    /// The breaker checks the share of failures only if this many pushes have ended in `failureWindowMilliseconds`.
    /// Without this minimum, one failure would open the breaker of a pool that sends little. Range 1 to 100,000.
    public var failureWindowPushesMin = 50
    /// The breaker opens if more than this percentage of the pushes that ended in `failureWindowMilliseconds` are
    /// failures. Range 1 to 100.
    public var failurePercentMax = 50
    /// The number of ended pushes over which the breaker counts suspect responses: BadDeviceToken and
    /// DeviceTokenNotForTopic. Then it begins again with counts of 0. If there are many, the environment or the topic
    /// may be wrong for all tokens. Range 1 to 100,000.
    public var pushesPerSuspectWindow = 1_000
    /// The breaker checks the share of suspect responses only if it has counted this many. Without this minimum, one
    /// invalid token soon after the count has begun would open the breaker. Range 1 to 100,000.
    public var suspectResponsesMin = 20
    /// The breaker opens if more than this percentage of the pushes counted so far (`pushesPerSuspectWindow`) got a
    /// suspect response. Range 1 to 100.
    public var suspectPercentMax = 5
    /// The breaker opens at this many refusals of the provider: responses that are `providerRefused`
    /// (``ResponseDisposition``), such as a 403, or TooManyProviderTokenUpdates. A response that shows that APNs
    /// accepts the token sets the count to 0. Range 1 to 1,000.
    ///
    /// These responses do not count:
    /// - ExpiredProviderToken and UnrelatedKeyIdInToken, because a new provider token may repair the fault.
    /// - Refusals of a new signing key that a connection tries, because they say nothing about the key in use.
    /// - Refusals that may concern only broadcasts, if the pool also sends pushes to devices
    ///   (``PoolConfiguration/sendsDevicePushes``).
    public var providerTokenRefusalsMax = 5
    /// The shortest time from the opening of the breaker to its first probe, and from a failed probe to the next probe.
    /// Range 1 to 600,000.
    ///
    /// With the default, a pool with waiting pushes soon notices that the fault is repaired, and one probe a second is
    /// no load for APNs.
    public var probeDelayMilliseconds: Int64 = 1_000

    public init() {}

    func validate() throws(InvalidSettingError) {
        try require("breaker.failureWindowMilliseconds", failureWindowMilliseconds, in: 100...600_000)
        try require("breaker.failureWindowPushesMin", failureWindowPushesMin, in: 1...100_000)
        try require("breaker.failurePercentMax", failurePercentMax, in: 1...100)
        try require("breaker.pushesPerSuspectWindow", pushesPerSuspectWindow, in: 1...100_000)
        try require("breaker.suspectResponsesMin", suspectResponsesMin, in: 1...100_000)
        try require("breaker.suspectPercentMax", suspectPercentMax, in: 1...100)
        try require("breaker.providerTokenRefusalsMax", providerTokenRefusalsMax, in: 1...1_000)
        try require("breaker.probeDelayMilliseconds", probeDelayMilliseconds, in: 1...600_000)
    }
}

/// What one ended push says about APNs. The circuit breaker counts the pushes of each kind.
enum CircuitBreakerSample {
    /// APNs works: it accepted or `rejected` the push (``ResponseDisposition``), or reported a dead token or a missing
    /// channel.
    case available
    /// APNs responded with 5xx (except 503 Shutdown), or the push timed out, even if a part of it was never sent. A
    /// lost connection is `inconclusive` instead, because the next connection may work.
    case unavailable
    /// APNs responded with BadDeviceToken or DeviceTokenNotForTopic to a push to a device. The response also shows that
    /// APNs accepts the provider token, because APNs checks the device token only afterwards.
    case deviceTokenSuspect
    /// APNs responded with 429, but not TooManyProviderTokenUpdates. The response shows that APNs works. But it does
    /// not show that APNs accepts the provider token, because APNs may respond with 429 before it checks this token.
    case throttled
    /// APNs responded with 429 TooManyProviderTokenUpdates, or refuses the provider for a fault that a new provider
    /// token cannot repair. Two kinds of refusals are `inconclusive` instead:
    /// - refusals of a new signing key that a connection tries;
    /// - refusals that may concern only broadcasts, in a pool that also sends pushes to devices.
    case providerRefused
    /// The push does not show whether APNs works: for example, its connection was lost. The breaker counts the push as
    /// ended, but neither as a success nor as a failure. If the push was a probe, the probe has failed.
    case inconclusive

    init(completion: PushResponse.Completion, disposition: ResponseDisposition, reason: Reason, hasTimedOut: Bool) {
        switch disposition {
        case .accepted, .tokenDead, .channelGone: self = .available
        case .throttled: self = .throttled
        case .tokenSuspect, .topicSuspect: self = .deviceTokenSuspect
        case .ambiguous: self = hasTimedOut ? .unavailable : .inconclusive
        case .retryLater where reason == .tooManyProviderTokenUpdates: self = .providerRefused
        case .retryLater: self = .unavailable
        case .providerRefused: self = .providerRefused
        case .rejected: self = completion == .responded ? .available : .inconclusive
        case .retrySoon where completion == .notProcessed && hasTimedOut: self = .unavailable
        // Neither is a fault of APNs: another connection can send the push.
        case .retrySoon, .refreshProviderToken: self = .inconclusive
        }
    }
}

/// A pool's circuit breaker. It decides from the responses whether the pool may send pushes. While the breaker is open,
/// the pool may send one push at a time as a probe, which tests whether pushes succeed again. The breaker does no I/O,
/// and gets the time as an argument.
struct CircuitBreaker {
    enum State: Equatable {
        /// The pool sends pushes normally. Next: `open`, when a limit of ``CircuitBreakerConfiguration`` is reached.
        case closed
        /// The pool sends no push until the next probe is due. Pushes that were sent before may still get responses;
        /// the breaker ignores these responses. Next: `probing` when the pool sends a probe.
        case open(cause: BreakerCause, probeAtMilliseconds: Int64)
        /// One push, the probe, is in flight. Next: `closed` if the probe succeeds, otherwise `open` again.
        ///
        /// A 429 usually counts as a success, because it shows that APNs works. With the cause `providerToken`, a 429
        /// counts as a failure, because APNs may respond with 429 before it checks the token.
        case probing(cause: BreakerCause)
    }

    /// How ``noteEndedPush(_:nowMilliseconds:)`` changed the state.
    enum Transition: Equatable {
        case none
        case opened(BreakerCause)
        /// A probe failed. The next probe is due after `probeDelayMilliseconds`.
        case openedAgain
        case closed
    }

    private(set) var state = State.closed
    private let configuration: CircuitBreakerConfiguration
    // The counts over `failureWindowMilliseconds`, and when that time began.
    private var failureWindowBeganAtMilliseconds: Int64 = 0
    private var failureWindowPushCount = 0
    private var failureCount = 0
    // Ended pushes, and how many of them got a suspect response. Both counts begin again with 0 after
    // `pushesPerSuspectWindow` pushes, and when the breaker closes.
    private var suspectWindowPushCount = 0
    private var suspectResponseCount = 0
    /// How many `providerRefused` samples have come. The count begins again with 0 when a response shows that APNs
    /// accepts the provider token, and when the breaker closes.
    private var providerRefusalCount = 0

    init(_ configuration: CircuitBreakerConfiguration) {
        self.configuration = configuration
    }

    /// Whether the pool sends pushes normally. If not, it sends only probes.
    var isClosed: Bool { state == .closed }

    /// Whether a probe is in flight. It is the pool's only push in flight.
    var isProbing: Bool { if case .probing = state { true } else { false } }

    var cause: BreakerCause? {
        switch state {
        case .closed: nil
        case .open(let cause, _), .probing(let cause): cause
        }
    }

    /// The earliest time of the next probe; nil unless the state is `open`.
    var probeAtMilliseconds: Int64? {
        if case .open(_, let probeAtMilliseconds) = state { probeAtMilliseconds } else { nil }
    }

    /// Whether the pool may send a probe now. The probe must be due, and no push may be in flight, so that the next
    /// response belongs to the probe.
    func permitsProbe(inFlightPushCount: Int, nowMilliseconds: Int64) -> Bool {
        guard let dueAtMilliseconds = probeAtMilliseconds else { return false }
        return nowMilliseconds >= dueAtMilliseconds && inFlightPushCount == 0
    }

    /// Notes that the pool sent a push. If the breaker is open, this push is the probe.
    mutating func noteSubmission() {
        if case .open(let cause, _) = state {
            state = .probing(cause: cause)
        }
    }

    /// Notes an ended push. What it does depends on the state:
    /// - `closed`: counts the push, and opens the breaker if a limit of ``CircuitBreakerConfiguration`` is reached.
    /// - `open`: ignores the push.
    /// - `probing`: the push is the probe. Closes the breaker if the probe succeeded; otherwise opens it again.
    ///
    /// - Parameter sample: what the push showed about APNs.
    /// - Returns: how the state changed.
    mutating func noteEndedPush(_ sample: CircuitBreakerSample, nowMilliseconds: Int64) -> Transition {
        switch state {
        case .open:
            // The push was sent before the breaker opened, so it does not count.
            return .none
        case .probing(let cause):
            // The ended push is the probe, because `permitsProbe` required that no other push was in flight.
            if sample == .available || sample == .throttled && cause != .providerToken {
                self = CircuitBreaker(configuration)
                return .closed
            }
            open(cause, nowMilliseconds: nowMilliseconds)
            return .openedAgain
        case .closed:
            countPush(sample, nowMilliseconds: nowMilliseconds)
            guard let cause = causeToOpen else { return .none }
            open(cause, nowMilliseconds: nowMilliseconds)
            return .opened(cause)
        }
    }

    private mutating func countPush(_ sample: CircuitBreakerSample, nowMilliseconds: Int64) {
        if nowMilliseconds - failureWindowBeganAtMilliseconds >= configuration.failureWindowMilliseconds {
            failureWindowBeganAtMilliseconds = nowMilliseconds
            failureWindowPushCount = 0
            failureCount = 0
        }
        if suspectWindowPushCount >= configuration.pushesPerSuspectWindow {
            suspectWindowPushCount = 0
            suspectResponseCount = 0
        }
        failureWindowPushCount += 1
        suspectWindowPushCount += 1
        switch sample {
        case .available: providerRefusalCount = 0
        // A 5xx or a timeout says nothing about the provider token, so `providerRefusalCount` does not change.
        case .unavailable: failureCount += 1
        case .deviceTokenSuspect:
            suspectResponseCount += 1
            providerRefusalCount = 0
        case .providerRefused: providerRefusalCount += 1
        case .throttled, .inconclusive: break
        }
    }

    /// Why the breaker must open now; nil if no limit of the configuration is reached.
    private var causeToOpen: BreakerCause? {
        if providerRefusalCount >= configuration.providerTokenRefusalsMax { return .providerToken }
        if suspectResponseCount >= configuration.suspectResponsesMin,
            suspectResponseCount * 100 > suspectWindowPushCount * configuration.suspectPercentMax
        {
            return .deviceTokens
        }
        if failureWindowPushCount >= configuration.failureWindowPushesMin,
            failureCount * 100 > failureWindowPushCount * configuration.failurePercentMax
        {
            return .unavailability
        }
        return nil
    }

    private mutating func open(_ cause: BreakerCause, nowMilliseconds: Int64) {
        state = .open(cause: cause, probeAtMilliseconds: nowMilliseconds + configuration.probeDelayMilliseconds)
    }
}
