import LiveActivity
import Numbers

/// One value, for people and for programs.
struct StatusCell: Sendable, Equatable {
    enum Tone: String, Sendable {
        case plain, good, attention, broken, faint
    }

    var text: String
    /// The value in JSON.
    var json: String
    var tone = Tone.plain

    /// Whether it is a number, which is at the right of its column.
    var isNumber: Bool { json.first.map { $0.isNumber || $0 == "-" } ?? false }

    func toned(_ tone: Tone) -> StatusCell {
        var cell = self
        cell.tone = tone
        return cell
    }

    static func words(_ text: String) -> StatusCell { StatusCell(text: text, json: JSONLiteral.string(text)) }

    static func count(_ number: Int64) -> StatusCell { StatusCell(text: Numeral.grouped(number), json: "\(number)") }

    static func flag(_ flag: Bool) -> StatusCell {
        StatusCell(text: flag ? "yes" : "no", json: flag ? "true" : "false")
    }

    /// Events in a window, per second; nil if there is no window yet.
    static func rate(_ events: Int64?, windowMilliseconds: Int64) -> StatusCell {
        guard let events, windowMilliseconds > 0 else { return .none }
        let hundredths = max(0, events) * 100_000 / windowMilliseconds
        let text = Numeral.exact(hundredths, divisor: 100)
        return StatusCell(
            text: hundredths >= 1_000 ? Numeral.grouped((hundredths + 50) / 100) : text,
            json: text
        )
    }

    /// In JSON: seconds.
    static func duration(microseconds: Int64?) -> StatusCell {
        guard let microseconds else { return .none }
        return StatusCell(
            text: Numeral.duration(microseconds: microseconds),
            json: Numeral.exact(microseconds, divisor: 1_000_000)
        )
    }

    /// In JSON: seconds.
    static func duration(milliseconds: Int64?) -> StatusCell {
        duration(
            microseconds: milliseconds.map { $0.multipliedReportingOverflow(by: 1_000) }
                .map { $0.overflow ? .max : $0.partialValue }
        )
    }

    /// In JSON: 0 to 1.
    static func share(millionths: Int64?) -> StatusCell {
        guard let millionths else { return .none }
        return StatusCell(
            text: "\(Numeral.exact(millionths / 1_000, divisor: 10)) %",
            json: Numeral.exact(millionths, divisor: 1_000_000)
        )
    }

    static func bytes(_ bytes: Int64?) -> StatusCell {
        guard let bytes else { return .none }
        return StatusCell(text: Numeral.bytes(bytes), json: "\(bytes)")
    }

    static let none = StatusCell(text: "–", json: "null", tone: .faint)
}

/// A table of values.
struct StatusTable: Sendable {
    struct Column: Sendable {
        /// The name in JSON.
        var key: String
        /// The title for people.
        var title: String
    }

    var key: String
    var title: String
    /// A sentence under the title that explains the table.
    var explanation = ""
    var columns: [Column]
    var rows: [[StatusCell]]
    /// The text of a table without rows.
    var emptyText = "Nothing."
}

/// A fault, or something worth knowing, and what to do about it.
struct Finding: Sendable, Equatable {
    enum Severity: Int, Sendable, Comparable {
        /// Worth knowing; harmless.
        case note
        /// Somebody should look during working hours.
        case attention
        /// Pushes do not arrive as they should.
        case broken

        static func < (left: Severity, right: Severity) -> Bool { left.rawValue < right.rawValue }

        var name: String { "\(self)" }
    }

    var severity: Severity
    /// The alert for the same condition, which is also its heading in the runbook; empty if there is none.
    var alert: String
    /// What was observed.
    var observation: String
    /// What it means.
    var meaning: String
    var action: String
    /// The kinds of log lines that say more.
    var kinds: [LogKind] = []
    /// The details of the last of these lines, the latest first.
    var seen: [String] = []
}

/// The content of /statusz.
struct StatusReport: Sendable {
    var host: String
    var version: String
    var wallMilliseconds: Int64
    var upMilliseconds: Int64
    var summary: String
    var findings: [Finding]
    var live: HealthReport
    var ready: HealthReport
    var tables: [StatusTable]

    /// The severity of the worst finding; nil if there is none.
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
