import CausewayConfiguration
import Glibc
import Logging

/// Writes each event as one line, JSON or text, to a file descriptor. Device tokens, provider tokens and keys are
/// masked in every line, whatever code logs it (`Redaction`).
///
/// Each line is one `write`, so the lines of several threads mix only if the output takes a part of a line.
package struct LineLogHandler: LogHandler {
    /// The level of this logger if it has its own; otherwise the threshold that all loggers share.
    package var logLevel: Logger.Level {
        get { ownLevel ?? threshold.level }
        set { ownLevel = newValue }
    }
    package var metadata: Logger.Metadata = [:]
    package var metadataProvider: Logger.MetadataProvider?

    private var ownLevel: Logger.Level?
    private let threshold: LogThreshold
    private let label: String
    private let format: WorkerConfiguration.Log.Format
    private let descriptor: Int32

    /// - Parameter descriptor: the output. The caller owns it and must keep it open as long as the handler lives.
    package init(
        label: String,
        threshold: LogThreshold,
        format: WorkerConfiguration.Log.Format,
        descriptor: Int32 = STDERR_FILENO
    ) {
        self.label = label
        self.threshold = threshold
        self.format = format
        self.descriptor = descriptor
    }

    package subscript(metadataKey key: String) -> Logger.Metadata.Value? {
        get { metadata[key] }
        set { metadata[key] = newValue }
    }

    package func log(event: LogEvent) {
        var fields = metadata
        if let providedFields = metadataProvider?.get() { fields.merge(providedFields) { _, new in new } }
        if let eventFields = event.metadata { fields.merge(eventFields) { _, new in new } }
        if let error = event.error { fields["error"] = .string("\(error)") }
        let line = LogLine(
            time: Timestamp.now(),
            level: event.level,
            loggerName: label,
            message: event.message.description,
            fields: fields
        )
        write(Redaction.masked(format == .json ? line.json : line.text) + "\n")
    }

    /// Writes a line. A line that cannot be written is lost, because a log must neither block nor stop the worker.
    private func write(_ line: String) {
        var line = line
        line.withUTF8 { bytes in
            var rest = UnsafeRawBufferPointer(bytes)
            while let start = rest.baseAddress, !rest.isEmpty {
                let count = Glibc.write(descriptor, start, rest.count)
                if count < 0, errno == EINTR { continue }
                guard count > 0 else { return }
                rest = UnsafeRawBufferPointer(rebasing: rest[count...])
            }
        }
    }
}

extension Logger {
    /// Creates a logger that writes to standard error.
    package init(label: String, format: WorkerConfiguration.Log.Format, threshold: LogThreshold) {
        self.init(label: label) { label in
            LineLogHandler(label: label, threshold: threshold, format: format)
        }
    }
}
