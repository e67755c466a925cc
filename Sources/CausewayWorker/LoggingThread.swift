import Logging
import Observability
import Reactor

/// A thread with an event loop and a log. Each kind of line has a limit, and the metrics count the suppressed
/// lines.
protocol LoggingThread: AnyObject {
    var loop: EventLoop { get }
    var log: LimitedLog { get set }
    var metrics: ThreadMetrics { get set }
}

extension LoggingThread {
    func writeLog(_ kind: LogKind, level: Logger.Level? = nil, _ metadata: @autoclosure () -> Logger.Metadata) {
        let isWritten = log.log(
            kind,
            level: level,
            nowMilliseconds: loop.nowMilliseconds,
            wallMilliseconds: loop.wallMilliseconds,
            metadata()
        )
        if !isWritten { metrics.add(.logLinesSuppressed, Int(kind.rawValue)) }
    }
}
