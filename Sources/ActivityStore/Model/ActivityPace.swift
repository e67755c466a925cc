import LiveActivity

/// The part of an activity's value in the model that decides about updates and pushes by time: the beginning of the
/// activity, its budget, and its spacing. Times are UNIX milliseconds.
public struct ActivityPace: Hashable, Sendable {
    /// When Redis allowed the activity's newest start. Without a start: when Redis took its first command or token.
    public internal(set) var beganAtMilliseconds: Int64
    /// When the budget for pushes of priority 10 will be full again if nothing is drawn. A time in the past means that
    /// the budget is full.
    public internal(set) var budgetFullAtMilliseconds: Int64 = 0
    /// Whether the last registration that mentioned frequent updates allowed them. False after a start, until a
    /// registration allows them.
    public internal(set) var allowsFrequentUpdates = false
    /// How often the spacing was doubled when the last 429 was recorded, including the doubling by this 429.
    public internal(set) var spacingDoublings = 0
    /// When Redis recorded the last 429; nil: there was none.
    public internal(set) var throttledAtMilliseconds: Int64?

    init(beganAtMilliseconds: Int64) {
        self.beganAtMilliseconds = beganAtMilliseconds
    }

    /// The last second in which Redis admits updates, UNIX seconds.
    public var updatesUntilSeconds: Int64 { beganAtMilliseconds / 1_000 + StoreLimits.updatableSeconds }

    func hasUpdatePeriodEnded(at nowMilliseconds: Int64) -> Bool { nowMilliseconds / 1_000 > updatesUntilSeconds }

    func bucket(_ pace: Policy.Pace) -> Policy.Bucket {
        allowsFrequentUpdates ? pace.frequentBudget : pace.budget
    }

    // MARK: - The spacing after a 429

    func currentDoublings(_ pace: Policy.Pace, at nowMilliseconds: Int64) -> Int {
        // If the server's clock was set back, no doubling applies.
        guard let throttledAtMilliseconds, nowMilliseconds >= throttledAtMilliseconds else { return 0 }
        let recoveredDoublings = (nowMilliseconds - throttledAtMilliseconds) / pace.throttleRecoveryMilliseconds
        return Int(max(0, Int64(spacingDoublings) - recoveredDoublings))
    }

    func spacingMilliseconds(_ pace: Policy.Pace, at nowMilliseconds: Int64) -> Int64 {
        // Also in the scripts (decision: spacing).
        let doublings = currentDoublings(pace, at: nowMilliseconds)
        if doublings == 0 { return pace.spacingMilliseconds }
        var doubledSpacingMilliseconds = pace.spacingMilliseconds
        for _ in 0..<doublings { doubledSpacingMilliseconds *= 2 }
        return max(pace.spacingMilliseconds, min(doubledSpacingMilliseconds, pace.throttledSpacingMillisecondsMax))
    }

    /// Records a 429: doubles the spacing once more, unless it is at its longest. Each push doubles the
    /// spacing at most once, even if its 429 is reported several times.
    ///
    /// - Returns: false if this 429 was recorded before, and nothing changes.
    mutating func recordThrottle(_ pace: Policy.Pace, sentAtMilliseconds: Int64, at nowMilliseconds: Int64) -> Bool {
        if let throttledAtMilliseconds,
            sentAtMilliseconds <= throttledAtMilliseconds && nowMilliseconds >= throttledAtMilliseconds
        {
            return false
        }
        let previousDoublings = currentDoublings(pace, at: nowMilliseconds)
        let isLongest = spacingMilliseconds(pace, at: nowMilliseconds) >= pace.throttledSpacingMillisecondsMax
        spacingDoublings =
            isLongest || previousDoublings == StoreLimits.spacingDoublingsMax
            ? previousDoublings : previousDoublings + 1
        throttledAtMilliseconds = nowMilliseconds
        return true
    }
}

extension Policy.Bucket {
    /// Returns how many pushes are left in this bucket, if it will be full at the time `fullAtMilliseconds`.
    func pushesLeft(fullAtMilliseconds: Int64, nowMilliseconds: Int64) -> Int {
        // Also in the scripts (decision: pushes left).
        var remainingPushes = pushes
        var timeToFullMilliseconds = fullAtMilliseconds - nowMilliseconds
        while timeToFullMilliseconds > 0 && remainingPushes > 0 {
            timeToFullMilliseconds -= intervalMilliseconds
            remainingPushes -= 1
        }
        return remainingPushes
    }

    func fullAfterDrawAtMilliseconds(fullAtMilliseconds: Int64, nowMilliseconds: Int64) -> Int64 {
        // Also in the scripts (decision: budget).
        max(fullAtMilliseconds, nowMilliseconds) + intervalMilliseconds
    }
}
