import LiveActivity

/// An activity's wait because of a deferral: for a command that is in the deferred topic, or for the end of the pause
/// of a command that has come back from this topic.
struct DeferralWait: BitwiseCopyable {
    /// How much longer than `deferredDelayMilliseconds` the activity waits for a deferred command to come back: a lane
    /// may be late in reading its deferred record.
    static let returnLatenessMillisecondsMax: Int64 = 5_000

    /// The end of the wait, a monotonic time; `.min`: there is no wait.
    private(set) var untilMilliseconds: Int64 = .min
    /// The version of the newest alert among the deferred commands that the activity expects; nil: none has an alert.
    private(set) var alertVersion: Version?
    /// True: the activity waits for the end of a pause (`RecordDeferral.pauseEndWallMilliseconds`) of a command that
    /// has come back from the deferred topic. False: it waits for a command that is still in the deferred topic.
    ///
    /// If a newer command replaces the pausing one, this pause no longer counts. The newer command usually has no
    /// pause.
    private(set) var isForPause = false
    /// Whether the activity expects a deferred command other than the end of a lifetime. Such an end is sent after all
    /// other commands. So when the end comes back from the deferred topic, the wait for the other command must go on.
    private var expectsOtherThanLifetimeEnd = false

    init() {}

    /// Whether `untilMilliseconds` is set. That time may have passed: unlike `isOngoing`, this test does not compare it
    /// with the current time.
    @inline(__always) var hasEndTime: Bool { untilMilliseconds != .min }

    @inline(__always)
    func isOngoing(now: Moment) -> Bool { untilMilliseconds > now.monotonicMilliseconds }

    /// Ends the wait for a deferred command, because it has come back from the deferred topic. If the command must
    /// still pause, a wait for the end of the pause begins. Of several pauses, the one that ends last counts.
    ///
    /// There are two exceptions:
    /// - If the end of a lifetime comes back while the activity still waits for a state, nothing changes.
    /// - If a start without a pause comes back, nothing changes, because ``DeferredStartWait`` waits for starts. (But a
    ///   pause of the start replaces the wait for a state: the start must not be sent before the pause is over.)
    ///
    /// - Parameter pauseMilliseconds: how long the command must still pause; 0 or less: no pause.
    mutating func noteReturnedCommand(isStart: Bool, isLifetimeEnd: Bool, pauseMilliseconds: Int64, now: Moment) {
        if isLifetimeEnd, expectsOtherThanLifetimeEnd, isOngoing(now: now) { return }
        if isStart, pauseMilliseconds <= 0 { return }
        if !isForPause { self = DeferralWait() }
        guard pauseMilliseconds > 0 else { return }
        (untilMilliseconds, isForPause) = (max(untilMilliseconds, now.monotonicMilliseconds + pauseMilliseconds), true)
    }

    /// Notes that a command was deferred. The activity waits for the command to come back, but not longer than until
    /// `monotonicMilliseconds`.
    ///
    /// If the activity already waits for a state, the deferral of the end of a lifetime does not lengthen this wait.
    /// The wait ends a limited time after the deferral of the state, even if the state never comes back to this lane.
    ///
    /// - Parameter newAlertVersion: the version of the command's alert; nil: the command has none.
    mutating func expect(
        isLifetimeEnd: Bool,
        until monotonicMilliseconds: Int64,
        alertVersion newAlertVersion: Version?,
        now: Moment
    ) {
        if isForPause || !isOngoing(now: now) { self = DeferralWait() }
        if isLifetimeEnd, expectsOtherThanLifetimeEnd { return }
        expectsOtherThanLifetimeEnd = !isLifetimeEnd
        untilMilliseconds = max(untilMilliseconds, monotonicMilliseconds)
        if let newAlertVersion, alertVersion.map({ $0 < newAlertVersion }) ?? true { alertVersion = newAlertVersion }
    }
}

/// A start that this lane expects back from the deferred topic, or a restart about which Redis is asked again. Newer
/// updates and ends of the activity wait for the start. Otherwise they could be lost:
/// - If the activity's earlier life has ended, Redis would reply `ended` to them.
/// - If the earlier life goes on, Redis could hold them, and the end of that life would remove them.
struct DeferredStartWait: BitwiseCopyable {
    /// Until when the start is expected, a monotonic time; `.min`: no start is expected.
    private(set) var untilMilliseconds: Int64 = .min
    /// The version of the expected start; no meaning if no start is expected.
    private var startVersion = Version.zero

    /// Whether `untilMilliseconds` is set. That time may have passed: unlike `isOngoing`, this test does not compare it
    /// with the current time.
    @inline(__always) var hasEndTime: Bool { untilMilliseconds != .min }

    @inline(__always)
    func isOngoing(now: Moment) -> Bool { untilMilliseconds > now.monotonicMilliseconds }

    /// Notes that a start of this version is expected. The activity waits for it until `monotonicMilliseconds` at most.
    /// Of several expected starts, the one with the highest version counts.
    mutating func expect(_ start: Version, until monotonicMilliseconds: Int64, now: Moment) {
        if !isOngoing(now: now) { self = DeferredStartWait() }
        untilMilliseconds = max(untilMilliseconds, monotonicMilliseconds)
        startVersion = max(startVersion, start)
    }

    /// Ends the wait if the expected start has this version or a lower one. Called when a start of this version comes
    /// back from the deferred topic or is admitted, or when a restart is permitted or will not come.
    mutating func endWait(upTo start: Version) { if startVersion <= start { self = DeferredStartWait() } }

    /// Whether the expected start comes before an update or end: the start's version is lower or, before an end, the
    /// same.
    func isExpected(before command: Version, isEnd: Bool, now: Moment) -> Bool {
        isOngoing(now: now) && (startVersion < command || isEnd && startVersion == command)
    }
}
