import Delivery

/// A section whose members are named by the operator: each member is a set of keys of its own.
enum NamedSection: String, CaseIterable {
    case apps, policies

    /// How many members there may be.
    var members: ClosedRange<Int> {
        switch self {
        // The core counts apps in a byte.
        case .apps: 1...255
        case .policies: 1...DeliveryConfiguration.policiesMax
        }
    }

    /// Members that are there without being written.
    var standardMembers: Set<String> {
        switch self {
        case .apps: []
        case .policies: [WorkerConfiguration.defaultPolicyName]
        }
    }

    /// What is wrong with a member's name, or nil.
    func complaint(_ name: String) -> String? {
        switch self {
        case .apps: ConfigurationRule.appName(name)
        case .policies: ConfigurationRule.policyName(name)
        }
    }

    /// What each member holds.
    var shapes: [(name: String, shape: KeyShape)] {
        switch self {
        case .apps: ConfigurationSchema.appKeys.map { ($0.name, $0.shape) }
        case .policies: ConfigurationSchema.policyKeys.map { ($0.name, $0.shape) }
        }
    }

    /// The variable that names members which the file does not have.
    var variable: String { ConfigurationNames.variable(of: rawValue) }
}
