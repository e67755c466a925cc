import Glibc
import Logging
import Synchronization

/// A log that several threads share under a lock, for rare lines.
package final class SharedLimitedLog: Sendable {
    private let log: Mutex<LimitedLog>
    private let events: RecentEvents

    package init(logger: Logger, events: RecentEvents) {
        self.events = events
        log = Mutex(LimitedLog(logger: logger, events: events))
    }

    /// Writes a line. If the rules of ``LimitedLog`` leave this line out, only counts it as suppressed.
    ///
    /// - Parameter level: replaces the kind's own level for this line; nil keeps it.
    package func callAsFunction(
        _ kind: LogKind,
        level: Logger.Level? = nil,
        _ metadata: @autoclosure () -> Logger.Metadata = [:]
    ) {
        let nowMilliseconds = Self.readMilliseconds(of: CLOCK_MONOTONIC)
        let wallMilliseconds = Self.readMilliseconds(of: CLOCK_REALTIME)
        let isWritten = log.withLock {
            $0.log(kind, level: level, nowMilliseconds: nowMilliseconds, wallMilliseconds: wallMilliseconds, metadata())
        }
        if !isWritten { events.countSuppressedLineOfOtherThread(kind) }
    }

    private static func readMilliseconds(of clock: clockid_t) -> Int64 {
        var time = timespec()
        clock_gettime(clock, &time)
        return Int64(time.tv_sec) * 1_000 + Int64(time.tv_nsec) / 1_000_000
    }
}
