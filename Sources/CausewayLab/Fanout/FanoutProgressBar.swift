import Glibc
import Numbers

/// Shows the progress of one step on standard error. A terminal shows one bar that is redrawn; other output gets a line
/// every few seconds.
struct FanoutProgressBar {
    private static let redrawIntervalMilliseconds: Int64 = 100
    private static let logIntervalMilliseconds: Int64 = 5_000
    private static let barWidth = 40

    private let isTerminal = isatty(STDERR_FILENO) == 1
    private var nextUpdateAtMilliseconds: Int64 = 0
    private var isDrawn = false

    /// Draws the bar, if an update is due.
    ///
    /// - Parameter totalCount: 0 if the total is unknown.
    mutating func show(_ awaitedEvent: String, doneCount: Int, of totalCount: Int, nowMilliseconds: Int64) {
        guard nowMilliseconds >= nextUpdateAtMilliseconds else { return }
        nextUpdateAtMilliseconds =
            nowMilliseconds + (isTerminal ? Self.redrawIntervalMilliseconds : Self.logIntervalMilliseconds)
        let line = Self.line(awaitedEvent, doneCount: doneCount, of: totalCount)
        write(isTerminal ? "\r\(line)\u{1B}[K" : "\(line)\n")
        isDrawn = true
    }

    static func line(_ awaitedEvent: String, doneCount: Int, of totalCount: Int) -> String {
        guard totalCount > 0 else { return "  waiting for \(awaitedEvent)" }
        let filledColumnCount = min(barWidth, max(0, barWidth * doneCount / totalCount))
        let bar =
            String(repeating: "█", count: filledColumnCount)
            + String(repeating: "░", count: barWidth - filledColumnCount)
        return "  \(bar)  \(Numeral.grouped(doneCount)) of \(Numeral.grouped(totalCount)): \(awaitedEvent)"
    }

    mutating func erase() {
        if isTerminal, isDrawn { write("\r\u{1B}[K") }
        isDrawn = false
        nextUpdateAtMilliseconds = 0
    }

    private func write(_ text: String) {
        let bytes = Array(text.utf8)
        // A closed standard error is no reason to stop, so ignore the failure.
        _ = bytes.withUnsafeBytes { Glibc.write(STDERR_FILENO, $0.baseAddress, $0.count) }
    }
}
