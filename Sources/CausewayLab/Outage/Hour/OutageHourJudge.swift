/// Compares the minutes of the outage, and the time after the affected app's APNs host has returned, with
/// Causeway's promises.
struct OutageHourJudge {
    let schedule: OutageHourSchedule
    let minutes: [OutageMinute]
    /// For each activity of the affected app: its pushes that APNs accepted after the app's host had
    /// returned. True means that the push had the newest state.
    let pushesAfterReturn: [String: [Bool]]
    /// Activities of both apps whose phone does not show the newest state at the end.
    let wrongScreens: Int
    let failedCommands: Int

    /// The promises that were broken, as text.
    var brokenPromises: [String] {
        [freshnessFailure, commitFailure, memoryFailure, pushFailure].compactMap { $0 }
            + (wrongScreens == 0 ? [] : ["\(wrongScreens) phones do not show the newest state"])
            + (failedCommands == 0 ? [] : ["\(failedCommands) commands have the outcome failed"])
    }

    private var awayMinutes: [OutageMinute] { minutes.filter(\.isHostUnreachable) }

    private var freshnessFailure: String? {
        let late = awayMinutes.filter { ($0.freshness.percentile(99) ?? .max) > schedule.freshnessMillisecondsMax }
        return late.isEmpty
            ? nil
            : "in \(late.count) minutes 99 of 100 healthy pushes took over \(schedule.freshnessMillisecondsMax) ms"
    }

    private var commitFailure: String? {
        let longest = minutes.map(\.longestCommitMilliseconds).max() ?? 0
        return longest <= schedule.commitMillisecondsMax ? nil : "a record waited \(longest) ms for its commit"
    }

    /// Why the memory breaks its promise; nil if it does not. Compares the second half of the outage with the
    /// first.
    private var memoryFailure: String? {
        let half = awayMinutes.count / 2
        guard let firstHalfBytes = awayMinutes.prefix(half).map(\.residentBytes).max(),
            let secondHalfBytes = awayMinutes.dropFirst(half).map(\.residentBytes).max()
        else { return nil }
        let isLevel = secondHalfBytes <= firstHalfBytes + firstHalfBytes * schedule.growthPercentMax / 100
        return isLevel ? nil : "resident memory grew from \(firstHalfBytes >> 20) to \(secondHalfBytes >> 20) MiB"
    }

    private var pushFailure: String? {
        let activitiesWithOtherPushes = schedule.activities - pushesAfterReturn.values.count { $0 == [true] }
        return activitiesWithOtherPushes == 0
            ? nil : "\(activitiesWithOtherPushes) affected activities did not get exactly one push, the newest"
    }
}
