import Audiences
import Delivery
import Reactor

/// Reports to the Kafka thread which offsets may be committed and which partitions are drained.
extension Lane {
    func reportOffsets() {
        var hasReported = false
        for position in partitions.entries.indices {
            let entry = partitions[position]
            guard let offset = committableOffset(of: entry),
                offset != entry.reportedOffset || progressRevision(of: entry) != entry.reportedRevision
            else { continue }
            guard report(position, isDrained: false) else { break }
            hasReported = true
        }
        if hasReported { kafkaWakeup.signal() }
    }

    func reportDrainedPartitions() {
        var hasReported = false
        for position in partitions.entries.indices where partitions[position].isRevoking {
            let entry = partitions[position]
            guard !entry.isReportedDrained, isDrained(entry) else { continue }
            guard report(position, isDrained: true) else { break }
            partitions[position].isReportedDrained = true
            hasReported = true
        }
        if hasReported { kafkaWakeup.signal() }
    }

    /// Asks the Kafka thread to read partitions of the fan-out topic again. Records that were dealt before
    /// this request carry an older `rereadRequestCount`, so the lane drops them.
    func requestRereadings() {
        var hasReported = false
        for position in partitions.entries.indices where partitions[position].isFanout {
            let entry = partitions[position]
            guard let rereading = audiences.rereading(entry.coreIndex, now: now) else { continue }
            let isPushed = mailbox.laneReports.push(
                LaneReport(
                    topic: entry.topic,
                    partition: entry.partition,
                    assignmentNumber: entry.assignmentNumber,
                    progress: nil,
                    isDrained: false,
                    rereading: rereading
                )
            )
            guard isPushed else { break }
            audiences.rereadingBegan(entry.coreIndex, from: rereading.offset, now: now)
            partitions[position].rereadRequestCount &+= 1
            hasReported = true
        }
        if hasReported { kafkaWakeup.signal() }
    }

    private func report(_ position: Int, isDrained: Bool) -> Bool {
        let entry = partitions[position]
        let progress = progress(of: entry)
        let boxedProgress = progress.map { RingBox.passRetained($0) }
        let isPushed = mailbox.laneReports.push(
            LaneReport(
                topic: entry.topic,
                partition: entry.partition,
                assignmentNumber: entry.assignmentNumber,
                progress: boxedProgress,
                isDrained: isDrained
            )
        )
        if isPushed {
            partitions[position].reportedOffset = progress?.committableOffset ?? -1
            partitions[position].reportedRevision = progressRevision(of: entry)
        } else {
            boxedProgress?.release()
        }
        return isPushed
    }
}
