import Documents

/// Writes the documented YAML file. Its values are the defaults; a required key has an example.
enum YAMLPage {
    /// The maximum width of a comment line, including the indentation.
    static let lineCharactersMax = 132

    static func text(of section: ConfigurationSection, introduction: String, schemaFile: String) -> String {
        var lines = ["# yaml-language-server: $schema=\(schemaFile)", "#"]
        lines += comment(introduction, indentation: "")
        lines.append("")
        lines += members(of: section, depth: 0)
        return lines.joined(separator: "\n") + "\n"
    }

    private static func members(of section: ConfigurationSection, depth: Int) -> [String] {
        let indentation = String(repeating: "  ", count: depth)
        let blocks = section.members.map { name, member -> [String] in
            switch member {
            case .key(let key):
                return keyLines(key, name: name, indentation: indentation)
            case .section(let inner):
                let shownName = section.namedSection?.exampleName ?? name
                return (inner.meaning.map { comment($0, indentation: indentation) } ?? [])
                    + ["\(indentation)\(shownName):"] + members(of: inner, depth: depth + 1)
            }
        }
        return Array(blocks.joined(separator: [""]))
    }

    private static func keyLines(_ key: KeyDescription, name: String, indentation: String) -> [String] {
        let value =
            switch key.defaultValue {
            case .required(let example): example
            case .value(let value): value.yamlText ?? ""
            case .unset: ""
            }
        return comment(key.meaning, indentation: indentation)
            + key.exampleLines.map { "\(indentation)#   \($0)" }
            + (key.sourceOfDefault.map { comment($0, indentation: indentation) } ?? [])
            + comment(constraintText(of: key), indentation: indentation)
            + ["\(indentation)\(name):" + (value.isEmpty ? "" : " \(value)")]
    }

    /// Returns sentences about a key: its default, its allowed values, and when a change takes effect.
    private static func constraintText(of key: KeyDescription) -> String {
        var sentences = [key.defaultText.map { "Default: \($0)." } ?? "Required."]
        switch key.valueKind {
        case .integer(let range): sentences.append("Range \(range.lowerBound) to \(range.upperBound).")
        case .choice(let choices): sentences.append("One of \(choices.joined(separator: ", ")).")
        case .choices(let choices): sentences.append("One or more of \(choices.joined(separator: ", ")).")
        case .text, .texts, .properties: break
        }
        if let allowedValues = key.allowedValues { sentences.append("\(allowedValues).") }
        if key.isReloadable { sentences.append("Reloadable.") }
        return sentences.joined(separator: " ")
    }

    /// Returns the text as lines of a comment. Keeps its line breaks, and wraps long lines between words.
    private static func comment(_ text: String, indentation: String) -> [String] {
        text.split(separator: "\n", omittingEmptySubsequences: false)
            .flatMap { line in
                let lines = line.wrapped(toCharacters: lineCharactersMax - indentation.count - 2)
                return lines.isEmpty ? ["\(indentation)#"] : lines.map { "\(indentation)# \($0)" }
            }
    }
}
