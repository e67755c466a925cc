import LiveActivity

/// What a record knows of its deferrals.
struct DeferralMark: BitwiseCopyable {
    /// How often it has been deferred.
    private(set) var count: UInt16 = 0
    /// Why it was the last time.
    private(set) var cause = DeferralCause.pool
    /// Whether a look has found it ready: its pool was offered it since.
    var isSeenReady = false
    /// Of its activity when it was deferred.
    var serviceFaults: UInt8 = 0
    /// Until when its push is not to be tried again, UNIX milliseconds; 0: it may be at once.
    var pauseEndMilliseconds: Int64 = 0

    init(count: UInt16 = 0) { self.count = count }

    func pauseMilliseconds(now: Moment) -> Int64 { max(0, pauseEndMilliseconds - now.wallMilliseconds) }

    mutating func note(_ cause: DeferralCause) {
        count = count == .max ? .max : count + 1
        self.cause = cause
    }
}

/// A command of an activity that is in the deferred topic and that this lane expects to read again, or that has come back while its push
/// still pauses.
struct DeferredReturn: BitwiseCopyable {
    /// How much later than it is due it may come.
    static let slackMilliseconds: Int64 = 5_000

    /// Monotonic; `.min`: none is expected.
    private(set) var untilMilliseconds: Int64 = .min
    /// The version of the newest alert among what is expected.
    private(set) var alert: Version?
    /// What has come back pauses until then. It may be replaced meanwhile: its record says whether it still is what waits.
    private(set) var isPause = false

    init() {}

    init(pauseUntil monotonicMilliseconds: Int64) { (untilMilliseconds, isPause) = (monotonicMilliseconds, true) }

    /// Whether there is anything to look at, past or to come.
    @inline(__always) var isKnown: Bool { untilMilliseconds != .min }

    @inline(__always)
    func isExpected(now: Moment) -> Bool { untilMilliseconds > now.monotonicMilliseconds }

    mutating func expect(until monotonicMilliseconds: Int64, alert newest: Version?, now: Moment) {
        if isPause || !isExpected(now: now) { self = DeferredReturn() }
        untilMilliseconds = max(untilMilliseconds, monotonicMilliseconds)
        if let newest, alert.map({ $0 < newest }) ?? true { alert = newest }
    }
}
