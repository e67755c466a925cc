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

    func reportDrained() {
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
    /// this request carry an older `readingNumber`, so the lane drops them.
    func askForRereadings() {
        var hasReported = false
        for position in partitions.entries.indices where partitions[position].isFanout {
            let entry = partitions[position]
            guard let rereading = audiences.rereading(entry.coreIndex, now: now) else { continue }
            let isTaken = mailbox.laneReports.push(
                LaneReport(
                    topic: entry.topic,
                    partition: entry.partition,
                    assignment: entry.assignment,
                    progress: nil,
                    isDrained: false,
                    rereading: rereading
                )
            )
            guard isTaken else { break }
            audiences.rereadingBegan(entry.coreIndex, from: rereading.offset, now: now)
            partitions[position].readingNumber &+= 1
            hasReported = true
        }
        if hasReported { kafkaWakeup.signal() }
    }

    private func report(_ position: Int, isDrained: Bool) -> Bool {
        let entry = partitions[position]
        let progress = progress(of: entry)
        let boxedProgress = progress.map { RingBox.pass($0) }
        let isTaken = mailbox.laneReports.push(
            LaneReport(
                topic: entry.topic,
                partition: entry.partition,
                assignment: entry.assignment,
                progress: boxedProgress,
                isDrained: isDrained
            )
        )
        if isTaken {
            partitions[position].reportedOffset = progress?.committableOffset ?? -1
            partitions[position].reportedRevision = progressRevision(of: entry)
        } else {
            boxedProgress?.release()
        }
        return isTaken
    }
}
