import Foundation

/// Any JSON value: a whole record, or a part of a record whose format only the app knows. Two strings are equal only if
/// their bytes are equal.
public enum JSONValue: Sendable {
    case null
    case boolean(Bool)
    case integer(Int64)
    /// An integer above `Int64.max`.
    case unsigned(UInt64)
    case number(Double)
    /// A number as text, if `integer`, `unsigned` and `number` would not write the same digits: `1.0`, `1e5`, or an
    /// integer of more than 64 bits.
    case numeral(String)
    case string(String)
    case array([JSONValue])
    case object(JSONObject)

    public static func object(_ members: [String: JSONValue]) -> JSONValue { .object(JSONObject(members)) }

    /// Encodes a value for ActivityKit, with the default strategies of `JSONEncoder`. A `Date` becomes seconds since
    /// 2001.
    ///
    /// - Throws: an error of `value`, an `EncodingError` if a number cannot be written in JSON, for example infinity,
    ///   or a ``RecordFault`` for more than 128 nested objects and arrays.
    public init(encoding value: some Encodable) throws {
        if let value = value as? JSONValue {
            self = value
            return
        }
        self = try JSONValue(text: JSONEncoder().encode(value))
    }

    /// Decodes the value as ActivityKit does: by a `JSONDecoder` with default strategies.
    public func decoded<Value: Decodable>(as type: Value.Type) throws -> Value {
        if let value = self as? Value { return value }
        return try JSONDecoder().decode(type, from: text())
    }

    /// The number as a `Double`, rounded if necessary; nil if the value is no number.
    public var double: Double? {
        switch self {
        case .integer(let value): Double(value)
        case .unsigned(let value): Double(value)
        case .number(let value): value
        case .numeral(let digits): Double(digits)
        case .null, .boolean, .string, .array, .object: nil
        }
    }
}

extension JSONValue: Hashable {
    public static func == (left: JSONValue, right: JSONValue) -> Bool {
        switch (left, right) {
        case (.null, .null): true
        case (.boolean(let left), .boolean(let right)): left == right
        case (.integer(let left), .integer(let right)): left == right
        case (.unsigned(let left), .unsigned(let right)): left == right
        case (.number(let left), .number(let right)): left == right
        case (.numeral(let left), .numeral(let right)): left == right
        case (.string(let left), .string(let right)): left.utf8.elementsEqual(right.utf8)
        case (.array(let left), .array(let right)): left == right
        case (.object(let left), .object(let right)): left == right
        default: false
        }
    }

    public func hash(into hasher: inout Hasher) {
        switch self {
        case .null: hasher.combine(0)
        case .boolean(let value): hasher.combine(value)
        case .integer(let value): hasher.combine(value)
        case .unsigned(let value): hasher.combine(value)
        case .number(let value): hasher.combine(value)
        case .numeral(let digits): hasher.combine(digits)
        case .string(let text): hasher.combine(bytesOf: text)
        case .array(let elements): hasher.combine(elements)
        case .object(let members): hasher.combine(members)
        }
    }
}

/// Works with any decoder and encoder. But some of them round numbers, and if several keys are equivalent in Unicode,
/// only one of them is kept. ``init(text:)`` and ``text()`` keep all digits and all keys.
extension JSONValue: Codable {
    public init(from decoder: any Decoder) throws {
        let container = try decoder.singleValueContainer()
        if container.decodeNil() {
            self = .null
        } else if let value = try? container.decode(Bool.self) {
            self = .boolean(value)
        } else if let value = try? container.decode(Int64.self) {
            self = .integer(value)
        } else if let value = try? container.decode(UInt64.self) {
            self = .unsigned(value)
        } else if let value = try? container.decode(Double.self) {
            self = .number(value)
        } else if let value = try? container.decode(String.self) {
            self = .string(value)
        } else if let value = try? container.decode([JSONValue].self) {
            self = .array(value)
        } else {
            self = .object(JSONObject(try container.decode([String: JSONValue].self)))
        }
    }

    public func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        switch self {
        case .null: try container.encodeNil()
        case .boolean(let value): try container.encode(value)
        case .integer(let value): try container.encode(value)
        case .unsigned(let value): try container.encode(value)
        case .number(let value): try container.encode(value)
        case .numeral(let digits):
            guard let value = Decimal(string: digits) else {
                let context = EncodingError.Context(
                    codingPath: container.codingPath,
                    debugDescription: "the encoder has no such number"
                )
                throw EncodingError.invalidValue(digits, context)
            }
            try container.encode(value)
        case .string(let value): try container.encode(value)
        case .array(let value): try container.encode(value)
        case .object(let members):
            // Encodes a dictionary, because an encoder's key strategy does not change a dictionary's keys.
            try container.encode(members.dictionary)
        }
    }
}

extension JSONValue: ExpressibleByStringLiteral, ExpressibleByIntegerLiteral, ExpressibleByFloatLiteral,
    ExpressibleByBooleanLiteral, ExpressibleByArrayLiteral, ExpressibleByDictionaryLiteral
{
    public init(stringLiteral value: String) { self = .string(value) }
    public init(integerLiteral value: Int64) { self = .integer(value) }
    public init(floatLiteral value: Double) { self = .number(value) }
    public init(booleanLiteral value: Bool) { self = .boolean(value) }
    public init(arrayLiteral elements: JSONValue...) { self = .array(elements) }
    public init(dictionaryLiteral elements: (String, JSONValue)...) {
        var members = JSONObject()
        for (key, value) in elements { members[key] = value }
        self = .object(members)
    }
}
