import Audiences
import Delivery
import Reactor

/// Reports to the Kafka thread which offsets may be committed and which partitions are drained.
extension Lane {
    /// Reports each partition whose settled offsets have changed since the last report. If the ring becomes full, the
    /// next call reports the rest.
    func reportOffsets() {
        var hasReported = false
        for entryIndex in partitions.entries.indices {
            let entry = partitions[entryIndex]
            guard let offset = findCommittableOffset(of: entry),
                offset != entry.reportedCommittableOffset
                    || findProgressRevision(of: entry) != entry.reportedProgressRevision
            else { continue }
            guard reportPartition(entryIndex, isDrained: false) else { break }
            hasReported = true
        }
        if hasReported { kafkaWakeup.signal() }
    }

    /// Reports each partition that is being revoked and has just been drained. If the ring becomes full, the next call
    /// reports the rest.
    func reportDrainedPartitions() {
        var hasReported = false
        for entryIndex in partitions.entries.indices where partitions[entryIndex].isBeingRevoked {
            let entry = partitions[entryIndex]
            guard !entry.isReportedDrained, isDrained(entry) else { continue }
            guard reportPartition(entryIndex, isDrained: true) else { break }
            partitions[entryIndex].isReportedDrained = true
            hasReported = true
        }
        if hasReported { kafkaWakeup.signal() }
    }

    /// Asks the Kafka thread to rewind the partitions of the fan-out topic for which the core for audiences requests
    /// this. The lane then discards the records that were dealt before, because their `rewindRequestCount` is older.
    func requestRewinds() {
        var hasPushedRequest = false
        for entryIndex in partitions.entries.indices where partitions[entryIndex].isFanout {
            let entry = partitions[entryIndex]
            guard let rewindRequest = audiences.rewindRequest(entry.indexInCore, now: now) else { continue }
            guard pushRewindRequest(rewindRequest, entryIndex) else { break }
            audiences.handleRewind(entry.indexInCore, from: rewindRequest.offset, now: now)
            hasPushedRequest = true
        }
        if hasPushedRequest { kafkaWakeup.signal() }
    }

    /// Asks the Kafka thread to pause a partition whose ledger is full, and to read it again later from this offset.
    /// Meanwhile the lane takes the records of other partitions (R22).
    ///
    /// A partition that is being revoked needs no request: its next owner, or its rereading, reads the record again.
    ///
    /// - Returns: whether the caller may discard the record, because it will be read again. False if the record must
    ///   wait in the lane: the ledger may soon have room (`isBlockedByOldRecord`), or the ring has no room for the
    ///   request.
    func requestRewindAfterPause(_ entryIndex: Int, to offset: Int64) -> Bool {
        guard !partitions[entryIndex].isBeingRevoked else { return true }
        guard isBlockedByOldRecord(partitions[entryIndex]) else { return false }
        let rewindRequest = PartitionRewind(
            offset: offset,
            pauseMilliseconds: LanePartitions.ledgerPauseMilliseconds
        )
        guard pushRewindRequest(rewindRequest, entryIndex) else { return false }
        kafkaWakeup.signal()
        return true
    }

    /// Sends a request to rewind a partition. Returns whether the ring had room for the request.
    private func pushRewindRequest(_ rewindRequest: PartitionRewind, _ entryIndex: Int) -> Bool {
        let entry = partitions[entryIndex]
        let isPushed = mailbox.partitionReports.push(
            PartitionReport(
                topic: entry.topic,
                partition: entry.partition,
                assignmentNumber: entry.assignmentNumber,
                progress: nil,
                isDrained: false,
                rewindRequest: rewindRequest
            )
        )
        if isPushed { partitions[entryIndex].rewindRequestCount &+= 1 }
        return isPushed
    }

    /// Sends a report with the partition's newest progress. Returns whether the ring had room for the report.
    private func reportPartition(_ entryIndex: Int, isDrained: Bool) -> Bool {
        let entry = partitions[entryIndex]
        let newestProgress = findProgress(of: entry)
        let boxedProgress = newestProgress.map { RingBox.passRetained($0) }
        let isPushed = mailbox.partitionReports.push(
            PartitionReport(
                topic: entry.topic,
                partition: entry.partition,
                assignmentNumber: entry.assignmentNumber,
                progress: boxedProgress,
                isDrained: isDrained
            )
        )
        if isPushed {
            partitions[entryIndex].reportedCommittableOffset = newestProgress?.committableOffset ?? -1
            partitions[entryIndex].reportedProgressRevision = findProgressRevision(of: entry)
        } else {
            boxedProgress?.release()
        }
        return isPushed
    }
}
