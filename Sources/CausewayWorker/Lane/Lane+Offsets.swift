import Delivery
import Reactor

/// What the Kafka thread is told of the lane's partitions: what may be committed, and that one is drained.
extension Lane {
    func reportOffsets() {
        var hasNews = false
        for position in partitions.entries.indices {
            let entry = partitions[position]
            guard let offset = committableOffset(of: entry),
                offset != entry.reportedOffset || progressRevision(of: entry) != entry.reportedRevision
            else { continue }
            guard report(position, isDrained: false) else { break }
            hasNews = true
        }
        if hasNews { kafkaWakeup.signal() }
    }

    func reportDrained() {
        var hasNews = false
        for position in partitions.entries.indices where partitions[position].isRevoking {
            let entry = partitions[position]
            guard !entry.isReportedDrained, isDrained(entry) else { continue }
            guard report(position, isDrained: true) else { break }
            partitions[position].isReportedDrained = true
            hasNews = true
        }
        if hasNews { kafkaWakeup.signal() }
    }

    private func report(_ position: Int, isDrained: Bool) -> Bool {
        let entry = partitions[position]
        let progress = progress(of: entry)
        let passed = progress.map { Handover.pass($0) }
        let isTaken = mailbox.laneReports.push(
            LaneReport(
                topic: entry.topic,
                partition: entry.partition,
                assignment: entry.assignment,
                progress: passed,
                isDrained: isDrained
            )
        )
        if isTaken {
            partitions[position].reportedOffset = progress?.committableOffset ?? -1
            partitions[position].reportedRevision = progressRevision(of: entry)
        } else {
            passed?.release()
        }
        return isTaken
    }
}
