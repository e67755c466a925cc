/// Far behind, a lane reads ahead and keeps only the newest state of each activity before it admits anything (design §10): a backlog of
/// millions of commands costs as many pushes as there are activities.
struct ReadAhead {
    enum Phase {
        /// Activities are begun as they come. → `reading`, when the lane is behind by more than the limit.
        case off
        /// Activities that could be begun are parked, and newer states replace what they wait with. → `off`, when the lane has caught
        /// up, or has been behind by less than half of the limit for `nearMilliseconds`; `emptying`, when it holds as much or has waited
        /// as long as it may, or gives a partition up. Both begin what is parked.
        case reading
        /// What was parked is worked off. → `reading`, when there is room and the lane is still behind by more than the limit; `off`,
        /// when it is not.
        case emptying
    }

    var phase = Phase.off
    /// Whether the lane has known, since it was last `off`, to be behind by more than the limit. What is assumed of partitions of which
    /// nothing has been heard yet says nothing of it.
    var isBacklogKnown = false
    var sinceMilliseconds: Int64 = 0
    /// The sum over the lane's partitions of the commands topic.
    var recordsBehind: Int64 = 0
    /// What of it is known.
    var recordsKnownBehind: Int64 = 0
    /// When the lane came to be behind by less than half of the limit; nil while it is behind by more.
    var nearSinceMilliseconds: Int64?

    /// The last records are worth this wait: each of them may be a second push to an activity that was begun without it. A lane whose
    /// partitions are written to all the time is never behind by nothing.
    static let nearMilliseconds: Int64 = 2_000
    /// As much as one partition counts for: what a broker says may be any number, and as many partitions as there can be are added up.
    static let partitionRecordsMax: Int64 = 1 << 40
}

extension Delivery {
    /// How far a partition of this lane is behind the end of its log: records that the lane has not received. Of the registrations topic
    /// it does not matter.
    ///
    /// - Parameter isAssumed: whether nothing has been heard of the partition, and the number is a guess.
    public mutating func lag(_ place: UInt32, recordsBehind: Int64, isAssumed: Bool = false, now: Moment) {
        guard let partition = partitions[place], partition.pointee.phase == .assigned,
            partition.pointee.topic == .commands
        else {
            return
        }
        let records = min(max(0, recordsBehind), ReadAhead.partitionRecordsMax)
        noteLag(of: partition, records, known: isAssumed ? 0 : records)
        let limit = configuration.readAheadLagRecords
        if readAhead.recordsKnownBehind > limit { readAhead.isBacklogKnown = true }
        switch readAhead.phase {
        case .off: if readAhead.recordsBehind > limit { readFurtherAhead(now: now) }
        case .reading: if readAhead.recordsBehind == 0 { beginParked(.off, now: now) } else { noteNearness(now: now) }
        case .emptying: if readAhead.recordsBehind <= limit { endReadAhead() }
        }
    }

    /// A partition that goes away is no reason to read ahead; and what is parked may be another's, whose drain time runs.
    mutating func stopReadAhead(for partition: UnsafeMutablePointer<Partition>, now: Moment) {
        noteLag(of: partition, 0, known: 0)
        if readAhead.phase == .reading { beginParked(.emptying, now: now) }
    }

    private mutating func noteLag(of partition: UnsafeMutablePointer<Partition>, _ records: Int64, known: Int64) {
        readAhead.recordsBehind += records - partition.pointee.recordsBehind
        readAhead.recordsKnownBehind += known - partition.pointee.recordsKnownBehind
        partition.pointee.recordsBehind = records
        partition.pointee.recordsKnownBehind = known
    }

    /// Once a turn: time, and what the lane holds.
    mutating func advanceReadAhead(now: Moment) {
        switch readAhead.phase {
        case .off: return
        case .reading:
            if isPast(nearDueMilliseconds, now) {
                beginParked(.off, now: now)
            } else if isPast(longestDueMilliseconds, now) || holds(quarters: 3) {
                beginParked(.emptying, now: now)
            }
        case .emptying:
            if readAhead.recordsBehind <= configuration.readAheadLagRecords {
                endReadAhead()
            } else if !holds(quarters: 2) {
                readFurtherAhead(now: now)
            }
        }
    }

    var readAheadDueMilliseconds: Int64 { min(nearDueMilliseconds, longestDueMilliseconds) }

    private var longestDueMilliseconds: Int64 { readAhead.sinceMilliseconds + configuration.readAheadMaxMilliseconds }

    private var nearDueMilliseconds: Int64 {
        readAhead.nearSinceMilliseconds.map { $0 + ReadAhead.nearMilliseconds } ?? .max
    }

    private func isPast(_ dueMilliseconds: Int64, _ now: Moment) -> Bool {
        dueMilliseconds <= now.monotonicMilliseconds
    }

    private mutating func noteNearness(now: Moment) {
        if readAhead.recordsBehind >= configuration.readAheadLagRecords / 2 {
            readAhead.nearSinceMilliseconds = nil
        } else if readAhead.nearSinceMilliseconds == nil {
            readAhead.nearSinceMilliseconds = now.monotonicMilliseconds
        }
    }

    private mutating func readFurtherAhead(now: Moment) {
        readAhead.phase = .reading
        readAhead.sinceMilliseconds = now.monotonicMilliseconds
        readAhead.nearSinceMilliseconds = nil
    }

    /// Whether the lane holds more than so many quarters of its records, or a partition spans as much of its window.
    private func holds(quarters: Int) -> Bool {
        records.count > records.limit / 4 * quarters
            || partitions.spansMore(than: configuration.ledgerWindowOffsets / 4 * quarters)
    }

    mutating func park(_ activity: UInt32) {
        activities[activity].phase = .parked
        parked.append(activity)
    }

    private mutating func endReadAhead() {
        readAhead.phase = .off
        readAhead.isBacklogKnown = false
    }

    private mutating func beginParked(_ phase: ReadAhead.Phase, now: Moment) {
        if phase == .off { endReadAhead() } else { readAhead.phase = phase }
        while let activity = parked.popFirst() {
            activities[activity].phase = .resting
            begin(activity, now: now)
        }
    }
}
