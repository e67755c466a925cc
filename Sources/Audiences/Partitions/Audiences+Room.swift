import Delivery
import LiveActivity

/// A request to rewind a partition: to read it again from an offset, after a pause. This core requests rewinds for the
/// fan-out topic, and the lane for the other topics.
public struct PartitionRewind: Sendable, Equatable, BitwiseCopyable {
    public var offset: Int64
    /// How long the partition stays paused before it is read again. It is 0 if passed-over records now have room, and
    /// more if an offset was too far ahead for the partition's ledger, because older records must settle first.
    public var pauseMilliseconds: Int64

    package init(offset: Int64, pauseMilliseconds: Int64) {
        self.offset = offset
        self.pauseMilliseconds = pauseMilliseconds
    }
}

/// Decides which fan-out records the core has room for.
///
/// A record for which there is no room is passed over: its offset stays unsettled, and its body is not kept. The record
/// is read again when its app has room. Records of other apps in the partition continue, so an app whose host is
/// unavailable for hours blocks no other app.
///
/// Later records of the same app in the partition are passed over too, so that no version and no alert overtakes
/// another. Only ranges (``SegmentRange``) that already have a round (``RoundSlot``) continue.
extension Audiences {
    /// The least time between two rewinds of a partition for passed-over records. A rewind is expensive: all later
    /// records of the partition are read again, even those that are settled. A partition whose ledger was full is also
    /// paused for this time before it is read again (``PartitionRewind/pauseMilliseconds``).
    private static var rewindIntervalMillisecondsMin: Int64 { 5_000 }

    /// Whether the core can take a record of this range now, or must pass it over.
    func hasRoom(for key: RoundKey, at offset: Int64, of partitionIndex: UInt32) -> Bool {
        guard let partition = partitions[partitionIndex] else { return false }
        let appIndex = Int(key.appIndex)
        let firstPassedOverOffsetOfApp = partition.pointee.passedOverRecords.lowestOffset(of: key.appIndex)
        guard let round = roundsByKey[key] else {
            return offset <= firstPassedOverOffsetOfApp ?? .max && mayBeginRound(appIndex)
        }
        // A round takes no version while its own partition is being revoked. If the store has not replied to its claim
        // yet, the round does not know the previous owner's checkpoint. A checkpoint of this round with the new version
        // would then replace the previous owner's in the store.
        guard isPartitionAssigned(of: round) else { return false }
        // A record must not overtake an earlier record of its range that was passed over. The round notes the first
        // such offset, but only for its own partition. In another partition, no record of the app may overtake the
        // app's first passed-over record.
        let firstPassedOverOffset =
            rounds[round].partitionIndex == partitionIndex
            ? rounds[round].versions.firstPassedOverOffset : firstPassedOverOffsetOfApp
        return offset <= firstPassedOverOffset ?? .max && mayAddVersionOrBroadcast(appIndex)
    }

    private func isPartitionAssigned(of round: RoundIndex) -> Bool {
        let partition = partitions.partition(
            rounds[round].partitionIndex,
            assignmentEpoch: rounds[round].assignmentEpoch
        )
        return partition.map { $0.pointee.phase == .assigned } ?? false
    }

    /// Returns whether the core can take a new broadcast; if not, the caller passes it over. If the broadcast needs a
    /// slot for its channel and all are in use, frees the slot of an idle channel.
    ///
    /// False in any of these cases:
    /// - The table of broadcasts is full, or the record's partition is not assigned.
    /// - An earlier record of the app in this partition was passed over.
    /// - The app's records use too much of the room (`mayAddVersionOrBroadcast`).
    /// - All slots for channels are in use, and none is idle.
    /// - The partition of the broadcast's channel is being revoked, so the channel has dropped the broadcast that
    ///   waited. The record of that dropped broadcast may be read again from another partition. If the core took this
    ///   record now, the record would settle as a repetition, although its state was never sent.
    mutating func ensureRoomForBroadcast(
        _ key: ChannelKey,
        at offset: Int64,
        of partitionIndex: UInt32,
        now: Moment
    ) -> Bool {
        guard !broadcasts.isFull, let partition = partitions[partitionIndex],
            offset <= partition.pointee.passedOverRecords.lowestOffset(of: key.appIndex) ?? .max,
            mayAddVersionOrBroadcast(Int(key.appIndex))
        else { return false }
        if let channel = channelsByKey[key] { return channels[channel].phase == .running }
        return !channels.isFull || evictIdleChannel(now: now)
    }

    /// Whether an app may begin a round: only while its records use less room than is free. So one app alone can use at
    /// most half of the room, and leaves the rest for other apps. (R22)
    private func mayBeginRound(_ appIndex: Int) -> Bool {
        !rounds.isFull && usesLessRoom(appIndex, thanFreeRoomTimes: 1)
    }

    /// Whether an app may add broadcasts, or versions to ranges that have a round: only while its records use less than
    /// three times the free room. So one app alone can use at most three quarters of the room. The limit for a new
    /// round is lower, a half (`mayBeginRound`), because the record of a new round replaces no older one.
    private func mayAddVersionOrBroadcast(_ appIndex: Int) -> Bool { usesLessRoom(appIndex, thanFreeRoomTimes: 3) }

    /// Whether an app's passed-over records may be read again: a slot for a round is free, and the app's records in
    /// memory use less than half of the free room. With the higher limit of `mayBeginRound`, each rewind might find
    /// room for only a few records.
    private func hasRoomToRewind(_ appIndex: Int) -> Bool {
        !rounds.isFull && usesLessRoom(appIndex, thanFreeRoomTimes: 0.5)
    }

    /// Whether an app's records in memory use less than `factor` times the free room, both in number and in bytes.
    private func usesLessRoom(_ appIndex: Int, thanFreeRoomTimes factor: Double) -> Bool {
        let freeRecordCount = Double(configuration.fanoutRecordsMax - rangeVersions.count - broadcasts.count)
        let freeBytes = Double(configuration.fanoutRecordBytesMax - fanoutRecordBytes)
        return Double(apps[appIndex].fanoutRecordCount) < freeRecordCount * factor
            && Double(apps[appIndex].fanoutRecordBytes) < freeBytes * factor
    }

    /// Whether more than half of a partition's ledger is filled by the offsets from this version's record on: the
    /// ledger cannot pass this record, because it is not settled. False if the partition was released.
    func holdsBackHalfOfLedger(_ rangeVersion: RangeVersionIndex) -> Bool {
        let slot = rangeVersions.address(of: rangeVersion)
        guard
            let partition = partitions.partition(
                slot.pointee.record.partitionIndex,
                assignmentEpoch: slot.pointee.record.assignmentEpoch
            )
        else { return false }
        let laterOffsetCount = partition.pointee.ledger.nextOffset - slot.pointee.record.offset
        return laterOffsetCount > Int64(configuration.ledgerSpanOffsetCount / 2)
    }

    /// Passes over a record for which there is no room: leaves the record unsettled, so that it is read again when
    /// there is room. If its range has a round that waits for this or other records, the round may continue without
    /// them.
    mutating func passOver(_ record: IncomingRecord, _ instruction: FanoutInstruction, _ key: RoundKey, now: Moment) {
        let offset = record.offset
        partitions[record.partitionIndex]?.pointee.passedOverRecords
            .insert(offset, of: key.appIndex, admittedAtWallMilliseconds: instruction.admittedAtMilliseconds)
        guard let round = roundsByKey[key] else { return }
        // Note only offsets of the round's own partition, because offsets of two partitions cannot be compared. The
        // offset of a record in another partition could also stay noted forever: if that partition is revoked, this
        // lane does not read the record again.
        if rounds[round].partitionIndex == record.partitionIndex {
            rounds[round].versions.firstPassedOverOffset = min(
                rounds[round].versions.firstPassedOverOffset ?? .max,
                offset
            )
        }
        rounds[round].versions.wasClaimingAtLastPassOver = rounds[round].phase == .claiming
        endVersionWaitAfterPassOver(of: round, now: now)
        // Advance the round, because it may have waited for this record.
        if rounds[round].phase == .running { advance(round, now: now) }
    }

    /// Notes that a record was dropped with its round or channel, because the partition of the round or channel was
    /// revoked. If the record is in the same partition, the partition's next owner reads the record again.
    ///
    /// After partitions were added to the fan-out topic, the round or channel may also have a record of another
    /// partition. If this lane keeps that partition, the record counts as passed over, so that this lane reads it
    /// again.
    mutating func noteDropped(_ record: FanoutRecord, ofApp appIndex: UInt16) {
        guard
            let partition = partitions.partition(
                record.partitionIndex,
                assignmentEpoch: record.assignmentEpoch
            )
        else { return }
        partition.pointee.unsettledRecordCount -= 1
        guard partition.pointee.phase == .assigned else { return }
        partition.pointee.passedOverRecords
            .insert(
                record.offset,
                of: appIndex,
                admittedAtWallMilliseconds: record.instruction.admittedAtMilliseconds
            )
    }

    /// Notes a record as dropped although a push of its version or broadcast is still under way: the core does not wait
    /// for APNs' response, because another worker may now work on the same range or channel. If this lane keeps the
    /// record's partition, it reads the record again.
    ///
    /// Gives the record ``FanoutPartition/noAssignmentEpoch``, so that nothing more is noted or settled for it when the
    /// push has ended.
    mutating func noteDroppedBeforeResponse(_ record: inout FanoutRecord, ofApp appIndex: UInt16) {
        noteDropped(record, ofApp: appIndex)
        record.assignmentEpoch = FanoutPartition.noAssignmentEpoch
    }

    /// Called when a record of the round was passed over. Ends the wait for the versions that the partition's previous
    /// owner had under way (phase `awaitingVersions`), for the reason that ``RoundVersions/wasClaimingAtLastPassOver``
    /// gives. Does nothing in another phase.
    ///
    /// Closes the versions whose records have arrived, so that they settle and make room: they end at the position that
    /// the previous owner had reached.
    mutating func endVersionWaitAfterPassOver(of round: RoundIndex, now: Moment) {
        guard rounds[round].phase == .awaitingVersions else { return }
        closeAllVersions(of: round)
        // If the arrived versions need no more pushes, keep the checkpoint of the partition's previous owner. The
        // passed-over version then continues where the previous owner stopped, when its record is read again.
        //
        // Otherwise forget the checkpoint. The round now sends the newest arrived version to all parked members, even
        // to those that the passed-over version has reached before. If the passed-over version is newer, it must reach
        // these members again. So it passes all members again, and some of them get it twice.
        //
        // Known issue (K3): a parked member may get an older state after the newer one. Its phone ignores this push,
        // because the timestamp is lower.
        if !areArrivedVersionsComplete(round) { forgetRestoredCheckpoint(round) }
        resumeAfterWaitForVersions(round, now: now)
    }

    /// Whether the versions whose records have arrived need no more pushes. The caller has closed these versions.
    ///
    /// True if the partition's previous owner had taken the newest of them through its whole window: in the previous
    /// owner's checkpoint, the completed position is at the window's end or above, and no parked member is below this
    /// end.
    private func areArrivedVersionsComplete(_ round: RoundIndex) -> Bool {
        let endPosition = readingEndPosition(of: round)
        return endPosition <= rounds[round].progress.completedPosition
            && endPosition <= rounds[round].checkpoints.restored.nextParkedPosition ?? .max
    }

    /// Returns the number of the partition's records that were passed over and that the core has not taken since.
    public func passedOverCount(_ index: UInt32) -> Int { partitions[index]?.pointee.passedOverRecords.count ?? 0 }

    /// Returns the request to rewind an assigned partition; nil if none is necessary. Either records were passed over
    /// and now have room, or a record's offset was too far ahead for the partition's ledger. When the shell has passed
    /// the request on, it calls ``handleRewind(_:from:now:)``.
    public func rewindRequest(_ index: UInt32, now: Moment) -> PartitionRewind? {
        guard let partition = partitions[index], partition.pointee.phase == .assigned else { return nil }
        let isIntervalOver =
            partition.pointee.lastRewindAtMilliseconds
            <= now.monotonicMilliseconds - Self.rewindIntervalMillisecondsMin
        // Passed-over records that now have room come first: a full ledger may get room only when they settle.
        if partition.pointee.passedOverRecords.count > 0,
            isIntervalOver,
            let offset = partition.pointee.passedOverRecords.lowestOffset(where: { hasRoomToRewind(Int($0)) })
        {
            return PartitionRewind(offset: offset, pauseMilliseconds: 0)
        }
        return partition.pointee.passedOverRecords.firstOffsetBeyondLedger.map {
            PartitionRewind(offset: $0, pauseMilliseconds: Self.rewindIntervalMillisecondsMin)
        }
    }

    /// Called when the shell has passed on the request to rewind a partition to `offset`. From now on, the shell gives
    /// the core no record of the partition that was read before the rewind. The next record that the core gets is the
    /// first one at `offset` or above it.
    public mutating func handleRewind(_ index: UInt32, from offset: Int64, now: Moment) {
        guard let partition = partitions[index] else { return }
        partition.pointee.passedOverRecords.noteRewind(to: offset)
        partition.pointee.lastRewindAtMilliseconds = now.monotonicMilliseconds
        for rawIndex in 0..<rounds.indexBound {
            let round = RoundIndex(rawValue: rawIndex)
            guard rounds.isInUse(round), rounds[round].partitionIndex == index,
                rounds[round].assignmentEpoch == partition.pointee.assignmentEpoch,
                let firstPassedOverOffset = rounds[round].versions.firstPassedOverOffset,
                firstPassedOverOffset >= offset
            else { continue }
            rounds[round].versions.firstPassedOverOffset = nil
            if awaitsNewerVersion(round) {
                rounds[round].versions.newestAdmittedMissingSinceMilliseconds = now.monotonicMilliseconds
                advance(round, now: now)
            }
        }
    }

    /// Settles passed-over records that Kafka has deleted. Called when a record at `offset` is read. While a partition
    /// is being read again, the records come in order. So if the records directly below `offset` have not come again,
    /// the log no longer has them.
    mutating func settleDeletedRecords(below offset: Int64, of partition: UnsafeMutablePointer<FanoutPartition>) {
        let endOffset = partition.pointee.ledger.nextOffset
        for deletedOffset in partition.pointee.passedOverRecords.noteReadAndFindDeleted(
            offset,
            receivedBelow: endOffset
        )
        where partition.pointee.hasPassedOver(deletedOffset) {
            partition.pointee.passedOverRecords.remove(deletedOffset)
            partition.pointee.ledger.settle(deletedOffset)
        }
    }
}
