import Logging
import Synchronization

/// What /statusz shows about each ``LogKind``: how many lines it had, when the last one came, and the metadata of the
/// last written one. The number and the time include suppressed lines. Also has the ``LogRepetitionLimiter`` of all
/// threads.
package final class RecentEvents: Sendable {
    struct KindSummary: Sendable {
        var kind: LogKind
        var count: UInt64 = 0
        /// When the last line was written or suppressed.
        var lastLineAtWallMilliseconds: Int64 = 0
        /// The number of lines that other threads than the lanes and the Kafka thread suppressed. The lanes and the
        /// Kafka thread count their suppressed lines in ``ThreadMetrics``.
        var suppressedLineCountOfOtherThreads: UInt64 = 0
        /// The number of lines of all threads that are lost, because the log's output had no room for them.
        var lostLineCount: UInt64 = 0
        /// The metadata of the last written line, with secrets masked.
        var lastLineMetadata = ""
    }

    /// The maximum number of characters that are kept of a line's metadata.
    static let metadataCharactersMax = 300

    private let repetitionLimiter = Mutex(LogRepetitionLimiter())
    private let kindSummaries = Mutex<[KindSummary]>(LogKind.allCases.map { KindSummary(kind: $0) })

    package init() {}

    /// Decides for all threads whether a line is written, and how many left-out lines it must report
    /// (``LogRepetitionLimiter/takeRepeatCountIfLineIsDue(_:_:nowMilliseconds:)``).
    func takeRepeatCountIfLineIsDue(_ kind: LogKind, _ fields: Logger.Metadata, nowMilliseconds: Int64) -> UInt64? {
        repetitionLimiter.withLock { $0.takeRepeatCountIfLineIsDue(kind, fields, nowMilliseconds: nowMilliseconds) }
    }

    /// Forgets failures that have ended, for all threads, and returns how many of their lines were not reported yet
    /// (``LogRepetitionLimiter/forgetFailures(_:_:)``).
    func forgetFailures(_ kinds: [LogKind], _ fields: Logger.Metadata) -> UInt64? {
        repetitionLimiter.withLock { $0.forgetFailures(kinds, fields) }
    }

    /// Counts a written line, and keeps its time and its metadata. Masks secrets in the metadata.
    func noteLine(_ kind: LogKind, metadata: Logger.Metadata, wallMilliseconds: Int64) {
        let allMetadata = metadata.sorted { $0.key < $1.key }.map { "\($0.key)=\($0.value)" }.joined(separator: " ")
        let keptMetadata = String(Redaction.masked(allMetadata).prefix(Self.metadataCharactersMax))
        kindSummaries.withLock { summaries in
            summaries[Int(kind.rawValue)].count &+= 1
            summaries[Int(kind.rawValue)].lastLineAtWallMilliseconds = wallMilliseconds
            summaries[Int(kind.rawValue)].lastLineMetadata = keptMetadata
        }
    }

    /// Counts a line that was not written, and keeps its time.
    func noteSuppressedLine(_ kind: LogKind, wallMilliseconds: Int64) {
        kindSummaries.withLock { summaries in
            summaries[Int(kind.rawValue)].count &+= 1
            summaries[Int(kind.rawValue)].lastLineAtWallMilliseconds = wallMilliseconds
        }
    }

    /// Counts a line that ``LimitedLog`` suppressed on another thread than the lanes and the Kafka thread. The lanes
    /// and the Kafka thread count their suppressed lines in ``ThreadMetrics``.
    func countSuppressedLineOfOtherThread(_ kind: LogKind) {
        kindSummaries.withLock { $0[Int(kind.rawValue)].suppressedLineCountOfOtherThreads &+= 1 }
    }

    /// Counts a line that ``LogOutput`` lost. A line without a kind has no series in the metric, so it is not counted.
    func countLostLine(kindIdentifier: String?) {
        guard let kind = LogKind.allCases.first(where: { $0.identifier == kindIdentifier }) else { return }
        kindSummaries.withLock { $0[Int(kind.rawValue)].lostLineCount &+= 1 }
    }

    /// How many lines were not written and are not counted in ``ThreadMetrics``, for each kind in the order of
    /// ``LogKind``'s raw values: lines that other threads than the lanes and the Kafka thread suppressed, and lost
    /// lines of all threads.
    var unwrittenLineCounts: [UInt64] {
        kindSummaries.withLock { $0.map { $0.suppressedLineCountOfOtherThreads &+ $0.lostLineCount } }
    }

    /// The kinds that were logged, the latest first.
    var loggedKindSummaries: [KindSummary] {
        kindSummaries.withLock { $0 }.filter { $0.count > 0 }
            .sorted { $0.lastLineAtWallMilliseconds > $1.lastLineAtWallMilliseconds }
    }

    subscript(_ kind: LogKind) -> KindSummary { kindSummaries.withLock { $0[Int(kind.rawValue)] } }
}
