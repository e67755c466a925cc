import LiveActivity

/// One activity on one phone, which follows ActivityKit's rules: it ignores older states, and shows nothing after the
/// end. A start begins a new life of the activity, with a new token.
struct SimulatedPhone {
    struct ShownState: Equatable {
        var timestamp: Int64
        var version: Version
        var content: Int
        /// The sequence of the command whose alert the push carries; negative if the push carries none.
        var alertSequence = -1
    }

    let activity: String
    let device: String?
    var token: String?
    /// When each earlier token of the activity died, by token. APNs responds with 410 to pushes with them.
    var tokenDiedAtMilliseconds: [String: Int64] = [:]
    var registeredAtMilliseconds: Int64 = 0
    var shownState: ShownState?
    var hasEnded = false
    /// How often the phone got each start, by version.
    var startCounts: [Version: Int] = [:]
    /// The version of the start that began the present life; nil: the app began the activity.
    var startVersion: Version?
    /// The alerts that rang, each by the sequence of its command.
    var rungAlerts: Set<Int> = []
    /// The alerts for which Redis replied `alertAwaitsCarrier`, each by the sequence of its command.
    var alertsAwaitingCarrier: Set<Int> = []
    /// The versions of the updates and ends that came with priority 10.
    var highPriorityVersions: Set<Version> = []
    /// Rules that a push broke, for example an update that was admitted after the end.
    var violations: [String] = []

    mutating func start(_ push: ShownState, now: Int64) {
        startCounts[push.version, default: 0] += 1
        // Two workers may push the starts of two lives at the same time. Then the older start begins another activity
        // on the phone, and the app does not report the token of this activity.
        if let startVersion, push.version < startVersion { return }
        // If the app began the activity itself and it shows a newer state, the start begins another activity on the
        // phone.
        if startVersion == nil, let shownState, push.version < shownState.version { return }
        if let token, startVersion != push.version { tokenDiedAtMilliseconds[token] = now }
        if startVersion != push.version { (token, hasEnded) = (nil, false) }
        (startVersion, shownState) = (push.version, push)
    }

    mutating func receive(_ event: Event, _ push: ShownState) {
        if hasEnded {
            // An older push that was in flight may arrive after the end. An update with a higher timestamp was admitted
            // after the end, and must not arrive.
            if event != .end, push.timestamp > (shownState?.timestamp ?? 0) {
                violations.append("\(activity): an update was admitted after the end")
            }
            return
        }
        if let startVersion, push.version < startVersion {
            violations.append("\(activity): \(push.version) of an earlier life came after the start \(startVersion)")
        }
        if let shownState {
            if push.timestamp < shownState.timestamp { return }
            if push.version < shownState.version, event != .end {
                violations.append("\(activity): went back from \(shownState.version) to \(push.version)")
            }
            if push.timestamp == shownState.timestamp, push.version != shownState.version {
                violations.append("\(activity): two states with timestamp \(push.timestamp)")
            }
        }
        // A push with the timestamp of the shown state repeats the push of this state. Its alert may ring again.
        if push.alertSequence >= 0, push.timestamp != shownState?.timestamp {
            // No alert may ring after a newer one. The exception: an alert for which Redis replied
            // `alertAwaitsCarrier`, because it came after a newer state. Redis does not know whether this state had an
            // alert that rang.
            if let newestRungAlert = rungAlerts.max(), push.alertSequence < newestRungAlert,
                !alertsAwaitingCarrier.contains(push.alertSequence)
            {
                violations.append(
                    "\(activity): the alert of #\(push.alertSequence) rang after that of #\(newestRungAlert)"
                )
            }
            rungAlerts.insert(push.alertSequence)
        }
        shownState = push
        if event == .end { hasEnded = true }
    }
}
