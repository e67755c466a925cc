/// The kind of value that a key takes. It decides how the value is read and what messages say about it.
enum ConfigurationValueKind: Sendable, Equatable {
    case text
    case integer(ClosedRange<Int>)
    case choice([String])
    /// A list of some of the given words without repetition; not empty.
    case choices([String])
    /// A list of texts; may be empty.
    case texts
    /// A map from a librdkafka property to its value.
    case properties
}

/// The value of a key.
enum ConfigurationValue: Sendable {
    case text(String)
    case integer(Int)
    case choices([String])
    case texts([String])
    case properties([KafkaProperty])

    var text: String? {
        if case .text(let text) = self { text } else { nil }
    }

    /// The value as the YAML file writes it. Nil for a map that is not empty, because its values may be secret.
    var yamlText: String? {
        switch self {
        case .text(let text): text
        case .integer(let number): "\(number)"
        case .choices(let texts), .texts(let texts): "[\(texts.joined(separator: ", "))]"
        case .properties(let properties): properties.isEmpty ? "{}" : nil
        }
    }
}

/// One key of the configuration: its name, its allowed values, the property that it sets, and its description.
/// `SchemaKey+ValueKinds.swift` has a function for each kind of key.
struct SchemaKey<Root: Sendable>: Sendable {
    /// The whole name, such as `kafka.topics.commands`. The key of an app or policy has only the name below the app or
    /// policy, such as `channels.storage`.
    let name: String
    let valueKind: ConfigurationValueKind
    let rule: ConfigurationRule
    /// What the key means. `Config/causeway.yaml` keeps the line breaks of this text.
    let meaning: String
    // `assign`, `value`, `hasSameValue` and `copyValue` are closures, not key paths: key paths to integers and to texts
    // have different types, so one list could not have both kinds of keys.
    let assign: @Sendable (inout Root, ConfigurationValue) -> Void
    /// Returns the value of this key in a configuration, app or policy (`Root`); nil if it is unset.
    let value: @Sendable (Root) -> ConfigurationValue?
    /// Whether two configurations have the same value of this key.
    let hasSameValue: @Sendable (Root, Root) -> Bool
    /// Copies the value of this key from the second configuration to the first.
    let copyValue: @Sendable (inout Root, Root) -> Void

    /// The value that `Config/causeway.yaml` shows for a required key. Nil if the key has a default, or may be unset.
    private(set) var example: String?
    private(set) var isSecret = false
    /// Whether the value names a file that must be readable when the worker starts.
    private(set) var isFilePath = false
    /// Whether a changed value takes effect in a running worker. If not, it takes effect at the next start.
    private(set) var isReloadable = false
    /// The source of the default, such as Apple's documentation.
    private(set) var sourceOfDefault: String?
    /// The allowed values in words; nil if `valueKind` or `meaning` says them.
    private(set) var allowedValues: String?
    /// What applies while the key is unset. Nil if `meaning` says this, or if the key has a default.
    private(set) var meaningWhenUnset: String?
    /// Example lines that `Config/causeway.yaml` shows in the comment above the key.
    private(set) var exampleLines: [String] = []

    var isRequired: Bool { example != nil }

    /// The value in `root`, as the file would write it; nil if unset.
    func yamlText(_ root: Root) -> String? { value(root)?.yamlText }
}

extension SchemaKey {
    /// The same key, but a changed value takes effect in a running worker.
    var asReloadable: SchemaKey { with { $0.isReloadable = true } }

    /// The same key, but its value must not be printed.
    var asSecret: SchemaKey { with { $0.isSecret = true } }

    /// The same key, but its value names a file that must be readable when the worker starts.
    var asFilePath: SchemaKey { with { $0.isFilePath = true } }

    /// The same key, but required: it has no default, and `Config/causeway.yaml` shows `example`.
    func required(example: String) -> SchemaKey { with { $0.example = example } }

    func sourceOfDefault(_ source: String) -> SchemaKey { with { $0.sourceOfDefault = source } }

    /// The same key, with a text that says which values are allowed. The text checks nothing.
    func describingAllowedValues(_ text: String) -> SchemaKey { with { $0.allowedValues = text } }

    /// The same key, with a text that says what applies while the key is unset.
    func whenUnset(_ meaningWhenUnset: String) -> SchemaKey { with { $0.meaningWhenUnset = meaningWhenUnset } }

    func exampleLines(_ lines: String...) -> SchemaKey { with { $0.exampleLines = lines } }

    private func with(_ change: (inout SchemaKey) -> Void) -> SchemaKey {
        var key = self
        change(&key)
        return key
    }
}
