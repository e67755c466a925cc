import Delivery

/// Whether APNs refuses the provider of one lane's pool: its token, its topic, or all requests. Decides when the lane
/// must write this to `WorkerCondition`.
///
/// All lanes share one `WorkerCondition` under one lock, and the last write decides for the whole worker. A lane writes
/// a changed status at once. It also repeats an unchanged status, but seldom. Without the repetition, the last write
/// could be an old one, of a lane that no longer has traffic.
struct ProviderStatus {
    /// The time between two writes of an unchanged status.
    static let repetitionIntervalMilliseconds: Int64 = 10_000

    /// Whether APNs refused the provider, according to the last response that shows this; nil before the first such
    /// response.
    private var isRefused: Bool?
    private var nextWriteAtMilliseconds: Int64 = .min

    /// Notes a response that shows whether APNs refuses the provider.
    ///
    /// - Returns: whether the lane must write the status.
    mutating func noteResponse(isRefused: Bool, now: Moment) -> Bool {
        guard isRefused != self.isRefused || now.monotonicMilliseconds >= nextWriteAtMilliseconds else { return false }
        self.isRefused = isRefused
        nextWriteAtMilliseconds = now.monotonicMilliseconds + Self.repetitionIntervalMilliseconds
        return true
    }
}
