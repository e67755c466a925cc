import LiveActivity

/// What a record knows about its deferrals.
struct DeferralMark: BitwiseCopyable {
    /// How often the command has been deferred.
    private(set) var count: UInt16 = 0
    /// The cause of the last deferral.
    private(set) var cause = DeferralCause.pool
    /// Whether `deferBlocked` has seen the push ready once, so that its pool has been offered the push since.
    var isSeenReady = false
    /// The activity's faults in a row when the command was deferred.
    var serviceFaults: UInt8 = 0
    /// The push is not tried before this time, UNIX milliseconds; 0: it may go at once.
    var pauseEndMilliseconds: Int64 = 0

    init(count: UInt16 = 0) { self.count = count }

    func pauseMilliseconds(now: Moment) -> Int64 { max(0, pauseEndMilliseconds - now.wallMilliseconds) }

    mutating func note(_ cause: DeferralCause) {
        count = count == .max ? .max : count + 1
        self.cause = cause
    }
}

/// Says that an activity has a command in the deferred topic which this lane expects to read again, or a command that came back
/// and whose push still pauses.
struct ExpectedDeferral: BitwiseCopyable {
    /// How much later than its due time a deferred command may arrive.
    static let slackMilliseconds: Int64 = 5_000

    /// A monotonic time; `.min`: nothing is expected.
    private(set) var untilMilliseconds: Int64 = .min
    /// The version of the newest alert among the expected commands.
    private(set) var alert: Version?
    /// A command came back and pauses until then. A newer command may replace it in the meantime, so the record itself says
    /// whether it pauses.
    private(set) var isPause = false

    init() {}

    init(pauseUntil monotonicMilliseconds: Int64) { (untilMilliseconds, isPause) = (monotonicMilliseconds, true) }

    /// Whether a wait was set, over or not.
    @inline(__always) var isKnown: Bool { untilMilliseconds != .min }

    @inline(__always)
    func isExpected(now: Moment) -> Bool { untilMilliseconds > now.monotonicMilliseconds }

    mutating func expect(until monotonicMilliseconds: Int64, alert newest: Version?, now: Moment) {
        if isPause || !isExpected(now: now) { self = ExpectedDeferral() }
        untilMilliseconds = max(untilMilliseconds, monotonicMilliseconds)
        if let newest, alert.map({ $0 < newest }) ?? true { alert = newest }
    }
}
