/// Compares the minutes of the outage, and the time after the affected app's APNs host has returned, with
/// Causeway's promises.
struct OutageHourChecker {
    let schedule: OutageHourSchedule
    let minutes: [OutageMinute]
    /// For each activity of the affected app, a flag for each push after the return of the app's host: whether the push
    /// had the activity's newest state (``PushesAfterReturn``).
    let newestStateFlagsAfterReturn: [String: [Bool]]
    /// Activities of both apps whose phone does not show the newest state at the end.
    let outdatedActivityCount: Int
    let failedCommandCount: Int

    var brokenPromises: [String] {
        [freshnessFailure, commitWaitFailure, memoryFailure, pushFailure].compactMap { $0 }
            + (outdatedActivityCount == 0 ? [] : ["\(outdatedActivityCount) phones do not show the newest state"])
            + (failedCommandCount == 0 ? [] : ["\(failedCommandCount) commands have the outcome failed"])
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
        let longestWaitMilliseconds = minutes.map(\.longestCommitWaitMilliseconds).max() ?? 0
        return longestWaitMilliseconds <= schedule.commitWaitMillisecondsMax
            ? nil : "a record waited \(longestWaitMilliseconds) ms for its commit"
    }

    /// Says that the worker's memory grew too much from the first half of the outage to the second half; nil if it did
    /// not.
    private var memoryFailure: String? {
        let halfCount = minutesDuringOutage.count / 2
        guard let firstHalfBytes = minutesDuringOutage.prefix(halfCount).map(\.residentBytes).max(),
            let secondHalfBytes = minutesDuringOutage.dropFirst(halfCount).map(\.residentBytes).max()
        else { return nil }
        let isMemoryStable = secondHalfBytes <= firstHalfBytes + firstHalfBytes * schedule.memoryGrowthPercentMax / 100
        return isMemoryStable
            ? nil : "resident memory grew from \(firstHalfBytes >> 20) to \(secondHalfBytes >> 20) MiB"
    }

    private var pushFailure: String? {
        let activitiesWithOtherPushes =
            schedule.activityCount - newestStateFlagsAfterReturn.values.count { $0 == [true] }
        return activitiesWithOtherPushes == 0
            ? nil : "\(activitiesWithOtherPushes) affected activities did not get exactly one push, the newest"
    }
}
