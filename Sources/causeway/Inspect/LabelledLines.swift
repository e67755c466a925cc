/// Aligned lines of text, each with a label.
struct LabelledLines {
    private(set) var lines: [String] = []
    private let labelWidth: Int

    init(labelWidth: Int = 10) {
        self.labelWidth = labelWidth
    }

    /// Adds a line with a label and the first text. Each further text gets its own indented line below. Empty texts are
    /// left out.
    mutating func add(_ label: String, _ texts: String...) {
        for (index, text) in texts.enumerated() where !text.isEmpty {
            lines.append(Self.padded(index == 0 ? label : "", labelWidth) + text)
        }
    }

    mutating func add(_ line: String) {
        lines.append(line)
    }

    /// Adds a table whose columns are as wide as their widest cell.
    ///
    /// - Parameter rightAligned: the indices of the columns of numbers.
    mutating func addTable(header: [String], rows: [[String]], rightAligned: Set<Int>) {
        let widths = header.indices.map { column in
            ([header] + rows).map { $0[column].count }.max() ?? 0
        }
        for row in [header] + rows {
            let cells = row.indices.map { column in
                rightAligned.contains(column)
                    ? String(repeating: " ", count: widths[column] - row[column].count) + row[column]
                    : Self.padded(row[column], widths[column])
            }
            lines.append(Self.trimmed(cells.joined(separator: "  ")))
        }
    }

    private static func padded(_ text: String, _ width: Int) -> String {
        text + String(repeating: " ", count: max(0, width - text.count))
    }

    private static func trimmed(_ line: String) -> String {
        String(line.reversed().drop { $0 == " " }.reversed())
    }
}
