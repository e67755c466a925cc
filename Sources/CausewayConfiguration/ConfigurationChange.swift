import Delivery
import LiveActivity

/// What changes if a running worker gets a new configuration: some changes take effect at once, the others at the next
/// start.
package struct ConfigurationChange {
    /// The running configuration, in which the new values that take effect at once are already set.
    package private(set) var configuration: WorkerConfiguration
    /// The changed keys and the new policies that take effect at once. `configuration` contains their values.
    package private(set) var appliedKeys: [String] = []
    /// The changed keys, and the new or removed apps and policies, that take effect only at the next start.
    package private(set) var keysNeedingRestart: [String] = []

    /// - Parameters:
    ///   - running: the configuration that the worker uses.
    ///   - newConfiguration: the new configuration, without faults.
    package init(from running: WorkerConfiguration, to newConfiguration: WorkerConfiguration) {
        configuration = running
        for key in ConfigurationSchema.keys where !key.hasSameValue(running, newConfiguration) {
            note(key.name, isApplied: key.isReloadable)
            if key.isReloadable { key.copyValue(&configuration, newConfiguration) }
        }
        applyPolicies(of: newConfiguration)
        applyApps(of: newConfiguration)
    }

    private mutating func note(_ key: String, isApplied: Bool) {
        if isApplied { appliedKeys.append(key) } else { keysNeedingRestart.append(key) }
    }

    /// Applies the changed policies. Commands in memory name a policy by its position in the list, so no position may
    /// change. A new policy is therefore appended, and a policy that the file no longer has stays in the list.
    private mutating func applyPolicies(of newConfiguration: WorkerConfiguration) {
        for index in configuration.policies.indices {
            let name = configuration.policies[index].name
            guard let policy = newConfiguration.policies.first(where: { $0.name == name }) else {
                note("policies.\(name)", isApplied: false)
                continue
            }
            for key in ConfigurationSchema.policySectionKeys
            where !key.hasSameValue(configuration.policies[index], policy) {
                key.copyValue(&configuration.policies[index], policy)
                note("policies.\(name).\(key.name)", isApplied: true)
            }
        }
        for policy in newConfiguration.policies
        where !configuration.policies.contains(where: { $0.name == policy.name }) {
            let hasRoom = configuration.policies.count < DeliveryConfiguration.policiesMax
            if hasRoom { configuration.policies.append(policy) }
            note("policies.\(policy.name)", isApplied: hasRoom)
        }
    }

    /// Compares the apps that both configurations have, and applies those changed keys that take effect at once. All
    /// other changes, and new and removed apps, need a restart.
    private mutating func applyApps(of newConfiguration: WorkerConfiguration) {
        for index in configuration.apps.indices {
            let name = configuration.apps[index].name
            guard let app = newConfiguration.apps.first(where: { $0.name == name }) else {
                note("apps.\(name)", isApplied: false)
                continue
            }
            for key in ConfigurationSchema.appSectionKeys where !key.hasSameValue(configuration.apps[index], app) {
                // If the list of policies was full, a new policy is not in it. An app that names such a policy keeps
                // its old policy.
                let isPolicyKnown = key.name != "policy" || configuration.policies.contains { $0.name == app.policy }
                if key.isReloadable, isPolicyKnown { key.copyValue(&configuration.apps[index], app) }
                note("apps.\(name).\(key.name)", isApplied: key.isReloadable && isPolicyKnown)
            }
        }
        for app in newConfiguration.apps where !configuration.apps.contains(where: { $0.name == app.name }) {
            note("apps.\(app.name)", isApplied: false)
        }
    }
}
