import Glibc

/// The present time, from the kernel.
package enum Clock {
    /// Milliseconds of the monotonic clock, for durations.
    package static var monotonicMilliseconds: Int64 { readMilliseconds(CLOCK_MONOTONIC) }

    /// UNIX milliseconds. Times in records come from this clock.
    package static var wallMilliseconds: Int64 { readMilliseconds(CLOCK_REALTIME) }

    private static func readMilliseconds(_ clock: clockid_t) -> Int64 {
        var time = timespec()
        clock_gettime(clock, &time)
        return Int64(time.tv_sec) * 1_000 + Int64(time.tv_nsec) / 1_000_000
    }
}
