import Delivery

/// A section whose entries the operator names. All its entries, such as all apps, have the same keys.
enum NamedSection: String, CaseIterable {
    case apps, policies

    /// The allowed numbers of members.
    var members: ClosedRange<Int> {
        switch self {
        // The core stores an app's number in one byte.
        case .apps: 1...255
        case .policies: 1...DeliveryConfiguration.policiesMax
        }
    }

    /// Members that exist even if neither the file nor the environment names them.
    var standardMembers: Set<String> {
        switch self {
        case .apps: []
        case .policies: [WorkerConfiguration.defaultPolicyName]
        }
    }

    /// The name of the example member on the pages.
    var exampleMember: String {
        switch self {
        case .apps: "match"
        case .policies: WorkerConfiguration.defaultPolicyName
        }
    }

    /// The placeholder for a member's name on the page of all keys.
    var placeholder: String {
        switch self {
        case .apps: "<app>"
        case .policies: "<policy>"
        }
    }

    /// The rule for a member's name.
    var nameRule: ConfigurationRule {
        switch self {
        case .apps: .appName
        case .policies: .policyName
        }
    }

    /// The keys of each member.
    var shapes: [(name: String, shape: KeyShape)] {
        switch self {
        case .apps: ConfigurationSchema.appKeys.map { ($0.name, $0.shape) }
        case .policies: ConfigurationSchema.policyKeys.map { ($0.name, $0.shape) }
        }
    }

    /// The environment variable that names further members, which the file does not have.
    var variable: String { ConfigurationNames.variable(of: rawValue) }
}
