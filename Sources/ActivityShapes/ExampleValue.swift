/// A JSON value from which the library decodes one of the app's types, to learn the type's shape.
enum ExampleValue: Codable, Sendable {
    case null
    case bool(Bool)
    case number(Double)
    case string(String)
    case array([ExampleValue])
    case object([String: ExampleValue])

    init(from decoder: any Decoder) throws {
        let container = try decoder.singleValueContainer()
        if container.decodeNil() {
            self = .null
        } else if let bool = try? container.decode(Bool.self) {
            self = .bool(bool)
        } else if let number = try? container.decode(Double.self) {
            self = .number(number)
        } else if let string = try? container.decode(String.self) {
            self = .string(string)
        } else if let array = try? container.decode([ExampleValue].self) {
            self = .array(array)
        } else {
            self = .object(try container.decode([String: ExampleValue].self))
        }
    }

    func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        switch self {
        case .null: try container.encodeNil()
        case .bool(let bool): try container.encode(bool)
        case .number(let number): try container.encode(number)
        case .string(let string): try container.encode(string)
        case .array(let array): try container.encode(array)
        case .object(let object): try container.encode(object)
        }
    }

    subscript(key: String) -> ExampleValue? {
        if case .object(let members) = self { members[key] } else { nil }
    }

    var elements: [ExampleValue] {
        if case .array(let elements) = self { elements } else { [] }
    }

    var isNull: Bool { if case .null = self { true } else { false } }
}
