/// Decides when a lane reads ahead. A lane that is far behind begins no command and keeps only the newest state of each
/// activity, as far as it has room. So a backlog of many commands needs only one push for each activity. (R21)
///
/// Does no I/O: decides from how far the partitions are behind, how full the lane is, and the time.
/// Activities that may begin wait until the end of reading ahead (`ActivityPhase.awaitingReadAhead`).
struct ReadAhead {
    enum Phase {
        /// Activities begin when their commands are read. Next: `reading` when the lane is behind by more than
        /// `readAheadLagRecords`.
        case off
        /// No activity begins. Newer states replace those that wait. Each of the next phases lets the waiting
        /// activities begin. Next:
        /// - `off` when the lane has caught up, or when it was behind by less than half of `readAheadLagRecords` for as
        ///   long as `smallLagMilliseconds`.
        /// - `emptying` when the lane is more than three quarters full, or has read ahead for
        ///   `readAheadMillisecondsMax`.
        case reading
        /// The waiting activities begin, which makes room in the lane. Next: `reading` when there is room again and the
        /// lane is still behind by more than `readAheadLagRecords`; `off` when the lane is not so far behind.
        case emptying
    }

    /// How far one partition is behind, as the shell last reported.
    struct Lag: BitwiseCopyable {
        /// Records of the partition that the lane has not received.
        fileprivate var recordsBehind: Int64 = 0
        /// The same number as `recordsBehind`, or 0 if `recordsBehind` is a guess. A guess makes the lane read ahead,
        /// but does not set `isBacklogKnown`.
        fileprivate var recordsKnownBehind: Int64 = 0
    }

    /// How much a lane has used of its room for records, of its room for bytes, or of a partition's window of offsets:
    /// the fullest of them counts. `Phase.reading` ends above three quarters, `Phase.emptying` at half. With a single
    /// bound, nearly each record would change the phase.
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

    /// How long a lane continues to read ahead while it is behind by less than half of `readAheadLagRecords`. Each
    /// record that it still reads may save a push. The time is limited, because producers write all the time, and the
    /// lane may never catch up completely.
    static let smallLagMilliseconds: Int64 = 2_000
    /// The largest lag that counts for one partition. A broker may report any number, and the sum over
    /// partitions must not overflow.
    static let partitionLagRecordsMax: Int64 = 1 << 40

    private(set) var phase = Phase.off
    /// Whether the lane was behind by more than `readAheadLagRecords` at some time since the phase was last `off`. The
    /// guessed lag of a new partition does not count: in the mode `countedWhenBehind`, superseded commands may lack
    /// results only in a real backlog.
    private(set) var isBacklogKnown = false
    private var readAheadLagRecords: Int64 = 0
    private var readAheadMillisecondsMax: Int64 = 0
    private var readingSinceMilliseconds: Int64 = 0
    /// The sum of `Lag.recordsBehind` over the lane's partitions of the commands topic.
    private var recordsBehind: Int64 = 0
    /// The sum of `Lag.recordsKnownBehind` over the lane's partitions of the commands topic.
    private var recordsKnownBehind: Int64 = 0
    /// Since when the lane is behind by less than half of `readAheadLagRecords`; `.max` while it is behind by at least
    /// half, and before the first report of a lag.
    private var smallLagSinceMilliseconds: Int64 = .max

    init(_ configuration: DeliveryConfiguration) { apply(configuration) }

    mutating func apply(_ configuration: DeliveryConfiguration) {
        readAheadLagRecords = configuration.readAheadLagRecords
        readAheadMillisecondsMax = configuration.readAheadMillisecondsMax
    }

    /// The monotonic time at which reading ahead ends if the lag does not change; nil when the lane does not read
    /// ahead.
    var dueMilliseconds: Int64? { phase == .reading ? min(smallLagDueMilliseconds, readingLimitDueMilliseconds) : nil }

    private var readingLimitDueMilliseconds: Int64 { readingSinceMilliseconds + readAheadMillisecondsMax }

    private var smallLagDueMilliseconds: Int64 {
        smallLagSinceMilliseconds == .max ? .max : smallLagSinceMilliseconds + Self.smallLagMilliseconds
    }

    /// Notes that a partition is this many records behind.
    ///
    /// - Parameter isAssumed: whether `records` is a guess, because the partition's lag is not known yet.
    mutating func noteLag(_ lag: inout Lag, records: Int64, isAssumed: Bool, now: Moment) -> Decision {
        let records = min(max(0, records), Self.partitionLagRecordsMax)
        setLag(&lag, records: records, knownRecords: isAssumed ? 0 : records)
        if recordsKnownBehind > readAheadLagRecords { isBacklogKnown = true }
        noteWhetherLagIsSmall(now: now)
        switch phase {
        case .off:
            if recordsBehind > readAheadLagRecords { beginReading(now: now) }
        case .reading:
            guard recordsBehind > 0 else { return endReading() }
        case .emptying:
            if recordsBehind <= readAheadLagRecords { return endReading() }
        }
        return .unchanged
    }

    /// Removes the lag of a revoked partition. Reading ahead continues while other partitions are behind. Otherwise
    /// waiting states would be sent although their partitions have newer ones. After a loss of data, Redis may not know
    /// the newer states, and would admit the older ones.
    mutating func removeLag(_ lag: inout Lag, now: Moment) -> Decision {
        setLag(&lag, records: 0, knownRecords: 0)
        noteWhetherLagIsSmall(now: now)
        guard phase == .reading, recordsBehind <= 0 else { return .unchanged }
        return endReading()
    }

    /// Changes the phase if necessary. Called once a turn with the time and with how full the lane is.
    mutating func advance(_ fullness: Fullness, now: Moment) -> Decision {
        switch phase {
        case .off: break
        case .reading:
            if smallLagDueMilliseconds <= now.monotonicMilliseconds { return endReading() }
            if readingLimitDueMilliseconds <= now.monotonicMilliseconds || fullness == .aboveThreeQuarters {
                phase = .emptying
                return .beginActivities
            }
        case .emptying:
            if recordsBehind <= readAheadLagRecords { return endReading() }
            if fullness == .upToHalf { beginReading(now: now) }
        }
        return .unchanged
    }

    /// Whether a lane that reads ahead after an outage has read far enough:
    /// - The lane has caught up.
    /// - The lane was behind by less than half of `readAheadLagRecords` for `smallLagMilliseconds`.
    /// - The lane is more than three quarters full.
    /// - The lane has read ahead for `readAheadMillisecondsMax`.
    /// - Parameter milliseconds: when this reading ahead began, a monotonic time.
    func isReadAheadDone(since milliseconds: Int64, _ fullness: Fullness, now: Moment) -> Bool {
        guard recordsBehind > 0, fullness != .aboveThreeQuarters else { return true }
        let nowMilliseconds = now.monotonicMilliseconds
        return nowMilliseconds - milliseconds >= readAheadMillisecondsMax
            || nowMilliseconds - max(milliseconds, smallLagSinceMilliseconds) >= Self.smallLagMilliseconds
    }

    private mutating func setLag(_ lag: inout Lag, records: Int64, knownRecords: Int64) {
        recordsBehind += records - lag.recordsBehind
        recordsKnownBehind += knownRecords - lag.recordsKnownBehind
        (lag.recordsBehind, lag.recordsKnownBehind) = (records, knownRecords)
    }

    private mutating func noteWhetherLagIsSmall(now: Moment) {
        if recordsBehind >= readAheadLagRecords / 2 {
            smallLagSinceMilliseconds = .max
        } else if smallLagSinceMilliseconds == .max {
            smallLagSinceMilliseconds = now.monotonicMilliseconds
        }
    }

    private mutating func beginReading(now: Moment) {
        phase = .reading
        readingSinceMilliseconds = now.monotonicMilliseconds
        smallLagSinceMilliseconds = .max
    }

    /// Ends the phase `reading` or `emptying`. The result lets the waiting activities begin. After `emptying`, none
    /// waits.
    private mutating func endReading() -> Decision {
        phase = .off
        isBacklogKnown = false
        return .beginActivities
    }
}
