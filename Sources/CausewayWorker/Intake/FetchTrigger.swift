/// Decides when librdkafka's broker threads must be woken to fetch.
///
/// Before 2.2 a broker thread stops while the consumer's queue is full, and then sleeps up to a second, however soon the queue is empty.
/// A lane that works off a backlog would be idle for most of the time. If the log has known records that are neither dealt nor queued,
/// and the queue runs low, they still need a fetch. Waking the thread costs one small request, and does no harm if a fetch is already
/// under way.
struct FetchTrigger {
    /// A queue with at most this many records is not full: half of `queued.min.messages`, and enough work for many turns.
    static let queuedMax = 50_000
    /// The least time between two polls. While a backlog is known the Kafka thread has at least one turn in this time.
    static let intervalMilliseconds: Int64 = 10

    private var dueMilliseconds: Int64 = 0

    /// - Parameters:
    ///   - queued: records that were fetched and not dealt.
    ///   - recordsBehind: records that are known to be in the log and were not dealt, including the queued ones.
    mutating func isDue(queued: Int, recordsBehind: Int64, nowMilliseconds: Int64) -> Bool {
        guard nowMilliseconds >= dueMilliseconds, queued <= Self.queuedMax, recordsBehind > Int64(queued) else {
            return false
        }
        dueMilliseconds = nowMilliseconds + Self.intervalMilliseconds
        return true
    }
}
