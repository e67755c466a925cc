import LiveActivity

/// Assignment and revocation, and what may be committed (design §9).
extension Delivery {
    /// A partition was assigned to this lane.
    /// - Returns: the number that its records are to name, or nil when the lane has `PartitionTable.limit` of them.
    public mutating func assign(topic: RecordTopic, number: Int32) -> UInt32? {
        partitions.assign(topic: topic, number: number, windowOffsets: configuration.ledgerWindowOffsets)
    }

    /// Records of a partition that has just been assigned were settled before, and are read once more because the store has lost what they
    /// wrote. They come to what they come to, but ring no alert and start nothing.
    ///
    /// - Parameters:
    ///   - settledBelow: all below this offset were settled.
    ///   - metadata: which above it, as `progress` told it beside this offset.
    public mutating func readAgain(
        _ place: UInt32,
        below settledBelow: Int64,
        metadata: UnsafeRawBufferPointer
    ) {
        guard let partition = partitions[place] else { return }
        let above = SettledOffsetsText.decode(metadata, committedOffset: settledBelow) ?? []
        partition.pointee.settledBefore = SettledBefore(below: settledBelow, above: above)
    }

    /// Takes over what earlier owners of an assigned partition have settled above the committed offset; before its first record. Their
    /// records are skipped when they are read.
    ///
    /// - Parameters:
    ///   - metadata: of the commit, as `progress` wrote it. Anything else is refused.
    ///   - logEnd: the offset that the partition's next record will get. What claims to be settled from there on is dropped.
    /// - Returns: how many records are skipped; nil if the metadata was refused, and all above `committedOffset` is repeated.
    public mutating func resume(
        _ place: UInt32,
        at committedOffset: Int64,
        metadata: UnsafeRawBufferPointer,
        logEnd: Int64
    ) -> Int? {
        guard let partition = partitions[place] else { return nil }
        guard let ranges = SettledOffsetsText.decode(metadata, committedOffset: committedOffset) else { return nil }
        let known = ranges.map { $0.clamped(to: committedOffset..<max(committedOffset, logEnd)) }
        partition.pointee.ledger.resume(at: committedOffset, settled: known)
        return known.reduce(0) { $0 + $1.count }
    }

    /// What is to be committed of a partition; nil before the first record.
    public func progress(_ place: UInt32) -> PartitionProgress? {
        guard let offset = committableOffset(place), let partition = partitions[place] else { return nil }
        let ranges = partition.pointee.ledger.settledRanges
        return PartitionProgress(
            committableOffset: offset,
            metadata: SettledOffsetsText.encode(ranges, above: offset)
        )
    }

    /// Changes whenever `progress` does, except for its committable offset.
    public func progressRevision(_ place: UInt32) -> UInt64 { partitions[place]?.pointee.ledger.revision ?? 0 }

    /// Begins to revoke a partition: none of its records is begun any more, and those that wait are dropped without an outcome, since the
    /// next owner reads them again. What is under way goes on to its result.
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

    /// Drops a record of a revoked partition wherever it waits. A start that backs off is under way: it was admitted, and nobody else may
    /// send it but who has its claim.
    private mutating func dropUnlessUnderWay(_ record: UInt32, now: Moment) {
        let slot = records.address(of: record)
        let activity = slot.pointee.activity
        switch slot.pointee.stage {
        case .waiting:
            activities[activity].waiting.remove(record, in: &records)
            drop(record, now: now)
        case .riding:
            // Its carrier goes on with the alert, which is this record's bytes as yet.
            let carrier = slot.pointee.riderLink.carrier
            records.completeBody(of: carrier)
            _ = records.removeRider(of: carrier)
            drop(record, now: now)
        case .awaitingCarrier: drop(activities[activity].riderAwaitingCarrier.take(), now: now)
        case .current:
            guard activities[activity].phase.isBackingOff else { return }
            if isHandedOn(record) {
                deferCurrent(of: activity, .retry, now: now)
            } else if !slot.pointee.isStart {
                dropCurrent(of: activity, now: now)
            }
        case .received, .registering, .unregistering, .handedOver, .finished, .leavingDevice, .deferring, .refunding,
            .settled, .dropped:
            return
        }
    }

    /// Whether no record of a partition that is being revoked is outstanding.
    public func isDrained(_ place: UInt32) -> Bool { partitions[place]?.pointee.outstanding == 0 }

    /// Records of a partition that are not settled.
    public func outstanding(_ place: UInt32) -> Int { partitions[place]?.pointee.outstanding ?? 0 }

    /// When the oldest record that is not settled was received, monotonic and coarsely; nil if all are settled.
    public func oldestUnsettledMilliseconds(_ place: UInt32) -> Int64? {
        guard let partition = partitions[place], partition.pointee.outstanding > 0 else { return nil }
        return partition.pointee.receipts.milliseconds(of: partition.pointee.ledger.committableOffset)
    }

    /// Releases a partition, drained or not. Its records that are still under way are finished without being counted.
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

/// What is committed of a partition.
public struct PartitionProgress: Sendable, Equatable {
    /// Every record below it is settled.
    public var committableOffset: Int64
    /// Which records above it are settled: the metadata of the commit. Empty: none.
    public var metadata: [UInt8]

    package init(committableOffset: Int64, metadata: [UInt8]) {
        self.committableOffset = committableOffset
        self.metadata = metadata
    }
}
