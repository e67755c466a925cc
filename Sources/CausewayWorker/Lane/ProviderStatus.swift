import Delivery

/// Whether APNs refuses the provider of one lane's pool: its token, its topic, or all requests. Decides when the lane
/// must write this to `WorkerCondition`.
///
/// All lanes write to one `WorkerCondition`, and the last write about a pool counts for the pools of all lanes. A lane
/// writes a changed status at once, and repeats an unchanged one at most every 10 s. Without the repetition, the last
/// write could be an old one, of a lane that no longer has traffic.
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
