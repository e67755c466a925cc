import LiveActivity
import Numbers

/// One value of the status report, as text and as JSON.
struct StatusCell: Sendable, Equatable {
    enum Style: String, Sendable {
        case plain, good, attention, broken, faint
    }

    var text: String
    var json: String
    var style = Style.plain

    /// Whether the value is a number, which is right-aligned in its column.
    var isNumber: Bool { json.first.map { $0.isNumber || $0 == "-" } ?? false }

    func styled(_ style: Style) -> StatusCell {
        var cell = self
        cell.style = style
        return cell
    }

    static func words(_ text: String) -> StatusCell { StatusCell(text: text, json: JSONLiteral.string(text)) }

    static func count(_ number: Int64) -> StatusCell { StatusCell(text: Numeral.grouped(number), json: "\(number)") }

    static func yesOrNo(_ value: Bool) -> StatusCell {
        StatusCell(text: value ? "yes" : "no", json: value ? "true" : "false")
    }

    /// Returns events per second, from the number of events in a time window. Returns ``none`` if the number is nil, or
    /// if the window has no length.
    static func rate(_ eventCount: Int64?, windowMilliseconds: Int64) -> StatusCell {
        guard let eventCount, windowMilliseconds > 0 else { return .none }
        let hundredths = max(0, eventCount) * 100_000 / windowMilliseconds
        let text = Numeral.exactQuotient(hundredths, divisor: 100)
        return StatusCell(
            text: hundredths >= 1_000 ? Numeral.grouped((hundredths + 50) / 100) : text,
            json: text
        )
    }

    /// Returns a duration; ``none`` for nil. The JSON value is in seconds.
    static func duration(microseconds: Int64?) -> StatusCell {
        guard let microseconds else { return .none }
        return StatusCell(
            text: Numeral.duration(microseconds: microseconds),
            json: Numeral.exactQuotient(microseconds, divisor: 1_000_000)
        )
    }

    /// Returns a duration; ``none`` for nil. The JSON value is in seconds.
    static func duration(milliseconds: Int64?) -> StatusCell {
        duration(
            microseconds: milliseconds.map { $0.multipliedReportingOverflow(by: 1_000) }
                .map { $0.overflow ? .max : $0.partialValue }
        )
    }

    /// Returns a share: in the text in per cent, in JSON from 0 to 1. Returns ``none`` for nil.
    static func share(millionths: Int64?) -> StatusCell {
        guard let millionths else { return .none }
        return StatusCell(
            text: "\(Numeral.exactQuotient(millionths / 1_000, divisor: 10)) %",
            json: Numeral.exactQuotient(millionths, divisor: 1_000_000)
        )
    }

    static func bytes(_ bytes: Int64?) -> StatusCell {
        guard let bytes else { return .none }
        return StatusCell(text: Numeral.bytes(bytes), json: "\(bytes)")
    }

    static let none = StatusCell(text: "–", json: "null", style: .faint)
}

struct StatusTable: Sendable {
    struct Column: Sendable {
        /// The name of the column's values in JSON.
        var key: String
        /// The title in the text and HTML formats.
        var title: String
    }

    var key: String
    var title: String
    /// A text that explains the table; empty if the table needs none.
    var explanation = ""
    var columns: [Column]
    var rows: [[StatusCell]]
    /// The text for a table without rows on the HTML page.
    var emptyText = "Nothing."
}

/// A fault, or another fact, that the diagnosis has found, and what to do about it.
struct Finding: Sendable, Equatable {
    enum Severity: Int, Sendable, Comparable {
        /// Worth knowing, but harmless.
        case note
        /// An operator should look at this during working hours.
        case attention
        /// A fault that an operator should correct now: some pushes wait or fail, or will do so.
        case broken

        static func < (left: Severity, right: Severity) -> Bool { left.rawValue < right.rawValue }

        var name: String { "\(self)" }
    }

    var severity: Severity
    /// The name of the alert under which the runbook says more about this finding; empty if the runbook says no more.
    var alertName: String
    var observation: String
    var meaning: String
    var action: String
    /// The kinds of log lines that say more about the finding. `/statusz` shows the last line of each.
    var logKinds: [LogKind] = []
    /// One text for each kind of `logKinds` that was logged, the kind with the latest line first: its identifier, the
    /// age of its last line (written or suppressed), and the metadata of its last written line.
    var logLines: [String] = []
}

/// The content of /statusz.
struct StatusReport: Sendable {
    var host: String
    var version: String
    var wallMilliseconds: Int64
    var uptimeMilliseconds: Int64
    var summary: String
    var findings: [Finding]
    var liveness: HealthReport
    var readiness: HealthReport
    var tables: [StatusTable]

    /// The severity of the worst finding; nil without findings.
    var severity: Finding.Severity? { findings.map(\.severity).max() }
}

enum JSONLiteral {
    static func string(_ text: String) -> String {
        var text = text
        var writer = JSONWriter(capacity: text.utf8.count + 2)
        text.withUTF8 { writer.string(UnsafeRawBufferPointer($0)) }
        return String(decoding: writer.bytes, as: UTF8.self)
    }
}
