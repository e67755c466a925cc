import Glibc
import Numbers

/// Shows the progress of one step on standard error: on a terminal as a bar that is redrawn in place,
/// elsewhere as a line every few seconds.
struct FanoutProgress {
    private static let redrawMilliseconds: Int64 = 100
    private static let logMilliseconds: Int64 = 5_000
    private static let barWidth = 40

    private let isTerminal = isatty(STDERR_FILENO) == 1
    private var nextMilliseconds: Int64 = 0
    private var isDrawn = false

    /// - Parameter all: the total; 0 if the total is unknown.
    mutating func show(_ what: String, done: Int, of all: Int, nowMilliseconds: Int64) {
        guard nowMilliseconds >= nextMilliseconds else { return }
        nextMilliseconds = nowMilliseconds + (isTerminal ? Self.redrawMilliseconds : Self.logMilliseconds)
        let line = Self.line(what, done: done, of: all)
        write(isTerminal ? "\r\(line)\u{1B}[K" : "\(line)\n")
        isDrawn = true
    }

    static func line(_ what: String, done: Int, of all: Int) -> String {
        guard all > 0 else { return "  waiting for \(what)" }
        let full = min(barWidth, max(0, barWidth * done / all))
        let bar = String(repeating: "█", count: full) + String(repeating: "░", count: barWidth - full)
        return "  \(bar)  \(Numeral.grouped(done)) of \(Numeral.grouped(all)): \(what)"
    }

    /// Removes the bar.
    mutating func clear() {
        if isTerminal, isDrawn { write("\r\u{1B}[K") }
        isDrawn = false
        nextMilliseconds = 0
    }

    private func write(_ text: String) {
        let bytes = Array(text.utf8)
        // A closed standard error is no reason to stop, so ignore the failure.
        _ = bytes.withUnsafeBytes { Glibc.write(STDERR_FILENO, $0.baseAddress, $0.count) }
    }
}
