import Documents
import LiveActivity

/// Which values a field may have. The JSON Schemas and the pages about records are written from this type.
package indirect enum FieldType: Sendable {
    /// A string that is not empty and has no control character.
    case nonEmptyText(bytesMax: Int)
    /// Any string.
    case text
    /// The name of a policy of the configuration.
    case policyName
    case token
    case channelIdentifier
    /// A UUID in its canonical form.
    case uuid
    case choice([String])
    case integer(ClosedRange<UInt64>)
    case integerChoice([UInt64])
    case number
    case boolean
    case array(of: FieldType, elementsMax: Int?)
    /// Two integers, 0 to 255: the first and the last segment of a range.
    case segmentRange
    case object(RecordShape)
    /// An object that only the app interprets.
    case appObject
    case either([FieldType])
}

extension FieldType {
    /// Seconds since 1970 with ten digits.
    static let unixSeconds = integer(UInt64(Limits.timestampMin)...UInt64(Limits.timestampMax))
    /// Milliseconds since 1970 with 13 digits.
    static let unixMilliseconds = integer(
        UInt64(Limits.timestampMin) * 1_000...UInt64(Limits.timestampMax) * 1_000 + 999
    )
    static let count = integer(0...UInt64(Int64.max))
    static let sequence = integer(0...UInt64.max)
    static let identifier = nonEmptyText(bytesMax: Limits.identifierBytesMax)
    static let environment = choice(APNsEnvironment.allCases.map(\.name.description))

    /// The type in words, for tables.
    var typeInWords: String {
        switch self {
        case .nonEmptyText(let bytesMax): "string, 1 to \(Self.withThousandsSeparator(UInt64(bytesMax))) bytes"
        case .text: "string"
        case .policyName: "string, 1 to \(Limits.policyNameBytesMax) of `A-Z a-z 0-9 - _`"
        case .token:
            "string, an even number of hexadecimal digits, \(Limits.tokenDigitsMin) to \(Limits.tokenDigitsMax)"
        case .channelIdentifier: "string, base64, 4 to \(ChannelIdentifier.bytesMax) characters"
        case .uuid: "string, a UUID"
        case .choice(let names): names.map { "`\"\($0)\"`" }.joined(separator: ", ")
        case .integer(let range) where range == Self.range(of: .unixSeconds): "integer, UNIX seconds, 10 digits"
        case .integer(let range) where range == Self.range(of: .unixMilliseconds):
            "integer, UNIX milliseconds, 13 digits"
        case .integer(let range) where range.upperBound == UInt64(Int64.max): "integer"
        case .integer(let range): "integer, \(range.lowerBound) to \(Self.withThousandsSeparator(range.upperBound))"
        case .integerChoice(let values): values.map { "`\($0)`" }.joined(separator: " or ")
        case .number: "number"
        case .boolean: "boolean"
        case .array(let element, let elementsMax):
            "array of " + (elementsMax.map { "at most \($0) " } ?? "")
                + element.typeInWords.replacing("string", with: "strings", maxReplacements: 1)
        case .segmentRange: "array of two integers, 0 to 255"
        case .object(let shape): shape.typeInWords ?? "object"
        case .appObject: "object"
        case .either(let types): types.map(\.typeInWords).joined(separator: "; or ")
        }
    }

    private static func range(of type: FieldType) -> ClosedRange<UInt64>? {
        if case .integer(let range) = type { range } else { nil }
    }

    private static func withThousandsSeparator(_ number: UInt64) -> String {
        let digits = String(number)
        guard digits.count <= 6, digits.count > 3 else { return digits }
        return digits.dropLast(3) + "," + digits.suffix(3)
    }
}

extension FieldType {
    /// Returns the type as a JSON Schema (draft 7).
    func schema(_ description: DescriptionSource) -> DocumentValue {
        switch self {
        case .nonEmptyText(let bytesMax): Self.stringSchema(1, bytesMax)
        case .text: ["type": "string"]
        case .policyName: Self.stringSchema(1, Limits.policyNameBytesMax, pattern: "^[A-Za-z0-9_-]+$")
        case .token:
            Self.stringSchema(Limits.tokenDigitsMin, Limits.tokenDigitsMax, pattern: "^([0-9A-Fa-f]{2})+$")
        case .channelIdentifier:
            // Base64, as the worker's decoder reads it: groups of four characters, with at most two `=` as padding at
            // the end.
            Self.stringSchema(
                4,
                ChannelIdentifier.bytesMax,
                pattern: "^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{4})$"
            )
        case .uuid: ["type": "string", "pattern": "^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$"]
        case .choice(let names): ["enum": .texts(names)]
        case .integer(let range):
            ["type": "integer", "minimum": .number(range.lowerBound), "maximum": .number(range.upperBound)]
        case .integerChoice(let values): ["enum": .numbers(values)]
        case .number: ["type": "number"]
        case .boolean: ["type": "boolean"]
        case .array(let element, let elementsMax):
            .object(
                [.init("type", "array"), .init("items", element.schema(description))]
                    + (elementsMax.map { [.init("maxItems", .number(UInt64($0)))] } ?? [])
            )
        case .segmentRange:
            [
                "type": "array", "items": FieldType.integer(0...255).schema(description), "minItems": 2, "maxItems": 2,
            ]
        case .object(let shape): shape.schema(description)
        case .appObject: ["type": "object"]
        case .either(let types): ["anyOf": .array(types.map { $0.schema(description) })]
        }
    }

    /// Returns the schema of a string without control characters. The keyword `not` is needed even beside a pattern: in
    /// several libraries, `$` also matches before a line feed at the end of the string.
    private static func stringSchema(_ bytesMin: Int, _ bytesMax: Int, pattern: String? = nil) -> DocumentValue {
        .object(
            [
                .init("type", "string"), .init("minLength", .number(UInt64(bytesMin))),
                .init("maxLength", .number(UInt64(bytesMax))),
            ] + (pattern.map { [.init("pattern", .text($0))] } ?? [])
                + [.init("not", ["$ref": "#/definitions/controlCharacter"])]
        )
    }

    /// The schema of a string that has a control character (Unicode's category Cc). The schemas of strings without
    /// control characters have it in the keyword `not`.
    static let controlCharacter: DocumentValue = ["pattern": "[\\x00-\\x1f\\x7f-\\x9f]"]
}
