/// The judgement on a history. Each list describes broken promises as text.
struct OutageVerdict: Equatable {
    /// Activities whose phone does not show the newest state that is not past its own expiration, and alerts that never rang although
    /// they are not too old.
    var lost: [String] = []
    /// Pushes that were accepted past their bound or after a newer one.
    var old: [String] = []
    /// Alerts and starts that reached a phone twice.
    var twice: [String] = []
    /// Alerts that rang again after a crash, as far as the promises permit.
    var repeatedAfterCrash: [String] = []
    /// The longest time in which an activity with a newer state was not updated.
    var longestSilenceMilliseconds: Int64 = 0
    /// Times from a command to the push that brought it, by app, ascending.
    var freshnessMilliseconds: [String: [Int64]] = [:]

    var isGood: Bool { lost.isEmpty && old.isEmpty && twice.isEmpty }

    /// The time that 99 of 100 pushes of an app did not exceed; nil if there were none.
    func freshness99(of app: String) -> Int64? {
        guard let times = freshnessMilliseconds[app], !times.isEmpty else { return nil }
        return times[min(times.count - 1, times.count * 99 / 100)]
    }
}
