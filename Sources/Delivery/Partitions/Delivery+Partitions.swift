import LiveActivity

/// Assignment and revocation of partitions, and the offsets that may be committed.
extension Delivery {
    /// Adds a partition that was assigned to this lane.
    /// - Returns: the number that the partition's records name; nil if the lane already has `PartitionTable.limit` partitions.
    public mutating func assign(topic: RecordTopic, number: Int32) -> UInt32? {
        let windowOffsets = configuration.ledgerWindowOffsets
        return partitions.assign {
            Partition(topic: topic, number: number, epoch: $0, windowOffsets: windowOffsets)
        }
    }

    /// Says which records of a partition that was just assigned had been settled before and are read again, because the store
    /// lost what they wrote. They are processed as usual, but ring no alert and start no activity.
    ///
    /// - Parameters:
    ///   - settledBelow: all records below this offset had been settled.
    ///   - metadata: which records above it had been settled, as `progress` encoded them together with this offset.
    public mutating func readAgain(
        _ place: UInt32,
        below settledBelow: Int64,
        metadata: UnsafeRawBufferPointer
    ) {
        guard let partition = partitions[place] else { return }
        let above = SettledOffsetsText.decode(metadata, committedOffset: settledBelow) ?? []
        partition.pointee.settledBefore = SettledBefore(below: settledBelow, above: above)
    }

    /// Takes over what earlier owners of a partition settled above its committed offset. Their records are skipped when they are
    /// read. Call this before the partition's first record.
    ///
    /// - Parameters:
    ///   - metadata: from the commit, as `progress` wrote it. Anything else is refused.
    ///   - logEnd: the offset of the partition's next record. Offsets that claim to be settled from there on are dropped.
    /// - Returns: how many records are skipped; nil if the metadata was refused, so that every record above `committedOffset` is
    ///   processed again.
    public mutating func resume(
        _ place: UInt32,
        at committedOffset: Int64,
        metadata: UnsafeRawBufferPointer,
        logEnd: Int64
    ) -> Int? {
        partitions[place]?.pointee.ledger.resume(at: committedOffset, metadata: metadata, logEnd: logEnd)
    }

    /// What to commit for a partition; nil before its first record.
    public func progress(_ place: UInt32) -> PartitionProgress? {
        guard let offset = committableOffset(place), let partition = partitions[place] else { return nil }
        let ranges = partition.pointee.ledger.settledRanges
        return PartitionProgress(
            committableOffset: offset,
            metadata: SettledOffsetsText.encode(ranges, above: offset)
        )
    }

    /// Changes whenever `progress` changes in anything but its committable offset.
    public func progressRevision(_ place: UInt32) -> UInt64 { partitions[place]?.pointee.ledger.revision ?? 0 }

    /// Begins to revoke a partition. None of its records is begun any more. Records that wait are dropped without an outcome,
    /// because the next owner reads them again. Records that are under way continue to their results.
    public mutating func beginRevoking(_ place: UInt32, now: Moment) {
        guard let partition = partitions[place], partition.pointee.phase == .assigned else { return }
        partition.pointee.phase = .revoking
        for index in 0..<records.indexBound where records.isInUse(index) {
            let slot = records.address(of: index)
            guard slot.pointee.partition == place, slot.pointee.epoch == partition.pointee.epoch else { continue }
            dropUnlessUnderWay(index, now: now)
        }
        dropUntakenHandovers(now: now)
        stopReadAhead(for: partition, now: now)
    }

    /// Drops a record of a revoked partition wherever it waits. A start that backs off counts as under way: it was admitted, and
    /// only the holder of its claim may send it.
    private mutating func dropUnlessUnderWay(_ record: UInt32, now: Moment) {
        let slot = records.address(of: record)
        let activity = slot.pointee.activity
        switch slot.pointee.stage {
        case .waiting:
            activities[activity].waiting.remove(record, in: &records)
            drop(record, now: now)
        case .riding:
            // The carrier keeps the alert, whose bytes still belong to this record.
            let carrier = slot.pointee.riderLink.carrier
            records.completeBody(of: carrier)
            _ = records.removeRider(of: carrier)
            drop(record, now: now)
        case .awaitingCarrier: drop(activities[activity].riderAwaitingCarrier.take(), now: now)
        case .current:
            guard activities[activity].phase.isBackingOff else { return }
            if isDeferredToNextOwner(record) {
                deferCurrent(of: activity, .retry, now: now)
            } else if !slot.pointee.isStart {
                dropCurrent(of: activity, now: now)
            }
        case .received, .registering, .unregistering, .handedOver, .finished, .settlingHeldStart, .deferring,
            .refunding,
            .settled, .dropped:
            return
        }
    }

    /// Whether a partition that is being revoked has no outstanding record.
    public func isDrained(_ place: UInt32) -> Bool { partitions[place]?.pointee.outstanding == 0 }

    /// The number of a partition's records that are not settled.
    public func outstanding(_ place: UInt32) -> Int { partitions[place]?.pointee.outstanding ?? 0 }

    /// When the oldest unsettled record was received: a monotonic time, roughly; nil if all records are settled.
    public func oldestUnsettledMilliseconds(_ place: UInt32) -> Int64? {
        guard let partition = partitions[place], partition.pointee.outstanding > 0 else { return nil }
        return partition.pointee.receipts.milliseconds(of: partition.pointee.ledger.committableOffset)
    }

    /// Releases a partition, drained or not. Records that are still under way finish without being counted. A partition that is
    /// lost without a revocation drops its waiting records too: otherwise a record that is read again would be merged into its
    /// own stale copy and called a duplicate (simulation seed 165).
    public mutating func release(partition place: UInt32, now: Moment) {
        beginRevoking(place, now: now)
        partitions.release(place)
    }

    /// The offset that may be committed: every record below it is settled. nil before the first record.
    public func committableOffset(_ place: UInt32) -> Int64? {
        guard let partition = partitions[place], partition.pointee.ledger.nextOffset > 0 else { return nil }
        return partition.pointee.ledger.committableOffset
    }
}

/// What is committed for a partition.
public struct PartitionProgress: Sendable, Equatable {
    /// Every record below this offset is settled.
    public var committableOffset: Int64
    /// Which records above it are settled: the metadata of the commit. Empty if there are none.
    public var metadata: [UInt8]

    package init(committableOffset: Int64, metadata: [UInt8]) {
        self.committableOffset = committableOffset
        self.metadata = metadata
    }
}
