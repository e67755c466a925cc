import Foundation

/// Finds the faults of a record by a JSON Schema. Knows only the keywords that the generated schemas use. The library
/// has a validator of its own, because it has no dependencies.
struct RecordSchema: Sendable {
    private let root: JSONValue

    init(_ root: JSONValue) { self.root = root }

    func findFaults(of record: JSONValue) -> [RecordFault] { findFaults(record, root, "") }

    private func accepts(_ value: JSONValue, _ schema: JSONValue) -> Bool { findFaults(value, schema, "").isEmpty }

    private func findFaults(_ value: JSONValue, _ schema: JSONValue, _ path: String) -> [RecordFault] {
        guard case .object(let keywords) = schema else {
            return schema == .boolean(false) ? [RecordFault(path, "not allowed")] : []
        }
        if let branch = findObjectBranch(of: keywords, for: value) { return findFaults(value, branch, path) }
        guard keywords.allSatisfy({ satisfies(value, $0.key, $0.value) }) else {
            return [RecordFault(path, keywords["description"]?.asText.map { "expected \($0)" } ?? "not allowed")]
        }
        return findBranchFaults(value, keywords, path) + findObjectFaults(value, keywords, path)
            + findArrayFaults(value, keywords, path)
    }

    /// Returns the branch of `anyOf` that is for objects; nil if the value is no object or there is no such branch. The
    /// faults of this branch name the faulty fields, but a fault of `anyOf` would only say that no branch accepts the
    /// value.
    private func findObjectBranch(of schema: JSONObject, for value: JSONValue) -> JSONValue? {
        guard value.hasType("object") else { return nil }
        return schema["anyOf"]?.arrayOrEmpty.first { $0.objectOrEmpty["type"] == "object" }
    }

    /// Returns the faults found by the keywords that apply another schema to the same value: `allOf`, `if` and `$ref`.
    private func findBranchFaults(_ value: JSONValue, _ schema: JSONObject, _ path: String) -> [RecordFault] {
        var allFaults = (schema["allOf"]?.arrayOrEmpty ?? [])
            .flatMap { rule in
                // Each element of `allOf` is a rule. Its `description` is the message of the fault, whichever part of
                // the rule the value breaks.
                let message = rule.objectOrEmpty["description"]?.asText ?? ""
                return findFaults(value, rule, path).prefix(1).map { RecordFault($0.field, message) }
            }
        if let condition = schema["if"], let branch = schema[accepts(value, condition) ? "then" : "else"] {
            allFaults += findFaults(value, branch, path)
        }
        if let reference = schema["$ref"]?.asText { allFaults += findFaults(value, findDefinition(reference), path) }
        return allFaults
    }

    private func findDefinition(_ reference: String) -> JSONValue {
        reference.split(separator: "/").dropFirst().reduce(root) { $0.objectOrEmpty[String($1)] ?? .boolean(false) }
    }

    private func findObjectFaults(_ value: JSONValue, _ schema: JSONObject, _ path: String) -> [RecordFault] {
        guard case .object(let members) = value else { return [] }
        let prefix = path.isEmpty ? "" : path + "."
        let properties = schema["properties"]?.objectOrEmpty ?? [:]
        let dependencies = (schema["dependencies"]?.objectOrEmpty ?? [:]).filter { members[$0.key] != nil }
            .map { $0.value }
        let requiredKeys = ([schema["required"]] + dependencies).flatMap { $0?.arrayOrEmpty ?? [] }.compactMap(\.asText)
        var allFaults = requiredKeys.filter { members[$0] == nil }.map { RecordFault(prefix + $0, "missing") }
        for (name, member) in members.sortedMembers {
            if let property = properties[name] {
                allFaults += findFaults(member, property, prefix + name)
            } else if schema["additionalProperties"] == .boolean(false) {
                allFaults.append(RecordFault(prefix + name, "unknown key"))
            }
        }
        if let unknownKeysMax = schema["unknownKeysMax"]?.asWholeNumber,
            members.keys.count(where: { properties[$0] == nil }) > unknownKeysMax
        {
            allFaults.append(RecordFault(path, "more than \(unknownKeysMax) unknown keys"))
        }
        return allFaults
    }

    private func findArrayFaults(_ value: JSONValue, _ schema: JSONObject, _ path: String) -> [RecordFault] {
        guard case .array(let elements) = value, let schema = schema["items"] else { return [] }
        return elements.contains { !accepts($0, schema) }
            ? [RecordFault(path, "has an element that is not allowed")] : []
    }

    /// Whether the value satisfies a keyword. True if the keyword is for values of another type, or if another function
    /// checks it.
    private func satisfies(_ value: JSONValue, _ keyword: String, _ argument: JSONValue) -> Bool {
        switch (keyword, value) {
        case ("type", _): value.hasType(argument.asText ?? "")
        case ("const", _): value == argument
        case ("enum", _): argument.arrayOrEmpty.contains(value)
        case ("not", _): !accepts(value, argument)
        case ("anyOf", _): argument.arrayOrEmpty.contains { accepts(value, $0) }
        case ("minimum", .integer), ("minimum", .unsigned):
            value.asWholeNumber.map { $0 >= argument.asWholeNumber ?? 0 } ?? false
        case ("maximum", .integer), ("maximum", .unsigned):
            value.asWholeNumber.map { $0 <= argument.asWholeNumber ?? 0 } ?? true
        // The worker limits bytes, not characters as JSON Schema does.
        case ("minLength", .string(let text)): text.utf8.count >= argument.asWholeNumber ?? 0
        case ("maxLength", .string(let text)): text.utf8.count <= argument.asWholeNumber ?? 0
        case ("pattern", .string(let text)):
            text.range(of: argument.asText ?? "", options: .regularExpression) != nil
        case ("minItems", .array(let elements)): elements.count >= argument.asWholeNumber ?? 0
        case ("maxItems", .array(let elements)): elements.count <= argument.asWholeNumber ?? 0
        default: true
        }
    }
}

extension JSONValue {
    fileprivate var asText: String? {
        if case .string(let text) = self { text } else { nil }
    }

    fileprivate var arrayOrEmpty: [JSONValue] {
        if case .array(let elements) = self { elements } else { [] }
    }

    fileprivate var objectOrEmpty: JSONObject {
        if case .object(let members) = self { members } else { [:] }
    }

    /// The value if it is an integer and not negative; else nil.
    fileprivate var asWholeNumber: UInt64? {
        switch self {
        case .integer(let value): UInt64(exactly: value)
        case .unsigned(let value): value
        case .null, .boolean, .number, .numeral, .string, .array, .object: nil
        }
    }

    fileprivate func hasType(_ name: String) -> Bool {
        switch self {
        case .null: name == "null"
        case .boolean: name == "boolean"
        case .integer, .unsigned: name == "integer" || name == "number"
        case .number, .numeral: name == "number"
        case .string: name == "string"
        case .array: name == "array"
        case .object: name == "object"
        }
    }
}
