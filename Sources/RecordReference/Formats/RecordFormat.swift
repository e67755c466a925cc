import Documents
import LiveActivity

package struct RecordField: Sendable {
    package enum Presence: Equatable, Sendable {
        case always
        case optional
        /// The field is only in some records. The text says in which records; the table's column "present" shows the
        /// text.
        case conditional(String)
    }

    package var name: String
    package var type: FieldType
    package var presence: Presence
    /// What the field means, in one or several sentences.
    package var meaning: String

    init(_ name: String, _ type: FieldType, _ presence: Presence, _ meaning: String) {
        self.name = name
        self.type = type
        self.presence = presence
        self.meaning = meaning
    }

    init(_ name: String, _ type: FieldType, _ meaning: String) { self.init(name, type, .optional, meaning) }
}

/// Which text a field's schema has as its `description`.
enum DescriptionSource {
    /// The field's meaning, for people who read the schema.
    case meaning
    /// The type in words, for the messages of the library `CausewayRecords` that say what a value must be.
    case typeInWords
}

/// A rule that combines several fields of an object.
package struct RecordRule: Sendable {
    package var text: String
    /// The keywords that the rule adds to the JSON Schema.
    package var schema: DocumentValue

    init(_ text: String, _ schema: DocumentValue) {
        self.text = text
        self.schema = schema
    }
}

/// The fields of an object, and the rules between them.
package struct RecordShape: Sendable {
    /// What becomes of members of the object that `fields` does not list.
    package enum UnlistedKeys: Sendable {
        /// A record with such a member is invalid.
        case refused
        /// The record may have members that `fields` does not list. They belong to Apple or to the app, and Causeway
        /// passes them on to APNs.
        case passedOn
        /// Readers ignore members that `fields` does not list, because a later release of Causeway may write more.
        case ignored
    }

    package var fields: [RecordField]
    package var unlistedKeys: UnlistedKeys
    package var rules: [RecordRule]
    /// Keys that make a record invalid, although other unknown keys are allowed.
    package var forbiddenKeys: [String]
    /// The object's type in words, for tables and messages; nil: "object".
    package var typeInWords: String?

    init(
        _ fields: [RecordField],
        unlistedKeys: UnlistedKeys,
        rules: [RecordRule] = [],
        forbiddenKeys: [String] = [],
        typeInWords: String? = nil
    ) {
        self.fields = fields
        self.unlistedKeys = unlistedKeys
        self.rules = rules
        self.forbiddenKeys = forbiddenKeys
        self.typeInWords = typeInWords
    }

    /// Returns the shape as a JSON Schema (draft 7).
    func schema(_ description: DescriptionSource) -> DocumentValue {
        let properties =
            fields.map { field in
                let text =
                    switch description {
                    case .meaning: field.meaning
                    case .typeInWords: field.type.typeInWords.replacing("`", with: "")
                    }
                return DocumentValue.Member(field.name, field.type.schema(description).withDescription(text))
            }
            + forbiddenKeys.map { DocumentValue.Member($0, false) }
        var members: [DocumentValue.Member] = [.init("type", "object"), .init("properties", .object(properties))]
        let required = fields.filter { $0.presence == .always }.map(\.name)
        if !required.isEmpty { members.append(.init("required", .texts(required))) }
        // JSON Schema cannot limit the number of unknown keys. So the schema for the library `CausewayRecords` has a
        // keyword of its own, `unknownKeysMax`. An object without fields belongs to the app, and has no limit.
        if unlistedKeys == .passedOn, !fields.isEmpty, description == .typeInWords {
            members.append(.init("unknownKeysMax", .number(UInt64(Limits.unknownKeysPerObjectMax))))
        }
        if unlistedKeys == .refused { members.append(.init("additionalProperties", false)) }
        if !rules.isEmpty {
            let texts = rules.map { $0.schema.withDescription($0.text) }
            members.append(.init("allOf", .array(texts)))
        }
        return .object(members)
    }

    /// Returns the path of each field, joined with dots, and whether the field is in every record.
    package func fieldPaths(_ prefix: String = "") -> [(path: String, isRequired: Bool)] {
        fields.flatMap { field -> [(path: String, isRequired: Bool)] in
            let path = prefix + field.name
            let isRequired = field.presence == .always
            return [(path, isRequired)]
                + field.type.shapes.flatMap { $0.fieldPaths(path + ".") }.map { ($0.path, $0.isRequired && isRequired) }
        }
    }
}

extension FieldType {
    /// The shapes of the objects that the value may be.
    var shapes: [RecordShape] {
        switch self {
        case .object(let shape): [shape]
        case .either(let types): types.flatMap(\.shapes)
        default: []
        }
    }
}

/// The format of the records of one topic.
package struct RecordFormat: Sendable {
    /// One kind of record of the topic.
    package struct Variant: Sendable {
        /// The name of the variant's definition in the schema.
        package var name: String
        package var title: String
        /// What the schema and the page of records say about this kind of record: when it is written, or its purpose.
        /// Empty if the topic has only one kind.
        package var introduction: String
        package var shape: RecordShape
        package var example: String
        /// More records, each with a text that says what the record shows.
        package var moreExamples: [(text: String, record: String)] = []
    }

    /// The name of the format's schema, for example `command`.
    package var name: String
    package var title: String
    /// The configuration key of the topic's name, below `kafka.topics`. `topic` is the default name.
    package var topicConfigurationKey: String
    package var topic: String
    package var introduction: String
    /// The meaning of the Kafka record's key.
    package var keyMeaning: String
    package var headers: [(name: String, meaning: String)]
    /// Whether producers or app servers write the records, and workers read them. False: workers write them.
    package var isWrittenByProducers: Bool
    package var variants: [Variant]
}
