/// Decides from a pool's recent rate of answers whether the pushes that wait for it can be sent soon.
///
/// Does no I/O; time is an argument. The rate is measured over a span in which pushes waited all the time,
/// and which lasts at least `spanMillisecondsMin`. A pool is blocked if it would need more than
/// `delayMilliseconds` at that rate to send the waiting pushes. The pool is no longer blocked when answers
/// come fast enough again.
struct PoolProgress: BitwiseCopyable {
    private(set) var isBlocked = false
    /// When the span of measurement began; `.max`: no push waits, and no span has begun.
    private var sinceMilliseconds: Int64 = .max
    /// The number of answers since the span began. Answers that only delay a push do not count.
    private var answered: Int64 = 0

    /// Begins a span when a push begins to wait, unless a span has begun.
    mutating func beginSpanIfNeeded(now: Moment) {
        guard sinceMilliseconds == .max else { return }
        beginSpan(now: now)
    }

    /// Counts an answer that decides about a push or its token.
    @inline(__always) mutating func countResponse() { answered &+= 1 }

    /// Ends the block of a pool if answers come fast enough. Called after each answer of a blocked pool.
    mutating func unblock(waiting: Int, delayMilliseconds: Int64, now: Moment) {
        guard isBlocked, !isTooSlow(for: waiting, delayMilliseconds: delayMilliseconds, now: now) else { return }
        isBlocked = false
        beginSpan(now: now)
    }

    mutating func observe(waiting: Int, spanMillisecondsMin: Int64, delayMilliseconds: Int64, now: Moment) {
        guard sinceMilliseconds != .max, now.monotonicMilliseconds - sinceMilliseconds >= spanMillisecondsMin else {
            return
        }
        if waiting > 0 {
            isBlocked = isTooSlow(for: waiting, delayMilliseconds: delayMilliseconds, now: now)
        } else if answered > 0 {
            isBlocked = false
        }
        beginSpan(now: now)
        if waiting == 0, !isBlocked { sinceMilliseconds = .max }
    }

    /// Begins a new span and leaves `isBlocked` unchanged. Until now the pushes waited for something else
    /// than the pool, so the old span says nothing about the pool.
    mutating func restartSpan(now: Moment) {
        if sinceMilliseconds != .max { beginSpan(now: now) }
    }

    private func isTooSlow(for waiting: Int, delayMilliseconds: Int64, now: Moment) -> Bool {
        let span = max(1, now.monotonicMilliseconds - sinceMilliseconds)
        return Double(answered) * Double(delayMilliseconds) < Double(waiting) * Double(span)
    }

    private mutating func beginSpan(now: Moment) {
        sinceMilliseconds = now.monotonicMilliseconds
        answered = 0
    }
}
