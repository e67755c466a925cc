import LiveActivity

/// When an activity began, the draws on its budget, and the spacing of its pushes. Times are UNIX milliseconds.
public struct ActivityPace: Hashable, Sendable {
    /// When Redis allowed the activity's newest start. Without a start: when Redis took its first command or token.
    public internal(set) var beganAtMilliseconds: Int64
    /// When the bucket of priority 10 will be full again if nothing is drawn. A time in the past means that the
    /// bucket is full.
    public internal(set) var fullAtMilliseconds: Int64 = 0
    /// Whether the last registration that mentioned frequent updates allowed them. False after a start, until a
    /// registration allows them.
    public internal(set) var allowsFrequentUpdates = false
    /// How many doublings of the spacing applied when the last 429 was recorded, including its own.
    public internal(set) var doublings = 0
    /// When Redis recorded the last 429; nil: there was none.
    public internal(set) var limitedAtMilliseconds: Int64?

    init(beganAtMilliseconds: Int64) {
        self.beganAtMilliseconds = beganAtMilliseconds
    }

    /// The last second in which Redis admits updates, UNIX seconds.
    public var endSeconds: Int64 { beganAtMilliseconds / 1_000 + StoreLimits.updatesSeconds }

    func hasEnded(at now: Int64) -> Bool { now / 1_000 > endSeconds }

    func bucket(_ pace: Policy.Pace) -> Policy.Bucket {
        allowsFrequentUpdates ? pace.frequentBudget : pace.budget
    }

    // MARK: - The spacing after answers 429

    func doublings(_ pace: Policy.Pace, at now: Int64) -> Int {
        // If the server's clock was set back, no doubling applies.
        guard let limitedAtMilliseconds, now >= limitedAtMilliseconds else { return 0 }
        let recovered = (now - limitedAtMilliseconds) / pace.throttleRecoveryMilliseconds
        return Int(max(0, Int64(doublings) - recovered))
    }

    func spacing(_ pace: Policy.Pace, at now: Int64) -> Int64 {
        let doublings = doublings(pace, at: now)
        if doublings == 0 { return pace.spacingMilliseconds }
        var spacing = pace.spacingMilliseconds
        for _ in 0..<doublings { spacing *= 2 }
        return max(pace.spacingMilliseconds, min(spacing, pace.throttledSpacingMillisecondsMax))
    }

    /// Records a 429: doubles the spacing once more, unless it is at its longest. Each push doubles the
    /// spacing at most once, even if its 429 is reported several times.
    ///
    /// - Returns: false if this 429 was recorded before, and nothing changes.
    mutating func recordLimit(_ pace: Policy.Pace, sentAt: Int64, at now: Int64) -> Bool {
        if let limitedAtMilliseconds, sentAt <= limitedAtMilliseconds && now >= limitedAtMilliseconds { return false }
        let doublingsBefore = doublings(pace, at: now)
        let isLongest = spacing(pace, at: now) >= pace.throttledSpacingMillisecondsMax
        doublings = isLongest || doublingsBefore == StoreLimits.doublingsMax ? doublingsBefore : doublingsBefore + 1
        limitedAtMilliseconds = now
        return true
    }
}

extension Policy.Bucket {
    /// Returns how many pushes are left in this bucket, if it will be full at the time `fullAt`.
    func pushesLeft(fullAt: Int64, now: Int64) -> Int {
        var left = pushes
        var missing = fullAt - now
        while missing > 0 && left > 0 {
            missing -= intervalMilliseconds
            left -= 1
        }
        return left
    }

    /// Returns when this bucket will be full after one more draw.
    func fullAtAfterDraw(fullAt: Int64, now: Int64) -> Int64 { max(fullAt, now) + intervalMilliseconds }
}
