import LiveActivity

/// What an activity has spent and may spend.
public struct ActivityPace: Hashable, Sendable {
    /// When the activity was born.
    public internal(set) var bornAtMilliseconds: Int64
    /// When the bucket will be full again if nothing is drawn; full since then if that is past.
    public internal(set) var fullAtMilliseconds: Int64 = 0
    /// The last registration that said anything about it allowed frequent updates.
    public internal(set) var allowsFrequentUpdates = false
    /// How many doublings of the spacing there were after the last 429.
    public internal(set) var doublings = 0
    /// When the last 429 was written down.
    public internal(set) var limitedAtMilliseconds: Int64?

    init(bornAtMilliseconds: Int64) {
        self.bornAtMilliseconds = bornAtMilliseconds
    }

    /// The last second of its life.
    public var endSeconds: Int64 { bornAtMilliseconds / 1_000 + StoreLimits.updatesSeconds }

    func isOver(at now: Int64) -> Bool { now / 1_000 > endSeconds }

    func bucket(_ numbers: Policy.Pace) -> Policy.Bucket {
        allowsFrequentUpdates ? numbers.frequentBudget : numbers.budget
    }

    // MARK: - The stretched spacing

    func doublings(_ numbers: Policy.Pace, at now: Int64) -> Int {
        // A clock that was set back holds nothing up.
        guard let limitedAtMilliseconds, now >= limitedAtMilliseconds else { return 0 }
        let recovered = (now - limitedAtMilliseconds) / numbers.throttleRecoveryMilliseconds
        return Int(max(0, Int64(doublings) - recovered))
    }

    func spacing(_ numbers: Policy.Pace, at now: Int64) -> Int64 {
        let doublings = doublings(numbers, at: now)
        if doublings == 0 { return numbers.spacingMilliseconds }
        var spacing = numbers.spacingMilliseconds
        for _ in 0..<doublings { spacing *= 2 }
        return max(numbers.spacingMilliseconds, min(spacing, numbers.throttledSpacingMaxMilliseconds))
    }

    /// A 429 has come: one doubling more, unless there are enough for the longest spacing. One push is one 429, however often it is
    /// told of.
    ///
    /// - Returns: it counts.
    mutating func limit(_ numbers: Policy.Pace, sentAt: Int64, at now: Int64) -> Bool {
        if let limitedAtMilliseconds, sentAt <= limitedAtMilliseconds && now >= limitedAtMilliseconds { return false }
        let before = doublings(numbers, at: now)
        let isLongest = spacing(numbers, at: now) >= numbers.throttledSpacingMaxMilliseconds
        doublings = isLongest || before == StoreLimits.doublingsMax ? before : before + 1
        limitedAtMilliseconds = now
        return true
    }
}

extension Policy.Bucket {
    /// Pushes that a bucket has which will be full at a time.
    func left(fullAt: Int64, now: Int64) -> Int {
        var left = pushes
        var missing = fullAt - now
        while missing > 0 && left > 0 {
            missing -= intervalMilliseconds
            left -= 1
        }
        return left
    }

    /// When a bucket will be full from which one more is drawn.
    func drawn(fullAt: Int64, now: Int64) -> Int64 { max(fullAt, now) + intervalMilliseconds }
}
