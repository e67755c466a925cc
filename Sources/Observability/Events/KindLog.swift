import Logging

/// One thread's log: each line is of a kind, and each kind has its allowance of lines.
///
/// The first lines of a kind are written; beyond the allowance they are counted, and the next one that is written says how many were
/// not. A line that is not written costs no text.
package struct KindLog: ~Copyable, Sendable {
    /// Lines of one kind that a thread writes in one window.
    package static let linesPerWindow: UInt32 = 10
    package static let windowMilliseconds: Int64 = 60_000

    private struct Allowance {
        var windowStartMilliseconds = Int64.min
        var written: UInt32 = 0
        var suppressed: UInt64 = 0
    }

    private let logger: Logger
    private let events: EventBoard
    private var allowances = [Allowance](repeating: Allowance(), count: LogKind.allCases.count)

    package init(logger: Logger, events: EventBoard) {
        self.logger = logger
        self.events = events
    }

    /// Writes a line, or counts it.
    ///
    /// - Parameters:
    ///   - level: the kind's own, unless this line is more or less important than its kind.
    ///   - nowMilliseconds: monotonic.
    /// - Returns: false if it was suppressed; the caller counts it in its metrics.
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
