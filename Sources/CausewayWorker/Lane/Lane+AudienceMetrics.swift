import ActivityStore
import Audiences
import LiveActivity
import Observability
import Reactor

/// Counts and publishes a lane's metrics about its rounds.
extension Lane {
    /// Counts a record of the audience core that Kafka has acknowledged.
    func countAcknowledged(_ production: AudienceProduction) {
        let application = audiences.application(of: production)
        if production.kind == .invalidation { metrics.add(.invalidations, application) }
        guard let resultContent = audiences.resultContent(of: production) else { return }
        if production.kind == .rangeResult {
            metrics.add(.audienceRanges, application, Int(resultContent.outcome.rawValue))
        }
        // If APNs answered no push, no phone got the state, so there is no time to observe. The time of the command's
        // record may also be unknown.
        guard resultContent.recordMilliseconds >= 0, resultContent.lastResponseMilliseconds >= 0 else { return }
        metrics.observe(
            production.kind == .rangeResult ? .audienceRangeTime : .audienceCommandTime,
            application,
            microseconds: Self.microseconds(resultContent.lastResponseMilliseconds - resultContent.recordMilliseconds)
        )
    }

    func setAudienceGauges() {
        let counters = audiences.counters
        metrics.set(.audiencePagesRead, to: Int64(clamping: counters.pagesRead))
        metrics.set(.audiencePagesDamaged, to: Int64(clamping: counters.pagesDamaged))
        metrics.set(.audienceRecordsUnreadable, to: Int64(clamping: counters.recordsUnreadable))
        metrics.set(.audienceRoundsLost, to: Int64(clamping: counters.roundsLost))
        metrics.set(.audienceAppendsRepeated, to: Int64(clamping: audienceStore.counters.appendsRepeated))
        metrics.set(.audiencePagesArranged, to: Int64(clamping: audienceStore.counters.pagesArranged))
        for application in roundGauges.indices { roundGauges[application] = RoundGauges() }
        audiences.addGauges(to: &roundGauges)
        for (application, gauges) in roundGauges.enumerated() {
            metrics.set(.audienceRounds, application, to: Int64(gauges.rounds))
            metrics.set(.audienceMembersParked, application, to: Int64(gauges.membersParked))
            metrics.set(.audienceOldestRoundAge, application, to: age(gauges.oldestRoundMilliseconds))
            metrics.set(.audienceOldestRangeAge, application, to: age(gauges.oldestVersionMilliseconds))
            let members = audiences.memberOutcomeCounts(of: application)
            for outcome in members.indices {
                metrics.set(.audienceMembers, application, outcome, to: Int64(clamping: members[outcome]))
            }
            let changes = audiences.membershipChangeCounts(of: application)
            for change in changes.indices {
                metrics.set(.audienceMemberships, application, change, to: Int64(clamping: changes[change]))
            }
        }
    }

    /// Returns how many milliseconds ago the wall clock showed this time; 0 if there is no time. The time may come
    /// from the clock of another machine, so a time in the future gives 0 too.
    ///
    /// - Parameter milliseconds: UNIX milliseconds.
    private func age(_ milliseconds: Int64?) -> Int64 {
        milliseconds.map { max(0, loop.wallMilliseconds - $0) } ?? 0
    }
}
