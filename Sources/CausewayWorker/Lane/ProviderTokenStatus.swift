import Delivery

/// What one lane's pool last learned about its app's provider token, and when the lane must write this to
/// `WorkerCondition`.
///
/// All lanes share that object under one lock, so a lane writes a changed status at once and an unchanged one seldom.
/// It does repeat an unchanged one: the last write decides for the whole worker, and the lane that wrote last may have
/// no traffic any more.
struct ProviderTokenStatus {
    /// The time between two writes of an unchanged status.
    static let repetitionIntervalMilliseconds: Int64 = 10_000

    /// Whether APNs refused the token, by the last response that shows this; nil before the first such response.
    private var isRefused: Bool?
    private var nextWriteAtMilliseconds: Int64 = .min

    /// Notes a response that shows whether APNs refuses the token.
    /// - Returns: whether the lane must write the status.
    mutating func noteResponse(isRefused: Bool, now: Moment) -> Bool {
        guard isRefused != self.isRefused || now.monotonicMilliseconds >= nextWriteAtMilliseconds else { return false }
        self.isRefused = isRefused
        nextWriteAtMilliseconds = now.monotonicMilliseconds + Self.repetitionIntervalMilliseconds
        return true
    }
}
