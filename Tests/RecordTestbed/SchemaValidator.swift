import Documents
import Foundation

@testable import RecordReference

/// Checks a value against a JSON Schema. It knows the keywords of draft 7 that the generated schemas use. An unknown
/// keyword fails the test, so that no rule is ignored.
package struct SchemaValidator {
    private let rootSchema: DocumentValue
    private let patterns: [String: NSRegularExpression]

    package init(_ rootSchema: DocumentValue) throws {
        self.rootSchema = rootSchema
        var patterns: [String: NSRegularExpression] = [:]
        for text in Self.patterns(in: rootSchema) { patterns[text] = try NSRegularExpression(pattern: text) }
        self.patterns = patterns
    }

    private static func patterns(in schema: DocumentValue) -> [String] {
        switch schema {
        case .object(let members):
            members.flatMap { member -> [String] in
                if member.name == "pattern", case .text(let text) = member.value { return [text] }
                return patterns(in: member.value)
            }
        case .array(let elements): elements.flatMap { patterns(in: $0) }
        case .null, .text, .number, .boolean: []
        }
    }

    package func accepts(_ value: FoundationValue) throws -> Bool { try accepts(value, rootSchema) }

    private func accepts(_ value: FoundationValue, _ schema: DocumentValue) throws -> Bool {
        if case .boolean(let acceptsEveryValue) = schema { return acceptsEveryValue }
        let members = Dictionary(uniqueKeysWithValues: schema.members.map { ($0.name, $0.value) })
        for (keyword, argument) in members {
            guard try satisfies(value, keyword, argument, members) else { return false }
        }
        return true
    }

    private func satisfies(
        _ value: FoundationValue,
        _ keyword: String,
        _ argument: DocumentValue,
        _ schema: [String: DocumentValue]
    ) throws -> Bool {
        switch (keyword, argument) {
        case ("$schema", _), ("$comment", _), ("title", _), ("description", _), ("definitions", _): true
        case ("then", _), ("else", _): true
        case ("if", _):
            try accepts(value, argument)
                ? schema["then"].map { try accepts(value, $0) } ?? true
                : schema["else"].map { try accepts(value, $0) } ?? true
        case ("not", _): try !accepts(value, argument)
        case ("allOf", .array(let schemas)): try schemas.allSatisfy { try accepts(value, $0) }
        case ("anyOf", .array(let schemas)): try schemas.contains { try accepts(value, $0) }
        case ("oneOf", .array(let schemas)): try schemas.count { try accepts(value, $0) } == 1
        case ("$ref", .text(let path)): try accepts(value, try definition(path))
        case ("const", _): value.equals(argument)
        case ("enum", .array(let values)): values.contains { value.equals($0) }
        case ("type", .text(let name)): try value.hasType(name)
        case ("additionalProperties", .boolean(false)):
            Set((schema["properties"]?.members ?? []).map(\.name)).isSuperset(of: value.object?.keys.map { $0 } ?? [])
        default: try satisfiesBound(value, keyword, argument)
        }
    }

    private func satisfiesBound(_ value: FoundationValue, _ keyword: String, _ argument: DocumentValue) throws -> Bool {
        switch (keyword, argument, value) {
        case ("minimum", .number(let minimum), .number(let number)): number.map { $0 >= minimum } ?? false
        // `number` is nil for a number that is negative, has a fraction or is beyond UInt64. The keyword "type" refuses
        // such a number, so "maximum" accepts it.
        case ("maximum", .number(let maximum), .number(let number)): number.map { $0 <= maximum } ?? true
        case ("minLength", .number(let minimum), .string(let text)): text.unicodeScalars.count >= minimum
        case ("maxLength", .number(let maximum), .string(let text)): text.unicodeScalars.count <= maximum
        case ("pattern", .text(let pattern), .string(let text)):
            patterns[pattern]?.firstMatch(in: text, range: NSRange(text.startIndex..., in: text)) != nil
        case ("minItems", .number(let minimum), .array(let elements)): elements.count >= minimum
        case ("maxItems", .number(let maximum), .array(let elements)): elements.count <= maximum
        case ("items", _, .array(let elements)): try elements.allSatisfy { try accepts($0, argument) }
        case ("required", .array(let names), .object(let members)): names.allSatisfy { members[$0.name] != nil }
        case ("properties", .object(let properties), .object(let members)):
            try properties.allSatisfy { property in
                try members[property.name].map { try accepts($0, property.value) } ?? true
            }
        case ("dependencies", .object(let rules), .object(let members)):
            rules.allSatisfy { rule in
                members[rule.name] == nil || rule.value.elements.allSatisfy { members[$0.name] != nil }
            }
        case ("minimum", _, _), ("maximum", _, _), ("minLength", _, _), ("maxLength", _, _), ("pattern", _, _),
            ("minItems", _, _), ("maxItems", _, _), ("items", _, _), ("required", _, _), ("properties", _, _),
            ("dependencies", _, _):
            true
        default: throw UnknownKeyword(keyword: keyword)
        }
    }

    private func definition(_ path: String) throws -> DocumentValue {
        var schema = rootSchema
        for name in path.split(separator: "/").dropFirst() {
            guard let member = schema.members.first(where: { $0.name == name }) else {
                throw UnknownKeyword(keyword: path)
            }
            schema = member.value
        }
        return schema
    }

    package struct UnknownKeyword: Error { var keyword: String }
}

extension DocumentValue {
    fileprivate var elements: [DocumentValue] {
        if case .array(let elements) = self { elements } else { [] }
    }

    fileprivate var name: String {
        if case .text(let text) = self { text } else { "" }
    }
}

extension FoundationValue {
    fileprivate func equals(_ value: DocumentValue) -> Bool {
        switch (self, value) {
        case (.string(let text), .text(let other)): text == other
        case (.number(let number), .number(let other)): number == other
        case (.boolean(let isTrue), .boolean(let other)): isTrue == other
        default: false
        }
    }

    fileprivate func hasType(_ name: String) throws -> Bool {
        switch (name, self) {
        case ("object", .object), ("array", .array), ("string", .string), ("boolean", .boolean), ("number", .number):
            true
        case ("integer", .number(let number)): number != nil
        case ("object", _), ("array", _), ("string", _), ("boolean", _), ("number", _), ("integer", _): false
        default: throw SchemaValidator.UnknownKeyword(keyword: "type \(name)")
        }
    }
}
