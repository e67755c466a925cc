import Foundation
import LiveActivity
import Testbed
import Testing
import Yams

@testable import CausewayConfiguration

/// The keys of the file, of the schema and of the structure are the same, and so are their defaults.
@Suite("Config/causeway.yaml", .ownThread)
struct DocumentedKeysTests {
    /// A key of the file with its value and the comment above it.
    struct DocumentedKey {
        var value: Node
        var comment: String
    }

    /// By pattern: `apps.*.keyId`, `policies.*.budget.pushes`.
    private func documentedKeys() throws -> [String: DocumentedKey] {
        let text = try documentedFile()
        let lines = text.split(separator: "\n", omittingEmptySubsequences: false)
            .map { $0.trimmingCharacters(in: .whitespaces) }
        let root = try #require(try Yams.compose(yaml: text))
        var keys: [String: DocumentedKey] = [:]

        func walk(_ mapping: Node.Mapping, section: String) throws {
            for (keyNode, value) in mapping {
                let name = try #require(keyNode.string)
                let isMember = ["apps.", "policies."].contains(section)
                let key = section + (isMember ? "*" : name)
                if let members = value.mapping, !members.isEmpty {
                    try walk(members, section: key + ".")
                } else {
                    let line = try #require(keyNode.mark).line - 1
                    let comment = lines[..<line].reversed().prefix { $0.hasPrefix("#") }.reversed()
                    keys[key] = DocumentedKey(value: value, comment: comment.joined(separator: " "))
                }
            }
        }
        try walk(#require(root.mapping), section: "")
        return keys
    }

    /// Names of the structure's stored properties, down to values that are not our structures.
    private func properties(of value: Any, section: String = "") -> [String] {
        Mirror(reflecting: value).children
            .flatMap { child -> [String] in
                guard let label = child.label else { return [] }
                switch section + label {
                case "apps":
                    return self.properties(of: WorkerConfiguration.App(name: "x"), section: "apps.*.")
                case "policies":
                    return self.properties(of: Policy(name: "x"), section: "policies.*.")
                // The members have their own names, and the bucket of starts has no reserve.
                case "apps.*.name", "policies.*.name", "policies.*.startBudget.reservedForAlerts":
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
        ConfigurationSchema.keys.map(\.name) + ConfigurationSchema.appKeys.map { "apps.*." + $0.name }
            + ConfigurationSchema.policyKeys.map { "policies.*." + $0.name }
    }

    @Test("The file, the schema and the structure have the same keys")
    func sameKeys() throws {
        #expect(schemaNames.count == 84)
        #expect(Set(schemaNames).count == schemaNames.count)
        #expect(try Set(documentedKeys().keys) == Set(schemaNames))
        #expect(Set(properties(of: WorkerConfiguration())) == Set(schemaNames))
    }

    private func check<Root>(_ key: SchemaKey<Root>, of root: Root, section: String) throws {
        let name = section + key.name
        let documented = try #require(try documentedKeys()[name])
        if key.isRequired {
            #expect(documented.comment.contains("Required."), "\(name)")
            #expect(documented.value.string?.isEmpty == false, "\(name) shows no example")
        } else if let standard = key.display(root) {
            #expect(documented.comment.contains("Default \(standard)."), "\(name)")
            let shown = documented.value.sequence.map { "[\($0.compactMap(\.string).joined(separator: ", "))]" }
            let map = documented.value.mapping.map { $0.isEmpty ? "{}" : "not empty" }
            #expect((shown ?? map ?? documented.value.string) == standard, "\(name)")
        } else {
            #expect(documented.comment.contains("Default none"), "\(name)")
            #expect(documented.value.string == "", "\(name)")
        }
        #expect(documented.comment.contains("Reloadable.") == key.isReloadable, "\(name)")
        switch key.shape {
        case .integer(let range):
            #expect(documented.comment.contains("Range \(range.lowerBound) to \(range.upperBound)."), "\(name)")
        case .choice(let names):
            #expect(documented.comment.contains("One of \(names.joined(separator: ", "))."), "\(name)")
        case .choices(let names):
            #expect(documented.comment.contains("One or more of \(names.joined(separator: ", "))."), "\(name)")
        case .text, .texts, .properties:
            break
        }
    }

    @Test("The file says each key's default and range, and has the default as its value")
    func sameDefaults() throws {
        for key in ConfigurationSchema.keys {
            try check(key, of: WorkerConfiguration(), section: "")
        }
        for key in ConfigurationSchema.appKeys {
            try check(key, of: WorkerConfiguration.App(name: "x"), section: "apps.*.")
        }
        for key in ConfigurationSchema.policyKeys {
            try check(key, of: Policy(name: "x"), section: "policies.*.")
        }
    }

    @Test("The chart's page says when a change of each key applies")
    func chartSaysWhatIsReloadable() throws {
        let rows = try repositoryFile("Helm/causeway/CONFIG.md").split(separator: "\n").filter { $0.hasPrefix("| `") }
        var counts: [String: Bool] = [:]
        for row in rows {
            let name = String(try #require(row.split(separator: "`").dropFirst().first))
            let key = name.replacing("apps.<app>.", with: "apps.*.")
                .replacing("policies.<policy>.", with: "policies.*.")
            #expect(row.hasSuffix("| at once |") != row.hasSuffix("| from the next start |"), "\(row)")
            counts[key] = row.hasSuffix("| at once |")
        }
        let keys =
            ConfigurationSchema.keys.map { ($0.name, $0.isReloadable) }
            + ConfigurationSchema.appKeys.map { ("apps.*." + $0.name, $0.isReloadable) }
            + ConfigurationSchema.policyKeys.map { ("policies.*." + $0.name, $0.isReloadable) }
        #expect(counts == Dictionary(uniqueKeysWithValues: keys))
    }

    @Test("Each number of a policy names its source")
    func provenance() throws {
        let sources = ["ocumented by Apple", "aid by an Apple engineer", "easured in the field", "ur choice"]
        let documented = try documentedKeys()
        for key in ConfigurationSchema.policyKeys {
            let comment = try #require(documented["policies.*.\(key.name)"]).comment
            #expect(sources.contains { comment.contains($0) }, "\(key.name)")
        }
    }

    @Test("The example policies load")
    func examplePolicies() throws {
        let configuration = try load(smallestFile + repositoryFile("Config/examples/policies.yaml"))
        #expect(configuration.policies.map(\.name) == ["default", "courier", "sports"])
        #expect(configuration.policies[0] == Policy(name: "default"))
        #expect(configuration.policies[2].spacingMilliseconds == 5_000)
        #expect(configuration.policies[2].startBudget == Policy(name: "x").startBudget)
    }

    @Test("The file itself loads")
    func loads() throws {
        let configuration = try load(documentedFile())
        #expect(configuration.apps.map(\.bundleId) == ["com.example.match"])
        #expect(configuration.kafka.topics.deadLetters == "causeway.dead-letters")
    }

    @Test("Defaults are in their own ranges, and no key's variable looks like an address that Kubernetes sets")
    func schemaIsSound() {
        for key in ConfigurationSchema.policyKeys {
            guard case .integer(let range) = key.shape else {
                Issue.record("\(key.name) is no number")
                continue
            }
            #expect(key.display(Policy(name: "x")).flatMap(Int.init).map(range.contains) == true, "\(key.name)")
        }
        for key in ConfigurationSchema.keys {
            if case .integer(let range) = key.shape {
                #expect(key.display(WorkerConfiguration()).flatMap(Int.init).map(range.contains) == true, "\(key.name)")
            }
            if !key.isRequired, let standard = key.display(WorkerConfiguration()), key.shape == .text {
                #expect(key.complaint(standard) == nil, "\(key.name)")
            }
            #expect(
                !ConfigurationNames.isServiceLink(ConfigurationNames.variable(of: key.name), value: "1"),
                "\(key.name)"
            )
        }
    }
}
