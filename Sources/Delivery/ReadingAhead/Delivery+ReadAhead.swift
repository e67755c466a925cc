/// Makes the lane read ahead while it has a backlog, and after an outage of Redis or of a pool. (R21)
extension Delivery {
    /// Whether the lane reads ahead because of a backlog. While it reads ahead, it begins no command.
    public var isReadingAhead: Bool { readAhead.phase == .readingAhead }

    /// Notes how many records of a partition the lane has not received yet (the lag). Does nothing for a partition of
    /// another topic than the commands topic, or one that is not assigned or is being revoked. If some of those records
    /// may be reread, the lane reads ahead, however few they are.
    ///
    /// - Parameter isGuess: whether `recordCount` is a guess, because the lag is not known yet. A guess makes the lane
    ///   read ahead, so that it does not begin to send before it knows the lag of all its partitions.
    public mutating func noteLag(_ partitionIndex: UInt32, recordCount: Int64, isGuess: Bool = false, now: Moment) {
        guard let partition = partitions[partitionIndex], partition.pointee.phase == .assigned,
            partition.pointee.topic == .commands
        else { return }
        let nextOffset = partition.pointee.ledger.nextOffset
        let isRereading = partition.pointee.rereadOffsets.mayContainOffsets(from: nextOffset)
        let decision = readAhead.noteLag(
            &partition.pointee.lag,
            recordCount: recordCount,
            isGuess: isGuess,
            isRereading: isRereading,
            nextOffset: nextOffset,
            now: now
        )
        carryOut(decision, now: now)
    }

    /// Holds back the store calls after an outage of Redis until the lane has read ahead, so that Redis is asked only
    /// about the newest states.
    ///
    /// - Returns: true if no call may be made now.
    @inline(__always)
    mutating func holdBackStoreCallsIfNeeded(now: Moment) -> Bool {
        guard let sinceMilliseconds = storeOutageWatch.holdBackIfUnavailable(now: now) else { return false }
        guard checkReadAheadEnd(since: sinceMilliseconds, now: now) else { return true }
        storeOutageWatch.noteReadAheadEnd(now: now)
        return false
    }

    /// Holds back the pushes of a pool after an outage of APNs until the lane has read ahead, so that no state is sent
    /// if the backlog has a newer one.
    ///
    /// - Returns: true if no push of the pool may be sent now.
    @inline(__always)
    mutating func holdBackPushesIfNeeded(of pool: PoolTarget, now: Moment) -> Bool {
        let watch = pools.outageWatch(of: PoolKey(pool))
        guard let sinceMilliseconds = watch.pointee.holdBackIfUnavailable(now: now) else { return false }
        guard checkReadAheadEnd(since: sinceMilliseconds, now: now) else { return true }
        watch.pointee.noteReadAheadEnd(now: now)
        return false
    }

    /// Ends the hold-back of a pool's pushes if the lane has read far enough ahead. Usually `holdBackPushesIfNeeded`
    /// ends it. But that function does not run while the pool has no room, because the shell then asks for no pushes.
    mutating func endPushHoldBackIfReadAheadDone(of poolKey: PoolKey, now: Moment) {
        let watch = pools.outageWatch(of: poolKey)
        guard let sinceMilliseconds = watch.pointee.heldBackSinceMilliseconds,
            readAhead.isReadAheadDone(since: sinceMilliseconds, fullness(now: now), now: now)
        else { return }
        watch.pointee.noteReadAheadEnd(now: now)
    }

    /// Checks whether the lane has read far enough ahead after an outage. If not, sets the time of the next check.
    ///
    /// - Returns: whether the lane has read far enough ahead.
    private mutating func checkReadAheadEnd(since beganAtMilliseconds: Int64, now: Moment) -> Bool {
        if readAhead.isReadAheadDone(since: beganAtMilliseconds, fullness(now: now), now: now) { return true }
        readAheadCheckDueMilliseconds = now.monotonicMilliseconds + Self.readAheadRecheckMilliseconds
        return false
    }

    /// How often the lane checks whether it has read far enough ahead after an outage. Without this check, the lane
    /// would notice this only when another event wakes it.
    private static var readAheadRecheckMilliseconds: Int64 { 50 }

    /// Removes the lag of a partition that is being revoked.
    mutating func removeLag(for partition: UnsafeMutablePointer<Partition>, now: Moment) {
        carryOut(readAhead.removeLag(&partition.pointee.lag, now: now), now: now)
    }

    /// Ends or resumes reading ahead if the time or the fullness of the lane requires this.
    mutating func advanceReadAhead(now: Moment) {
        guard readAhead.phase != .off else { return }
        carryOut(readAhead.advance(fullness(now: now), now: now), now: now)
    }

    /// How full the lane is: its room for records, its room for bytes, and the span of offsets of each partition.
    ///
    /// A partition whose oldest record has been unsettled for `readAheadMillisecondsMax` or longer does not count with
    /// its span, because it is not reading ahead that fills it. Such a partition stops alone (R22), perhaps for
    /// hours. Meanwhile the other partitions must be able to read ahead.
    private func fullness(now: Moment) -> ReadAhead.Fullness {
        let sinceMilliseconds = now.monotonicMilliseconds - configuration.reloadable.readAheadMillisecondsMax
        if isFuller(thanQuarters: 3, leavingOutUnsettledSince: sinceMilliseconds) { return .aboveThreeQuarters }
        return isFuller(thanQuarters: 2, leavingOutUnsettledSince: sinceMilliseconds) ? .upToThreeQuarters : .upToHalf
    }

    /// Whether the lane is fuller than this many quarters, in at least one respect: records, bytes, or the offsets in a
    /// partition's span (`PartitionLedger.spanOffsetCount`). Always true if `isBlockMemoryFull`.
    ///
    /// - Parameter sinceMilliseconds: leaves out the span of a partition whose oldest unsettled record was received
    ///   at this monotonic time or before; `.min`: leaves out no span.
    func isFuller(thanQuarters quarters: Int, leavingOutUnsettledSince sinceMilliseconds: Int64 = .min) -> Bool {
        records.count > records.limit / 4 * quarters
            || usedBlockBytes > configuration.usedBlockBytesMax / 4 * quarters || isBlockMemoryFull
            || partitions.contains {
                $0.pointee.ledger.offsetCountAboveCommittable
                    > Int64(configuration.ledgerSpanOffsetCount / 4 * quarters)
                    && ($0.pointee.oldestUnsettledSinceMilliseconds ?? .max) > sinceMilliseconds
            }
    }

    /// If the decision is `beginActivities`, begins the activities that wait for the end of reading ahead.
    private mutating func carryOut(_ decision: ReadAhead.Decision, now: Moment) {
        guard decision == .beginActivities else { return }
        while let activity = activities.popActivityAwaitingReadAhead() { beginNextCommand(of: activity, now: now) }
    }
}
