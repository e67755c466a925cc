import ActivityStore
import Audiences
import LiveActivity

/// The known facts about one audience. Times are UNIX milliseconds. The present time and the times of admissions are by
/// Redis' clock.
struct AudienceReport {
    /// A version whose ranges and broadcasts are not all finished.
    struct RoundUnderWay {
        var version: Version
        var admittedAtMilliseconds: Int64
        var rangeCount: Int
        var finishedRangeCount: Int
        /// Ranges that have begun and are not finished.
        var unfinishedRanges: [UnfinishedRange] = []
        /// Counts and times of all ranges, including finished ones.
        var counts: OutcomeCounts
        var times: ResponseTimes
        var parkedCount = 0

        /// An estimate of the share of the audience's members that the version has passed, from 0 to 1.
        var progressFraction: Double {
            (Double(finishedRangeCount) + unfinishedRanges.reduce(0) { $0 + $1.progressFraction }) / Double(rangeCount)
        }

        /// Returns how many members per second the version has passed since APNs' first response, whatever their
        /// outcome. Nil if APNs has not responded yet.
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
        var counts: OutcomeCounts
    }

    var app: String
    var audience: String
    var nowMilliseconds: Int64
    var policyName: String
    var census: AudienceCensus
    var channels: [AudienceInspection.Channel]
    var newestVersion: AudienceInspection.NewestVersion?
    var lastAdmission: AudienceInspection.AdmittedVersion?
    var budget: ActivityReport.Budget
    var frequentBudget: ActivityReport.Budget
    /// The versions under way, newest first.
    var roundsUnderWay: [RoundUnderWay]
    /// Versions whose ranges and broadcasts are all finished, newest first.
    var finishedRounds: [AudienceInspection.FanOut]

    init(
        _ inspection: AudienceInspection,
        _ census: AudienceCensus,
        app: InspectedApp,
        audience: String,
        resultsMax: Int,
        nowMilliseconds: Int64
    ) {
        let policy = app.policy(named: nil)
        let budgets = inspection.budgets(policy.pace, nowMilliseconds: nowMilliseconds)
        self.app = app.bundleIdentifier
        self.audience = audience
        self.nowMilliseconds = nowMilliseconds
        policyName = policy.name
        self.census = census
        channels = inspection.channels
        newestVersion = inspection.newestVersion
        lastAdmission = inspection.admittedVersion
        budget = ActivityReport.Budget(budgets.budget)
        frequentBudget = ActivityReport.Budget(budgets.frequentBudget)
        roundsUnderWay = inspection.fanOuts.reversed().filter { !$0.isFinished }
            .map { RoundUnderWay($0, inspection.rangeCheckpoints) }
        finishedRounds = Array(inspection.fanOuts.reversed().filter(\.isFinished).prefix(resultsMax))
    }
}

extension AudienceReport.RoundUnderWay {
    fileprivate init(_ round: AudienceInspection.FanOut, _ checkpoints: [AudienceInspection.RangeCheckpoint]) {
        self.init(
            version: round.version,
            admittedAtMilliseconds: round.admittedAtMilliseconds,
            rangeCount: round.rangeCount,
            finishedRangeCount: round.finishedRanges.count,
            counts: round.counts,
            times: round.times
        )
        for entry in checkpoints where Int(entry.range.rangeCount) == round.rangeCount {
            // Skip the checkpoints of finished ranges. The counts of a finished range are already in
            // `round.counts`, and its last checkpoint may be older.
            guard !round.finishedRanges.contains(Int(entry.range.index)),
                let rangeProgress = RangeProgress(checkpoint: entry.checkpoint, of: entry.range),
                let version = rangeProgress.versions.first(where: { $0.version == round.version })
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
