/// Decides when librdkafka's broker threads must be woken to fetch more records.
///
/// In librdkafka before 2.2, a broker thread stops fetching while the consumer's queue is full. The thread then sleeps
/// up to a second, even if the queue is emptied sooner. A lane that works through a backlog would be idle for most of
/// that second.
///
/// So the Kafka thread wakes the broker threads when the queue is nearly empty and Kafka's log is known to have records
/// that were neither dealt nor queued. Waking a thread costs one small request. It does no harm if a fetch is already
/// under way.
struct FetchTrigger {
    /// With at most this many records, the queue counts as nearly empty. These records keep the lanes busy until the
    /// next fetch arrives. If `MemoryBudget` limits the queue to fewer records, the queue always counts as nearly
    /// empty.
    static let nearlyEmptyQueueRecordsMax = 50_000
    /// The least time between two wake-ups of the broker threads. While a backlog is known, a timer of this length
    /// wakes the Kafka thread again and again. With a timer of 100 ms, the queue ran empty before the next fetch
    /// arrived, and the worker was idle for two thirds of the time.
    static let intervalMilliseconds: Int64 = 10

    private var triggerDueMilliseconds: Int64 = 0

    /// Returns whether the caller must wake the broker threads now. If so, the next wake-up is not due before
    /// `intervalMilliseconds` have passed.
    ///
    /// - Parameters:
    ///   - queuedRecordCount: records that were fetched and not dealt.
    ///   - recordToDealCount: records that are known to be in Kafka's log and are not dealt to a lane yet, including
    ///     the queued records.
    mutating func triggerIfDue(queuedRecordCount: Int, recordToDealCount: Int64, nowMilliseconds: Int64) -> Bool {
        guard nowMilliseconds >= triggerDueMilliseconds, queuedRecordCount <= Self.nearlyEmptyQueueRecordsMax,
            recordToDealCount > Int64(queuedRecordCount)
        else {
            return false
        }
        triggerDueMilliseconds = nowMilliseconds + Self.intervalMilliseconds
        return true
    }
}
