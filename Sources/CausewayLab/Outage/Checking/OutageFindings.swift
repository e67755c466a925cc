/// The findings about a history. Each list of texts describes broken promises, except `permittedAlertRepeats`.
struct OutageFindings: Equatable {
    /// Phones that do not show the newest valid state. Also alerts that should have rung and never rang, and ends and
    /// restarts that never came although a lifetime was over.
    var losses: [String] = []
    /// Pushes that were too old when APNs accepted them, or that came after a newer push or alert. Also pushes that no
    /// valid command requests.
    var oldPushes: [String] = []
    /// Alerts and starts that reached a phone twice. Also ends and restarts that came too often after a lifetime was
    /// over.
    var repeats: [String] = []
    /// Alerts that rang twice, as an ``AlertRepeatCause`` permits.
    var permittedAlertRepeats: [String] = []
    /// The longest time from a state to the push that brought this state or a newer one.
    var longestSilenceMilliseconds: Int64 = 0
    /// The times from a command to the push that brought its state, by app, ascending.
    var freshnessMillisecondsByApp: [String: [Int64]] = [:]

    var arePromisesKept: Bool { losses.isEmpty && oldPushes.isEmpty && repeats.isEmpty }

    /// Returns the time that 99 of 100 pushes of an app did not exceed; nil without pushes.
    func freshnessP99Milliseconds(of app: String) -> Int64? {
        guard let times = freshnessMillisecondsByApp[app], !times.isEmpty else { return nil }
        return times[min(times.count - 1, times.count * 99 / 100)]
    }
}
