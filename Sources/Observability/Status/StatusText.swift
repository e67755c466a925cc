import HTTP
import Numbers

/// The format of a response of `/statusz`.
enum StatusFormat: String, CaseIterable {
    /// Text for terminals. The default for clients such as curl that request no format.
    case text
    /// HTML for browsers, which ask for it in `Accept`.
    case html
    case json

    /// Chooses the format by the query (`?format=text`), else by the media types that the client accepts.
    init(_ head: HTTPRequestHead) {
        if let name = head.query["format"], let format = StatusFormat(rawValue: name) {
            self = format
            return
        }
        let types = (head.fields["accept"] ?? "").split(separator: ",")
            .compactMap { $0.split(separator: ";").first?.trimmed }
        self = types.contains("text/html") ? .html : types.contains("application/json") ? .json : .text
    }
}

/// Writes /statusz as text for a terminal, with the same facts as the HTML page.
enum StatusText {
    private static let indentation = "  "
    private static let columnGap = "  "

    static func text(_ report: StatusReport) -> String {
        let uptimeText = Numeral.duration(
            microseconds: report.uptimeMilliseconds.multipliedReportingOverflow(by: 1_000).partialValue
        )
        var text = "\(headline(report)) \(singleLine(report.summary))\n"
        text += "causeway \(singleLine(report.version)) on \(singleLine(report.host)), up \(uptimeText), "
        text += "\(Timestamp(milliseconds: report.wallMilliseconds))\n"
        for (name, health) in [("live", report.liveness), ("ready", report.readiness)] {
            let checks = health.checks.map { "\($0.hasSucceeded ? "" : "NOT ")\($0.name): \($0.text)" }
            text += "\(health.hasSucceeded ? "" : "NOT ")\(name): \(singleLine(checks.joined(separator: "; ")))\n"
        }
        for finding in report.findings { text += "\n" + self.text(finding) }
        for table in report.tables where !table.rows.isEmpty { text += "\n" + self.text(table) }
        let emptyTitles = report.tables.filter(\.rows.isEmpty).map(\.title)
        if !emptyTitles.isEmpty { text += "\nNothing in: \(emptyTitles.joined(separator: ", "))\n" }
        return text
    }

    private static func headline(_ report: StatusReport) -> String {
        switch report.severity {
        case .broken: "BROKEN."
        case .attention: "ATTENTION."
        case .note, nil: "No problems."
        }
    }

    private static func text(_ finding: Finding) -> String {
        var lines = [
            "\(finding.severity.name.uppercased()): \(singleLine(finding.observation))",
            indentation + singleLine(finding.meaning),
            indentation + "Do: " + singleLine(finding.action),
        ]
        lines += finding.logLines.map { indentation + "Log: " + singleLine($0) }
        if !finding.alertName.isEmpty { lines.append(indentation + "Runbook: " + finding.alertName) }
        return lines.joined(separator: "\n") + "\n"
    }

    /// Writes a table with aligned columns: numbers to the right, words to the left. Removes the spaces at the ends of
    /// lines, so that only lines with a long text in the last column are long.
    private static func text(_ table: StatusTable) -> String {
        var rows = table.rows.map { $0.map { singleLine($0.text) } }
        let titles = table.columns.map(\.title)
        if titles.contains(where: { !$0.isEmpty }) { rows.insert(titles, at: 0) }
        let isNumeric = table.columns.indices.map { column in table.rows.contains { $0[column].isNumber } }
        let widths = table.columns.indices.map { column in rows.map { $0[column].count }.max() ?? 0 }
        var text = table.title + (table.explanation.isEmpty ? "" : " (\(singleLine(table.explanation)))") + "\n"
        for row in rows {
            let cells = row.indices.map { column -> String in
                let padding = String(repeating: " ", count: widths[column] - row[column].count)
                return isNumeric[column] ? padding + row[column] : row[column] + padding
            }
            text += trimmed(indentation + cells.joined(separator: columnGap)) + "\n"
        }
        return text
    }

    private static func trimmed(_ text: String) -> String {
        var text = Substring(text)
        while text.last == " " { text.removeLast() }
        return String(text)
    }

    /// Returns foreign text on one line, without control characters, because a terminal would obey them.
    private static func singleLine(_ text: String) -> String {
        String(
            String.UnicodeScalarView(text.unicodeScalars.map { $0.properties.generalCategory == .control ? " " : $0 })
        )
    }
}
