import CausewayConfiguration
import Glibc
import Logging

/// Writes each event as one line, JSON or text, to a file descriptor. Device tokens, provider tokens and keys are
/// masked in every line, whatever code logs it (`Redaction`).
///
/// A line for which the output has no room is lost and counted, because a log must neither block nor stop the worker.
/// The lines of several threads never mix, if the process has only one handler for this output.
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
    private let output: LogOutput
    private let events: RecentEvents

    /// - Parameters:
    ///   - descriptor: the output. The caller owns it and must keep it open as long as the handler lives.
    ///   - events: counts the lines that are lost.
    package init(
        label: String,
        threshold: LogThreshold,
        format: WorkerConfiguration.Log.Format,
        descriptor: Int32 = STDERR_FILENO,
        events: RecentEvents
    ) {
        self.label = label
        self.threshold = threshold
        self.format = format
        output = LogOutput(descriptor: descriptor)
        self.events = events
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
        if !output.write(Redaction.masked(format == .json ? line.json : line.text) + "\n") {
            events.countLostLine(kindIdentifier: fields["kind"].map { "\($0)" })
        }
    }
}

extension Logger {
    /// Creates a logger that writes to standard error.
    ///
    /// - Parameter events: counts the lines that are lost because standard error has no room for them.
    package init(
        label: String,
        format: WorkerConfiguration.Log.Format,
        threshold: LogThreshold,
        events: RecentEvents
    ) {
        self.init(label: label) { label in
            LineLogHandler(label: label, threshold: threshold, format: format, events: events)
        }
    }
}
