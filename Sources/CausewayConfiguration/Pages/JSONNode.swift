/// A JSON value whose objects keep the order of their members.
indirect enum JSONNode: Sendable {
    case null
    case boolean(Bool)
    case number(Int)
    case text(String)
    case list([JSONNode])
    case object([(name: String, value: JSONNode)])

    /// The value over several lines, each level indented by two spaces, as Python's `json.dumps(value, indent=2)` writes it.
    func text(indentation: String = "") -> String {
        let inner = indentation + "  "
        func block(_ open: String, _ lines: [String], _ close: String) -> String {
            guard !lines.isEmpty else { return open + close }
            return "\(open)\n" + lines.map { inner + $0 }.joined(separator: ",\n") + "\n\(indentation)\(close)"
        }
        return switch self {
        case .null: "null"
        case .boolean(let value): "\(value)"
        case .number(let number): "\(number)"
        case .text(let text): Self.quoted(text)
        case .list(let values): block("[", values.map { $0.text(indentation: inner) }, "]")
        case .object(let members):
            block("{", members.map { "\(Self.quoted($0.name)): \($0.value.text(indentation: inner))" }, "}")
        }
    }

    private static func quoted(_ text: String) -> String {
        var result = "\""
        for scalar in text.unicodeScalars {
            switch scalar {
            case "\"": result += "\\\""
            case "\\": result += "\\\\"
            case "\n": result += "\\n"
            case _ where scalar.value < 0x20:
                result += "\\u00" + (scalar.value < 0x10 ? "0" : "") + String(scalar.value, radix: 16)
            default: result.unicodeScalars.append(scalar)
            }
        }
        return result + "\""
    }
}

extension JSONNode: ExpressibleByStringLiteral, ExpressibleByStringInterpolation, ExpressibleByIntegerLiteral,
    ExpressibleByBooleanLiteral, ExpressibleByArrayLiteral, ExpressibleByDictionaryLiteral
{
    init(stringLiteral value: String) { self = .text(value) }
    init(integerLiteral value: Int) { self = .number(value) }
    init(booleanLiteral value: Bool) { self = .boolean(value) }
    init(arrayLiteral elements: JSONNode...) { self = .list(elements) }
    init(dictionaryLiteral elements: (String, JSONNode)...) { self = .object(elements.map { ($0, $1) }) }
}
