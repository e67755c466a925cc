import Glibc

/// Limits how many records are written per second, spread evenly.
package struct RecordRateLimit {
    /// The longest sleep. Between two sleeps, the sender checks for signals and for Kafka's reports.
    private static let sleepMillisecondsMax: Int64 = 50

    /// The longest pause that the sender makes up for. After 10 s without input, for example, it writes the records of
    /// 1 s at once, and then continues at the usual rate.
    private static let catchUpSecondsMax = 1.0

    /// Records per second; nil for no limit.
    private let recordsPerSecond: Double?
    /// The sum of the times that the sender does not make up for, by which all later records are late. A pause of 10 s
    /// adds 9 s, the part above ``catchUpSecondsMax``.
    private var skippedSeconds = 0.0

    package init(recordsPerSecond: Double?) { self.recordsPerSecond = recordsPerSecond }

    /// Returns the seconds until another record may be written; 0 if it may be written now. If it has been due for
    /// longer than ``catchUpSecondsMax``, the time above this limit is not made up for.
    ///
    /// - Parameters:
    ///   - sentCount: the number of records that have been written.
    ///   - elapsedSeconds: the time since the sender began.
    package mutating func takeWaitSeconds(sentCount: Int, elapsedSeconds: Double) -> Double {
        guard let recordsPerSecond else { return 0 }
        let dueSeconds = Double(sentCount) / recordsPerSecond + skippedSeconds
        skippedSeconds += max(0, elapsedSeconds - dueSeconds - Self.catchUpSecondsMax)
        return max(0, dueSeconds - elapsedSeconds)
    }

    /// Sleeps for this time, but at most ``sleepMillisecondsMax``.
    package func sleepBriefly(atMostSeconds seconds: Double) {
        let milliseconds = min(seconds * 1_000, Double(Self.sleepMillisecondsMax))
        var time = timespec(tv_sec: 0, tv_nsec: Int(milliseconds * 1_000_000))
        nanosleep(&time, nil)
    }
}
