import LiveActivity

/// What limits an activity in time, in the model: the end of its updates, its budget, and its spacing after a 429.
/// Times are UNIX milliseconds.
public struct ActivityPace: Hashable, Sendable {
    /// When the activity's life began: when Redis allowed its newest start, or if it knows none, the time that
    /// ``ActivityState/beginLife(writtenAtMilliseconds:mayBeLaterLife:nowMilliseconds:)`` chose.
    public internal(set) var beganAtMilliseconds: Int64
    /// When the budget for pushes of priority 10 will be full. A time in the past means that the budget is full.
    public internal(set) var budgetFullAtMilliseconds: Int64 = 0
    /// Whether the last registration that mentioned frequent updates allowed them. False after a start, until a
    /// registration allows them.
    public internal(set) var allowsFrequentUpdates = false
    /// How often the spacing was doubled when the last 429 was recorded. Since then, some doublings may have ended: see
    /// ``currentDoublingCount(_:at:)``.
    public internal(set) var spacingDoublingCount = 0
    /// When Redis recorded the last 429; nil: there was none.
    public internal(set) var throttledAtMilliseconds: Int64?

    init(beganAtMilliseconds: Int64) {
        self.beganAtMilliseconds = beganAtMilliseconds
    }

    /// The last second in which Redis admits updates, UNIX seconds.
    public var updatesUntilSeconds: Int64 { beganAtMilliseconds / 1_000 + StoreLimits.updatePeriodSeconds }

    func hasUpdatePeriodEnded(at nowMilliseconds: Int64) -> Bool { nowMilliseconds / 1_000 > updatesUntilSeconds }

    func bucket(_ pace: Policy.Pace) -> Policy.Bucket {
        allowsFrequentUpdates ? pace.frequentBudget : pace.budget
    }

    // MARK: - The spacing after a 429

    /// Returns how often the spacing is doubled now. Each `throttleRecoveryMilliseconds` without a 429 undoes one
    /// doubling.
    func currentDoublingCount(_ pace: Policy.Pace, at nowMilliseconds: Int64) -> Int {
        // If the server's clock was set back, no doubling applies.
        guard let throttledAtMilliseconds, nowMilliseconds >= throttledAtMilliseconds else { return 0 }
        let undoneDoublingCount = (nowMilliseconds - throttledAtMilliseconds) / pace.throttleRecoveryMilliseconds
        return Int(max(0, Int64(spacingDoublingCount) - undoneDoublingCount))
    }

    /// Returns the time that must be between two pushes now: the policy's spacing, doubled for recent 429s.
    func spacingMilliseconds(_ pace: Policy.Pace, at nowMilliseconds: Int64) -> Int64 {
        // The scripts decide the same: search for `decision: spacing`.
        let doublingCount = currentDoublingCount(pace, at: nowMilliseconds)
        if doublingCount == 0 { return pace.spacingMilliseconds }
        var doubledSpacingMilliseconds = pace.spacingMilliseconds
        for _ in 0..<doublingCount { doubledSpacingMilliseconds *= 2 }
        return max(pace.spacingMilliseconds, min(doubledSpacingMilliseconds, pace.throttledSpacingMillisecondsMax))
    }

    /// Records a 429: doubles the spacing once more, up to the longest spacing. The 429 of one push may be reported
    /// several times, but doubles the spacing only once.
    ///
    /// - Returns: false, without a change, if the 429 was recorded before.
    mutating func noteThrottle(_ pace: Policy.Pace, sentAtMilliseconds: Int64, at nowMilliseconds: Int64) -> Bool {
        if let throttledAtMilliseconds,
            sentAtMilliseconds <= throttledAtMilliseconds && nowMilliseconds >= throttledAtMilliseconds
        {
            return false
        }
        let previousDoublingCount = currentDoublingCount(pace, at: nowMilliseconds)
        let isLongest = spacingMilliseconds(pace, at: nowMilliseconds) >= pace.throttledSpacingMillisecondsMax
        spacingDoublingCount =
            isLongest || previousDoublingCount == StoreLimits.spacingDoublingsMax
            ? previousDoublingCount : previousDoublingCount + 1
        throttledAtMilliseconds = nowMilliseconds
        return true
    }
}

extension Policy.Bucket {
    /// Returns how many pushes are left now in a bucket that will be full at `fullAtMilliseconds`.
    func pushesLeft(fullAtMilliseconds: Int64, nowMilliseconds: Int64) -> Int {
        // The scripts decide the same: search for `decision: pushes left`.
        var pushesLeftCount = pushes
        var timeToFullMilliseconds = fullAtMilliseconds - nowMilliseconds
        while timeToFullMilliseconds > 0 && pushesLeftCount > 0 {
            timeToFullMilliseconds -= intervalMilliseconds
            pushesLeftCount -= 1
        }
        return pushesLeftCount
    }

    /// Returns the time at which a bucket is full at the latest. Callers cut a later stored time to this one: after a
    /// policy got faster refills, or after the clock was set back, the bucket would otherwise stay empty for too long.
    ///
    /// The time is now plus the time that an empty bucket takes to fill: this bucket, or the slowest bucket of any
    /// policy (``longestFillSeconds``), whichever takes longer.
    func fullAtMillisecondsMax(nowMilliseconds: Int64) -> Int64 {
        // The scripts decide the same: search for `decision: budget`.
        nowMilliseconds + max(Int64(pushes) * intervalMilliseconds, 1_000 * Int64(longestFillSeconds))
    }

    /// Returns when the bucket will be full after one more draw. Without the draw, it would be full at
    /// `fullAtMilliseconds`.
    func fullAfterDrawAtMilliseconds(fullAtMilliseconds: Int64, nowMilliseconds: Int64) -> Int64 {
        // The scripts decide the same: search for `decision: budget`.
        max(fullAtMilliseconds, nowMilliseconds) + intervalMilliseconds
    }
}
