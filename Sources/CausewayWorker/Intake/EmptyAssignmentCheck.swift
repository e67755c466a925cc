/// Finds out why an assignment has no partitions: other workers have all of them, or the commands topic has none.
///
/// If the brokers say that the topic has partitions, other workers own them, and this worker counts as a member of the
/// consumer group. (Its member id does not prove this: a broker sends the id before any assignment. KIP-394)
struct EmptyAssignmentCheck {
    static let requestIntervalMilliseconds: Int64 = 5_000
    /// How long the Kafka thread waits for the brokers. The time is short, because meanwhile the lanes get no records.
    static let requestTimeoutMilliseconds: Int32 = 500

    /// Whether the last assignment was empty and the reason is unknown: the brokers have not said yet that the commands
    /// topic has partitions.
    private(set) var isCauseUnknown = false
    private var requestDueMilliseconds: Int64 = 0

    mutating func noteAssignment(isEmpty: Bool) {
        isCauseUnknown = isEmpty
        requestDueMilliseconds = 0
    }

    func isRequestDue(nowMilliseconds: Int64) -> Bool { isCauseUnknown && nowMilliseconds >= requestDueMilliseconds }

    /// Delays the next request, because the brokers did not respond, or said that the topic has no partitions.
    mutating func postponeRequest(nowMilliseconds: Int64) {
        requestDueMilliseconds = nowMilliseconds + Self.requestIntervalMilliseconds
    }
}
