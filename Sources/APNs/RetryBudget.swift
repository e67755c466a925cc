/// Limits retries to a share of the first attempts, so that a fault at APNs does not multiply the load (R21).
/// It does no I/O.
///
/// The budget is a token bucket, counted in hundredths of a retry. Each first attempt adds ``percent``
/// hundredths, and each retry takes a hundred.
public struct RetryBudget: Sendable {
    /// Retries for each hundred first attempts.
    public static let percent = 10
    /// The most retries that the budget can save up. A new budget starts with all of them, so that a pool
    /// that has sent little may retry.
    public static let savedMax = 100

    private static let retryCost = 100
    private var balance = RetryBudget.savedMax * RetryBudget.retryCost

    public init() {}

    /// Whether the budget allows one more retry.
    public var permitsRetry: Bool { balance >= Self.retryCost }

    /// The part of ``savedMax`` that is left, 0 to 1.
    public var ratio: Double { Double(max(0, balance)) / Double(Self.savedMax * Self.retryCost) }

    mutating func countFirstAttempt() {
        balance = min(balance + Self.percent, Self.savedMax * Self.retryCost)
    }

    mutating func countRetry() {
        balance = max(0, balance - Self.retryCost)
    }
}
