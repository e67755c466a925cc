import ActivityStore
import LiveActivity

/// An app of the configuration, and the numbers of its policies.
struct InspectedApp {
    var bundleIdentifier: String
    /// The policy that the app names.
    var policyName: String
    var policies: [Policy]

    /// The policy with this name, or else the app's own.
    func policy(named name: String?) -> Policy {
        policies.first { $0.name == name } ?? policies.first { $0.name == policyName } ?? Policy(name: policyName)
    }

    /// Whether Redis may have a time at which an activity is ended.
    var limitsLifetimes: Bool { policies.contains { $0.lifetimeSeconds > 0 } }

    func activityKey(_ activity: String) -> [UInt8] {
        ActivityKey.stored(app: Array(bundleIdentifier.utf8), activity: Array(activity.utf8))
    }

    func deviceKey(_ device: String) -> [UInt8] { Array("{\(bundleIdentifier)/\(device)}".utf8) }

    /// A glob pattern for the keys of all activities.
    var activityPattern: String { ActivityKey.pattern(app: bundleIdentifier) }

    /// The activity of a key that matches the pattern.
    func activity(ofKey key: [UInt8]) -> String {
        String(decoding: ActivityKey.activity(ofKey: key, app: Array(bundleIdentifier.utf8)), as: UTF8.self)
    }
}
