/// A value of a JSON or YAML document that Causeway writes. Numbers are whole and not negative. The members (name and
/// value) of an object keep their order.
package indirect enum DocumentValue: Equatable, Sendable {
    case null
    case text(String)
    case number(UInt64)
    case boolean(Bool)
    case array([DocumentValue])
    case object([Member])

    package struct Member: Equatable, Sendable {
        package var name: String
        package var value: DocumentValue

        package init(_ name: String, _ value: DocumentValue) {
            self.name = name
            self.value = value
        }
    }

    package static func texts(_ values: [String]) -> DocumentValue { .array(values.map { .text($0) }) }

    package static func numbers(_ values: [UInt64]) -> DocumentValue { .array(values.map { .number($0) }) }
}

extension DocumentValue: ExpressibleByDictionaryLiteral, ExpressibleByStringLiteral, ExpressibleByBooleanLiteral,
    ExpressibleByIntegerLiteral, ExpressibleByArrayLiteral
{
    package init(dictionaryLiteral elements: (String, DocumentValue)...) {
        self = .object(elements.map { Member($0.0, $0.1) })
    }

    package init(stringLiteral value: String) { self = .text(value) }

    package init(booleanLiteral value: Bool) { self = .boolean(value) }

    package init(integerLiteral value: UInt64) { self = .number(value) }

    package init(arrayLiteral elements: DocumentValue...) { self = .array(elements) }
}

extension DocumentValue {
    /// The names and values of an object; empty if the value is no object.
    package var members: [Member] {
        if case .object(let members) = self { members } else { [] }
    }

    /// Returns the object with `title` (if it is not nil) and `description` as its first members.
    package func withDescription(_ description: String, title: String? = nil) -> DocumentValue {
        .object(
            (title.map { [Member("title", .text($0))] } ?? []) + [Member("description", .text(description))] + members
        )
    }

    /// The value as JSON. Each level is indented by two spaces. An array or object is on one line if its values are
    /// simple enough (`mayBeOnOneLine`), and the line is not too long (`lineCharactersMax`).
    package var json: String { json(indentation: 0) + "\n" }

    /// The maximum length of a line with a whole array or object, in characters, indentation included. The key before
    /// the value does not count: with a short key, the line still has at most about 120 characters.
    private static let lineCharactersMax = 110

    private func json(indentation: Int) -> String {
        let line = oneLineJSON
        if mayBeOnOneLine, line.count + indentation <= Self.lineCharactersMax { return line }
        let memberIndentation = String(repeating: " ", count: indentation + 2)
        let end = "\n" + String(repeating: " ", count: indentation)
        switch self {
        case .array(let elements):
            let lines = elements.map { memberIndentation + $0.json(indentation: indentation + 2) }
            return "[\n" + lines.joined(separator: ",\n") + end + "]"
        case .object(let members):
            let lines = members.map {
                "\(memberIndentation)\(Self.quoted($0.name)): \($0.value.json(indentation: indentation + 2))"
            }
            return "{\n" + lines.joined(separator: ",\n") + end + "}"
        case .null, .text, .number, .boolean: return line
        }
    }

    /// Whether the value may be written on one line. A scalar is a string, number or boolean, or null. True for:
    /// - a scalar
    /// - an array of scalars
    /// - an object of at most three members whose values are scalars or arrays of scalars
    private var mayBeOnOneLine: Bool {
        switch self {
        case .null, .text, .number, .boolean: true
        case .array(let elements): elements.allSatisfy(\.isScalar)
        case .object(let members):
            members.isEmpty || members.count <= 3 && members.allSatisfy { $0.value.isScalar || $0.value.isScalarArray }
        }
    }

    private var isScalar: Bool {
        switch self {
        case .null, .text, .number, .boolean: true
        case .array, .object: false
        }
    }

    private var isScalarArray: Bool {
        if case .array(let elements) = self { elements.allSatisfy(\.isScalar) } else { false }
    }

    /// The value as JSON in one line.
    package var oneLineJSON: String {
        switch self {
        case .null: "null"
        case .text(let text): Self.quoted(text)
        case .number(let number): String(number)
        case .boolean(let value): value ? "true" : "false"
        case .array(let elements): "[" + elements.map(\.oneLineJSON).joined(separator: ", ") + "]"
        case .object(let members):
            "{" + members.map { "\(Self.quoted($0.name)): \($0.value.oneLineJSON)" }.joined(separator: ", ") + "}"
        }
    }

    static func quoted(_ text: String) -> String {
        var result = "\""
        for character in text.unicodeScalars {
            switch character {
            case "\"", "\\": result += "\\" + String(character)
            case "\n": result += "\\n"
            case _ where character.value < 0x20:
                result += character.value < 0x10 ? "\\u000" : "\\u00"
                result += String(character.value, radix: 16)
            default: result.unicodeScalars.append(character)
            }
        }
        return result + "\""
    }
}
