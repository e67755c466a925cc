/// Whether what waits for a pool can be sent soon, by how fast it has lately answered.
///
/// Pure; time is an argument. A pool is blocked when what waits would take longer than `delay` at the rate of the last span of `patience`,
/// in which something waited all the time; and no more when answers come fast enough again.
struct PoolProgress: BitwiseCopyable {
    private(set) var isBlocked = false
    /// When the span began; `.max`: nothing waits.
    private var sinceMilliseconds: Int64 = .max
    /// Pushes that came to an answer of their own in the span.
    private var answered: Int64 = 0

    /// Something waits.
    mutating func wait(now: Moment) {
        guard sinceMilliseconds == .max else { return }
        begin(now: now)
    }

    /// APNs has answered a push: with *accepted*, or something about the push or its token.
    @inline(__always) mutating func countAnswer() { answered &+= 1 }

    /// After an answer, where the pool is blocked.
    mutating func unblock(waiting: Int, delayMilliseconds: Int64, now: Moment) {
        guard isBlocked, !isTooSlow(for: waiting, delayMilliseconds: delayMilliseconds, now: now) else { return }
        isBlocked = false
        begin(now: now)
    }

    mutating func look(waiting: Int, patienceMilliseconds: Int64, delayMilliseconds: Int64, now: Moment) {
        guard sinceMilliseconds != .max, now.monotonicMilliseconds - sinceMilliseconds >= patienceMilliseconds else {
            return
        }
        if waiting > 0 {
            isBlocked = isTooSlow(for: waiting, delayMilliseconds: delayMilliseconds, now: now)
        } else if answered > 0 {
            isBlocked = false
        }
        begin(now: now)
        if waiting == 0, !isBlocked { sinceMilliseconds = .max }
    }

    /// What waited until now did not wait for the pool: what it has got done since says nothing.
    mutating func beginAgain(now: Moment) {
        if sinceMilliseconds != .max { begin(now: now) }
    }

    private func isTooSlow(for waiting: Int, delayMilliseconds: Int64, now: Moment) -> Bool {
        let span = max(1, now.monotonicMilliseconds - sinceMilliseconds)
        return Double(answered) * Double(delayMilliseconds) < Double(waiting) * Double(span)
    }

    private mutating func begin(now: Moment) {
        sinceMilliseconds = now.monotonicMilliseconds
        answered = 0
    }
}
