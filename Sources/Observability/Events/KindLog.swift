import Logging

/// The log of one thread. Each line has a kind, and the number of lines of each kind is limited.
///
/// The first lines of a kind in a window are written. Further lines are only counted, and the next written line says
/// how many were suppressed. No text is made for a suppressed line.
package struct KindLog: ~Copyable, Sendable {
    /// The most lines of one kind that a thread writes in one window.
    package static let linesPerWindow: UInt32 = 10
    package static let windowMilliseconds: Int64 = 60_000

    private struct Allowance {
        var windowStartMilliseconds = Int64.min
        var written: UInt32 = 0
        var suppressed: UInt64 = 0
    }

    private let logger: Logger
    private let events: RecentEvents
    private var allowances = [Allowance](repeating: Allowance(), count: LogKind.allCases.count)

    package init(logger: Logger, events: RecentEvents) {
        self.logger = logger
        self.events = events
    }

    /// Writes a line, or counts it as suppressed.
    ///
    /// - Parameters:
    ///   - level: the kind's own level, unless this line is more or less important.
    ///   - nowMilliseconds: by the monotonic clock.
    /// - Returns: false if the line was suppressed; the caller counts it in its metrics.
    @discardableResult
    package mutating func log(
        _ kind: LogKind,
        level: Logger.Level? = nil,
        nowMilliseconds: Int64,
        wallMilliseconds: Int64,
        _ metadata: @autoclosure () -> Logger.Metadata = [:]
    ) -> Bool {
        let index = Int(kind.rawValue)
        if nowMilliseconds >= allowances[index].windowStartMilliseconds &+ Self.windowMilliseconds
            || allowances[index].windowStartMilliseconds == .min
        {
            allowances[index].windowStartMilliseconds = nowMilliseconds
            allowances[index].written = 0
        }
        let definition = kind.definition
        guard allowances[index].written < Self.linesPerWindow else {
            allowances[index].suppressed &+= 1
            events.noteSuppressed(kind, wallMilliseconds: wallMilliseconds)
            return false
        }
        allowances[index].written += 1
        var fields = metadata()
        events.note(kind, metadata: fields, wallMilliseconds: wallMilliseconds)
        fields["kind"] = .string(definition.identifier)
        if allowances[index].suppressed > 0 {
            fields["suppressed"] = .stringConvertible(allowances[index].suppressed)
            allowances[index].suppressed = 0
        }
        logger.log(level: level ?? definition.level, "\(definition.message)", metadata: fields)
        return true
    }
}
