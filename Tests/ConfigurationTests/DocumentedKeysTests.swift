import Foundation
import LiveActivity
import Testbed
import Testing

@testable import CausewayConfiguration

/// The schema must have the same keys as the type ``WorkerConfiguration``, and the generated files in the repository
/// must be up to date.
@Suite("Documented keys", .ownThread)
struct DocumentedKeysTests {
    /// Returns the dotted names of a value's stored properties, including the properties of nested values.
    private func properties(of value: Any, section: String = "") -> [String] {
        Mirror(reflecting: value).children
            .flatMap { child -> [String] in
                guard let label = child.label else { return [] }
                switch section + label {
                case "apps":
                    return self.properties(of: WorkerConfiguration.App(name: "x"), section: "apps.*.")
                case "policies":
                    return self.properties(of: Policy(name: "x"), section: "policies.*.")
                // These properties are no keys. The names of apps and policies are the names of their sections. The
                // budget of starts has no reserve. The table of policies computes how long a budget fills at most.
                case "apps.*.name", "policies.*.name", "policies.*.startBudget.reservedForAlerts",
                    "policies.*.budget.longestFillSeconds", "policies.*.frequentBudget.longestFillSeconds",
                    "policies.*.startBudget.longestFillSeconds":
                    return []
                default:
                    break
                }
                let isSection =
                    Mirror(reflecting: child.value).displayStyle == .struct && !(child.value is String)
                    && !(child.value is any FixedWidthInteger)
                return isSection ? self.properties(of: child.value, section: section + label + ".") : [section + label]
            }
    }

    private var schemaNames: [String] {
        ConfigurationSchema.keys.map(\.name) + ConfigurationSchema.appSectionKeys.map { "apps.*." + $0.name }
            + ConfigurationSchema.policySectionKeys.map { "policies.*." + $0.name }
    }

    @Test func `The pages, the schema and WorkerConfiguration have the same keys`() {
        #expect(Set(schemaNames).count == schemaNames.count)
        #expect(ConfigurationSchema.descriptions.map(\.name).sorted() == schemaNames.sorted())
        #expect(Set(properties(of: WorkerConfiguration())) == Set(schemaNames))
    }

    @Test(arguments: [
        (GeneratedConfigurationText.documentedFile, "Config/causeway.yaml"),
        (.fileSchema, "Config/\(GeneratedConfigurationText.schemaFile)"),
        (.chartPage, "Helm/causeway/CONFIG.md"),
    ])
    func `The repository's files are those that the program prints`(page: GeneratedConfigurationText, path: String)
        throws
    {
        let isSame = try repositoryFile(path) == page.text
        #expect(isSame, "\(path) is not what the program prints: run `make configuration-files`")
    }

    @Test func `The chart's schema has the part that the program prints`() throws {
        let path = "Helm/causeway/values.schema.json"
        let schema = try parseObject(repositoryFile(path))
        let properties = try #require(schema["properties"] as? [String: Any])
        let config = try #require(properties["config"] as? [String: Any])
        let isSame = try sortedJSON(config) == sortedJSON(parseObject(GeneratedConfigurationText.chartSchema.text))
        #expect(isSame, "config in \(path) is not what the program prints: run `make configuration-files`")
    }

    private func parseObject(_ text: String) throws -> [String: Any] {
        try #require(try JSONSerialization.jsonObject(with: Data(text.utf8)) as? [String: Any])
    }

    private func sortedJSON(_ object: [String: Any]) throws -> Data {
        try JSONSerialization.data(withJSONObject: object, options: .sortedKeys)
    }

    @Test func `The documented file loads, and has the defaults`() throws {
        let configuration = try load(documentedFile())
        func expectDefaults<Root>(_ keys: [SchemaKey<Root>], _ root: Root, _ defaults: Root) {
            for key in keys {
                #expect(key.yamlText(root) == key.example ?? key.yamlText(defaults), "\(key.name)")
                #expect(key.isRequired || key.hasSameValue(root, defaults), "\(key.name)")
            }
        }
        expectDefaults(ConfigurationSchema.keys, configuration, WorkerConfiguration())
        let app = try #require(configuration.apps.first)
        #expect(configuration.apps.count == 1)
        expectDefaults(ConfigurationSchema.appSectionKeys, app, WorkerConfiguration.App(name: app.name))
        #expect(configuration.policies == [Policy(name: "default")])
    }

    @Test func `Each number of a policy names its source`() throws {
        let sources = ["Documented by Apple", "Said by an Apple engineer", "Measured in the field", "Our choice"]
        for key in ConfigurationSchema.policySectionKeys {
            let source = try #require(key.sourceOfDefault, "\(key.name)")
            #expect(sources.contains { source.hasPrefix($0) }, "\(key.name)")
        }
    }

    @Test func `The example policies load`() throws {
        let configuration = try load(smallestFile + repositoryFile("Config/examples/policies.yaml"))
        #expect(configuration.policies.map(\.name) == ["default", "courier", "sports"])
        #expect(configuration.policies[0] == Policy(name: "default"))
        #expect(configuration.policies[2].spacingMilliseconds == 5_000)
        #expect(configuration.policies[2].startBudget == Policy(name: "x").startBudget)
    }

    @Test func `Every text of the schema is used and is made of sentences; the introduction counts the required keys`()
    {
        #expect(
            Set(ConfigurationSchema.sectionTexts.keys)
                .isSubset(of: ConfigurationNames.sectionPatterns)
        )
        for key in ConfigurationSchema.descriptions {
            let texts = [key.meaning, key.sourceOfDefault ?? "."] + key.meaning.split(separator: "\n").map(String.init)
            #expect(texts.allSatisfy { $0.hasSuffix(".") }, "\(key.name)")
        }
        #expect(ConfigurationSchema.sectionTexts.values.allSatisfy { $0.hasSuffix(".") })
        #expect(ConfigurationSchema.descriptions.count { $0.isRequired } == 6)
        #expect(ConfigurationSchema.introduction.contains("Six keys have no default"))
    }

    @Test func `The keys of a section are neighbours: the file writes each section once`() {
        func sections(of section: ConfigurationSection) -> [String] {
            [section.name]
                + section.members.flatMap { _, member in
                    if case .section(let inner) = member { sections(of: inner) } else { [String]() }
                }
        }
        let names = sections(of: .wholeFile)
        #expect(names.count == Set(names).count)
        #expect(Set(names.dropFirst()) == ConfigurationNames.sectionPatterns)
    }

    @Test func `Defaults are valid, and no key's variable looks like an address that Kubernetes sets`() {
        func check<Root>(_ keys: [SchemaKey<Root>], _ root: Root) {
            for key in keys {
                if case .integer(let range) = key.valueKind {
                    #expect(key.yamlText(root).flatMap(Int.init).map(range.contains) == true, "\(key.name)")
                }
                if key.valueKind == .text, let shown = key.example ?? key.yamlText(root) {
                    #expect(key.rule.findFault(shown) == nil, "\(key.name)")
                }
            }
        }
        check(ConfigurationSchema.keys, WorkerConfiguration())
        check(ConfigurationSchema.appSectionKeys, WorkerConfiguration.App(name: "x"))
        check(ConfigurationSchema.policySectionKeys, Policy(name: "x"))
        for key in ConfigurationSchema.keys {
            #expect(
                !ConfigurationNames.isKubernetesServiceVariable(ConfigurationNames.variable(of: key.name), value: "1"),
                "\(key.name)"
            )
        }
    }
}
