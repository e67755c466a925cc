import Delivery
import LiveActivity

/// The difference between a running worker's configuration and a new one: the changes that the worker takes
/// now, and the changes that need a restart.
package struct ConfigurationChange {
    /// The running configuration, with all changes that a running worker can take.
    package private(set) var configuration: WorkerConfiguration
    /// Changed keys and policies whose new values `configuration` contains.
    package private(set) var taken: [String] = []
    /// Keys, apps or policies that have changed and keep their old values until the next start.
    package private(set) var needingRestart: [String] = []

    /// - Parameters:
    ///   - running: the configuration that the worker uses.
    ///   - wanted: the new configuration, without faults.
    package init(from running: WorkerConfiguration, to wanted: WorkerConfiguration) {
        configuration = running
        for key in ConfigurationSchema.keys where !key.isSame(running, wanted) {
            note(key.name, isTaken: key.isReloadable)
            if key.isReloadable { key.copy(&configuration, wanted) }
        }
        applyPolicies(of: wanted)
        applyApps(of: wanted)
    }

    private mutating func note(_ key: String, isTaken: Bool) {
        if isTaken { taken.append(key) } else { needingRestart.append(key) }
    }

    /// Takes changed policies. Commands in memory name a policy by its position in the list, so positions
    /// never change: a new policy is appended, and a policy that was removed from the file stays.
    private mutating func applyPolicies(of wanted: WorkerConfiguration) {
        for position in configuration.policies.indices {
            let name = configuration.policies[position].name
            guard let policy = wanted.policies.first(where: { $0.name == name }) else {
                note("policies.\(name)", isTaken: false)
                continue
            }
            for key in ConfigurationSchema.policyKeys where !key.isSame(configuration.policies[position], policy) {
                key.copy(&configuration.policies[position], policy)
                note("policies.\(name).\(key.name)", isTaken: true)
            }
        }
        for policy in wanted.policies where !configuration.policies.contains(where: { $0.name == policy.name }) {
            let hasPlace = configuration.policies.count < DeliveryConfiguration.policiesMax
            if hasPlace { configuration.policies.append(policy) }
            note("policies.\(policy.name)", isTaken: hasPlace)
        }
    }

    private mutating func applyApps(of wanted: WorkerConfiguration) {
        for position in configuration.apps.indices {
            let name = configuration.apps[position].name
            guard let app = wanted.apps.first(where: { $0.name == name }) else {
                note("apps.\(name)", isTaken: false)
                continue
            }
            for key in ConfigurationSchema.appKeys where !key.isSame(configuration.apps[position], app) {
                // If the list of policies was full, it does not contain a new policy. The app then keeps its
                // old policy.
                let isKnown = key.name != "policy" || configuration.policies.contains { $0.name == app.policy }
                if key.isReloadable, isKnown { key.copy(&configuration.apps[position], app) }
                note("apps.\(name).\(key.name)", isTaken: key.isReloadable && isKnown)
            }
        }
        for app in wanted.apps where !configuration.apps.contains(where: { $0.name == app.name }) {
            note("apps.\(app.name)", isTaken: false)
        }
    }
}
