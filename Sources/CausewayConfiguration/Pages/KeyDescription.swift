/// What the generated pages and files (``GeneratedConfigurationText``) say about one configuration key.
struct KeyDescription: Sendable {
    /// What applies if the file does not have the key.
    enum Default: Sendable {
        /// The key is required: without it, the worker does not start. `Config/causeway.yaml` shows `example`.
        case required(example: String)
        /// The key has this default.
        case value(ConfigurationValue)
        /// The key has no default. `meaningWhenUnset` says what applies while the key is unset; nil if `meaning`
        /// already says this.
        case unset(meaningWhenUnset: String?)
    }

    /// The whole name, with `*` for a name that the operator chooses: `apps.*.keyId`.
    let name: String
    let valueKind: ConfigurationValueKind
    let meaning: String
    let defaultValue: Default
    /// The source of the default, such as Apple's documentation.
    let sourceOfDefault: String?
    /// The allowed values in words; nil if `valueKind` or `meaning` says them.
    let allowedValues: String?
    /// Example lines that `Config/causeway.yaml` shows in the comment above the key.
    let exampleLines: [String]
    let isReloadable: Bool
    /// Whether the value names a file.
    let isFilePath: Bool
    /// A regular expression that every valid text matches, for the JSON Schemas. Nil: there is none for this key.
    let pattern: String?

    /// - Parameters:
    ///   - root: a configuration with all defaults.
    ///   - section: the name of the section of `key`, with a dot at its end.
    init<Root>(_ key: SchemaKey<Root>, of root: Root, below section: String = "") {
        name = section + key.name
        valueKind = key.valueKind
        meaning = key.meaning
        sourceOfDefault = key.sourceOfDefault
        allowedValues = key.allowedValues
        exampleLines = key.exampleLines
        isReloadable = key.isReloadable
        isFilePath = key.isFilePath
        pattern = key.rule.pattern
        defaultValue =
            if let example = key.example {
                .required(example: example)
            } else if let value = key.value(root) {
                .value(value)
            } else {
                .unset(meaningWhenUnset: key.meaningWhenUnset)
            }
    }

    /// The meaning of the key and the source of its default, on one line.
    var explanation: String { [meaning.onOneLine, sourceOfDefault].compactMap(\.self).joined(separator: " ") }

    var isRequired: Bool {
        if case .required = defaultValue { true } else { false }
    }

    /// The default in words; nil for a required key.
    var defaultText: String? {
        switch defaultValue {
        case .required: nil
        case .value(let value): value.yamlText
        case .unset(let meaningWhenUnset): meaningWhenUnset.map { "none; if unset: \($0)" } ?? "none"
        }
    }
}

extension String {
    /// The text without its line breaks.
    var onOneLine: String { split(separator: "\n").joined(separator: " ") }
}
