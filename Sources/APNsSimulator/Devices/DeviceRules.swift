/// How ActivityKit and APNs limit Live Activities. A test can set the limits that Apple does not specify. The limits
/// that Apple specifies are constants.
public struct DeviceRules: Sendable, Equatable {
    /// A limit on the rate of pushes. A full budget allows `capacity` pushes at once. Each accepted push takes 1 from
    /// the budget, and 1 comes back every `refillIntervalMilliseconds`.
    public struct Budget: Sendable, Equatable {
        public var capacity: Int
        public var refillIntervalMilliseconds: Int64

        public init(capacity: Int, refillIntervalMilliseconds: Int64) {
            self.capacity = max(0, capacity)
            self.refillIntervalMilliseconds = max(1, refillIntervalMilliseconds)
        }
    }

    /// The budget of one activity for pushes and broadcasts of priority 10; nil: no limit. The phone silently drops
    /// pushes beyond the budget.
    public var updateBudget: Budget?
    /// The budget for starts by push of one app on one phone; nil: no limit. The phone silently drops starts beyond the
    /// budget.
    public var startBudget: Budget?
    /// The grace time: how long APNs still responds with 200 to pushes for a token that has become invalid with the
    /// reason `expiredToken` (its activity was ended or dismissed, or the token was replaced). Later pushes get a 410.
    ///
    /// Has no effect on the tokens of a crowd (``CompactCrowd``), or on replaced tokens that are
    /// ``TokenTable/State/acceptedWithoutEffect``, whose pushes always get a 200.
    public var retiredTokenGraceMilliseconds: Int64

    public init(updateBudget: Budget? = nil, startBudget: Budget? = nil, retiredTokenGraceMilliseconds: Int64 = 0) {
        self.updateBudget = updateBudget
        self.startBudget = startBudget
        self.retiredTokenGraceMilliseconds = min(max(0, retiredTokenGraceMilliseconds), Self.graceMillisecondsMax)
    }

    /// The longest grace time, one year. A longer configured time is shortened to one year, so that the moment at which
    /// a grace time ends always fits an `Int64`.
    static let graceMillisecondsMax: Int64 = 365 * 86_400_000
    /// The system ends an activity after 8 h.
    static let activeMillisecondsMax: Int64 = 8 * 3_600_000
    /// An ended activity stays on the Lock Screen for at most 4 h.
    static let endedVisibleMillisecondsMax: Int64 = 4 * 3_600_000
    /// No activity stays on the Lock Screen longer than 12 h.
    static let visibleMillisecondsMax: Int64 = 12 * 3_600_000
    /// How far an update's timestamp may be ahead of the phone's clock. An update further ahead is dropped.
    static let timestampAheadSecondsMax: Int64 = 8 * 3_600
}

/// How many pushes a budget still allows.
struct BudgetBucket {
    private var remainingPushCount: Int
    private var refilledAtMilliseconds: Int64

    init(_ budget: DeviceRules.Budget?, nowMilliseconds: Int64) {
        remainingPushCount = budget?.capacity ?? 0
        refilledAtMilliseconds = nowMilliseconds
    }

    /// Takes one push from the budget. Returns false if none is left. Without a budget, always returns true.
    mutating func draw(from budget: DeviceRules.Budget?, nowMilliseconds: Int64) -> Bool {
        guard let budget else { return true }
        let intervalCount = max(0, nowMilliseconds - refilledAtMilliseconds) / budget.refillIntervalMilliseconds
        if intervalCount > 0 {
            let capacity = Int64(budget.capacity)
            remainingPushCount = Int(min(capacity, Int64(remainingPushCount) + min(intervalCount, capacity)))
            refilledAtMilliseconds += intervalCount * budget.refillIntervalMilliseconds
        }
        guard remainingPushCount > 0 else { return false }
        remainingPushCount -= 1
        return true
    }
}
