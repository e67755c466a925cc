import LiveActivity

/// One activity on one phone, by ActivityKit's rules: older states are ignored, and nothing follows the end.
struct SimulatedPhone {
    struct Shown: Equatable {
        var timestamp: Int64
        var version: Version
        var content: Int
        /// The command whose alert the push carries; -1: none.
        var alert = -1
    }

    let activity: String
    let device: String?
    var token: String?
    /// The tokens that the activity had before; APNs calls them dead.
    var deadTokens: [String: Int64] = [:]
    var registeredAt: Int64 = 0
    var shown: Shown?
    var hasEnded = false
    var starts = 0
    /// The displayed alerts, each by the sequence of its command.
    var alerts: Set<Int> = []
    /// The alerts whose states Redis has called overtaken, each by the sequence of its command.
    var overtaken: Set<Int> = []
    /// The versions that came with priority 10.
    var urgent: Set<Version> = []
    /// Set when APNs accepted a push that the phone must have dropped.
    var violations: [String] = []

    mutating func start(_ push: Shown) { (starts, shown) = (starts + 1, push) }

    mutating func receive(_ event: Event, _ push: Shown) {
        if hasEnded {
            // A push that was already on its way elsewhere when the end was admitted arrives too late, which is allowed. A push admitted
            // after the end must not arrive.
            if event != .end, push.timestamp > (shown?.timestamp ?? 0) {
                violations.append("\(activity): an update was admitted after the end")
            }
            return
        }
        if let shown {
            if push.timestamp < shown.timestamp { return }
            if push.version < shown.version, event != .end {
                violations.append("\(activity): went back from \(shown.version) to \(push.version)")
            }
            if push.timestamp == shown.timestamp, push.version != shown.version {
                violations.append("\(activity): two states with timestamp \(push.timestamp)")
            }
        }
        // A push with the timestamp of the displayed one is the same push again.
        if push.alert >= 0, push.timestamp != shown?.timestamp {
            // Redis does not know whether the state that overtook another one rang its own alert, so the older alert moves to the next
            // state.
            if let newest = alerts.max(), push.alert < newest, !overtaken.contains(push.alert) {
                violations.append("\(activity): the alert of #\(push.alert) rang after that of #\(newest)")
            }
            alerts.insert(push.alert)
        }
        shown = push
        if event == .end { hasEnded = true }
    }
}
