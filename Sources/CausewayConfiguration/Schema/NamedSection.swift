import Delivery

/// A section with entries that the operator names: `apps` or `policies`. All its entries have the same keys.
enum NamedSection: String, CaseIterable {
    case apps, policies

    /// How many apps or policies a configuration may have.
    var entryCountRange: ClosedRange<Int> {
        switch self {
        // `DeliveryConfiguration` and `AudiencesConfiguration` refuse more apps.
        case .apps: 1...255
        case .policies: 1...DeliveryConfiguration.policiesMax
        }
    }

    /// The apps or policies that always exist, even if nobody names them.
    var predefinedNames: Set<String> {
        switch self {
        case .apps: []
        case .policies: [WorkerConfiguration.defaultPolicyName]
        }
    }

    /// The name of the app or policy that the generated pages show as an example.
    var exampleName: String {
        switch self {
        case .apps: "match"
        case .policies: WorkerConfiguration.defaultPolicyName
        }
    }

    /// The placeholder for the name of an app or policy in `Helm/causeway/CONFIG.md`.
    var placeholder: String {
        switch self {
        case .apps: "<app>"
        case .policies: "<policy>"
        }
    }

    var nameRule: ConfigurationRule {
        switch self {
        case .apps: .appName
        case .policies: .policyName
        }
    }

    /// The keys of each app or policy.
    var keyValueKinds: [(name: String, valueKind: ConfigurationValueKind)] {
        switch self {
        case .apps: ConfigurationSchema.appSectionKeys.map { ($0.name, $0.valueKind) }
        case .policies: ConfigurationSchema.policySectionKeys.map { ($0.name, $0.valueKind) }
        }
    }

    /// The environment variable that adds apps or policies to those of the file.
    var variable: String { ConfigurationNames.variable(of: rawValue) }
}
