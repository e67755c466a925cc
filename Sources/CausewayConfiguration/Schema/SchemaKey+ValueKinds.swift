import LiveActivity

extension SchemaKey {
    typealias PropertyPath<Property> = WritableKeyPath<Root, Property> & Sendable

    /// - Parameters:
    ///   - decode: converts the key's value to the property's value. If it returns nil, the property stays unchanged.
    ///   - encode: converts the property's value to the key's value. It returns nil if the property is unset.
    private init<Property: Equatable & SendableMetatype>(
        _ name: String,
        _ path: any PropertyPath<Property>,
        _ valueKind: ConfigurationValueKind,
        _ rule: ConfigurationRule,
        meaning: String,
        decode: @escaping @Sendable (ConfigurationValue) -> Property?,
        encode: @escaping @Sendable (Property) -> ConfigurationValue?
    ) {
        self.init(
            name: name,
            valueKind: valueKind,
            rule: rule,
            meaning: meaning,
            assign: { root, value in
                if let property = decode(value) { root[keyPath: path] = property }
            },
            value: { encode($0[keyPath: path]) },
            hasSameValue: { $0[keyPath: path] == $1[keyPath: path] },
            copyValue: { $0[keyPath: path] = $1[keyPath: path] }
        )
    }

    static func integer<Number: FixedWidthInteger & SendableMetatype>(
        _ name: String,
        _ path: any PropertyPath<Number>,
        _ range: ClosedRange<Int>,
        meaning: String
    ) -> SchemaKey {
        SchemaKey(
            name,
            path,
            .integer(range),
            .any,
            meaning: meaning,
            decode: { value in
                guard case .integer(let number) = value else { return nil }
                return Number(clamping: number)
            },
            encode: { .integer(Int(clamping: $0)) }
        )
    }

    static func text(
        _ name: String,
        _ path: any PropertyPath<String>,
        _ rule: ConfigurationRule,
        meaning: String
    ) -> SchemaKey {
        SchemaKey(
            name,
            path,
            .text,
            rule,
            meaning: meaning,
            decode: \.text,
            encode: { .text($0) }
        )
    }

    /// Makes a key for an optional text. An empty text counts as unset.
    static func optionalText(
        _ name: String,
        _ path: any PropertyPath<String?>,
        _ rule: ConfigurationRule,
        meaning: String
    ) -> SchemaKey {
        SchemaKey(
            name,
            path,
            .text,
            rule.orEmpty,
            meaning: meaning,
            decode: { $0.text.map { $0.isEmpty ? nil : $0 } },
            encode: { $0.map { .text($0) } }
        )
    }

    /// Makes a key for the path of an optional file.
    static func optionalFile(_ name: String, _ path: any PropertyPath<String?>, meaning: String) -> SchemaKey {
        optionalText(name, path, .any, meaning: meaning).asFilePath
    }

    /// Makes a key for one word, which must be a raw value of `Choice`.
    static func choice<Choice: RawRepresentable<String> & CaseIterable & Equatable & Sendable>(
        _ name: String,
        _ path: any PropertyPath<Choice>,
        meaning: String
    ) -> SchemaKey {
        SchemaKey(
            name,
            path,
            .choice(Choice.allCases.map(\.rawValue)),
            .any,
            meaning: meaning,
            decode: { $0.text.flatMap { Choice(rawValue: $0) } },
            encode: { .text($0.rawValue) }
        )
    }

    /// Makes a key for a list of APNs environments. The list must not be empty.
    static func environments(
        _ name: String,
        _ path: any PropertyPath<[APNsEnvironment]>,
        meaning: String
    ) -> SchemaKey {
        SchemaKey(
            name,
            path,
            .choices(APNsEnvironment.allCases.map { "\($0.name)" }),
            .any,
            meaning: meaning,
            decode: { value in
                guard case .choices(let texts) = value else { return nil }
                return texts.compactMap { text in
                    APNsEnvironment.allCases.first { "\($0.name)" == text }
                }
            },
            encode: { .choices($0.map { "\($0.name)" }) }
        )
    }

    /// Makes a key for a list of texts, which may be empty. No text may occur twice.
    static func texts(
        _ name: String,
        _ path: any PropertyPath<[String]>,
        _ rule: ConfigurationRule,
        meaning: String
    ) -> SchemaKey {
        SchemaKey(
            name,
            path,
            .texts,
            rule,
            meaning: meaning,
            decode: { value in
                guard case .texts(let texts) = value else { return nil }
                return texts
            },
            encode: { .texts($0) }
        )
    }

    /// Makes a key for a map of librdkafka properties. Their values are treated as secrets.
    static func properties(_ name: String, _ path: any PropertyPath<[KafkaProperty]>, meaning: String) -> SchemaKey {
        SchemaKey(
            name,
            path,
            .properties,
            .any,
            meaning: meaning,
            decode: { value in
                guard case .properties(let properties) = value else { return nil }
                return properties
            },
            encode: { .properties($0) }
        )
        .asSecret
    }

    /// Makes a key for a map: each entry names a librdkafka property, and the file that contains the property's value.
    static func propertyFiles(
        _ name: String,
        _ path: any PropertyPath<[PropertyValueFile]>,
        meaning: String
    ) -> SchemaKey {
        SchemaKey(
            name,
            path,
            .properties,
            .path,
            meaning: meaning,
            decode: { value in
                guard case .properties(let files) = value else { return nil }
                return files.map { PropertyValueFile(name: $0.name, path: $0.value) }
            },
            encode: { .properties($0.map { KafkaProperty(name: $0.name, value: $0.path) }) }
        )
        .asFilePath
    }
}
