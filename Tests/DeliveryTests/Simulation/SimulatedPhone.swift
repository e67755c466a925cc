import LiveActivity

/// One activity on one phone, by ActivityKit's rules: what is older is ignored, nothing follows the end.
struct SimulatedPhone {
    struct Shown: Equatable {
        var timestamp: Int64
        var version: Version
        var content: Int
    }

    let activity: String
    let device: String?
    var token: String?
    /// The tokens it had before; APNs calls them dead.
    var deadTokens: [String: Int64] = [:]
    var registeredAt: Int64 = 0
    var shown: Shown?
    var hasEnded = false
    var starts = 0
    /// Set when APNs accepted something that the phone must have dropped.
    var violations: [String] = []

    mutating func start(_ push: Shown) { (starts, shown) = (starts + 1, push) }

    mutating func receive(_ event: Event, _ push: Shown) {
        if hasEnded {
            // What was on its way elsewhere when the end was admitted arrives too late; what was admitted after it must not come.
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
        shown = push
        if event == .end { hasEnded = true }
    }
}
