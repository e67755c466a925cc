import ActivityStore
import LiveActivity

/// An app of the configuration, with the policies that its commands may use.
struct InspectedApp {
    var bundleId: String
    /// The name of the app's default policy: the policy of commands that name none.
    var defaultPolicyName: String
    var policies: [Policy]

    /// Returns the policy with this name. If `name` is nil or unknown, returns the app's default policy.
    func policyOrDefault(named name: String?) -> Policy {
        policies.first { $0.name == name } ?? policies.first { $0.name == defaultPolicyName }
            ?? Policy(name: defaultPolicyName)
    }

    /// Whether any policy limits the lifetime of activities, so that Redis may have a timetable.
    var limitsLifetimes: Bool { policies.contains { $0.lifetimeSeconds > 0 } }

    func activityKey(_ activity: String) -> [UInt8] {
        ActivityKey.key(app: Array(bundleId.utf8), activity: Array(activity.utf8))
    }

    func deviceKey(_ device: String) -> [UInt8] { Array("{\(bundleId)/\(device)}".utf8) }

    /// The glob pattern of the keys of all activities of the app.
    var activityKeyPattern: String { ActivityKey.pattern(app: bundleId) }

    /// Returns the id of an activity from its key in Redis. The key must match ``activityKeyPattern``.
    func activity(ofKey key: [UInt8]) -> String {
        String(decoding: ActivityKey.activity(ofKey: key, app: Array(bundleId.utf8)), as: UTF8.self)
    }
}
