import Glibc
import Logging
import Synchronization

/// The log of those who have no thread of their own: for lines that are rare.
final class SharedKindLog: Sendable {
    private let log: Mutex<KindLog>

    init(logger: Logger, events: EventBoard) {
        log = Mutex(KindLog(logger: logger, events: events))
    }

    func callAsFunction(
        _ kind: LogKind,
        level: Logger.Level? = nil,
        _ metadata: @autoclosure () -> Logger.Metadata = [:]
    ) {
        let now = Self.milliseconds(CLOCK_MONOTONIC)
        let wall = Self.milliseconds(CLOCK_REALTIME)
        log.withLock {
            _ = $0.log(kind, level: level, nowMilliseconds: now, wallMilliseconds: wall, metadata())
        }
    }

    private static func milliseconds(_ clock: clockid_t) -> Int64 {
        var time = timespec()
        clock_gettime(clock, &time)
        return Int64(time.tv_sec) * 1_000 + Int64(time.tv_nsec) / 1_000_000
    }
}
