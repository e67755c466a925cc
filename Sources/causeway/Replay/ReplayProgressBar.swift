import CausewayCommandLine
import Glibc

/// Shows the progress of a replay on standard error, if standard error is a terminal.
struct ReplayProgressBar {
    private static let barWidth = 30
    private static let redrawIntervalMilliseconds: Int64 = 100

    private let isTerminal: Bool
    private var redrawDueMilliseconds: Int64 = 0
    private var isDrawn = false

    init(isTerminal: Bool = isatty(STDERR_FILENO) == 1) { self.isTerminal = isTerminal }

    /// Redraws the bar, unless it was drawn less than ``redrawIntervalMilliseconds`` ago.
    mutating func show(_ label: String, _ doneCount: Int64, of totalCount: Int64) {
        guard isTerminal, Clock.monotonicMilliseconds >= redrawDueMilliseconds else { return }
        redrawDueMilliseconds = Clock.monotonicMilliseconds + Self.redrawIntervalMilliseconds
        isDrawn = true
        Self.write("\r" + Self.line(label, doneCount, of: totalCount) + "\u{1B}[K")
    }

    mutating func erase() {
        guard isDrawn else { return }
        isDrawn = false
        Self.write("\r\u{1B}[K")
    }

    static func line(_ label: String, _ doneCount: Int64, of totalCount: Int64) -> String {
        let share = min(1, Double(max(0, doneCount)) / Double(max(1, totalCount)))
        let filledWidth = Int(Double(barWidth) * share)
        let bar = String(repeating: "█", count: filledWidth) + String(repeating: "░", count: barWidth - filledWidth)
        return "\(label)  \(bar)  \(doneCount) of \(totalCount)"
    }

    private static func write(_ text: String) {
        // A closed standard error is no reason to stop, so ignore the failure.
        _ = Array(text.utf8).withUnsafeBytes { Glibc.write(STDERR_FILENO, $0.baseAddress, $0.count) }
    }
}
