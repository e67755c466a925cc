/// What a lane's inbox had no place for, and whether its partitions are paused for it.
///
/// *Flowing* (nothing waits) → *waiting* (a record found the inbox full; nothing is polled) → *paused* (the lane took nothing for
/// `patienceMilliseconds`; what librdkafka still hands out waits here) → *flowing*, when all is placed and the inbox is half empty.
struct LaneOverflow {
    /// How long a full inbox is waited for before its lane's partitions are paused: pausing throws away what was fetched.
    static let patienceMilliseconds: Int64 = 1_000
    /// The most that waits here. librdkafka hands out nothing of a paused partition, so only what raced with the pause comes.
    static let entriesMax = 4_096

    var entries: [InboxEntry] = []
    var isPaused = false
    private var sinceMilliseconds: Int64 = 0

    mutating func append(_ entry: InboxEntry, nowMilliseconds: Int64) {
        if entries.isEmpty { sinceMilliseconds = nowMilliseconds }
        entries.append(entry)
    }

    func isDue(nowMilliseconds: Int64) -> Bool {
        !isPaused && !entries.isEmpty && nowMilliseconds - sinceMilliseconds >= Self.patienceMilliseconds
    }
}
