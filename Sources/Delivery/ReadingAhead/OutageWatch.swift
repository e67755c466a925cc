/// Detects that a service (Redis, or one pool of APNs) was unavailable while calls or pushes waited for it. The waiting
/// calls or pushes are then held back until the lane has read ahead (`ReadAhead.isReadAheadDone`), so that newer states
/// replace older ones. Does no I/O; time is an argument. (R21)
struct OutageWatch: BitwiseCopyable {
    /// The service counts as unavailable when calls or pushes have waited this long without a response
    /// (`noteResponse`). The time in which the lane itself held them back does not count (`readAheadEndMilliseconds`).
    static let outageAfterMilliseconds: Int64 = 5_000

    /// Since when calls or pushes have waited without a response (monotonic milliseconds); nil: nothing waits.
    private var waitingSinceMilliseconds: Int64?
    /// Since when calls or pushes are held back, while the lane reads ahead (monotonic milliseconds); nil: they are not
    /// held back.
    private(set) var heldBackSinceMilliseconds: Int64?
    /// When the last hold-back ended, because the lane had read ahead; a monotonic time; `.min`: never.
    private var readAheadEndMilliseconds = Int64.min
    /// When the last hold-back ended, UNIX milliseconds; `.min`: never. The state of a push that was admitted before
    /// this time may be much older than a waiting state of its activity (`Delivery.isReplacedAtOnce`).
    private(set) var readAheadEndWallMilliseconds = Int64.min

    /// Whether calls or pushes are held back. This begins when `holdBackIfUnavailable` finds an outage, and ends with
    /// `noteReadAheadEnd`.
    var isHoldingBack: Bool { heldBackSinceMilliseconds != nil }

    /// Notes that a call or push waits for the service, if none waits already.
    mutating func beginWaitIfNone(now: Moment) {
        if waitingSinceMilliseconds == nil { waitingSinceMilliseconds = now.monotonicMilliseconds }
    }

    /// Notes a response which shows that the service works. Do not call this for a response about a failure of the
    /// service: it would hide an outage.
    ///
    /// - Parameter awaitsMore: whether other calls or pushes still wait; their time without a response then counts from
    ///   now.
    mutating func noteResponse(awaitsMore: Bool, now: Moment) {
        waitingSinceMilliseconds = awaitsMore ? now.monotonicMilliseconds : nil
    }

    /// If the service was unavailable, begins to hold calls or pushes back, until `noteReadAheadEnd` is called. If no
    /// response comes within `outageAfterMilliseconds` after that, they are held back again.
    ///
    /// - Returns: since when calls or pushes are held back, a monotonic time; nil if they are not.
    @inline(__always)
    mutating func holdBackIfUnavailable(now: Moment) -> Int64? {
        if heldBackSinceMilliseconds == nil, isUnavailable(now: now) {
            heldBackSinceMilliseconds = now.monotonicMilliseconds
        }
        return heldBackSinceMilliseconds
    }

    /// Whether calls or pushes have waited for at least `milliseconds` without a response.
    func isSilent(forMilliseconds milliseconds: Int64, now: Moment) -> Bool {
        guard let waitingSinceMilliseconds else { return false }
        return now.monotonicMilliseconds - waitingSinceMilliseconds >= milliseconds
    }

    /// Ends holding back calls or pushes, because the lane has read far enough ahead.
    mutating func noteReadAheadEnd(now: Moment) {
        heldBackSinceMilliseconds = nil
        (readAheadEndMilliseconds, readAheadEndWallMilliseconds) = (now.monotonicMilliseconds, now.wallMilliseconds)
    }

    @inline(__always)
    private func isUnavailable(now: Moment) -> Bool {
        guard let waitingSinceMilliseconds else { return false }
        let sinceMilliseconds = max(waitingSinceMilliseconds, readAheadEndMilliseconds)
        return now.monotonicMilliseconds - sinceMilliseconds >= Self.outageAfterMilliseconds
    }
}
