import Logging
import Observability
import Reactor

/// A thread with an event loop and a log. The log limits how often each kind of line is written. The metrics count the
/// lines that are left out.
protocol LoggingThread: AnyObject {
    var loop: EventLoop { get }
    var log: LimitedLog { get set }
    var metrics: ThreadMetrics { get set }
}

extension LoggingThread {
    /// Writes a log line. If too many lines of this kind were written lately, only counts the line.
    ///
    /// - Parameter level: replaces the level of the kind's definition, for an event that is less or more serious than
    ///   others of its kind; nil: the definition's level.
    func writeLog(_ kind: LogKind, level: Logger.Level? = nil, _ metadata: @autoclosure () -> Logger.Metadata) {
        let isWritten = log.log(
            kind,
            level: level,
            nowMilliseconds: loop.nowMilliseconds,
            // Use the system's clock, by which /statusz computes the line's age. The loop's wall clock may be
            // corrected.
            wallMilliseconds: WallClock.systemMilliseconds,
            metadata()
        )
        if !isWritten { metrics.add(.logLinesSuppressed, Int(kind.rawValue)) }
    }
}
