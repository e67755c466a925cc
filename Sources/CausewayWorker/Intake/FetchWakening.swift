/// When librdkafka's broker threads are told to look for what they may fetch.
///
/// Before 2.2 they stop while the consumer's queue is full, and then sleep for up to a second, however soon it is empty: a lane that works
/// a backlog off would stand still for most of the time. What is known of the log and neither dealt nor queued has yet to be fetched; when
/// that is so and the queue runs low, a look costs one small request and does no harm, also if a fetch is under way.
struct FetchWakening {
    /// A queue of so many records is no longer full: half of `queued.min.messages`, and many turns' worth of work.
    static let queuedMax = 50_000
    /// The least time between two looks: that of a turn of the Kafka thread, which looks again by itself while a backlog is known.
    static let intervalMilliseconds: Int64 = 10

    private var dueMilliseconds: Int64 = 0

    /// - Parameters:
    ///   - queued: records that were fetched and not dealt.
    ///   - recordsBehind: records that are known to be in the log and were not dealt, those in the queue among them.
    mutating func isDue(queued: Int, recordsBehind: Int64, nowMilliseconds: Int64) -> Bool {
        guard nowMilliseconds >= dueMilliseconds, queued <= Self.queuedMax, recordsBehind > Int64(queued) else {
            return false
        }
        dueMilliseconds = nowMilliseconds + Self.intervalMilliseconds
        return true
    }
}
