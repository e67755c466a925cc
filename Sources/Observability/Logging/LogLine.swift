import Logging

/// One event, ready to be written as JSON or text.
struct LogLine {
    var time: Timestamp
    var level: Logger.Level
    var loggerName: String
    var message: String
    var fields: Logger.Metadata

    /// The event as JSON: `{"time":…,"level":…,"logger":…,"message":…,"metadata":{…}}`. Metadata fields are sorted by
    /// name; without fields, `metadata` is left out.
    var json: String {
        var line = "{\"time\":\"\(time)\",\"level\":\"\(level.rawValue)\",\"logger\":"
        Self.appendJSON(loggerName, to: &line)
        line += ",\"message\":"
        Self.appendJSON(message, to: &line)
        if !fields.isEmpty {
            line += ",\"metadata\":"
            Self.appendJSON(.dictionary(fields), to: &line)
        }
        line += "}"
        return line
    }

    /// The event as text: `time LEVEL logger: message name=value …`
    var text: String {
        let levelName = level.rawValue.uppercased()
        let padding = String(repeating: " ", count: max(0, 8 - levelName.count))
        var line = "\(time) \(levelName)\(padding) \(loggerName): "
        Self.appendText(message, to: &line)
        for (name, value) in fields.sorted(by: { $0.key < $1.key }) {
            line += " "
            Self.appendText(name, to: &line)
            line += "="
            let text = "\(value)"
            if text.isEmpty || text.contains(where: { $0 == " " || $0 == "\"" }) {
                Self.appendJSON(text, to: &line)
            } else {
                Self.appendText(text, to: &line)
            }
        }
        return line
    }

    private static func appendJSON(_ value: Logger.MetadataValue, to line: inout String) {
        switch value {
        case .string(let text):
            appendJSON(text, to: &line)
        case .stringConvertible(let value):
            if let number = value as? any BinaryInteger {
                line += "\(number)"
            } else if let flag = value as? Bool {
                line += flag ? "true" : "false"
            } else {
                appendJSON(value.description, to: &line)
            }
        case .array(let values):
            line += "["
            for (index, value) in values.enumerated() {
                if index > 0 { line += "," }
                appendJSON(value, to: &line)
            }
            line += "]"
        case .dictionary(let values):
            line += "{"
            for (index, entry) in values.sorted(by: { $0.key < $1.key }).enumerated() {
                if index > 0 { line += "," }
                appendJSON(entry.key, to: &line)
                line += ":"
                appendJSON(entry.value, to: &line)
            }
            line += "}"
        }
    }

    private static func appendJSON(_ text: String, to line: inout String) {
        line += "\""
        for scalar in text.unicodeScalars {
            switch scalar {
            case "\"": line += "\\\""
            case "\\": line += "\\\\"
            case "\n": line += "\\n"
            case "\r": line += "\\r"
            case "\t": line += "\\t"
            case "\u{0}"..."\u{1F}", "\u{7F}": line += escaped(scalar)
            default: line.unicodeScalars.append(scalar)
            }
        }
        line += "\""
    }

    /// Appends a text in one line, with escaped control characters, because the text may come from other programs.
    private static func appendText(_ text: String, to line: inout String) {
        for scalar in text.unicodeScalars {
            switch scalar {
            case "\u{0}"..."\u{1F}", "\u{7F}": line += escaped(scalar)
            default: line.unicodeScalars.append(scalar)
            }
        }
    }

    private static func escaped(_ scalar: Unicode.Scalar) -> String {
        let digits = String(scalar.value, radix: 16)
        return "\\u" + String(repeating: "0", count: 4 - digits.count) + digits
    }
}
