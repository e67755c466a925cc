import ActivityStore
import Audiences
import LiveActivity

/// The known facts about one audience. Times are UNIX milliseconds. The present time and the times of admissions are
/// from Redis' clock.
struct AudienceReport {
    /// The fan-out of a version, as long as some of its ranges or broadcasts are not finished.
    struct FanoutUnderWay {
        var version: Version
        var admittedAtMilliseconds: Int64
        var rangeCount: Int
        var finishedRangeCount: Int
        /// Ranges that have begun and are not finished.
        var unfinishedRanges: [UnfinishedRange] = []
        /// Counts and times of all ranges, including finished ones.
        var counts: MemberOutcomeCounts
        var times: ResponseTimes
        var parkedCount = 0

        /// An estimate of the share of the audience's members that the version has passed, from 0 to 1.
        var progressFraction: Double {
            (Double(finishedRangeCount) + unfinishedRanges.reduce(0) { $0 + $1.progressFraction }) / Double(rangeCount)
        }

        /// Returns how many members a second the version has passed since APNs' first response, whatever their outcome.
        /// Nil if APNs has not responded yet.
        func membersPerSecond(nowMilliseconds: Int64) -> Double? {
            let milliseconds = nowMilliseconds - times.firstResponseAtMilliseconds
            guard times.firstResponseAtMilliseconds >= 0, milliseconds > 0 else { return nil }
            return Double(counts.total) * 1_000 / Double(milliseconds)
        }
    }

    /// The progress of a version in one range.
    struct UnfinishedRange {
        var range: SegmentRange
        var progressFraction: Double
        var counts: MemberOutcomeCounts
    }

    var app: String
    var audience: String
    var nowMilliseconds: Int64
    var policyName: String
    var census: AudienceCensus
    var channels: [AudienceInspection.Channel]
    var newestVersion: AudienceInspection.NewestVersion?
    var admittedVersion: AudienceInspection.AdmittedVersion?
    var budget: ActivityReport.Budget
    var frequentBudget: ActivityReport.Budget
    /// The fan-outs under way, newest version first.
    var fanoutsUnderWay: [FanoutUnderWay]
    /// The fan-outs whose ranges and broadcasts are all finished, newest version first, at most as many as the argument
    /// `resultsMax` of `init` permits.
    var finishedFanouts: [AudienceInspection.Fanout]

    init(
        _ inspection: AudienceInspection,
        _ census: AudienceCensus,
        app: InspectedApp,
        audience: String,
        resultsMax: Int,
        nowMilliseconds: Int64
    ) {
        let policy = app.policyOrDefault(named: nil)
        let budgets = inspection.remainingBudgets(policy.pace, nowMilliseconds: nowMilliseconds)
        self.app = app.bundleId
        self.audience = audience
        self.nowMilliseconds = nowMilliseconds
        policyName = policy.name
        self.census = census
        channels = inspection.channels
        newestVersion = inspection.newestVersion
        admittedVersion = inspection.admittedVersion
        budget = ActivityReport.Budget(budgets.budget)
        frequentBudget = ActivityReport.Budget(budgets.frequentBudget)
        fanoutsUnderWay = inspection.fanouts.reversed().filter { !$0.isFinished }
            .map { FanoutUnderWay($0, inspection.rangeCheckpoints) }
        finishedFanouts = Array(inspection.fanouts.reversed().filter(\.isFinished).prefix(resultsMax))
    }
}

extension AudienceReport.FanoutUnderWay {
    fileprivate init(_ fanout: AudienceInspection.Fanout, _ checkpoints: [AudienceInspection.RangeCheckpoint]) {
        self.init(
            version: fanout.version,
            admittedAtMilliseconds: fanout.admittedAtMilliseconds,
            rangeCount: fanout.rangeCount,
            finishedRangeCount: fanout.finishedRanges.count,
            counts: fanout.counts,
            times: fanout.times
        )
        for entry in checkpoints where Int(entry.range.rangeCount) == fanout.rangeCount {
            // Skip the checkpoints of finished ranges. They may be out of date, and `fanout.counts` already has the
            // ranges' counts.
            guard !fanout.finishedRanges.contains(Int(entry.range.index)),
                let rangeProgress = RangeProgress(checkpoint: entry.checkpoint, of: entry.range),
                let version = rangeProgress.versions.first(where: { $0.version == fanout.version })
            else { continue }
            unfinishedRanges.append(
                AudienceReport.UnfinishedRange(
                    range: entry.range,
                    progressFraction: version.progressFraction,
                    counts: version.counts
                )
            )
            counts.add(version.counts)
            times.merge(version.times)
            parkedCount += rangeProgress.parkedMemberCount
        }
    }
}
