/// Finds out why an assignment has no partitions: other workers have all of them, or the commands topic has none.
///
/// The worker counts as a member of the consumer group as soon as it gets partitions. After an empty assignment, it
/// counts as a member as soon as the brokers say that the topic has partitions. (That the worker has a member id is no
/// proof: a broker sends this id in its response to the first join request, before any assignment. KIP-394)
struct EmptyAssignmentCheck {
    static let requestIntervalMilliseconds: Int64 = 5_000
    /// How long the Kafka thread waits for the brokers. The time is short, because meanwhile the lanes get no
    /// records.
    static let requestTimeoutMilliseconds: Int32 = 500

    /// Whether the last assignment has no partitions, and the brokers have not said yet that the commands topic has
    /// some.
    private(set) var isCauseUnknown = false
    private var requestDueMilliseconds: Int64 = 0

    mutating func noteAssignment(isEmpty: Bool) {
        isCauseUnknown = isEmpty
        requestDueMilliseconds = 0
    }

    func isRequestDue(nowMilliseconds: Int64) -> Bool { isCauseUnknown && nowMilliseconds >= requestDueMilliseconds }

    mutating func postponeRequest(nowMilliseconds: Int64) {
        requestDueMilliseconds = nowMilliseconds + Self.requestIntervalMilliseconds
    }
}
