import Glibc

/// A time that prints as RFC 3339, in UTC with milliseconds.
struct Timestamp: Sendable, CustomStringConvertible {
    /// UNIX milliseconds.
    var milliseconds: Int64

    static func now() -> Timestamp {
        var time = timespec()
        clock_gettime(CLOCK_REALTIME, &time)
        return Timestamp(milliseconds: Int64(time.tv_sec) * 1_000 + Int64(time.tv_nsec) / 1_000_000)
    }

    var description: String {
        var seconds = time_t(milliseconds / 1_000)
        var parts = tm()
        gmtime_r(&seconds, &parts)
        func padded(_ number: Int32, _ digitCount: Int) -> String {
            let text = String(number)
            return String(repeating: "0", count: max(0, digitCount - text.count)) + text
        }
        let date = "\(padded(parts.tm_year + 1900, 4))-\(padded(parts.tm_mon + 1, 2))-\(padded(parts.tm_mday, 2))"
        let time = "\(padded(parts.tm_hour, 2)):\(padded(parts.tm_min, 2)):\(padded(parts.tm_sec, 2))"
        return "\(date)T\(time).\(padded(Int32(milliseconds % 1_000), 3))Z"
    }
}
