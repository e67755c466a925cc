import Glibc
import Numbers

/// What the progress display shows of a demo.
struct DemoProgress: Equatable {
    var elapsedMilliseconds: Int64
    var durationMilliseconds: Int64
    var totalCommandCount: Int
    var resultCount: Int
    var commandsPerSecond: Int
    var pushesPerSecond: Int
    var finishedMatchCount: Int
    var matchCount: Int
    /// The latest event in one of the matches.
    var latestEventText: String
}

extension DemoProgress {
    static let barWidth = 40

    var barLine: String {
        let fraction = min(1, Double(elapsedMilliseconds) / Double(max(1, durationMilliseconds)))
        let filledColumnCount = Int(Double(Self.barWidth) * fraction)
        let bar =
            String(repeating: "█", count: filledColumnCount)
            + String(repeating: "░", count: Self.barWidth - filledColumnCount)
        return "  \(bar)  \(elapsedText)   \(finishedMatchCount) of \(matchCount) matches over"
    }

    var ratesLine: String {
        "  \(Numeral.grouped(commandsPerSecond)) commands/s · \(Numeral.grouped(pushesPerSecond)) pushes/s · "
            + "\(Numeral.grouped(resultCount)) of \(Numeral.grouped(totalCommandCount)) commands have their result"
    }

    var logLine: String {
        "\(elapsedText)  \(finishedMatchCount) of \(matchCount) matches over, "
            + "\(Numeral.grouped(commandsPerSecond)) commands/s, \(Numeral.grouped(pushesPerSecond)) pushes/s. "
            + latestEventText
    }

    private var elapsedText: String {
        let seconds = String(elapsedMilliseconds / 1_000)
        return String(repeating: " ", count: max(0, 3 - seconds.count)) + seconds + " s"
    }
}

/// Shows progress on standard error. A terminal shows one display that is redrawn; other output gets a line every few
/// seconds.
struct ProgressDisplay {
    private static let redrawIntervalMilliseconds: Int64 = 100
    private static let logIntervalMilliseconds: Int64 = 5_000
    private static let columnsMax = 100

    let isTerminal: Bool
    private var nextUpdateAtMilliseconds: Int64 = 0
    private var isDrawn = false

    init() {
        isTerminal = isatty(STDERR_FILENO) == 1
    }

    func isDue(nowMilliseconds: Int64) -> Bool { nowMilliseconds >= nextUpdateAtMilliseconds }

    mutating func show(_ progress: DemoProgress, nowMilliseconds: Int64) {
        nextUpdateAtMilliseconds =
            nowMilliseconds + (isTerminal ? Self.redrawIntervalMilliseconds : Self.logIntervalMilliseconds)
        guard isTerminal else { return Self.write(progress.logLine + "\n") }
        let lines = [progress.barLine, progress.ratesLine, "  " + progress.latestEventText]
        Self.write(cursorUpSequence + lines.map { $0.prefix(Self.columnsMax) + "\u{1B}[K\n" }.joined())
        isDrawn = true
    }

    mutating func erase() {
        guard isTerminal, isDrawn else { return }
        Self.write(cursorUpSequence + "\u{1B}[J")
        isDrawn = false
    }

    /// Prints a line about the current step. The line stays above the drawn progress.
    mutating func printLine(_ text: String) {
        erase()
        Self.write(text + "\n")
    }

    /// The control sequence that moves the cursor up over the three lines of the drawn progress.
    private var cursorUpSequence: String { isDrawn ? "\u{1B}[3A\r" : "" }

    private static func write(_ text: String) {
        var bytes = Array(text.utf8)[...]
        while !bytes.isEmpty {
            let count = bytes.withUnsafeBytes { Glibc.write(STDERR_FILENO, $0.baseAddress, $0.count) }
            // If stderr cannot be written, for example because it is closed, the run continues without the display.
            guard count > 0 || errno == EINTR else { return }
            bytes = bytes.dropFirst(max(0, count))
        }
    }
}
