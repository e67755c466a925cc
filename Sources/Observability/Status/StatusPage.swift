import Numbers

/// Writes /statusz as an HTML page without scripts or external content. The page reloads every ten seconds.
enum StatusPage {
    static let contentType = "text/html; charset=utf-8"

    static func html(_ report: StatusReport) -> String {
        var page = "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
        page += "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
        page += "<meta http-equiv=\"refresh\" content=\"10\">\n<title>\(escaped(title(report)))</title>\n"
        page += "<style>\(style)</style>\n</head>\n<body>\n"
        page += header(report)
        page += findings(report.findings)
        page += "<main>\n"
        for table in report.tables { page += section(table) }
        page += "</main>\n" + footer
        return page + "</body>\n</html>\n"
    }

    private static func title(_ report: StatusReport) -> String {
        let word =
            switch report.severity {
            case .broken: "broken"
            case .attention: "attention"
            case .note, nil: "well"
            }
        return "\(word) – causeway \(report.host)"
    }

    private static func header(_ report: StatusReport) -> String {
        let headline: (style: StatusCell.Style, text: String) =
            switch report.severity {
            case .broken: (.broken, "Something is broken.")
            case .attention: (.attention, "Something needs attention.")
            case .note, nil: (.good, "No problems.")
            }
        let health = [("live", report.liveness), ("ready", report.readiness)]
            .map { name, report in
                let checks = report.checks.map { "\($0.name): \($0.text)" }.joined(separator: "; ")
                let style: StatusCell.Style = report.hasSucceeded ? .good : .broken
                return "<span class=\"\(style.rawValue)\" title=\"\(escaped(checks))\">"
                    + "\(report.hasSucceeded ? "" : "not ")\(name)</span>"
            }
        let uptimeText = Numeral.duration(
            microseconds: report.uptimeMilliseconds.multipliedReportingOverflow(by: 1_000).partialValue
        )
        return "<header>\n<h1 class=\"\(headline.style.rawValue)\">\(headline.text)</h1>\n"
            + "<p class=\"summary\">\(escaped(report.summary))</p>\n"
            + "<p class=\"faint\">causeway \(escaped(report.version)) on \(escaped(report.host)), up \(uptimeText), "
            + "\(health.joined(separator: ", ")), \(Timestamp(milliseconds: report.wallMilliseconds))</p>\n</header>\n"
    }

    private static func findings(_ findings: [Finding]) -> String {
        guard !findings.isEmpty else { return "" }
        var text = "<section>\n<h2>Findings, and what to do</h2>\n"
        for finding in findings {
            let style: StatusCell.Style =
                switch finding.severity {
                case .broken: .broken
                case .attention: .attention
                case .note: .plain
                }
            text += "<article class=\"\(style.rawValue)\">\n<h3>\(escaped(finding.observation))</h3>\n"
            text += "<p>\(escaped(finding.meaning))</p>\n<p><b>Do:</b> \(escaped(finding.action))</p>\n"
            for line in finding.logLines { text += "<p><code>\(escaped(line))</code></p>\n" }
            if !finding.alertName.isEmpty {
                text += "<p class=\"faint\">Runbook: <code>\(escaped(finding.alertName))</code></p>\n"
            }
            text += "</article>\n"
        }
        return text + "</section>\n"
    }

    private static func section(_ table: StatusTable) -> String {
        var text = "<section id=\"\(escaped(table.key))\">\n<h2>\(escaped(table.title))</h2>\n"
        if !table.explanation.isEmpty { text += "<p class=\"faint\">\(escaped(table.explanation))</p>\n" }
        guard !table.rows.isEmpty else { return text + "<p>\(escaped(table.emptyText))</p>\n</section>\n" }
        text += "<div><table>\n<tr>"
        for (columnIndex, column) in table.columns.enumerated() {
            let isNumeric = table.rows.contains { $0[columnIndex].isNumber }
            text += (isNumeric ? "<th class=\"number\">" : "<th>") + escaped(column.title) + "</th>"
        }
        text += "</tr>\n"
        for row in table.rows {
            text += "<tr>"
            for cell in row {
                let classes = [cell.isNumber ? "number" : "", cell.style == .plain ? "" : cell.style.rawValue]
                    .filter { !$0.isEmpty }.joined(separator: " ")
                text += (classes.isEmpty ? "<td>" : "<td class=\"\(classes)\">") + escaped(cell.text) + "</td>"
            }
            text += "</tr>\n"
        }
        return text + "</table></div>\n</section>\n"
    }

    private static let footer = """
        <footer class="faint"><p>This page shows one worker. The dashboard shows all workers. The same content for \
        programs: <a href="?format=json">JSON</a>; for terminals: <a href="?format=text">text</a>. Metrics: <a \
        href="/metrics">/metrics</a>.</p></footer>

        """

    static func escaped(_ text: String) -> String {
        var escapedText = ""
        for scalar in text.unicodeScalars {
            switch scalar {
            case "&": escapedText += "&amp;"
            case "<": escapedText += "&lt;"
            case ">": escapedText += "&gt;"
            case "\"": escapedText += "&quot;"
            case "'": escapedText += "&#39;"
            case "\u{0}"..."\u{1F}", "\u{7F}": escapedText += " "
            default: escapedText.unicodeScalars.append(scalar)
            }
        }
        return escapedText
    }

    private static let style = """
        :root{color-scheme:dark}
        body{background:#111417;color:#d6dade;font:15px/1.45 system-ui,sans-serif;margin:0 \
        auto;padding:1.2rem;max-width:72rem}
        h1{font-size:1.7rem;margin:0}h2{font-size:1.05rem;margin:1.6rem 0 \
        .3rem;color:#f0f2f4}h3{font-size:1rem;margin:0}
        p{margin:.25rem 0}a{color:#8ab8e6}code{color:#e3d3a8}
        .summary{font-size:1.1rem}.faint{color:#8c959e}.good{color:#7fc98a}
        td.attention,h1.attention,span.attention{color:#e8b84f}td.broken,h1.broken,span.broken{color:#ff7b6e}
        article{border-left:4px solid #59636d;background:#191e23;padding:.55rem .8rem;margin:.5rem 0;border-radius:3px}
        article.attention{border-color:#e8b84f}article.broken{border-color:#ff7b6e}
        main{display:flex;flex-wrap:wrap;column-gap:3rem}section{max-width:100%}section div{overflow-x:auto}
        table{border-collapse:collapse;font-size:.92rem}
        th{text-align:left;font-weight:500;color:#8c959e;padding:.15rem 1.1rem .15rem 0;white-space:nowrap}
        th.number{text-align:right}#events td:nth-child(-n+3){white-space:nowrap}
        td{padding:.12rem 1.1rem .12rem 0;border-top:1px solid #232a31;vertical-align:top;overflow-wrap:anywhere}
        td.number{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}
        """
}

/// Writes /statusz as JSON, for programs.
enum StatusJSON {
    static let contentType = "application/json"

    static func json(_ report: StatusReport) -> String {
        let findings = report.findings.map { finding in
            object([
                ("severity", string(finding.severity.name)), ("alert", string(finding.alertName)),
                ("sight", string(finding.observation)),
                ("meaning", string(finding.meaning)), ("action", string(finding.action)),
                ("seen", array(finding.logLines.map(string))),
            ])
        }
        var members: [(String, String)] = [
            ("host", string(report.host)), ("version", string(report.version)),
            ("time", string(Timestamp(milliseconds: report.wallMilliseconds).description)),
            ("upSeconds", Numeral.exactQuotient(report.uptimeMilliseconds, divisor: 1_000)),
            ("summary", string(report.summary)),
            ("severity", report.severity.map { string($0.name) } ?? "null"),
            ("live", health(report.liveness)), ("ready", health(report.readiness)), ("findings", array(findings)),
        ]
        for table in report.tables {
            let rows = table.rows.map { row in object(zip(table.columns, row).map { ($0.key, $1.json) }) }
            members.append((table.key, array(rows)))
        }
        return object(members) + "\n"
    }

    private static func health(_ report: HealthReport) -> String {
        object([("passed", report.hasSucceeded ? "true" : "false")] + report.checks.map { ($0.name, string($0.text)) })
    }

    private static func string(_ text: String) -> String { JSONLiteral.string(text) }

    /// Returns a JSON object. Each member is a name and a value that is JSON already.
    private static func object(_ members: [(String, String)]) -> String {
        "{" + members.map { "\(string($0.0)):\($0.1)" }.joined(separator: ",") + "}"
    }

    private static func array(_ elements: [String]) -> String { "[\(elements.joined(separator: ","))]" }
}
