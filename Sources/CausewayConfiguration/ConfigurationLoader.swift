import Configuration
import LiveActivity

/// A check beyond the schema, which the program `causeway` adds. Returns faults, each with its key.
///
/// - Parameters:
///   - configuration: the values that were read. A key with a fault has its default here.
///   - requiresFiles: whether a missing file is a fault.
package typealias ConfigurationCheck =
    @Sendable (_ configuration: WorkerConfiguration, _ requiresFiles: Bool) -> [(key: String, message: String)]

/// Reads a `WorkerConfiguration` from a YAML file and from environment variables, which override the file. Throws all
/// faults together: unknown keys, wrong values and missing values.
///
/// Every key has a variable: `worker.lanes` is `CAUSEWAY_WORKER_LANES`. Commas separate the entries of a list.
/// `CAUSEWAY_APPS=match,ride` and `CAUSEWAY_POLICIES=sports` add apps and policies to those of the file.
/// ``ConfigurationNames`` has the spelling, also for librdkafka properties.
package struct ConfigurationLoader: Sendable {
    /// The environment variables. Tests pass their own.
    package var environment: [String: String]
    /// Whether an unreadable file that the configuration names is a fault. True for a worker's start, false for a check
    /// on another machine.
    package var requiresFiles: Bool
    /// A check that runs after the checks of the schema; nil for none.
    package var additionalCheck: ConfigurationCheck?

    package init(environment: [String: String], requiresFiles: Bool) {
        self.environment = environment
        self.requiresFiles = requiresFiles
    }

    /// Reads the file at `path`, if a path is given, and the environment.
    package func load(path: String?) throws(ConfigurationFaults) -> WorkerConfiguration {
        guard let path else { return try load(text: "", file: nil) }
        let text: String
        do {
            text = try ConfigurationFile.readText(path: path, bytesMax: ConfigurationDocument.bytesMax)
        } catch {
            throw ConfigurationFaults(faults: [ConfigurationFault(place: path, key: "", message: error.reason)])
        }
        return try load(text: text, file: path)
    }

    /// Reads YAML text and the environment. `file` is the text's name in messages.
    package func load(text: String, file: String?) throws(ConfigurationFaults) -> WorkerConfiguration {
        let document = ConfigurationDocument(text: text)
        var configurationReader = ConfigurationReader(
            document: document,
            environment: environment,
            requiresFiles: requiresFiles
        )
        configurationReader.additionalCheck = additionalCheck
        // If the document cannot be parsed, do not read its keys. Otherwise every required key would be reported as
        // missing.
        let isUnreadable = document.snapshot == nil && !document.faults.isEmpty
        let configuration = isUnreadable ? WorkerConfiguration() : configurationReader.readConfiguration()
        guard configurationReader.faults.isEmpty else {
            let faults = configurationReader.faults.sorted { ($0.place, $0.key) < ($1.place, $1.key) }
            throw ConfigurationFaults(
                faults: faults.map {
                    ConfigurationFault(place: $0.place.description(file: file), key: $0.key, message: $0.message)
                }
            )
        }
        return configuration
    }
}

/// Reads each key of the schema from the environment or, without a variable, from the file. Collects the faults.
private struct ConfigurationReader {
    let document: ConfigurationDocument
    let environment: [String: String]
    let requiresFiles: Bool
    let configReader: ConfigReader
    var additionalCheck: ConfigurationCheck?
    var faults: [PlacedFault]

    init(document: ConfigurationDocument, environment: [String: String], requiresFiles: Bool) {
        self.document = document
        self.environment = environment
        self.requiresFiles = requiresFiles
        faults = document.faults
        var providers: [any ConfigProvider] = [
            EnvironmentVariablesProvider(environmentVariables: environment, secretsSpecifier: .all)
                .prefixKeys(with: "causeway")
        ]
        if let snapshot = document.snapshot {
            providers.append(DocumentProvider(contents: snapshot))
        }
        configReader = ConfigReader(providers: providers)
    }

    mutating func readConfiguration() -> WorkerConfiguration {
        var configuration = WorkerConfiguration()
        for key in ConfigurationSchema.keys {
            read(key, below: "", into: &configuration)
        }
        let apps = readAppOrPolicyNames(of: .apps)
        configuration.apps = apps.map { name in
            var app = WorkerConfiguration.App(name: name)
            for key in ConfigurationSchema.appSectionKeys { read(key, below: "apps.\(name).", into: &app) }
            return app
        }
        let policies = readPolicyNames()
        configuration.policies = policies.map { name in
            var policy = Policy(name: name)
            for key in ConfigurationSchema.policySectionKeys { read(key, below: "policies.\(name).", into: &policy) }
            return policy
        }
        refuseSharedVariables(policies)
        refuseUnknownVariables(
            appAndPolicyKeys: apps.flatMap { name in
                ConfigurationSchema.appSectionKeys.map { "apps.\(name).\($0.name)" }
            } + policies.flatMap(Self.keys(ofPolicy:))
        )
        // Compare values with each other only if there is no fault: a key with a fault still has its default value.
        if faults.isEmpty {
            faults = ConfigurationConsistency.findFaults(of: configuration, place: place)
        }
        // Skip a key that already has a fault. Otherwise the operator would see the same mistake twice.
        let faultyKeys = Set(faults.map(\.key))
        for (key, message) in additionalCheck?(configuration, requiresFiles) ?? [] where !faultyKeys.contains(key) {
            addFault(place(of: key) ?? .wholeFile, key, message)
        }
        return configuration
    }

    private func place(of key: String) -> ConfigurationPlace? {
        let variable = ConfigurationNames.variable(of: key)
        return environment[variable] != nil ? .variable(variable) : document.places[key]
    }

    private mutating func addFault(_ place: ConfigurationPlace, _ key: String, _ message: String) {
        faults.append(PlacedFault(place: place, key: key, message: message))
    }

    /// Sets the property of a key in `root`. Adds a fault instead if the value is not valid, or if a required key is
    /// missing. Without a value, the property keeps its default.
    private mutating func read<Root>(_ key: SchemaKey<Root>, below section: String, into root: inout Root) {
        let name = section + key.name
        if key.valueKind == .properties {
            return key.assign(&root, .properties(readProperties(of: name, key: key)))
        }
        guard let place = place(of: name) else {
            let hasValueOfWrongKind = faults.contains { $0.key == name }
            if key.isRequired, !hasValueOfWrongKind {
                let app = section.split(separator: ".").last.flatMap { document.namePlaces[.apps]?[String($0)] }
                addFault(
                    app ?? .wholeFile,
                    name,
                    "is required (or \(ConfigurationNames.variable(of: name)) in the environment)"
                )
            }
            return
        }
        let path = ConfigKey(name.split(separator: ".").map(String.init))
        do {
            switch key.valueKind {
            case .integer(let range):
                let value = try configReader.requiredInt(forKey: path)
                guard range.contains(value) else {
                    return addFault(place, name, "\(value) is not in \(range.lowerBound)...\(range.upperBound)")
                }
                key.assign(&root, .integer(value))
            case .choices(let choices):
                let values = try configReader.requiredStringArray(forKey: path)
                guard !values.isEmpty, Set(values).count == values.count, Set(values).isSubset(of: choices) else {
                    return addFault(place, name, "must be one or more of \(choices.joined(separator: ", ")), each once")
                }
                key.assign(&root, .choices(values))
            case .texts:
                let values = try configReader.requiredStringArray(forKey: path).filter { !$0.isEmpty }
                guard Set(values).count == values.count else { return addFault(place, name, "has a value twice") }
                let valueFaults = values.lazy.compactMap { text in key.rule.findFault(text).map { "\(text) \($0)" } }
                if let fault = valueFaults.first {
                    return addFault(place, name, fault)
                }
                key.assign(&root, .texts(values))
            case .choice(let choices):
                let value = try configReader.requiredString(forKey: path)
                guard choices.contains(value) else {
                    return addFault(place, name, "is not one of \(choices.joined(separator: ", "))")
                }
                key.assign(&root, .text(value))
            case .text, .properties:
                let value = try configReader.requiredString(forKey: path, isSecret: key.isSecret)
                if let fault = key.rule.findFault(value) {
                    return addFault(place, name, fault)
                }
                if key.isFilePath, requiresFiles, !value.isEmpty,
                    let reason = ConfigurationFile.unreadableReason(path: value)
                {
                    return addFault(place, name, "\(value): \(reason)")
                }
                key.assign(&root, .text(value))
            }
        } catch {
            addFault(place, name, "must be \(Self.valueDescription(of: key.valueKind))")
        }
    }

    private static func valueDescription(of valueKind: ConfigurationValueKind) -> String {
        switch valueKind {
        case .integer(let range): "a whole number in \(range.lowerBound)...\(range.upperBound)"
        case .choices, .texts: "a list"
        case .text, .choice, .properties: "one value"
        }
    }

    /// Returns the librdkafka properties of a section. Adds a fault for each property that must not be set. For
    /// properties whose values are in files, also adds a fault for an empty path and, if `requiresFiles` is set, for a
    /// file that cannot be read.
    private mutating func readProperties<Root>(of section: String, key schemaKey: SchemaKey<Root>) -> [KafkaProperty] {
        let variables = environment.keys.compactMap { ConfigurationNames.property(inVariable: $0, section: section) }
        let names = Set(document.propertyNames[section, default: []] + variables).sorted()
        var properties: [KafkaProperty] = []
        for name in names {
            let key = "\(section).\(name)"
            guard let place = place(of: key) else { continue }
            if let fault = ConfigurationRule.propertyName.findFault(name) {
                addFault(place, key, fault)
            } else if let value = try? configReader.requiredString(forKey: ConfigKey(key), isSecret: true) {
                if schemaKey.isFilePath, let fault = findFault(inPropertyFile: value, rule: schemaKey.rule) {
                    addFault(place, key, fault)
                } else {
                    properties.append(KafkaProperty(name: name, value: value))
                }
            }
        }
        return properties
    }

    private func findFault(inPropertyFile path: String, rule: ConfigurationRule) -> String? {
        if let fault = rule.findFault(path) { return fault }
        guard requiresFiles else { return nil }
        do throws(SecretFileError) {
            _ = try SecretFile.readText(path, bytesMax: PropertyValueFile.bytesMax)
            return nil
        } catch {
            return error.description
        }
    }

    /// Returns the sorted names of all apps, or of all policies, in the file and the environment.
    ///
    /// Adds a fault for each malformed name in the environment. If the section has no other fault, also adds a fault
    /// for a wrong number of names.
    private mutating func readAppOrPolicyNames(of section: NamedSection) -> [String] {
        var names = section.predefinedNames.union(document.namePlaces[section, default: [:]].keys)
        if let list = environment[section.variable] {
            for name in list.split(separator: ",").map({ String($0.trimmingPrefix(while: \.isWhitespace)) }) {
                if let fault = section.nameRule.findFault(name) {
                    addFault(.variable(section.variable), section.rawValue, "\(fault), several separated by commas")
                } else {
                    names.insert(name)
                }
            }
        }
        if !section.entryCountRange.contains(names.count),
            !faults.contains(where: { $0.key.hasPrefix(section.rawValue) })
        {
            let (entriesMin, entriesMax) = (section.entryCountRange.lowerBound, section.entryCountRange.upperBound)
            let message =
                "must have \(entriesMin) to \(entriesMax) \(section.rawValue) (or \(section.variable) in the environment)"
            addFault(.wholeFile, section.rawValue, message)
        }
        return names.sorted()
    }

    /// Returns the names of all policies. `default` always exists and is the first.
    private mutating func readPolicyNames() -> [String] {
        let defaultName = WorkerConfiguration.defaultPolicyName
        return [defaultName] + readAppOrPolicyNames(of: .policies).filter { $0 != defaultName }
    }

    private static func keys(ofPolicy name: String) -> [String] {
        ConfigurationSchema.policySectionKeys.map { "policies.\(name).\($0.name)" }
    }

    /// Adds a fault for two policies with the same environment variables, because one variable would set the numbers of
    /// both. For example, the names `a-b` and `a_b` give the same variables.
    private mutating func refuseSharedVariables(_ policies: [String]) {
        var policiesByVariable: [String: String] = [:]
        for name in policies {
            let variables = Self.keys(ofPolicy: name).map(ConfigurationNames.variable)
            if let other = variables.compactMap({ policiesByVariable[$0] }).first {
                let place = document.namePlaces[.policies]?[name] ?? .variable(NamedSection.policies.variable)
                addFault(place, "policies.\(name)", "has the same environment variables as \(other)")
            }
            for variable in variables { policiesByVariable[variable] = name }
        }
    }

    private mutating func refuseUnknownVariables(appAndPolicyKeys: [String]) {
        let sectionNames = ConfigurationSchema.keys.filter { $0.valueKind == .properties }.map(\.name)
        let keys = ConfigurationSchema.keys.filter { $0.valueKind != .properties }.map(\.name) + appAndPolicyKeys
        let knownVariables = Set(keys.map(ConfigurationNames.variable) + NamedSection.allCases.map(\.variable))
        for (name, value) in environment
        where name.hasPrefix(ConfigurationNames.variablePrefix) && !knownVariables.contains(name) {
            let isProperty = sectionNames.contains { ConfigurationNames.property(inVariable: name, section: $0) != nil }
            guard !isProperty, !ConfigurationNames.isKubernetesServiceVariable(name, value: value) else { continue }
            let suggestion = NearestName.find(nearestTo: name, among: Array(knownVariables))
            addFault(
                .variable(name),
                "",
                "is not the variable of any key" + (suggestion.map { "; did you mean \($0)?" } ?? "")
            )
        }
    }
}
