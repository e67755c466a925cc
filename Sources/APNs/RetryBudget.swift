/// Limits retries to a share of the first attempts, so that a fault at APNs does not multiply the load (R21).
/// It does no I/O.
///
/// The budget is counted in hundredths of a retry. Each first attempt adds ``retriesPerHundredFirstAttempts``
/// hundredths, and each retry takes a hundred. So ten first attempts pay for one retry.
public struct RetryBudget: Sendable {
    /// How many retries a hundred first attempts pay for.
    public static let retriesPerHundredFirstAttempts = 10
    /// How many retries the budget can save up at most. A new budget starts with all of them, so that a pool that
    /// has sent little may retry.
    public static let retriesSavedMax = 100

    private static let hundredthsPerRetry = 100
    private var balanceHundredths = RetryBudget.retriesSavedMax * RetryBudget.hundredthsPerRetry

    public init() {}

    /// Whether the caller may submit one retry now. First attempts need no permission.
    public var permitsRetry: Bool { balanceHundredths >= Self.hundredthsPerRetry }

    /// The part of ``retriesSavedMax`` that is left, 0 to 1.
    public var remainingRatio: Double {
        Double(max(0, balanceHundredths)) / Double(Self.retriesSavedMax * Self.hundredthsPerRetry)
    }

    /// Call this for each first attempt: the attempt pays for a tenth of a retry (``retriesPerHundredFirstAttempts``).
    mutating func addShareForFirstAttempt() {
        balanceHundredths = min(
            balanceHundredths + Self.retriesPerHundredFirstAttempts,
            Self.retriesSavedMax * Self.hundredthsPerRetry
        )
    }

    /// Takes one retry from the budget. Call this for each retry.
    mutating func drawRetry() {
        balanceHundredths = max(0, balanceHundredths - Self.hundredthsPerRetry)
    }
}
