/// Detects that a service (Redis, or one pool of APNs) was unavailable while calls or pushes waited for it.
/// The lane then holds them back until it has read the records of the outage, so that newer states replace
/// older ones. Does no I/O; time is an argument. (R21)
struct OutageWatch: BitwiseCopyable {
    /// The service counts as unavailable when calls or pushes have waited this long without a response.
    static let outageMilliseconds: Int64 = 5_000

    /// Since when calls or pushes have waited without a response; `.max`: nothing waits.
    private var waitingSinceMilliseconds = Int64.max
    /// Since when the lane reads ahead before it uses the service again; `.max`: it does not read ahead.
    private(set) var readingAheadSinceMilliseconds = Int64.max
    /// When the lane last finished reading ahead, a monotonic time.
    private var readAheadEndMilliseconds = Int64.min
    /// When the lane last finished reading ahead, UNIX milliseconds. A push that was admitted earlier may be
    /// older than a state that the lane has read meanwhile.
    private(set) var readAheadEndWallMilliseconds = Int64.min

    /// Whether calls or pushes are held back, as of the last call of `isHeldBack`.
    var isReadingAhead: Bool { readingAheadSinceMilliseconds != .max }

    mutating func noteWaiting(now: Moment) {
        if waitingSinceMilliseconds == .max { waitingSinceMilliseconds = now.monotonicMilliseconds }
    }

    /// Notes a response of the service.
    /// - Parameter awaitsMore: whether other calls or pushes still wait for a response.
    mutating func noteResponse(awaitsMore: Bool, now: Moment) {
        waitingSinceMilliseconds = awaitsMore ? now.monotonicMilliseconds : .max
    }

    /// Whether calls or pushes are held back until the lane has read ahead. While the service stays
    /// unavailable, the lane reads ahead before each new attempt.
    @inline(__always)
    mutating func isHeldBack(now: Moment) -> Bool {
        guard readingAheadSinceMilliseconds != .max || isUnavailable(now: now) else { return false }
        readingAheadSinceMilliseconds = min(readingAheadSinceMilliseconds, now.monotonicMilliseconds)
        return true
    }

    /// Whether calls or pushes have had no response for at least `milliseconds`.
    func isSilent(forMilliseconds milliseconds: Int64, now: Moment) -> Bool {
        waitingSinceMilliseconds != .max && now.monotonicMilliseconds - waitingSinceMilliseconds >= milliseconds
    }

    mutating func noteReadAheadEnd(now: Moment) {
        readingAheadSinceMilliseconds = .max
        (readAheadEndMilliseconds, readAheadEndWallMilliseconds) = (now.monotonicMilliseconds, now.wallMilliseconds)
    }

    @inline(__always)
    private func isUnavailable(now: Moment) -> Bool {
        let since = max(waitingSinceMilliseconds, readAheadEndMilliseconds)
        return now.monotonicMilliseconds - since >= Self.outageMilliseconds
    }
}
