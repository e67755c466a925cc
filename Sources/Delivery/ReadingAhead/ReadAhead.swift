/// Decides when a lane reads ahead: if it is far behind, it begins no command and keeps only the newest state of each
/// activity, as far as it has room. So a backlog of many commands needs only one push for each activity. (R21)
/// A partition that is read again after a loss of Redis makes the lane read ahead too, even if few records are left.
/// (R25)
///
/// Does no I/O: decides from how far the partitions are behind, how full the lane is, and the time. Until the end of
/// reading ahead, activities wait in the phase `awaitingReadAhead` (`ActivityPhase`).
///
/// The lane also reads ahead after an outage: `OutageWatch` holds back store calls or pushes, but activities begin as
/// usual, and ``phase`` may be `off`. This type only decides when that hold-back ends (`isReadAheadDone`).
struct ReadAhead {
    enum Phase {
        /// Activities begin when their commands are read. Next: `readingAhead` when the lane must read ahead
        /// (``mustReadAhead``).
        case off
        /// No activity begins, and newer states replace those that wait. When this phase ends, the waiting activities
        /// begin. Next:
        /// - `off` when the lane has caught up, or when its lag was small (``smallLagRecordsMax``) for
        ///   `smallLagMilliseconds` and no partition is read again (R25).
        /// - `emptying` when the lane is more than three quarters full, or has read ahead for
        ///   `readAheadMillisecondsMax`.
        case readingAhead
        /// The lane is full, or has read ahead for long enough: the waiting activities begin, which makes room. Next:
        /// - `off` when the lane need not read ahead any more (``mustReadAhead``).
        /// - `readingAhead` when the lane is half full or less, and must still read ahead.
        case emptying
    }

    /// How far one partition is behind, as the shell last reported.
    struct Lag: BitwiseCopyable {
        /// The number of the partition's records that the lane has not received. Exception: 0 if the lane has received
        /// none of them for `readAheadMillisecondsMax`. Perhaps the partition cannot be read, and reading ahead would
        /// not help.
        fileprivate var recordCount: Int64 = 0
        /// The same number as `recordCount`, but 0 if `recordCount` is a guess. A guess makes the lane read ahead, but
        /// does not set `isBacklogKnown`.
        fileprivate var knownRecordCount: Int64 = 0
        /// Whether reread records may be among `recordCount`; false if `recordCount` is 0.
        fileprivate var isRereading = false
        /// The offset after the last record of the partition that the lane had received at the last report; `.min`:
        /// there was no report.
        fileprivate var nextOffset: Int64 = .min
        /// Since when the partition is behind and the lane has received none of its records, a monotonic time; nil: the
        /// partition is not behind.
        fileprivate var stalledSinceMilliseconds: Int64?
    }

    /// How full a lane is, by the fullest of these: its room for records, its room for bytes, and each partition's
    /// span of offsets (exception: `Delivery.fullness`). `Phase.readingAhead` ends above three quarters,
    /// `Phase.emptying` at half. With only one bound for both, nearly each record would change the phase.
    enum Fullness {
        case upToHalf
        case upToThreeQuarters
        case aboveThreeQuarters
    }

    /// What the lane must do with the activities that wait for the end of reading ahead.
    enum Decision {
        case nothing
        case beginActivities
    }

    /// How long a lane continues to read ahead when its lag has become small (``smallLagRecordsMax``). Each record that
    /// the lane still reads may save a push. The time is limited, because the lane may never catch up completely while
    /// producers write.
    static let smallLagMilliseconds: Int64 = 2_000
    /// The largest lag that counts for one partition. A broker may report any number, and the sum over all partitions
    /// must not overflow.
    static let partitionLagRecordsMax: Int64 = 1 << 40

    private(set) var phase = Phase.off
    /// Whether the lane is known to have a backlog: since the phase was last `off`, the lane was at some time behind by
    /// more than `readAheadLagRecords`. Guessed lags do not count, because only a real backlog permits superseded
    /// commands without results (`SupersededResultMode.countedWhenBehind`).
    private(set) var isBacklogKnown = false
    private var readAheadLagRecords: Int64 = 0
    private var readAheadMillisecondsMax: Int64 = 0
    private var readingAheadSinceMilliseconds: Int64 = 0
    /// The sum of `Lag.recordCount` over the lane's partitions of the commands topic.
    private var lagRecordCount: Int64 = 0
    /// The sum of `Lag.knownRecordCount` over the lane's partitions of the commands topic.
    private var knownLagRecordCount: Int64 = 0
    /// The number of the lane's partitions of the commands topic with `Lag.isRereading`.
    private var rereadingPartitionCount = 0
    /// Since when the lag is small (``smallLagRecordsMax``), a monotonic time; `.max`: it is not small, or was never
    /// reported.
    private var smallLagSinceMilliseconds: Int64 = .max

    init(_ configuration: DeliveryConfiguration) { apply(configuration) }

    mutating func apply(_ configuration: DeliveryConfiguration) {
        readAheadLagRecords = configuration.reloadable.readAheadLagRecords
        readAheadMillisecondsMax = configuration.reloadable.readAheadMillisecondsMax
    }

    /// Whether the lane must read ahead, for one of these reasons:
    /// - Its lag is above `readAheadLagRecords`.
    /// - It reads a partition again after a loss of Redis (R25), even if only few records are left. Redis may not know
    ///   the versions of these records any more, so it would admit each old state, and phones would show them one after
    ///   the other. The lane prevents this: it reads them all before it sends, and then has only the newest states.
    private var mustReadAhead: Bool { lagRecordCount > readAheadLagRecords || rereadingPartitionCount > 0 }

    /// The largest lag that is small: just below half of `readAheadLagRecords`.
    private var smallLagRecordsMax: Int64 { readAheadLagRecords / 2 - 1 }

    /// When reading ahead ends at the latest if the lag does not change, a monotonic time; nil: the lane does not read
    /// ahead.
    var readAheadEndMilliseconds: Int64? {
        phase == .readingAhead ? min(smallLagReadAheadEndMilliseconds, latestReadAheadEndMilliseconds) : nil
    }

    /// When the lane stops reading ahead at the latest, even if it is still behind: a monotonic time.
    private var latestReadAheadEndMilliseconds: Int64 { readingAheadSinceMilliseconds + readAheadMillisecondsMax }

    /// When the lane stops reading ahead because its lag was small for `smallLagMilliseconds`: a monotonic time;
    /// `.max`: the lag is not small, or a partition is read again after a loss of Redis (R25).
    private var smallLagReadAheadEndMilliseconds: Int64 {
        let hasNoEnd = smallLagSinceMilliseconds == .max || rereadingPartitionCount > 0
        return hasNoEnd ? .max : smallLagSinceMilliseconds + Self.smallLagMilliseconds
    }

    /// Notes how many records a partition is behind, and changes the phase if necessary.
    ///
    /// - Parameters:
    ///   - recordCount: the number of the partition's records that the lane has not received.
    ///   - isGuess: whether `recordCount` is a guess, because the partition's lag is not known yet.
    ///   - isRereading: whether some of these records may be reread.
    ///   - nextOffset: the offset after the last record of the partition that the lane has received.
    mutating func noteLag(
        _ lag: inout Lag,
        recordCount: Int64,
        isGuess: Bool,
        isRereading: Bool,
        nextOffset: Int64,
        now: Moment
    ) -> Decision {
        var recordCount = min(max(0, recordCount), Self.partitionLagRecordsMax)
        if updateStall(of: &lag, recordCount: recordCount, nextOffset: nextOffset, now: now) { recordCount = 0 }
        let knownRecordCount = isGuess ? 0 : recordCount
        setLag(
            &lag,
            recordCount: recordCount,
            knownRecordCount: knownRecordCount,
            isRereading: isRereading && recordCount > 0
        )
        if knownLagRecordCount > readAheadLagRecords { isBacklogKnown = true }
        noteWhetherLagIsSmall(now: now)
        switch phase {
        case .off:
            if mustReadAhead { beginReadingAhead(now: now) }
        case .readingAhead:
            guard lagRecordCount > 0 else { return turnOff() }
        case .emptying:
            if !mustReadAhead { return turnOff() }
        }
        return .nothing
    }

    /// Removes the lag of a revoked partition. While other partitions are behind, reading ahead continues, because
    /// their backlogs may have newer states than those that wait. Redis would usually supersede the waiting states, but
    /// not if it has lost the newer ones.
    mutating func removeLag(_ lag: inout Lag, now: Moment) -> Decision {
        setLag(&lag, recordCount: 0, knownRecordCount: 0, isRereading: false)
        noteWhetherLagIsSmall(now: now)
        guard phase == .readingAhead, lagRecordCount <= 0 else { return .nothing }
        return turnOff()
    }

    /// Changes the phase if necessary. Called in every iteration of the lane, unless the phase is `off`.
    mutating func advance(_ fullness: Fullness, now: Moment) -> Decision {
        switch phase {
        case .off: break
        case .readingAhead:
            if smallLagReadAheadEndMilliseconds <= now.monotonicMilliseconds { return turnOff() }
            if latestReadAheadEndMilliseconds <= now.monotonicMilliseconds || fullness == .aboveThreeQuarters {
                phase = .emptying
                return .beginActivities
            }
        case .emptying:
            if !mustReadAhead { return turnOff() }
            if fullness == .upToHalf { beginReadingAhead(now: now) }
        }
        return .nothing
    }

    /// Whether the lane has read far enough ahead to end the hold-back of an `OutageWatch`. Does not depend on
    /// ``phase``, which may be `off` during a hold-back. True if any of these is true:
    /// - The lane has caught up.
    /// - The lane reads no partition again, and its lag was small (``smallLagRecordsMax``) for `smallLagMilliseconds`,
    ///   counted from the hold-back's beginning.
    /// - The lane is more than three quarters full.
    /// - The hold-back has lasted for `readAheadMillisecondsMax`.
    ///
    /// - Parameter beganAtMilliseconds: when the hold-back began (`OutageWatch.heldBackSinceMilliseconds`), a monotonic
    ///   time.
    func isReadAheadDone(since beganAtMilliseconds: Int64, _ fullness: Fullness, now: Moment) -> Bool {
        guard lagRecordCount > 0, fullness != .aboveThreeQuarters else { return true }
        let nowMilliseconds = now.monotonicMilliseconds
        return nowMilliseconds - beganAtMilliseconds >= readAheadMillisecondsMax
            || rereadingPartitionCount == 0
                && nowMilliseconds - max(beganAtMilliseconds, smallLagSinceMilliseconds) >= Self.smallLagMilliseconds
    }

    /// Notes in `lag` whether the lane has received records of the partition since the last report.
    ///
    /// - Returns: whether the partition is behind, and the lane has received none of its records for
    ///   `readAheadMillisecondsMax`.
    private func updateStall(of lag: inout Lag, recordCount: Int64, nextOffset: Int64, now: Moment) -> Bool {
        let hasProgressed = lag.nextOffset != nextOffset
        lag.nextOffset = nextOffset
        guard recordCount > 0 else {
            lag.stalledSinceMilliseconds = nil
            return false
        }
        guard let stalledSinceMilliseconds = lag.stalledSinceMilliseconds, !hasProgressed else {
            lag.stalledSinceMilliseconds = now.monotonicMilliseconds
            return false
        }
        return now.monotonicMilliseconds - stalledSinceMilliseconds >= readAheadMillisecondsMax
    }

    private mutating func setLag(_ lag: inout Lag, recordCount: Int64, knownRecordCount: Int64, isRereading: Bool) {
        lagRecordCount += recordCount - lag.recordCount
        knownLagRecordCount += knownRecordCount - lag.knownRecordCount
        rereadingPartitionCount += (isRereading ? 1 : 0) - (lag.isRereading ? 1 : 0)
        (lag.recordCount, lag.knownRecordCount, lag.isRereading) = (recordCount, knownRecordCount, isRereading)
    }

    private mutating func noteWhetherLagIsSmall(now: Moment) {
        if lagRecordCount > smallLagRecordsMax {
            smallLagSinceMilliseconds = .max
        } else if smallLagSinceMilliseconds == .max {
            smallLagSinceMilliseconds = now.monotonicMilliseconds
        }
    }

    private mutating func beginReadingAhead(now: Moment) {
        phase = .readingAhead
        readingAheadSinceMilliseconds = now.monotonicMilliseconds
        smallLagSinceMilliseconds = .max
    }

    /// Ends the phase `readingAhead` or `emptying`, and returns the decision that the waiting activities begin. After
    /// `emptying` none waits.
    private mutating func turnOff() -> Decision {
        phase = .off
        isBacklogKnown = false
        return .beginActivities
    }
}
