import ActivityStore
import Audiences
import LiveActivity
import Observability
import Reactor

/// Counts and publishes a lane's metrics about audiences.
extension Lane {
    func countAcknowledged(_ outgoingRecord: OutgoingAudienceRecord) {
        let appIndex = audiences.appIndex(of: outgoingRecord)
        if outgoingRecord.kind == .invalidation { metrics.add(.invalidations, appIndex) }
        guard let resultContent = audiences.resultContent(of: outgoingRecord) else { return }
        if outgoingRecord.kind == .rangeResult {
            metrics.add(.audienceRanges, appIndex, Int(resultContent.outcome.rawValue))
        }
        // If APNs responded to no push, or if the time of the command's record is unknown, there is no duration to
        // count.
        guard resultContent.recordTimestampMilliseconds >= 0, resultContent.lastResponseAtWallMilliseconds >= 0 else {
            return
        }
        metrics.observe(
            outgoingRecord.kind == .rangeResult ? .audienceRangeDuration : .audienceCommandDuration,
            appIndex,
            microseconds: Self.clampedMicroseconds(
                resultContent.lastResponseAtWallMilliseconds - resultContent.recordTimestampMilliseconds
            )
        )
    }

    func setAudienceMetrics() {
        let counters = audiences.counters
        metrics.set(.audiencePagesRead, to: Int64(clamping: counters.readPageCount))
        metrics.set(.audiencePagesDamaged, to: Int64(clamping: counters.damagedPageCount))
        metrics.set(.audienceRecordsUnreadable, to: Int64(clamping: counters.unreadableRecordCount))
        metrics.set(.audienceRoundsLost, to: Int64(clamping: counters.lostRoundCount))
        metrics.set(.audienceAppendsRepeated, to: Int64(clamping: audienceStore.counters.repeatedAppendCount))
        metrics.set(.audiencePagesArranged, to: Int64(clamping: audienceStore.counters.arrangedPageCount))
        for appIndex in roundGauges.indices { roundGauges[appIndex] = RoundGauges() }
        audiences.addGauges(to: &roundGauges)
        for (appIndex, gauges) in roundGauges.enumerated() {
            metrics.set(.audienceRounds, appIndex, to: Int64(gauges.roundCount))
            metrics.set(.audienceMembersParked, appIndex, to: Int64(gauges.parkedMemberCount))
            metrics.set(
                .audienceOldestRound,
                appIndex,
                to: computeAgeMilliseconds(gauges.oldestRoundWaitingSinceWallMilliseconds)
            )
            metrics.set(
                .audienceOldestRange,
                appIndex,
                to: computeAgeMilliseconds(gauges.oldestVersionAdmittedAtWallMilliseconds)
            )
            let outcomeCounts = audiences.memberOutcomeCounts(of: appIndex)
            for outcomeIndex in outcomeCounts.indices {
                metrics.set(.audienceMembers, appIndex, outcomeIndex, to: Int64(clamping: outcomeCounts[outcomeIndex]))
            }
            let changeCounts = audiences.membershipChangeCounts(of: appIndex)
            for changeIndex in changeCounts.indices {
                metrics.set(.audienceMemberships, appIndex, changeIndex, to: Int64(clamping: changeCounts[changeIndex]))
            }
        }
    }

    /// Returns how long ago this wall time was; 0 if it is nil, or in the future: it may come from the clock of another
    /// machine.
    private func computeAgeMilliseconds(_ wallMilliseconds: Int64?) -> Int64 {
        wallMilliseconds.map { max(0, loop.wallMilliseconds - $0) } ?? 0
    }
}
