import Glibc

func monotonicMilliseconds() -> Int64 {
    var now = timespec()
    clock_gettime(CLOCK_MONOTONIC, &now)
    return Int64(now.tv_sec) * 1000 + Int64(now.tv_nsec) / 1_000_000
}

/// The maximum wait of a test for an event, in milliseconds. An event comes much sooner, even on the slowest
/// machine.
let eventWaitMillisecondsMax: Int64 = 120_000
