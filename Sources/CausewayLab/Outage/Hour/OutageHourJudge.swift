/// Compares the minutes of the outage, and the time after the affected app's APNs host has returned, with
/// Causeway's promises.
struct OutageHourJudge {
    let plan: OutageHourSchedule
    let minutes: [OutageMinute]
    /// For each activity of the affected app: its pushes that APNs accepted after the app's host had
    /// returned. True means that the push had the newest state.
    let pushesAfterReturn: [String: [Bool]]
    /// Activities of both apps whose phone does not show the newest state at the end.
    let wrongScreens: Int
    let failedCommands: Int

    /// The promises that were broken, as text.
    var broken: [String] {
        [freshness, commits, memory, pushes].compactMap { $0 }
            + (wrongScreens == 0 ? [] : ["\(wrongScreens) phones do not show the newest state"])
            + (failedCommands == 0 ? [] : ["\(failedCommands) commands have the outcome failed"])
    }

    private var away: [OutageMinute] { minutes.filter(\.isUnreachable) }

    private var freshness: String? {
        let late = away.filter { ($0.freshness.percentile(99) ?? .max) > plan.freshnessMilliseconds }
        return late.isEmpty
            ? nil : "in \(late.count) minutes 99 of 100 healthy pushes took over \(plan.freshnessMilliseconds) ms"
    }

    private var commits: String? {
        let longest = minutes.map(\.commitMilliseconds).max() ?? 0
        return longest <= plan.commitMilliseconds ? nil : "a record waited \(longest) ms for its commit"
    }

    /// Why the memory breaks its promise; nil if it does not. Compares the second half of the outage with the
    /// first.
    private var memory: String? {
        let half = away.count / 2
        guard let before = away.prefix(half).map(\.residentBytes).max(),
            let after = away.dropFirst(half).map(\.residentBytes).max()
        else { return nil }
        let isLevel = after <= before + before * plan.growthPercentMax / 100
        return isLevel ? nil : "resident memory grew from \(before >> 20) to \(after >> 20) MiB"
    }

    private var pushes: String? {
        let others = plan.activities - pushesAfterReturn.values.count { $0 == [true] }
        return others == 0 ? nil : "\(others) affected activities did not get exactly one push, the newest"
    }
}
