import Documents

/// Writes the JSON Schema (2020-12) of the file, for editors, or of the chart's `config`, for Helm.
///
/// The schema is not exactly as strict as the worker. It accepts some files that the worker refuses. It refuses files
/// whose required keys come from environment variables, and rare spellings, such as a team id that is a number without
/// quotes.
struct JSONSchemaPage {
    /// Whether the schema is for the chart's `config`, not for a configuration file. The chart's schema does not
    /// require keys that name files, because the chart sets the files of mounted Secrets. It has no defaults, because
    /// the chart changes some of them.
    let isForChart: Bool

    /// Returns the schema of the whole file.
    static func fileSchema(of section: ConfigurationSection) -> DocumentValue {
        let head: [DocumentValue.Member] = [
            .init("$schema", "https://json-schema.org/draft/2020-12/schema"),
            .init("title", "Causeway's configuration"),
        ]
        return .object(head + JSONSchemaPage(isForChart: false).members(of: section))
    }

    /// Returns the schema of the chart value `config`, which is a part of the chart's schema.
    static func chartSchema(of section: ConfigurationSection) -> DocumentValue {
        let description = "The program's configuration: the keys of Config/causeway.yaml. CONFIG.md lists them."
        return .object(
            JSONSchemaPage(isForChart: true).members(of: section) + [.init("description", .text(description))]
        )
    }

    private func isRequired(_ member: ConfigurationSection.Member) -> Bool {
        switch member {
        case .key(let key): key.isRequired && !(isForChart && key.isFilePath)
        case .section(let section):
            section.namedSection.map(isRequired) ?? section.members.contains { isRequired($0.member) }
        }
    }

    /// Whether the file must name at least one entry of this section. True for `apps`. False for `policies`, because
    /// the policy `default` always exists.
    private func isRequired(_ section: NamedSection) -> Bool {
        section.entryCountRange.lowerBound > section.predefinedNames.count
    }

    private func members(of section: ConfigurationSection) -> [DocumentValue.Member] {
        let required = section.members.filter { isRequired($0.member) }.map { DocumentValue.text($0.name) }
        var members: [DocumentValue.Member] = [
            .init("type", required.isEmpty ? ["object", "null"] : "object"),
            .init("additionalProperties", false),
            .init("properties", .object(section.members.map { .init($0.name, schema(of: $0.member)) })),
        ]
        if !required.isEmpty { members.append(.init("required", .array(required))) }
        return members
    }

    private func schema(of member: ConfigurationSection.Member) -> DocumentValue {
        switch member {
        case .key(let key):
            return schema(of: key)
        case .section(let section):
            let description = section.meaning.map { [DocumentValue.Member("description", .text($0.onOneLine))] } ?? []
            return .object(
                (section.namedSection.map { members(of: $0, section) } ?? members(of: section)) + description
            )
        }
    }

    /// Returns the schema of a section with entries that the operator names: `apps` or `policies`.
    private func members(of namedSection: NamedSection, _ section: ConfigurationSection) -> [DocumentValue.Member] {
        let isRequired = isRequired(namedSection)
        var members: [DocumentValue.Member] = [.init("type", isRequired ? "object" : ["object", "null"])]
        if let pattern = namedSection.nameRule.pattern {
            let memberPatterns = section.members.map { DocumentValue.Member(pattern, schema(of: $0.member)) }
            members += [.init("patternProperties", .object(memberPatterns)), .init("additionalProperties", false)]
        }
        if isRequired {
            members.append(.init("minProperties", .number(UInt64(namedSection.entryCountRange.lowerBound))))
        }
        return members + [.init("maxProperties", .number(UInt64(namedSection.entryCountRange.upperBound)))]
    }

    private func schema(of key: KeyDescription) -> DocumentValue {
        var members = typeMembers(of: key)
        if let pattern = key.pattern, key.valueKind == .text { members.append(.init("pattern", .text(pattern))) }
        if !isForChart, case .value(let value) = key.defaultValue {
            members.append(.init("default", Self.documentValue(value)))
        }
        let defaultSentence = key.defaultText.map { "Default: \($0)." } ?? "Required."
        members.append(.init("description", .text("\(key.explanation) \(defaultSentence)")))
        return .object(members)
    }

    private func typeMembers(of key: KeyDescription) -> [DocumentValue.Member] {
        switch key.valueKind {
        case .integer(let range):
            [
                .init("type", "integer"), .init("minimum", .number(UInt64(range.lowerBound))),
                .init("maximum", .number(UInt64(range.upperBound))),
            ]
        case .choice(let choices):
            [.init("enum", .array(choices.map { .text($0) } + [.null]))]
        case .choices(let choices):
            [
                .init("type", "array"),
                .init("items", ["type": "string", "enum": .array(choices.map { .text($0) })]),
                .init("minItems", 1), .init("uniqueItems", true),
            ]
        case .texts:
            [
                .init("type", "array"), .init("items", ["type": "string", "minLength": 1]),
                .init("uniqueItems", true),
            ]
        case .properties:
            [
                .init("type", ["object", "null"]),
                .init("additionalProperties", ["type": ["string", "number", "boolean"]]),
            ]
        case .text where key.isRequired:
            [.init("type", "string"), .init("minLength", 1)]
        case .text:
            [.init("type", ["string", "null"])]
        }
    }

    private static func documentValue(_ value: ConfigurationValue) -> DocumentValue {
        switch value {
        case .text(let text): .text(text)
        case .integer(let number): .number(UInt64(number))
        case .choices(let texts), .texts(let texts): .array(texts.map { .text($0) })
        case .properties(let properties): .object(properties.map { .init($0.name, .text($0.value)) })
        }
    }
}
