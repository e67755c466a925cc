/// The form of the JSON value from which a Swift value is decoded.
///
/// In a file of shapes, such a form is for example `"int"`, `"string?"`, `{"array": "date"}`, `{"enum": ["a", "b"]}` or
/// `{"object": {…}}`.
public indirect enum FieldShape: Equatable, Sendable {
    /// A value whose kind a file of shapes names with one word: `string`, `int`, `date` and others.
    case scalar(String)
    /// An enum whose raw values are these strings.
    case texts([String])
    /// An enum whose raw values are these integers.
    case numbers([Int64])
    case array(FieldShape)
    /// A dictionary with `String` keys.
    case dictionary(FieldShape)
    case object([String: FieldShape])
    case optional(FieldShape)

    /// A shape that allows any value, null, and a missing value: the shape of a type whose decoding the recorder cannot
    /// describe.
    public static let any = FieldShape.scalar("any")

    var isOptional: Bool { if case .optional = self { true } else { false } }

    /// A shape that allows the same values, and also null and a missing value.
    var asOptional: FieldShape { isOptional || self == .any ? self : .optional(self) }

    /// Returns a shape that allows all values of both shapes. Shapes that cannot be merged give `any`: for example,
    /// `int` and `double`, two different enums, or an array and an object.
    func merged(with other: FieldShape) -> FieldShape {
        if self == other { return self }
        switch (self, other) {
        case (.optional(let inner), let other), (let other, .optional(let inner)):
            if case .optional(let outer) = other { return inner.merged(with: outer).asOptional }
            return inner.merged(with: other).asOptional
        case (.array(let first), .array(let second)): return .array(first.merged(with: second))
        case (.dictionary(let first), .dictionary(let second)): return .dictionary(first.merged(with: second))
        case (.object(let first), .object(let second)):
            // If the type decoded a field in only one of the two examples, the recorder does not know why. So the field
            // becomes optional.
            return .object(
                first.merging(second) { $0.merged(with: $1) }
                    .mapValuesWithKeys { key, shape in
                        first[key] != nil && second[key] != nil ? shape : shape.asOptional
                    }
            )
        default: return .any
        }
    }
}

extension [String: FieldShape] {
    fileprivate func mapValuesWithKeys(_ change: (String, FieldShape) -> FieldShape) -> [String: FieldShape] {
        reduce(into: [:]) { $0[$1.key] = change($1.key, $1.value) }
    }
}

/// The text of a shape: indented by two spaces and with sorted keys, so that equal shapes have equal texts.
extension FieldShape {
    func text(indentation: Int) -> String {
        switch self {
        case .scalar(let name): return Self.quoted(name)
        case .texts(let rawValues): return "{\"enum\": [\(rawValues.map(Self.quoted).joined(separator: ", "))]}"
        case .numbers(let rawValues): return "{\"enum\": [\(rawValues.map { "\($0)" }.joined(separator: ", "))]}"
        case .array(let element): return "{\"array\": \(element.text(indentation: indentation))}"
        case .dictionary(let element): return "{\"dictionary\": \(element.text(indentation: indentation))}"
        case .object(let fields): return "{\"object\": \(Self.text(of: fields, indentation: indentation))}"
        case .optional(.scalar(let name)): return Self.quoted(name + "?")
        case .optional(let inner): return "{\"optional\": \(inner.text(indentation: indentation))}"
        }
    }

    /// Returns the text of a whole type: its fields without `{"object": …}` around them; `"any"` for a shape that is no
    /// object.
    func rootText(indentation: Int) -> String {
        guard case .object(let fields) = self else { return Self.quoted("any") }
        return Self.text(of: fields, indentation: indentation)
    }

    private static func text(of fields: [String: FieldShape], indentation: Int) -> String {
        guard !fields.isEmpty else { return "{}" }
        let margin = String(repeating: " ", count: indentation)
        let lines = fields.sorted { $0.key.utf8.lexicographicallyPrecedes($1.key.utf8) }
            .map { "\(margin)  \(quoted($0.key)): \($0.value.text(indentation: indentation + 2))" }
        return "{\n\(lines.joined(separator: ",\n"))\n\(margin)}"
    }

    static func quoted(_ text: String) -> String {
        var result = "\""
        for scalar in text.unicodeScalars {
            switch scalar {
            case "\"": result += "\\\""
            case "\\": result += "\\\\"
            case _ where scalar.value < 0x20:
                let digits = String(scalar.value, radix: 16)
                result += "\\u" + String(repeating: "0", count: 4 - digits.count) + digits
            default: result.unicodeScalars.append(scalar)
            }
        }
        return result + "\""
    }
}
