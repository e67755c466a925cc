import Glibc

/// Limits how many records are written per second, spread evenly.
package struct RecordRateLimit {
    /// The longest sleep. It is short, because the sender checks for signals and for Kafka's reports only between two
    /// sleeps.
    private static let sleepMillisecondsMax: Int64 = 50

    /// The longest pause that the sender makes up for. After 10 s in which, for example, no input came, the sender
    /// writes the records of 1 s at once, and then continues at the usual rate.
    private static let catchUpSecondsMax = 1.0

    /// Records per second; nil for no limit.
    private let recordsPerSecond: Double?
    /// By how much all later records are late, because the sender does not make up for this time. Each pause adds the
    /// part that is above ``catchUpSecondsMax``: 9 s for a pause of 10 s.
    private var skippedSeconds = 0.0

    package init(recordsPerSecond: Double?) { self.recordsPerSecond = recordsPerSecond }

    /// Returns the seconds until another record may be written; 0 if it may be written now. If the record has been due
    /// for longer than ``catchUpSecondsMax``, adds the time above this limit to `skippedSeconds`.
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
