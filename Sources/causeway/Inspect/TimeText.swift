import Glibc

/// Writes times and durations as text for reports. Times are UNIX milliseconds and are printed in UTC, as in the logs.
enum TimeText {
    /// Writes a duration with at most two units: `3 s`, `12 min`, `2 h 13 min`, `3 d 4 h`.
    static func duration(_ milliseconds: Int64) -> String {
        let seconds = max(0, milliseconds) / 1_000
        switch seconds {
        case 0: return milliseconds > 0 ? "\(milliseconds) ms" : "0 s"
        case ..<60: return "\(seconds) s"
        case ..<3_600: return joined(seconds / 60, "min", seconds < 600 ? seconds % 60 : 0, "s")
        case ..<86_400: return joined(seconds / 3_600, "h", seconds % 3_600 / 60, "min")
        default: return joined(seconds / 86_400, "d", seconds % 86_400 / 3_600, "h")
        }
    }

    /// Writes `3 s ago`, or `in 3 s` for a time in the future.
    static func relative(_ milliseconds: Int64, to nowMilliseconds: Int64) -> String {
        let (difference, overflows) = nowMilliseconds.subtractingReportingOverflow(milliseconds)
        guard !overflows else { return milliseconds < nowMilliseconds ? "long ago" : "far ahead" }
        let durationText = duration(Int64(clamping: difference.magnitude))
        return difference >= 0 ? "\(durationText) ago" : "in \(durationText)"
    }

    /// Writes the time of day, and the date before it if the day is not today.
    static func timeOfDay(_ milliseconds: Int64, nowMilliseconds: Int64) -> String {
        let parts = utc(milliseconds)
        let time = "\(zeroPadded(parts.tm_hour, 2)):\(zeroPadded(parts.tm_min, 2)):\(zeroPadded(parts.tm_sec, 2))"
        let today = utc(nowMilliseconds)
        guard (parts.tm_year, parts.tm_yday) != (today.tm_year, today.tm_yday) else { return time }
        return
            """
            \(zeroPadded(parts.tm_year + 1900, 4))-\(zeroPadded(parts.tm_mon + 1, 2))-\(zeroPadded(parts.tm_mday, 2)) \
            \(time)
            """
    }

    private static func joined(_ large: Int64, _ largeUnit: String, _ small: Int64, _ smallUnit: String) -> String {
        small == 0 ? "\(large) \(largeUnit)" : "\(large) \(largeUnit) \(small) \(smallUnit)"
    }

    private static func utc(_ milliseconds: Int64) -> tm {
        var seconds = time_t(milliseconds / 1_000)
        var parts = tm()
        gmtime_r(&seconds, &parts)
        return parts
    }

    private static func zeroPadded(_ number: Int32, _ digitCount: Int) -> String {
        let text = String(number)
        return String(repeating: "0", count: max(0, digitCount - text.count)) + text
    }
}

/// Converts UNIX seconds to milliseconds. The seconds come from records and may be any number, so a result that does
/// not fit becomes the greatest or least number.
enum UnixSeconds {
    static func milliseconds(ofSeconds seconds: Int64) -> Int64 {
        let (product, overflows) = seconds.multipliedReportingOverflow(by: 1_000)
        return overflows ? (seconds < 0 ? .min : .max) : product
    }
}
