/// Far behind, a lane reads ahead and keeps only the newest state of each activity before it admits anything (design §10): a backlog of
/// millions of commands costs as many pushes as there are activities.
///
/// Decides alone, from how far the partitions are behind, how full the lane is, and the time; says when the parked activities begin.
struct ReadAhead {
    enum Phase {
        /// Activities are begun as they come. → `reading`, when the lane is behind by more than the limit.
        case off
        /// Activities that could be begun are parked, and newer states replace what they wait with. → `off`, when the lane has caught
        /// up, or has been behind by less than half of the limit for `nearMilliseconds`; `emptying`, when it holds as much or has waited
        /// as long as it may. Both begin the parked activities.
        case reading
        /// What was parked is worked off. → `reading`, when there is room and the lane is still behind by more than the limit; `off`,
        /// when it is not.
        case emptying
    }

    /// How far one partition is behind, as it was last told.
    struct Lag: BitwiseCopyable {
        /// Records that the lane has not received.
        fileprivate var records: Int64 = 0
        /// The same, or 0 if it was a guess.
        fileprivate var knownRecords: Int64 = 0
    }

    /// How much of its room for records, or of a partition's window of offsets, a lane has used.
    enum Fullness {
        case upToHalf
        case upToThreeQuarters
        case aboveThreeQuarters
    }

    /// What the lane is to do.
    enum Decision {
        case goOn
        case beginParked
    }

    /// The last records are worth this wait: each of them may be a second push to an activity that was begun without it. A lane whose
    /// partitions are written to all the time is never behind by nothing.
    static let nearMilliseconds: Int64 = 2_000
    /// As much as one partition counts for: what a broker says may be any number, and as many partitions as there can be are added up.
    static let partitionRecordsMax: Int64 = 1 << 40

    private(set) var phase = Phase.off
    /// Whether the lane has known, since it was last `off`, to be behind by more than the limit. What is assumed of partitions of which
    /// nothing has been heard yet says nothing of it.
    private(set) var isBacklogKnown = false
    private var lagRecordsMax: Int64 = 0
    private var readingMaxMilliseconds: Int64 = 0
    private var sinceMilliseconds: Int64 = 0
    /// The sum over the lane's partitions of the commands topic.
    private var recordsBehind: Int64 = 0
    /// What of it is known.
    private var recordsKnownBehind: Int64 = 0
    /// When the lane came to be behind by less than half of the limit; `.max` while it is behind by more.
    private var nearSinceMilliseconds: Int64 = .max

    init(_ configuration: DeliveryConfiguration) { take(configuration) }

    mutating func take(_ configuration: DeliveryConfiguration) {
        lagRecordsMax = configuration.readAheadLagRecords
        readingMaxMilliseconds = configuration.readAheadMaxMilliseconds
    }

    /// When reading ends by the clock alone; nil when the lane does not read ahead.
    var dueMilliseconds: Int64? { phase == .reading ? min(nearDueMilliseconds, longestDueMilliseconds) : nil }

    private var longestDueMilliseconds: Int64 { sinceMilliseconds + readingMaxMilliseconds }

    private var nearDueMilliseconds: Int64 {
        nearSinceMilliseconds == .max ? .max : nearSinceMilliseconds + Self.nearMilliseconds
    }

    /// A partition is behind by so many records.
    ///
    /// - Parameter isAssumed: whether the partition's lag is not known yet, so that the number is a guess.
    mutating func note(_ lag: inout Lag, records: Int64, isAssumed: Bool, now: Moment) -> Decision {
        let records = min(max(0, records), Self.partitionRecordsMax)
        add(&lag, records: records, known: isAssumed ? 0 : records)
        if recordsKnownBehind > lagRecordsMax { isBacklogKnown = true }
        noteNearness(now: now)
        switch phase {
        case .off:
            if recordsBehind > lagRecordsMax { read(now: now) }
        case .reading:
            guard recordsBehind > 0 else { return end() }
        case .emptying:
            if recordsBehind <= lagRecordsMax { return end() }
        }
        return .goOn
    }

    /// A revoked partition's lag no longer counts. While the others are behind, reading goes on as if nothing had happened: what is parked
    /// would be sent although newer states stand behind it, and after a loss of the store nothing else knows that they are newer.
    mutating func partitionLeaves(_ lag: inout Lag, now: Moment) -> Decision {
        add(&lag, records: 0, known: 0)
        noteNearness(now: now)
        guard phase == .reading, recordsBehind <= 0 else { return .goOn }
        return end()
    }

    /// Once a turn: time, and what the lane holds.
    mutating func advance(_ fullness: Fullness, now: Moment) -> Decision {
        switch phase {
        case .off: break
        case .reading:
            if nearDueMilliseconds <= now.monotonicMilliseconds { return end() }
            if longestDueMilliseconds <= now.monotonicMilliseconds || fullness == .aboveThreeQuarters {
                phase = .emptying
                return .beginParked
            }
        case .emptying:
            if recordsBehind <= lagRecordsMax { return end() }
            if fullness == .upToHalf { read(now: now) }
        }
        return .goOn
    }

    /// Whether a lane that had to read ahead from a time on has done so: it has caught up, or was near for `nearMilliseconds`, or has no room,
    /// or has read for as long as it may.
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

    private mutating func noteNearness(now: Moment) {
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

    /// Activities are parked only while the lane reads, so beginning the parked ones does nothing when none is left.
    private mutating func end() -> Decision {
        phase = .off
        isBacklogKnown = false
        return .beginParked
    }
}
