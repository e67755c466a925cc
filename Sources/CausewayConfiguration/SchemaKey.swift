import LiveActivity
import Logging

/// The form of a value, for reading it and for messages.
enum KeyShape: Sendable, Equatable {
    case text
    case integer(ClosedRange<Int>)
    case choice([String])
    /// A list without repetition; not empty.
    case choices([String])
    /// A list of texts; may be empty.
    case texts
    /// A map from a librdkafka property to its value.
    case properties
}

/// A value that has its key's shape.
enum KeyValue: Sendable {
    case text(String)
    case integer(Int)
    case choices([String])
    case texts([String])
    case properties([KafkaProperty])
}

/// One key of the configuration: its name, its allowed values, and the property that it sets.
///
/// Used by the loader, the check of the file, the names of the environment variables, and the test of the documentation.
struct SchemaKey<Root: Sendable>: Sendable {
    /// The name below its section, with dots: `topics.commands`.
    let name: String
    let shape: KeyShape
    let isRequired: Bool
    let isSecret: Bool
    /// Whether the value names a file that must be readable when the worker starts.
    let isFile: Bool
    /// What is wrong with a text; nil if it is valid.
    let complaint: @Sendable (String) -> String?
    let assign: @Sendable (inout Root, KeyValue) -> Void
    /// The value in `Root`, as the file would write it; nil if unset.
    let display: @Sendable (Root) -> String?
    /// Whether two configurations have the same value.
    let isSame: @Sendable (Root, Root) -> Bool
    /// Sets the first configuration's value to the second's.
    let copy: @Sendable (inout Root, Root) -> Void
    /// Whether a running worker takes a changed value. Otherwise the value takes effect at the next start.
    private(set) var isReloadable = false

    /// The same key, but a running worker takes its changed value.
    var reloadable: SchemaKey {
        var key = self
        key.isReloadable = true
        return key
    }
}

extension SchemaKey {
    typealias Path<Property> = WritableKeyPath<Root, Property> & Sendable

    static func integer<Number: FixedWidthInteger & SendableMetatype>(
        _ name: String,
        _ path: any Path<Number>,
        _ range: ClosedRange<Int>
    ) -> SchemaKey {
        SchemaKey(
            name: name,
            shape: .integer(range),
            isRequired: false,
            isSecret: false,
            isFile: false,
            complaint: { _ in nil },
            assign: { root, value in
                if case .integer(let number) = value { root[keyPath: path] = Number(clamping: number) }
            },
            display: { String($0[keyPath: path]) },
            isSame: { $0[keyPath: path] == $1[keyPath: path] },
            copy: { $0[keyPath: path] = $1[keyPath: path] }
        )
    }

    /// A text, required if its initial value is empty.
    static func text(
        _ name: String,
        _ path: any Path<String>,
        isRequired: Bool = false,
        isSecret: Bool = false,
        isFile: Bool = false,
        complaint: @escaping @Sendable (String) -> String?
    ) -> SchemaKey {
        SchemaKey(
            name: name,
            shape: .text,
            isRequired: isRequired,
            isSecret: isSecret,
            isFile: isFile,
            complaint: complaint,
            assign: { root, value in
                if case .text(let text) = value { root[keyPath: path] = text }
            },
            display: { $0[keyPath: path] },
            isSame: { $0[keyPath: path] == $1[keyPath: path] },
            copy: { $0[keyPath: path] = $1[keyPath: path] }
        )
    }

    /// An optional text. Empty counts as left out.
    static func optional(
        _ name: String,
        _ path: any Path<String?>,
        isSecret: Bool = false,
        isFile: Bool = false,
        complaint: @escaping @Sendable (String) -> String? = { _ in nil }
    ) -> SchemaKey {
        SchemaKey(
            name: name,
            shape: .text,
            isRequired: false,
            isSecret: isSecret,
            isFile: isFile,
            complaint: { $0.isEmpty ? nil : complaint($0) },
            assign: { root, value in
                if case .text(let text) = value { root[keyPath: path] = text.isEmpty ? nil : text }
            },
            display: { $0[keyPath: path] },
            isSame: { $0[keyPath: path] == $1[keyPath: path] },
            copy: { $0[keyPath: path] = $1[keyPath: path] }
        )
    }

    static func choice<Choice: RawRepresentable<String> & CaseIterable & Sendable>(
        _ name: String,
        _ path: any Path<Choice>
    ) -> SchemaKey {
        SchemaKey(
            name: name,
            shape: .choice(Choice.allCases.map(\.rawValue)),
            isRequired: false,
            isSecret: false,
            isFile: false,
            complaint: { _ in nil },
            assign: { root, value in
                if case .text(let text) = value, let choice = Choice(rawValue: text) { root[keyPath: path] = choice }
            },
            display: { $0[keyPath: path].rawValue },
            isSame: { $0[keyPath: path].rawValue == $1[keyPath: path].rawValue },
            copy: { $0[keyPath: path] = $1[keyPath: path] }
        )
    }

    static func environments(_ name: String, _ path: any Path<[DeviceEnvironment]>) -> SchemaKey {
        SchemaKey(
            name: name,
            shape: .choices(DeviceEnvironment.allCases.map { "\($0.name)" }),
            isRequired: false,
            isSecret: false,
            isFile: false,
            complaint: { _ in nil },
            assign: { root, value in
                guard case .choices(let texts) = value else { return }
                root[keyPath: path] = texts.compactMap { text in
                    DeviceEnvironment.allCases.first { "\($0.name)" == text }
                }
            },
            display: { "[\($0[keyPath: path].map { "\($0.name)" }.joined(separator: ", "))]" },
            isSame: { $0[keyPath: path] == $1[keyPath: path] },
            copy: { $0[keyPath: path] = $1[keyPath: path] }
        )
    }

    /// A list of texts without repetition; empty if left out.
    static func texts(
        _ name: String,
        _ path: any Path<[String]>,
        complaint: @escaping @Sendable (String) -> String?
    ) -> SchemaKey {
        SchemaKey(
            name: name,
            shape: .texts,
            isRequired: false,
            isSecret: false,
            isFile: false,
            complaint: complaint,
            assign: { root, value in
                if case .texts(let texts) = value { root[keyPath: path] = texts }
            },
            display: { "[\($0[keyPath: path].joined(separator: ", "))]" },
            isSame: { $0[keyPath: path] == $1[keyPath: path] },
            copy: { $0[keyPath: path] = $1[keyPath: path] }
        )
    }

    static func properties(_ name: String, _ path: any Path<[KafkaProperty]>) -> SchemaKey {
        SchemaKey(
            name: name,
            shape: .properties,
            isRequired: false,
            isSecret: true,
            isFile: false,
            complaint: { _ in nil },
            assign: { root, value in
                if case .properties(let properties) = value { root[keyPath: path] = properties }
            },
            display: { $0[keyPath: path].isEmpty ? "{}" : nil },
            isSame: { $0[keyPath: path] == $1[keyPath: path] },
            copy: { $0[keyPath: path] = $1[keyPath: path] }
        )
    }

    /// A map from a librdkafka property to the file that has its value.
    static func propertyFiles(_ name: String, _ path: any Path<[KafkaPropertyFile]>) -> SchemaKey {
        SchemaKey(
            name: name,
            shape: .properties,
            isRequired: false,
            isSecret: false,
            isFile: true,
            complaint: { ConfigurationRule.path($0) },
            assign: { root, value in
                if case .properties(let files) = value {
                    root[keyPath: path] = files.map { KafkaPropertyFile(name: $0.name, path: $0.value) }
                }
            },
            display: { $0[keyPath: path].isEmpty ? "{}" : nil },
            isSame: { $0[keyPath: path] == $1[keyPath: path] },
            copy: { $0[keyPath: path] = $1[keyPath: path] }
        )
    }
}
