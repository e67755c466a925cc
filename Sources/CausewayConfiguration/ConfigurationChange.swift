import Delivery
import LiveActivity

/// What another configuration means for a worker that runs: what it can take, and what it cannot before its next start.
package struct ConfigurationChange {
    /// As before, with everything taken that can be.
    package private(set) var configuration: WorkerConfiguration
    /// Keys, or whole policies, that have changed and are taken.
    package private(set) var taken: [String] = []
    /// Keys, apps or policies that have changed and keep what they were until the next start.
    package private(set) var needingRestart: [String] = []

    /// - Parameters:
    ///   - running: what the worker goes by.
    ///   - wanted: in order by itself.
    package init(from running: WorkerConfiguration, to wanted: WorkerConfiguration) {
        configuration = running
        for key in ConfigurationSchema.keys where !key.isSame(running, wanted) {
            note(key.name, isTaken: key.isReloadable)
            if key.isReloadable { key.copy(&configuration, wanted) }
        }
        takePolicies(of: wanted)
        takeApps(of: wanted)
    }

    private mutating func note(_ key: String, isTaken: Bool) {
        if isTaken { taken.append(key) } else { needingRestart.append(key) }
    }

    /// Policies keep their places, by which commands that are held name them: a new one comes behind, and one that is gone stays.
    private mutating func takePolicies(of wanted: WorkerConfiguration) {
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

    private mutating func takeApps(of wanted: WorkerConfiguration) {
        for position in configuration.apps.indices {
            let name = configuration.apps[position].name
            guard let app = wanted.apps.first(where: { $0.name == name }) else {
                note("apps.\(name)", isTaken: false)
                continue
            }
            for key in ConfigurationSchema.appKeys where !key.isSame(configuration.apps[position], app) {
                // A policy that found no place above cannot be an app's either.
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
