/// How many pushes may be sent again: a share of those that are sent for the first time, so that trouble at APNs is not answered with
/// a multiple of the load. Pure.
///
/// A bucket of hundredths of a retry: a first attempt adds ``percent`` of them. What is saved up in good times is bounded.
public struct RetryBudget: Sendable {
    /// Retries for each hundred first attempts.
    public static let percent = 10
    /// Retries that can be saved up, and that a new budget begins with: a pool that has sent little may still retry.
    public static let savedMax = 100

    private static let retryCost = 100
    private var balance = RetryBudget.savedMax * RetryBudget.retryCost

    public init() {}

    /// Whether one more retry is within the budget.
    public var permitsRetry: Bool { balance >= Self.retryCost }

    /// What is left of what can be saved up, 0 to 1.
    public var ratio: Double { Double(max(0, balance)) / Double(Self.savedMax * Self.retryCost) }

    mutating func countFirstAttempt() {
        balance = min(balance + Self.percent, Self.savedMax * Self.retryCost)
    }

    mutating func countRetry() {
        balance = max(0, balance - Self.retryCost)
    }
}
