/// Limits retries to a share of the first attempts, so that a fault at APNs does not multiply the load. Does
/// no I/O. (R21)
///
/// A token bucket in hundredths of a retry. Each first attempt adds ``percent`` hundredths; a retry takes a
/// hundred.
public struct RetryBudget: Sendable {
    /// Retries for each hundred first attempts.
    public static let percent = 10
    /// The most retries that can be saved up. A new budget starts with them, so that a pool that has sent
    /// little may retry.
    public static let savedMax = 100

    private static let retryCost = 100
    private var balance = RetryBudget.savedMax * RetryBudget.retryCost

    public init() {}

    /// Whether the budget allows one more retry.
    public var permitsRetry: Bool { balance >= Self.retryCost }

    /// The share of the saved retries that is left, 0 to 1.
    public var ratio: Double { Double(max(0, balance)) / Double(Self.savedMax * Self.retryCost) }

    mutating func countFirstAttempt() {
        balance = min(balance + Self.percent, Self.savedMax * Self.retryCost)
    }

    mutating func countRetry() {
        balance = max(0, balance - Self.retryCost)
    }
}
