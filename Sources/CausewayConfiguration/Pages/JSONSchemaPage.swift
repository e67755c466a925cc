/// Writes the JSON Schema (2020-12) of the file, for editors, or of the chart's `config`, for Helm.
///
/// It refuses most of what the worker refuses. It accepts what the worker accepts, with two exceptions: a file without the
/// required keys that environment variables set, and rare spellings such as a number without quotes as a team id.
struct JSONSchemaPage {
    /// Whether the schema is a part of the chart's. The chart sets the files of mounted Secrets itself, so no file is
    /// required. It has other defaults for a few keys, so the schema has none.
    let isForChart: Bool

    /// The schema of the whole file.
    static func file(_ section: PageSection) -> JSONNode {
        let head: [(name: String, value: JSONNode)] = [
            ("$schema", "https://json-schema.org/draft/2020-12/schema"),
            ("title", "Causeway's configuration"),
        ]
        return .object(head + JSONSchemaPage(isForChart: false).members(of: section))
    }

    /// The part of the chart's schema for `config`.
    static func chart(_ section: PageSection) -> JSONNode {
        let description = "The program's configuration: the keys of Config/causeway.yaml. CONFIG.md lists them."
        return .object(
            JSONSchemaPage(isForChart: true).members(of: section) + [("description", .text(description))]
        )
    }

    private func isRequired(_ member: PageSection.Member) -> Bool {
        switch member {
        case .key(let key): key.isRequired && !(isForChart && key.isFile)
        case .section(let section): section.named.map(isRequired) ?? section.members.contains { isRequired($0.member) }
        }
    }

    /// Whether at least one member must be given.
    private func isRequired(_ section: NamedSection) -> Bool {
        section.members.lowerBound > section.standardMembers.count
    }

    private func members(of section: PageSection) -> [(name: String, value: JSONNode)] {
        let required = section.members.filter { isRequired($0.member) }.map { JSONNode.text($0.name) }
        var members: [(name: String, value: JSONNode)] = [
            ("type", required.isEmpty ? ["object", "null"] : "object"),
            ("additionalProperties", false),
            ("properties", .object(section.members.map { ($0.name, value(of: $0.member)) })),
        ]
        if !required.isEmpty { members.append(("required", .list(required))) }
        return members
    }

    private func value(of member: PageSection.Member) -> JSONNode {
        switch member {
        case .key(let key):
            return schema(of: key)
        case .section(let section):
            let description = section.meaning.map { [("description", JSONNode.text($0.onOneLine))] } ?? []
            return .object((section.named.map { named($0, section) } ?? members(of: section)) + description)
        }
    }

    /// A section whose members the operator names.
    private func named(_ named: NamedSection, _ section: PageSection) -> [(name: String, value: JSONNode)] {
        let isRequired = isRequired(named)
        var members: [(name: String, value: JSONNode)] = [("type", isRequired ? "object" : ["object", "null"])]
        if let pattern = named.nameRule.pattern {
            let each = section.members.map { (name: pattern, value: value(of: $0.member)) }
            members += [("patternProperties", .object(each)), ("additionalProperties", false)]
        }
        if isRequired { members.append(("minProperties", .number(named.members.lowerBound))) }
        return members + [("maxProperties", .number(named.members.upperBound))]
    }

    private func schema(of key: KeyDescription) -> JSONNode {
        var members = form(of: key)
        if let pattern = key.pattern, key.shape == .text { members.append(("pattern", .text(pattern))) }
        if !isForChart, case .value(let value) = key.standard { members.append(("default", Self.node(value))) }
        let standard = key.standardText.map { "Default \($0)." } ?? "Required."
        members.append(("description", .text("\(key.explanation) \(standard)")))
        return .object(members)
    }

    private func form(of key: KeyDescription) -> [(name: String, value: JSONNode)] {
        switch key.shape {
        case .integer(let range):
            [
                ("type", ["integer", "null"]), ("minimum", .number(range.lowerBound)),
                ("maximum", .number(range.upperBound)),
            ]
        case .choice(let choices):
            [("enum", .list(choices.map { .text($0) } + [.null]))]
        case .choices(let choices):
            [
                ("type", ["array", "null"]),
                ("items", ["type": "string", "enum": .list(choices.map { .text($0) })]),
                ("minItems", 1), ("uniqueItems", true),
            ]
        case .texts:
            [
                ("type", ["array", "null"]), ("items", ["type": "string", "minLength": 1]), ("uniqueItems", true),
            ]
        case .properties:
            [
                ("type", ["object", "null"]),
                ("additionalProperties", ["type": ["string", "number", "boolean"]]),
            ]
        case .text where key.isRequired:
            [("type", "string"), ("minLength", 1)]
        case .text:
            [("type", ["string", "null"])]
        }
    }

    private static func node(_ value: KeyValue) -> JSONNode {
        switch value {
        case .text(let text): .text(text)
        case .integer(let number): .number(number)
        case .choices(let texts), .texts(let texts): .list(texts.map { .text($0) })
        case .properties(let properties): .object(properties.map { ($0.name, .text($0.value)) })
        }
    }
}
