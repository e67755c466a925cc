/// Derives names from the schema: key patterns, the keys of a section, the environment variable of a key.
enum ConfigurationNames {
    static let variablePrefix = "CAUSEWAY_"

    /// The kind of value for each key pattern: `worker.lanes`, `apps.*.keyId`. `*` stands for a name that the operator
    /// chooses.
    static let valueKindsByKeyPattern = Dictionary(
        uniqueKeysWithValues: ConfigurationSchema.keys.map { ($0.name, $0.valueKind) }
            + NamedSection.allCases.flatMap { section in
                section.keyValueKinds.map { ("\(section.rawValue).*.\($0.name)", $0.valueKind) }
            }
    )

    /// The patterns of all sections, such as `kafka`, `kafka.topics` and `apps.*`: whatever comes before a dot of a key
    /// pattern.
    static let sectionPatterns = Set(
        valueKindsByKeyPattern.keys.flatMap { key in
            key.indices.filter { key[$0] == "." }.map { String(key[..<$0]) }
        }
    )

    /// Returns the names that are allowed directly in a section. An empty pattern means the top of the file.
    static func memberNames(of sectionPattern: String) -> [String] {
        let prefix = sectionPattern.isEmpty ? "" : sectionPattern + "."
        let names = valueKindsByKeyPattern.keys.filter { $0.hasPrefix(prefix) }
            .compactMap { key in
                key.dropFirst(prefix.count).split(separator: ".").first.map(String.init)
            }
        return Array(Set(names))
    }

    /// Returns the environment variable of a key: `CAUSEWAY_WORKER_RETRY_MILLISECONDS_MAX` for
    /// `worker.retryMillisecondsMax`. The spelling is that of swift-configuration, which reads the variables: words in
    /// capital letters, and `_` between words and for every character that is neither letter nor digit.
    static func variable(of key: String) -> String {
        var name = variablePrefix
        var isPreviousLowercase = false
        for character in key {
            if isPreviousLowercase, character.isUppercase { name.append("_") }
            isPreviousLowercase = character.isLowercase
            name += character.isLetter || character.isNumber ? character.uppercased() : "_"
        }
        return name
    }

    /// Returns the librdkafka property that an environment variable sets: in `kafka.consumer`, `fetch.min.bytes` for
    /// `CAUSEWAY_KAFKA_CONSUMER_FETCH_MIN_BYTES`. Nil if the variable belongs to another section. Each `_` stands for a
    /// dot, so no variable sets a property whose name has a capital letter, `_` or `-`.
    static func property(inVariable name: String, section: String) -> String? {
        let prefix = variable(of: section) + "_"
        guard name.hasPrefix(prefix), name.count > prefix.count else { return nil }
        return name.dropFirst(prefix.count).lowercased().replacing("_", with: ".")
    }

    /// Whether Kubernetes may have set this variable, for a Service whose name begins with *causeway*. Such a variable
    /// sets no key, and must not be reported as unknown.
    static func isKubernetesServiceVariable(_ name: String, value: String) -> Bool {
        if name.hasSuffix("_SERVICE_HOST") || name.hasSuffix("_SERVICE_PORT") || name.contains("_SERVICE_PORT_") {
            return true
        }
        return name.ranges(of: "_PORT")
            .contains { port in
                let rest = name[port.upperBound...]
                if rest.isEmpty { return value.contains("://") }
                let parts = rest.dropFirst().split(separator: "_")
                return rest.first == "_" && (2...3).contains(parts.count) && UInt16(parts[0]) != nil
                    && ["TCP", "UDP", "SCTP"].contains(parts[1])
                    && (parts.count == 2 || ["ADDR", "PORT", "PROTO"].contains(parts[2]))
            }
    }
}
