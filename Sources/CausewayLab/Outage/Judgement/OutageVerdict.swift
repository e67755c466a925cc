/// What a history comes to. Each list names what broke a promise, in words.
struct OutageVerdict: Equatable {
    /// Activities whose phone does not show their newest state that is not past its own expiration, and alerts that never rang though not
    /// older than their bound.
    var lost: [String] = []
    /// Pushes that were accepted past their bound, or after a newer one.
    var old: [String] = []
    /// Alerts and starts that reached a phone again.
    var twice: [String] = []
    /// Alerts that rang again after a crash, as far as the promises allow it.
    var repeatedAfterCrash: [String] = []
    /// The longest time in which an activity that had a newer state was not updated.
    var longestSilenceMilliseconds: Int64 = 0
    /// From a command to the push that brought it, by app, rising.
    var freshnessMilliseconds: [String: [Int64]] = [:]

    var isGood: Bool { lost.isEmpty && old.isEmpty && twice.isEmpty }

    /// The time that 99 of 100 pushes of an app did not exceed; nil if there were none.
    func freshness99(of app: String) -> Int64? {
        guard let times = freshnessMilliseconds[app], !times.isEmpty else { return nil }
        return times[min(times.count - 1, times.count * 99 / 100)]
    }
}
