/// Decides from a pool's recent rate of answers whether what waits for the pool can be sent soon.
///
/// Pure; time is an argument. The rate is measured over a span of at least `patience` in which something waited all the time. A
/// pool is blocked if sending what waits would take longer than `delay` at that rate. It stops being blocked when answers come
/// fast enough again.
struct PoolProgress: BitwiseCopyable {
    private(set) var isBlocked = false
    /// When the span began; `.max`: nothing waits.
    private var sinceMilliseconds: Int64 = .max
    /// Pushes that APNs judged in the span.
    private var answered: Int64 = 0

    /// Called when a push begins to wait. Begins a span, unless one has begun.
    mutating func wait(now: Moment) {
        guard sinceMilliseconds == .max else { return }
        begin(now: now)
    }

    /// APNs accepted a push, or judged the push or its token.
    @inline(__always) mutating func countResponse() { answered &+= 1 }

    /// Called after an answer to a blocked pool: ends the block if answers come fast enough.
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

    /// Begins another span: what waited until now did not wait for the pool, so the answers so far say nothing about the pool.
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
