/// Compares the minutes of the outage, and the time after the affected app's APNs host has returned, with
/// Causeway's promises.
struct OutageHourChecker {
    let schedule: OutageHourSchedule
    let minutes: [OutageMinute]
    /// For each activity of the affected app: its pushes after the app's host had returned, as ``PushesAfterReturn``
    /// records them. True means that the push had the newest state.
    let newestStateFlagsAfterReturn: [String: [Bool]]
    /// Activities of both apps whose phone does not show the newest state at the end.
    let wrongScreenCount: Int
    let failedCommands: Int

    var brokenPromises: [String] {
        [freshnessFailure, commitWaitFailure, memoryGrowthMessage, pushFailure].compactMap { $0 }
            + (wrongScreenCount == 0 ? [] : ["\(wrongScreenCount) phones do not show the newest state"])
            + (failedCommands == 0 ? [] : ["\(failedCommands) commands have the outcome failed"])
    }

    private var minutesDuringOutage: [OutageMinute] { minutes.filter(\.isHostUnreachable) }

    private var freshnessFailure: String? {
        let late = minutesDuringOutage.filter {
            ($0.freshness.percentileMilliseconds(99) ?? .max) > schedule.freshnessP99MillisecondsMax
        }
        return late.isEmpty
            ? nil
            : "in \(late.count) minutes 99 of 100 healthy pushes took over \(schedule.freshnessP99MillisecondsMax) ms"
    }

    private var commitWaitFailure: String? {
        let longestMilliseconds = minutes.map(\.longestCommitWaitMilliseconds).max() ?? 0
        return longestMilliseconds <= schedule.commitWaitMillisecondsMax
            ? nil : "a record waited \(longestMilliseconds) ms for its commit"
    }

    /// Says that the worker's memory grew too much from the first half of the outage to the second half; nil if it did
    /// not.
    private var memoryGrowthMessage: String? {
        let half = minutesDuringOutage.count / 2
        guard let firstHalfBytes = minutesDuringOutage.prefix(half).map(\.residentBytes).max(),
            let secondHalfBytes = minutesDuringOutage.dropFirst(half).map(\.residentBytes).max()
        else { return nil }
        let isMemoryStable = secondHalfBytes <= firstHalfBytes + firstHalfBytes * schedule.memoryGrowthPercentMax / 100
        return isMemoryStable
            ? nil : "resident memory grew from \(firstHalfBytes >> 20) to \(secondHalfBytes >> 20) MiB"
    }

    private var pushFailure: String? {
        let activitiesWithOtherPushes = schedule.activities - newestStateFlagsAfterReturn.values.count { $0 == [true] }
        return activitiesWithOtherPushes == 0
            ? nil : "\(activitiesWithOtherPushes) affected activities did not get exactly one push, the newest"
    }
}
