public import Delivery

/// Assignment and revocation of partitions of the fan-out topic, and their committable offsets.
extension Audiences {
    /// The maximum number of partitions of the fan-out topic that one lane has at the same time.
    package static var partitionsMax: Int { PartitionTable<FanoutPartition>.partitionsMax }

    /// Adds a partition that was assigned to this lane.
    ///
    /// - Returns: the index that the partition's records must name; nil if the lane already has `partitionsMax`
    ///   partitions.
    public mutating func assign(number: Int32) -> UInt32? {
        let spanOffsetCount = configuration.ledgerSpanOffsetCount
        return partitions.assign {
            FanoutPartition(number: number, assignmentEpoch: $0, spanOffsetCount: spanOffsetCount)
        }
    }

    /// Notes which offsets above the committed one are settled already, by previous owners of an assigned partition.
    /// Must be called before the partition's first record.
    ///
    /// - Parameters:
    ///   - metadata: the metadata of the commit, as ``composeProgress(_:)`` returned it. Anything else is refused.
    ///   - logEndOffset: the offset that the partition's next record will get. Settled offsets at or above it are
    ///     ignored.
    /// - Returns: how many records are skipped; nil if the metadata was refused, or if the lane does not have the
    ///   partition.
    public mutating func restoreSettledOffsets(
        _ index: UInt32,
        at committedOffset: Int64,
        metadata: UnsafeRawBufferPointer,
        logEndOffset: Int64
    ) -> Int? {
        partitions[index]?.pointee.ledger
            .restoreSettledOffsets(at: committedOffset, metadata: metadata, logEndOffset: logEndOffset)
    }

    /// Returns the offset and the metadata to commit for a partition; nil before the first record, and if the lane does
    /// not have the partition.
    public func composeProgress(_ index: UInt32) -> PartitionProgress? {
        partitions[index]?.pointee.ledger.progress
    }

    /// Returns a number that grows when a record is settled, or when a record is skipped because a previous owner
    /// settled it; 0 if the lane does not have the partition. While the number is unchanged, the caller need not read
    /// the metadata of ``composeProgress(_:)`` again.
    public func progressRevision(_ index: UInt32) -> UInt64 { partitions[index]?.pointee.ledger.progressRevision ?? 0 }

    /// Returns the offset that may be committed: every record below it is settled. Nil before the first record, and if
    /// the lane does not have the partition.
    public func committableOffset(_ index: UInt32) -> Int64? {
        guard let partition = partitions[index], partition.pointee.ledger.nextOffset > 0 else { return nil }
        return partition.pointee.ledger.committableOffset
    }

    /// Returns approximately when the partition's oldest unsettled record was received (monotonic milliseconds). Nil if
    /// all records are settled, or if the lane does not have the partition.
    public func oldestUnsettledSinceMilliseconds(_ index: UInt32) -> Int64? {
        guard let partition = partitions[index],
            partition.pointee.unsettledRecordCount > 0 || partition.pointee.passedOverRecords.count > 0
        else { return nil }
        return partition.pointee.receiptTimes.receivedAtMonotonicMilliseconds(
            of: partition.pointee.ledger.committableOffset
        )
    }

    /// Begins to revoke an assigned partition: its rounds and channels send nothing more.
    ///
    /// A round that has sent pushes records a last checkpoint when all of them have their responses. Records without a
    /// result are dropped, and the next owner reads them again.
    public mutating func beginRevoking(_ index: UInt32, now: Moment) {
        guard let partition = partitions[index], partition.pointee.phase == .assigned else { return }
        partition.pointee.phase = .revoking
        forEachRound(ofPartition: index) { $0.drain($1, now: now) }
        stopChannels(ofPartition: index, entering: .draining, now: now)
    }

    /// Whether the core has no unsettled record of the partition in memory any more, so that the shell may release the
    /// partition. False if the lane does not have the partition.
    public func isDrained(_ index: UInt32) -> Bool { partitions[index]?.pointee.unsettledRecordCount == 0 }

    /// Releases a partition, even if it is not drained. The outcomes of pushes that are still in flight are neither
    /// recorded nor counted.
    public mutating func release(partition index: UInt32, now: Moment) {
        guard let partition = partitions[index] else { return }
        partition.pointee.phase = .revoking
        forEachRound(ofPartition: index) { $0.abandon($1, now: now) }
        stopChannels(ofPartition: index, entering: .abandoned, now: now)
        partitions.release(index)
    }

    private mutating func forEachRound(ofPartition index: UInt32, _ body: (inout Audiences, RoundIndex) -> Void) {
        guard let assignmentEpoch = partitions[index]?.pointee.assignmentEpoch else { return }
        for rawIndex in 0..<rounds.indexBound {
            let round = RoundIndex(rawValue: rawIndex)
            guard rounds.isInUse(round), rounds[round].partitionIndex == index,
                rounds[round].assignmentEpoch == assignmentEpoch
            else { continue }
            body(&self, round)
        }
    }
}
