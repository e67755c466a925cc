/// A command's deferrals: their number, the last cause, and the pause before the next push.
struct RecordDeferral: BitwiseCopyable {
    /// How often the command has been deferred. Each deferral counts, also those by other workers.
    private(set) var count: UInt16 = 0
    private(set) var cause = DeferralCause.pool
    /// Whether the next `reviewPoolQueues` may defer the push if its pool is blocked. The first review that finds the
    /// push in its pool's queue sets this, so that the push has some time to leave. A review does not count while the
    /// pool's pushes are held back, because no push can leave then.
    var mayBeDeferredAtNextReview = false
    /// The activity's `serviceFailureCount` when the command was deferred.
    var serviceFailureCount: UInt8 = 0
    /// The push is not tried before this time, UNIX milliseconds; 0: there is no pause.
    ///
    /// All commands come back from the deferred topic after the same delay, so that none waits there behind a command
    /// with a longer pause. If the rest of the pause is then longer than this delay, the command is deferred again. If
    /// it is shorter, the command waits in the lane.
    var pauseEndWallMilliseconds: Int64 = 0

    init(count: UInt16 = 0) { self.count = count }

    func remainingPauseMilliseconds(now: Moment) -> Int64 { max(0, pauseEndWallMilliseconds - now.wallMilliseconds) }

    mutating func noteDeferral(_ cause: DeferralCause) {
        count = count == .max ? .max : count + 1
        self.cause = cause
    }
}
