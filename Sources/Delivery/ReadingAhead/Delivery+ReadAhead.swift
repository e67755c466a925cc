extension Delivery {
    /// Whether the lane reads ahead because of a backlog. While it does, it begins no command.
    public var isReadingAhead: Bool { readAhead.phase == .reading }

    /// Notes how many records of a partition the lane has not received yet. Only partitions of the commands
    /// topic count.
    ///
    /// - Parameter isAssumed: whether the number is a guess, because the partition's lag is not known yet. A guess
    ///   makes the lane read ahead, so that it does not begin to send before it knows the lag of all its partitions.
    public mutating func noteLag(_ index: UInt32, recordsBehind: Int64, isAssumed: Bool = false, now: Moment) {
        guard let partition = partitions[index], partition.pointee.phase == .assigned,
            partition.pointee.topic == .commands
        else { return }
        carryOut(
            readAhead.noteLag(&partition.pointee.lag, records: recordsBehind, isAssumed: isAssumed, now: now),
            now: now
        )
    }

    /// Whether calls may be made to the store. After an outage of the store, the lane reads ahead first, so that Redis
    /// is asked only about the newest states. (R21)
    @inline(__always)
    mutating func mayAskStore(now: Moment) -> Bool {
        guard storeOutageWatch.holdBackIfUnavailable(now: now) else { return true }
        guard isReadAheadDone(since: storeOutageWatch.readingAheadSinceMilliseconds, now: now) else { return false }
        storeOutageWatch.noteReadAheadEnd(now: now)
        return true
    }

    /// Whether a push of the pool may be sent. After an outage of APNs, the lane reads ahead first, so that no state is
    /// sent that a record in the backlog has replaced. (R21)
    @inline(__always)
    mutating func mayPush(_ pool: PoolIdentifier, now: Moment) -> Bool {
        let watch = pools.outageWatch(of: PoolKey(pool))
        guard watch.pointee.holdBackIfUnavailable(now: now) else { return true }
        guard isReadAheadDone(since: watch.pointee.readingAheadSinceMilliseconds, now: now) else { return false }
        watch.pointee.noteReadAheadEnd(now: now)
        return true
    }

    /// Whether the lane has read far enough ahead. If not, sets the time of the next check.
    private mutating func isReadAheadDone(since milliseconds: Int64, now: Moment) -> Bool {
        if readAhead.isReadAheadDone(since: milliseconds, fullness, now: now) { return true }
        readAheadCheckDueMilliseconds = now.monotonicMilliseconds + Self.readAheadRecheckMilliseconds
        return false
    }

    /// How often the lane checks whether reading ahead after an outage is done. A limit of time can end it, and no
    /// event wakes the lane then.
    private static var readAheadRecheckMilliseconds: Int64 { 50 }

    mutating func removeLag(for partition: UnsafeMutablePointer<Partition>, now: Moment) {
        carryOut(readAhead.removeLag(&partition.pointee.lag, now: now), now: now)
    }

    mutating func advanceReadAhead(now: Moment) {
        guard readAhead.phase != .off else { return }
        carryOut(readAhead.advance(fullness, now: now), now: now)
    }

    private var fullness: ReadAhead.Fullness {
        if isFuller(thanQuarters: 3) { return .aboveThreeQuarters }
        return isFuller(thanQuarters: 2) ? .upToThreeQuarters : .upToHalf
    }

    /// Whether the lane is fuller than this many quarters: it has used more of its room for records, of its
    /// room for bytes, or of a partition's window of offsets.
    private func isFuller(thanQuarters quarters: Int) -> Bool {
        records.count > records.limit / 4 * quarters
            || records.usedBlockBytes > configuration.usedBlockBytesMax / 4 * quarters
            || partitions.contains {
                $0.pointee.ledger.offsetCountAboveCommittable > Int64(configuration.ledgerWindowOffsets / 4 * quarters)
            }
    }

    private mutating func carryOut(_ decision: ReadAhead.Decision, now: Moment) {
        guard decision == .beginActivities else { return }
        while let activity = activities.popActivityAwaitingReadAhead() { beginNextCommand(of: activity, now: now) }
    }
}
