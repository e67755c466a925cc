/// Notices that a service (the store, or one pool of APNs) was away while something waited for it. What waited is held back until
/// the lane has read what was written during the outage, so that newer states replace it. Pure; time is an argument. (R21)
struct OutageWatch: BitwiseCopyable {
    /// The service counts as away when something has waited for this long without a sign of life.
    static let outageMilliseconds: Int64 = 5_000

    /// Since when something has waited without a sign of life; `.max`: nothing waits.
    private var waitingSinceMilliseconds = Int64.max
    /// Since when the lane reads ahead for the service; `.max`: it does not.
    private(set) var readingSinceMilliseconds = Int64.max
    /// When the lane last finished reading ahead, a monotonic time.
    private var readMilliseconds = Int64.min
    /// The same on the wall clock. A push that was admitted before this time is older than what has been read since.
    private(set) var readWallMilliseconds = Int64.min

    /// Whether what waits is held back, as of the last call of `isHeldBack`.
    var isReading: Bool { readingSinceMilliseconds != .max }

    mutating func noteWaiting(now: Moment) {
        if waitingSinceMilliseconds == .max { waitingSinceMilliseconds = now.monotonicMilliseconds }
    }

    /// The service has done what was asked of it.
    mutating func noteAlive(isAwaited: Bool, now: Moment) {
        waitingSinceMilliseconds = isAwaited ? now.monotonicMilliseconds : .max
    }

    /// Whether what waits is held back until the lane has read ahead. While the service stays away, the lane reads ahead again
    /// and again, each time before it tries the service.
    @inline(__always)
    mutating func isHeldBack(now: Moment) -> Bool {
        guard readingSinceMilliseconds != .max || isAway(now: now) else { return false }
        readingSinceMilliseconds = min(readingSinceMilliseconds, now.monotonicMilliseconds)
        return true
    }

    /// Whether something has waited for this long without a sign of life.
    func isSilent(forMilliseconds milliseconds: Int64, now: Moment) -> Bool {
        waitingSinceMilliseconds != .max && now.monotonicMilliseconds - waitingSinceMilliseconds >= milliseconds
    }

    mutating func noteRead(now: Moment) {
        readingSinceMilliseconds = .max
        (readMilliseconds, readWallMilliseconds) = (now.monotonicMilliseconds, now.wallMilliseconds)
    }

    @inline(__always)
    private func isAway(now: Moment) -> Bool {
        let since = max(waitingSinceMilliseconds, readMilliseconds)
        return now.monotonicMilliseconds - since >= Self.outageMilliseconds
    }
}
