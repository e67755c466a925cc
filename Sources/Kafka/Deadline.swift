import Glibc

/// A moment on the monotonic clock at which a call must have ended.
struct Deadline {
    private let endMilliseconds: Int64

    init(afterMilliseconds: Int64) {
        let (end, overflows) = Self.nowMilliseconds.addingReportingOverflow(max(0, afterMilliseconds))
        endMilliseconds = overflows ? .max : end
    }

    var hasPassed: Bool { remainingMilliseconds == 0 }

    /// The time until the deadline; 0 when it has passed.
    var remainingMilliseconds: Int64 { max(0, endMilliseconds - Self.nowMilliseconds) }

    /// Returns the wait to pass to librdkafka: the remaining time, but at most `waitMillisecondsMax`.
    func remainingMilliseconds(atMost waitMillisecondsMax: Int32) -> Int32 {
        Int32(clamping: min(Int64(waitMillisecondsMax), remainingMilliseconds))
    }

    private static var nowMilliseconds: Int64 {
        var now = timespec()
        clock_gettime(CLOCK_MONOTONIC, &now)
        return Int64(now.tv_sec) * 1000 + Int64(now.tv_nsec) / 1_000_000
    }
}
