/// Decides from a pool's recent rate of answers whether the pushes that wait for it can be sent soon.
///
/// Does no I/O; time is an argument. The rate is measured over a span of at least `patience` in which pushes
/// waited all the time. A pool is blocked if sending the waiting pushes at that rate would take longer than
/// `delay`. The block ends when answers come fast enough again.
struct PoolProgress: BitwiseCopyable {
    private(set) var isBlocked = false
    /// When the span began; `.max`: no push waits.
    private var sinceMilliseconds: Int64 = .max
    /// The answers since the span began. Only those that decided about a push or its token count.
    private var answered: Int64 = 0

    /// Begins a span when a push begins to wait, unless a span has begun.
    mutating func wait(now: Moment) {
        guard sinceMilliseconds == .max else { return }
        begin(now: now)
    }

    /// Counts an answer that decides about a push or its token. APNs' answers that only delay a push do not
    /// count.
    @inline(__always) mutating func countResponse() { answered &+= 1 }

    /// Ends the block of a pool if answers come fast enough. Called after each answer to a blocked pool.
    mutating func unblock(waiting: Int, delayMilliseconds: Int64, now: Moment) {
        guard isBlocked, !isTooSlow(for: waiting, delayMilliseconds: delayMilliseconds, now: now) else { return }
        isBlocked = false
        begin(now: now)
    }

    mutating func observe(waiting: Int, patienceMilliseconds: Int64, delayMilliseconds: Int64, now: Moment) {
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

    /// Begins a new span without a decision. The pushes did not wait for the pool until now, so its answers
    /// in the old span say nothing.
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
