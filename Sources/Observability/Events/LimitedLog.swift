import Logging

/// The log of one thread. It leaves out lines by two rules:
/// - Of each kind, it writes at most ``linesPerPeriodMax`` lines a minute. It only counts further lines, without making
///   their texts. The next written line says how many lines were suppressed.
/// - It writes a repeated warning or error at growing intervals (``LogRepetitionLimiter``). The next written line says
///   how many repeats were left out.
///
/// Exception: the first line that reports the end of a failure is always written, with the number of repeats that were
/// left out, if the limiter still remembers the failure.
package struct LimitedLog: ~Copyable, Sendable {
    /// The maximum number of lines of one kind that a thread writes in one period.
    package static let linesPerPeriodMax: UInt32 = 10
    package static let periodMilliseconds: Int64 = 60_000
    /// The maximum number of warnings or errors of one kind that are compared with earlier lines in one period. Further
    /// lines are suppressed without a comparison: it would cost too much, because it makes the texts of the line's
    /// fields.
    static let comparisonsPerPeriodMax: UInt32 = 200

    private struct PeriodCounts {
        var periodBeganAtMilliseconds = Int64.min
        var writtenCount: UInt32 = 0
        var comparedCount: UInt32 = 0
        var suppressedCount: UInt64 = 0
    }

    private let logger: Logger
    private let events: RecentEvents
    private var periodCounts = [PeriodCounts](repeating: PeriodCounts(), count: LogKind.allCases.count)

    package init(logger: Logger, events: RecentEvents) {
        self.logger = logger
        self.events = events
    }

    /// Writes a line, unless a rule of this type leaves it out.
    ///
    /// - Parameters:
    ///   - level: replaces the kind's own level for this line; nil keeps it.
    ///   - nowMilliseconds: by the monotonic clock.
    /// - Returns: whether the line was written. If not, the caller counts it for `causeway_log_lines_suppressed_total`.
    @discardableResult
    package mutating func log(
        _ kind: LogKind,
        level: Logger.Level? = nil,
        nowMilliseconds: Int64,
        wallMilliseconds: Int64,
        _ metadata: @autoclosure () -> Logger.Metadata = [:]
    ) -> Bool {
        let index = Int(kind.rawValue)
        if nowMilliseconds >= periodCounts[index].periodBeganAtMilliseconds &+ Self.periodMilliseconds
            || periodCounts[index].periodBeganAtMilliseconds == .min
        {
            periodCounts[index].periodBeganAtMilliseconds = nowMilliseconds
            periodCounts[index].writtenCount = 0
            periodCounts[index].comparedCount = 0
        }
        let endedFailures = kind.endedFailureKinds
        let isBelowLimits =
            periodCounts[index].writtenCount < Self.linesPerPeriodMax
            && periodCounts[index].comparedCount < Self.comparisonsPerPeriodMax
        guard isBelowLimits || !endedFailures.isEmpty else {
            countSuppressedLine(kind, wallMilliseconds: wallMilliseconds)
            return false
        }
        let definition = kind.definition
        let level = level ?? definition.level
        var fields = metadata()
        var repeatCount: UInt64 = 0
        if !endedFailures.isEmpty {
            let failureRepeatCount = events.forgetFailures(endedFailures, fields)
            guard isBelowLimits || failureRepeatCount != nil else {
                countSuppressedLine(kind, wallMilliseconds: wallMilliseconds)
                return false
            }
            repeatCount = failureRepeatCount ?? 0
        }
        if level >= .warning {
            periodCounts[index].comparedCount += 1
            guard let count = events.takeRepeatCountIfLineIsDue(kind, fields, nowMilliseconds: nowMilliseconds)
            else {
                events.noteSuppressedLine(kind, wallMilliseconds: wallMilliseconds)
                return false
            }
            repeatCount &+= count
        }
        periodCounts[index].writtenCount += 1
        events.noteLine(kind, metadata: fields, wallMilliseconds: wallMilliseconds)
        fields["kind"] = .string(definition.identifier)
        if repeatCount > 0 { fields["repeated"] = .stringConvertible(repeatCount) }
        if periodCounts[index].suppressedCount > 0 {
            fields["suppressed"] = .stringConvertible(periodCounts[index].suppressedCount)
            periodCounts[index].suppressedCount = 0
        }
        logger.log(level: level, "\(definition.message)", metadata: fields)
        return true
    }

    private mutating func countSuppressedLine(_ kind: LogKind, wallMilliseconds: Int64) {
        periodCounts[Int(kind.rawValue)].suppressedCount &+= 1
        events.noteSuppressedLine(kind, wallMilliseconds: wallMilliseconds)
    }
}
