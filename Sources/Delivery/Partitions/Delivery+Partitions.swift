import LiveActivity

/// Assignment and revocation of partitions, and the offsets that may be committed.
extension Delivery {
    /// The maximum number of partitions that a lane has at a time.
    package static var partitionsMax: Int { PartitionTable<Partition>.partitionsMax }

    /// Adds a partition that was assigned to this lane.
    ///
    /// - Returns: the partition's index in the lane, which its records must have as `IncomingRecord.partitionIndex`;
    ///   nil if the lane already has `partitionsMax` partitions.
    public mutating func assign(topic: RecordTopic, number: Int32) -> UInt32? {
        let spanOffsetCount = configuration.ledgerSpanOffsetCount
        return partitions.assign {
            Partition(topic: topic, number: number, assignmentEpoch: $0, spanOffsetCount: spanOffsetCount)
        }
    }

    /// Notes which records of a newly assigned partition are *reread*: the partition's owner had settled them, and then
    /// Redis lost what they had written. The lane works on them again (R25). But usually it writes no second result
    /// (`OutcomeEffects.noResultIfReread`).
    ///
    /// - Parameters:
    ///   - settledEndOffset: all records below this offset had been settled.
    ///   - metadata: which later records had been settled, in the form of ``PartitionProgress/metadata`` for
    ///     `settledEndOffset`.
    public mutating func noteRereadRecords(
        _ partitionIndex: UInt32,
        below settledEndOffset: Int64,
        metadata: UnsafeRawBufferPointer
    ) {
        guard let partition = partitions[partitionIndex] else { return }
        let settledRanges = SettledOffsetsText.decode(metadata, committedOffset: settledEndOffset) ?? []
        partition.pointee.rereadOffsets = RereadOffsets(
            settledEndOffset: settledEndOffset,
            settledRanges: settledRanges
        )
    }

    /// Notes which records above the committed offset previous owners of the partition settled, so that the lane skips
    /// them. Call this before the partition's first record.
    ///
    /// - Parameters:
    ///   - metadata: the metadata of the commit, as `composeProgress` made it. Malformed text, and text for another
    ///     offset, is refused: every record from `committedOffset` on is then processed.
    ///   - logEndOffset: the offset that the next record written to the partition gets. Settled offsets from there on
    ///     have no record yet, and are ignored.
    /// - Returns: how many settled offsets below `logEndOffset` the metadata names; nil if the metadata was refused or
    ///   the partition is not assigned.
    public mutating func restoreSettledOffsets(
        _ partitionIndex: UInt32,
        at committedOffset: Int64,
        metadata: UnsafeRawBufferPointer,
        logEndOffset: Int64
    ) -> Int? {
        partitions[partitionIndex]?.pointee.ledger
            .restoreSettledOffsets(at: committedOffset, metadata: metadata, logEndOffset: logEndOffset)
    }

    /// Returns the offset and the metadata to commit for a partition; nil before the partition's first record, and if
    /// the partition is not assigned.
    public mutating func composeProgress(_ partitionIndex: UInt32) -> PartitionProgress? {
        partitions[partitionIndex]?.pointee.composeProgress()
    }

    /// Returns a number that grows when the settled offsets of the partition change
    /// (`PartitionLedger.progressRevision`); 0 if the partition is not assigned. While the number is unchanged, the
    /// caller need not read the metadata of `composeProgress` again.
    public func progressRevision(_ partitionIndex: UInt32) -> UInt64 {
        partitions[partitionIndex]?.pointee.ledger.progressRevision ?? 0
    }

    /// Begins to revoke a partition; does nothing if the partition is not assigned, or is being revoked already. The
    /// lane begins no further record of the partition, and drops those that wait: the next owner reads them again.
    /// Records that are under way continue to their results, or until they need another attempt.
    public mutating func beginRevoking(_ partitionIndex: UInt32, now: Moment) {
        guard let partition = partitions[partitionIndex], partition.pointee.phase == .assigned else { return }
        partition.pointee.phase = .revoking
        for rawIndex in 0..<records.indexBound {
            let record = RecordIndex(rawValue: rawIndex)
            guard records.isInUse(record) else { continue }
            let slot = records.address(of: record)
            guard slot.pointee.ledgerPlace.partitionIndex == partitionIndex,
                slot.pointee.ledgerPlace.assignmentEpoch == partition.pointee.assignmentEpoch
            else { continue }
            dropOrDeferUnlessUnderWay(record, now: now)
        }
        dropUntakenHandovers(now: now)
        requeueHeldBackRegistrations()
        removeLag(for: partition, now: now)
    }

    /// Drops a record of a revoked partition, unless a step of it is under way.
    ///
    /// A start that waits for a retry is not dropped, because Redis may have admitted it with a claim that only this
    /// lane knows. If the start's pool is blocked, the start is deferred with this claim (`mustBeDeferredToNextOwner`);
    /// otherwise it stays.
    private mutating func dropOrDeferUnlessUnderWay(_ record: RecordIndex, now: Moment) {
        let slot = records.address(of: record)
        let activity = slot.pointee.activity
        switch slot.pointee.stage {
        case .waiting:
            activities[activity].waitingList.remove(record, in: &records)
            drop(record, now: now)
        case .riding:
            // Write the rider's alert into the carrier's body before the rider is dropped: the carrier keeps the alert.
            let carrier = slot.pointee.riderLink.carrier
            records.completeBodyWithRiderAlert(of: carrier)
            records.unlinkRider(of: carrier)
            drop(record, now: now)
        case .awaitingCarrier: drop(activities[activity].commandAwaitingCarrier.removeRecord(), now: now)
        case .current:
            guard activities[activity].phase.isAwaitingRetry else { return }
            if mustBeDeferredToNextOwner(record) {
                deferCurrentCommandAndEndTurn(of: activity, .retry, now: now)
            } else if !slot.pointee.isStart {
                dropCurrentCommandAndEndTurn(of: activity, now: now)
            }
        case .received, .awaitingRedis, .unregistering, .handedOver, .finished, .settlingHeldStart, .deferring,
            .refunding, .settled, .dropped:
            return
        }
    }

    /// Whether the record's partition is being revoked, or the assignment in which the record was read has ended. The
    /// next owner reads unsettled records again.
    public func isPartitionRevoked(_ record: RecordIndex) -> Bool {
        let slot = records.address(of: record)
        guard let partition = partitions.partition(of: slot.pointee.ledgerPlace) else { return true }
        return partition.pointee.phase == .revoking
    }

    /// Whether the record's partition is being revoked now. False before the revocation, and when the assignment in
    /// which the record was read has ended.
    public func isRevocationUnderWay(_ record: RecordIndex) -> Bool {
        let slot = records.address(of: record)
        let partition = partitions.partition(of: slot.pointee.ledgerPlace)
        return partition.map { $0.pointee.phase == .revoking } ?? false
    }

    /// Whether all received records of an assigned partition are settled or dropped. False if the partition is not
    /// assigned.
    public func isDrained(_ partitionIndex: UInt32) -> Bool {
        partitions[partitionIndex]?.pointee.unsettledRecordCount == 0
    }

    /// Returns the number of a partition's received records that are neither settled nor dropped; 0 if the partition is
    /// not assigned.
    public func unsettledRecordCount(_ partitionIndex: UInt32) -> Int {
        partitions[partitionIndex]?.pointee.unsettledRecordCount ?? 0
    }

    /// Returns when the oldest unsettled record was received, an approximate monotonic time; nil if all received
    /// records are settled or dropped, if the time is unknown, or if the partition is not assigned.
    public func oldestUnsettledSinceMilliseconds(_ partitionIndex: UInt32) -> Int64? {
        partitions[partitionIndex]?.pointee.oldestUnsettledSinceMilliseconds
    }

    /// Releases a partition, even if records are unsettled. Records that are under way continue to their results, or
    /// until they need another attempt, but no longer change the partition's settled offsets.
    ///
    /// Waiting records are dropped, even if the partition is lost without a revocation. If they stayed and this lane
    /// got the partition back, it would read them again, and finish each second copy as a `duplicate` of the first.
    public mutating func release(partition partitionIndex: UInt32, now: Moment) {
        beginRevoking(partitionIndex, now: now)
        partitions.release(partitionIndex)
    }

    /// Returns the offset that may be committed, because every record below it is settled. Nil before the partition's
    /// first record, and if the partition is not assigned.
    public func committableOffset(_ partitionIndex: UInt32) -> Int64? {
        guard let partition = partitions[partitionIndex], partition.pointee.ledger.nextOffset > 0 else { return nil }
        return partition.pointee.ledger.committableOffset
    }
}

extension Partition {
    /// Returns the offset and the metadata to commit; nil before the partition's first record. Until all reread records
    /// are settled again, the metadata names them too (``RereadOffsets``).
    fileprivate mutating func composeProgress() -> PartitionProgress? {
        rereadOffsets.noteSettledRecords(of: ledger)
        guard !rereadOffsets.areRangesSettledAgain else { return ledger.progress }
        guard ledger.nextOffset > 0 else { return nil }
        let offset = ledger.committableOffset
        let ranges = rereadOffsets.mergeRanges(with: ledger.settledRanges, from: offset)
        return PartitionProgress(
            committableOffset: offset,
            metadata: SettledOffsetsText.encode(ranges, above: offset),
            areRereadRecordsSettled: false
        )
    }
}

extension PartitionLedger {
    /// The offset and the metadata to commit; nil before the partition's first record.
    package var progress: PartitionProgress? {
        guard nextOffset > 0 else { return nil }
        return PartitionProgress(
            committableOffset: committableOffset,
            metadata: SettledOffsetsText.encode(settledRanges, above: committableOffset)
        )
    }
}

/// The offset and the metadata to commit for a partition.
public struct PartitionProgress: Sendable, Equatable {
    /// Every record below this offset is settled.
    public var committableOffset: Int64
    /// The metadata of the commit: which records from `committableOffset` on are settled; empty if it names none. Two
    /// kinds of settled records are left out: those that the next owner must read again
    /// (`RecordEnding.isLeftOutOfMetadata`), and the highest ones if there is no room for all.
    public var metadata: [UInt8]
    /// Whether all reread records at or above `RereadOffsets.settledEndOffset` are settled again. If not, the metadata
    /// still names them, and the rereading is not complete.
    public var areRereadRecordsSettled: Bool

    package init(committableOffset: Int64, metadata: [UInt8], areRereadRecordsSettled: Bool = true) {
        self.committableOffset = committableOffset
        self.metadata = metadata
        self.areRereadRecordsSettled = areRereadRecordsSettled
    }
}
