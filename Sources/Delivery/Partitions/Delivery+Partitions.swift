import LiveActivity

/// Assignment and revocation, and what may be committed (design §9).
extension Delivery {
    /// A partition was assigned to this lane.
    /// - Returns: the number that its records are to name, or nil when the lane has `PartitionTable.limit` of them.
    public mutating func assign(topic: RecordTopic, number: Int32) -> UInt32? {
        partitions.assign(topic: topic, number: number, windowOffsets: configuration.ledgerWindowOffsets)
    }

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
        stopReadAhead(for: partition, now: now)
    }

    /// Drops a record of a revoked partition wherever it waits. A start that backs off is under way: it was admitted, and nobody else may
    /// send it.
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
            guard activities[activity].phase.isBackingOff, !slot.pointee.isStart else { return }
            dropCurrent(of: activity, now: now)
        case .received, .registering, .unregistering, .finished, .leavingDevice, .refunding, .settled, .dropped: return
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
