/// Compares the measurements of an outage hour with Causeway's promises: for the outage itself, and for the time after
/// the affected app's APNs host has returned.
struct OutageHourChecker {
    let schedule: OutageHourSchedule
    /// All minutes of the run, in order.
    let measuredMinutes: [OutageMinute]
    /// By activity of the affected app, whose APNs host was unreachable: one flag for each push after the host's
    /// return, in order. True: the push had the activity's newest state (``PushesAfterHostReturn``).
    let newestStateFlagsByActivity: [String: [Bool]]
    /// Activities of both apps whose phone does not show the newest state at the end.
    let outdatedActivityCount: Int
    let failedCommandCount: Int

    var brokenPromises: [String] {
        [freshnessFailure, commitWaitFailure, memoryFailure, pushFailure].compactMap { $0 }
            + (outdatedActivityCount == 0 ? [] : ["\(outdatedActivityCount) phones do not show the newest state"])
            + (failedCommandCount == 0 ? [] : ["\(failedCommandCount) commands have the outcome failed"])
    }

    private var measuredMinutesDuringOutage: [OutageMinute] { measuredMinutes.filter(\.isHostUnreachable) }

    private var freshnessFailure: String? {
        let lateMinutes = measuredMinutesDuringOutage.filter {
            ($0.freshness.percentileMilliseconds(99) ?? .max) > schedule.freshnessP99MillisecondsMax
        }
        return lateMinutes.isEmpty
            ? nil
            : "in \(lateMinutes.count) minutes 99 of 100 healthy pushes took over "
                + "\(schedule.freshnessP99MillisecondsMax) ms"
    }

    private var commitWaitFailure: String? {
        let longestWaitMilliseconds = measuredMinutes.map(\.longestCommitWaitMilliseconds).max() ?? 0
        return longestWaitMilliseconds <= schedule.commitWaitMillisecondsMax
            ? nil : "a record waited \(longestWaitMilliseconds) ms for its commit"
    }

    /// Says how much the worker's memory grew from the first half of the outage to the second half; nil if it did not
    /// grow too much.
    private var memoryFailure: String? {
        let firstHalfMinuteCount = measuredMinutesDuringOutage.count / 2
        guard let firstHalfBytes = measuredMinutesDuringOutage.prefix(firstHalfMinuteCount).map(\.residentBytes).max(),
            let secondHalfBytes = measuredMinutesDuringOutage.dropFirst(firstHalfMinuteCount).map(\.residentBytes).max()
        else { return nil }
        let isMemoryStable = secondHalfBytes <= firstHalfBytes + firstHalfBytes * schedule.memoryGrowthPercentMax / 100
        return isMemoryStable
            ? nil : "resident memory grew from \(firstHalfBytes >> 20) to \(secondHalfBytes >> 20) MiB"
    }

    private var pushFailure: String? {
        let wronglyPushedActivityCount =
            schedule.activityCount - newestStateFlagsByActivity.values.count { $0 == [true] }
        return wronglyPushedActivityCount == 0
            ? nil : "\(wronglyPushedActivityCount) affected activities did not get exactly one push, the newest"
    }
}
