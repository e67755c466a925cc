import Logging
import Synchronization

/// Keeps the lines of a log, so that a test can check them.
final class LogCollector: Sendable {
    struct Line: Sendable {
        var level: Logger.Level
        var message: String
        var metadata: Logger.Metadata
    }

    private let collectedLines = Mutex<[Line]>([])
    var lines: [Line] { collectedLines.withLock { $0 } }

    func append(_ line: Line) { collectedLines.withLock { $0.append(line) } }

    var logger: Logger { Logger(label: "test") { _ in Handler(collector: self) } }

    private struct Handler: LogHandler {
        let collector: LogCollector
        var logLevel = Logger.Level.trace
        var metadata: Logger.Metadata = [:]
        subscript(metadataKey key: String) -> Logger.Metadata.Value? {
            get { metadata[key] }
            set { metadata[key] = newValue }
        }
        func log(event: LogEvent) {
            collector.append(
                .init(level: event.level, message: event.message.description, metadata: event.metadata ?? [:])
            )
        }
    }
}
