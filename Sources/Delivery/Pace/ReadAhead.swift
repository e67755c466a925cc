/// Decides when a lane reads ahead. A lane that is far behind keeps only the newest state of each activity
/// before it admits anything. So a backlog of millions of commands costs only as many pushes as there are
/// activities. (R21)
///
/// Does no I/O: decides from how far the partitions are behind, how full the lane is, and the time.
/// Activities that may begin wait until the end of reading ahead (`ActivityPhase.awaitingReadAhead`).
struct ReadAhead {
    enum Phase {
        /// Activities begin when their commands are read. → `reading` when the lane is behind by more than
        /// the limit.
        case off
        /// Activities that could begin wait, and newer states replace their waiting states. → `off`
        /// when the lane has caught up, or was behind by less than half of the limit for `nearMilliseconds`;
        /// `emptying` when the lane is too full or has waited too long. The waiting activities begin in both
        /// cases.
        case reading
        /// The waiting activities begin, which makes room in the lane. → `reading` when there is room again
        /// and the lane is still behind by more than the limit; `off` when it is not.
        case emptying
    }

    /// How far one partition is behind, as last reported.
    struct Lag: BitwiseCopyable {
        /// Records of the partition that the lane has not received.
        fileprivate var records: Int64 = 0
        /// The partition's known lag: the same as `records`, or 0 if `records` is a guess.
        fileprivate var knownRecords: Int64 = 0
    }

    /// How much of its room for records, or of a partition's window of offsets, a lane has used.
    enum Fullness {
        case upToHalf
        case upToThreeQuarters
        case aboveThreeQuarters
    }

    /// What the lane must do with the activities that wait for the end of reading ahead.
    enum Decision {
        case unchanged
        case beginActivities
    }

    /// How long a lane continues to read ahead while it is behind by less than half of the limit. Each record
    /// that it still reads can save a second push to an activity. The time is limited, because a lane whose
    /// partitions are always written to is never fully caught up.
    static let nearMilliseconds: Int64 = 2_000
    /// The maximum lag that is counted for one partition. A broker may report any number, and the sum must
    /// not overflow.
    static let partitionRecordsMax: Int64 = 1 << 40

    private(set) var phase = Phase.off
    /// Whether the lane has known, since it was last `off`, that it is behind by more than the limit. The
    /// guessed lag of a new partition does not count.
    private(set) var isBacklogKnown = false
    private var lagRecordsMax: Int64 = 0
    private var readingMaxMilliseconds: Int64 = 0
    private var sinceMilliseconds: Int64 = 0
    /// The sum over the lane's partitions of the commands topic.
    private var recordsBehind: Int64 = 0
    /// The known part of that sum.
    private var recordsKnownBehind: Int64 = 0
    /// Since when the lane is behind by less than half of the limit; `.max` while it is behind by more.
    private var nearSinceMilliseconds: Int64 = .max

    init(_ configuration: DeliveryConfiguration) { take(configuration) }

    mutating func take(_ configuration: DeliveryConfiguration) {
        lagRecordsMax = configuration.readAheadLagRecords
        readingMaxMilliseconds = configuration.readAheadMaxMilliseconds
    }

    /// The monotonic time at which reading ahead ends at the latest; nil when the lane does not read ahead.
    var dueMilliseconds: Int64? { phase == .reading ? min(nearDueMilliseconds, longestDueMilliseconds) : nil }

    private var longestDueMilliseconds: Int64 { sinceMilliseconds + readingMaxMilliseconds }

    private var nearDueMilliseconds: Int64 {
        nearSinceMilliseconds == .max ? .max : nearSinceMilliseconds + Self.nearMilliseconds
    }

    /// Notes that a partition is this many records behind.
    ///
    /// - Parameter isAssumed: whether the number is a guess, because the partition's lag is not known yet.
    mutating func note(_ lag: inout Lag, records: Int64, isAssumed: Bool, now: Moment) -> Decision {
        let records = min(max(0, records), Self.partitionRecordsMax)
        add(&lag, records: records, known: isAssumed ? 0 : records)
        if recordsKnownBehind > lagRecordsMax { isBacklogKnown = true }
        noteWhetherNear(now: now)
        switch phase {
        case .off:
            if recordsBehind > lagRecordsMax { read(now: now) }
        case .reading:
            guard recordsBehind > 0 else { return end() }
        case .emptying:
            if recordsBehind <= lagRecordsMax { return end() }
        }
        return .unchanged
    }

    /// Removes the lag of a revoked partition. Reading ahead continues while other partitions are behind.
    /// Otherwise waiting states would be sent although newer ones wait in the log, which Redis may not know
    /// after a loss of data.
    mutating func partitionLeaves(_ lag: inout Lag, now: Moment) -> Decision {
        add(&lag, records: 0, known: 0)
        noteWhetherNear(now: now)
        guard phase == .reading, recordsBehind <= 0 else { return .unchanged }
        return end()
    }

    /// Changes the phase if necessary. Called once a turn with the time and with how full the lane is.
    mutating func advance(_ fullness: Fullness, now: Moment) -> Decision {
        switch phase {
        case .off: break
        case .reading:
            if nearDueMilliseconds <= now.monotonicMilliseconds { return end() }
            if longestDueMilliseconds <= now.monotonicMilliseconds || fullness == .aboveThreeQuarters {
                phase = .emptying
                return .beginActivities
            }
        case .emptying:
            if recordsBehind <= lagRecordsMax { return end() }
            if fullness == .upToHalf { read(now: now) }
        }
        return .unchanged
    }

    /// Whether a lane that began to read ahead at this time is done: it has caught up, was behind by less
    /// than half of the limit for `nearMilliseconds`, has no room left, or has read for the longest time
    /// allowed.
    func hasRead(since milliseconds: Int64, _ fullness: Fullness, now: Moment) -> Bool {
        guard recordsBehind > 0, fullness != .aboveThreeQuarters else { return true }
        let time = now.monotonicMilliseconds
        return time - milliseconds >= readingMaxMilliseconds
            || time - max(milliseconds, nearSinceMilliseconds) >= Self.nearMilliseconds
    }

    private mutating func add(_ lag: inout Lag, records: Int64, known: Int64) {
        recordsBehind += records - lag.records
        recordsKnownBehind += known - lag.knownRecords
        (lag.records, lag.knownRecords) = (records, known)
    }

    private mutating func noteWhetherNear(now: Moment) {
        if recordsBehind >= lagRecordsMax / 2 {
            nearSinceMilliseconds = .max
        } else if nearSinceMilliseconds == .max {
            nearSinceMilliseconds = now.monotonicMilliseconds
        }
    }

    private mutating func read(now: Moment) {
        phase = .reading
        sinceMilliseconds = now.monotonicMilliseconds
        nearSinceMilliseconds = .max
    }

    /// Ends reading ahead. `beginActivities` does nothing if no activity waits any more.
    private mutating func end() -> Decision {
        phase = .off
        isBacklogKnown = false
        return .beginActivities
    }
}
