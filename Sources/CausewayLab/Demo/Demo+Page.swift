import CausewayCommandLine
import Delivery
import LiveActivity

/// Reports a demo to the live page, and carries out the actions of the page's visitors.
extension Demo {
    static let reportIntervalMilliseconds: Int64 = 250

    func run() throws(LabError) -> DemoFigures {
        do throws(LabError) {
            let figures = try runAllPhases()
            reportEnd(figures)
            return figures
        } catch {
            reportFailure(error)
            throw error
        }
    }

    /// Reports the demo's progress to the page when the phase changes, and otherwise at most every 250 ms.
    func reportProgress(_ phase: LivePageFigures.Phase, _ reader: ResultsReader, elapsedMilliseconds: Int64? = nil) {
        guard let pageMailbox else { return }
        let nowMilliseconds = Clock.monotonicMilliseconds
        guard nowMilliseconds >= pageReport.reportDueMilliseconds || phase != pageReport.figures.phase else {
            return
        }
        pageReport.reportDueMilliseconds = nowMilliseconds + Self.reportIntervalMilliseconds
        pageReport.measureFreshness(reader.tally, nowMilliseconds: nowMilliseconds)
        pageReport.lateCommandCounter.addSample(commandCount: feed.commandCount, nowMilliseconds: nowMilliseconds)
        var figures = pageReport.figures
        figures.phase = phase
        figures.elapsedMilliseconds = elapsedMilliseconds ?? figures.elapsedMilliseconds
        figures.durationMilliseconds = Int64(options.seasonSeconds) * 1_000
        figures.knownCommandCount = feed.commandCount
        figures.commandsInAll = feed.totalCommandCount
        figures.results = reader.tally.commandCount
        figures.late = pageReport.lateCommandCounter.lateCount(
            resultCount: reader.tally.commandCount,
            nowMilliseconds: nowMilliseconds
        )
        figures.lateAfterSeconds = Int(LateCommandCounter.lateAfterMilliseconds / 1_000)
        figures.budgetPushes = options.policy.frequentBudget.pushes
        figures.budgetRefillPerHour = options.policy.frequentBudget.refillPerHour
        figures.finishedMatchCount = feed.finishedMatchCount
        figures.matchCount = feed.matches.count
        figures.news = feed.latestEventText
        pageReport.figures = figures
        pageMailbox.show(figures)
    }

    func reportEnd(_ demoFigures: DemoFigures) {
        pageReport.figures.phase = .over
        pageReport.figures.verdict = LivePageFigures.Verdict(
            isGood: demoFigures.hasSucceeded,
            closingSentence: demoFigures.summary,
            wrongPhoneCount: demoFigures.phones - demoFigures.phonesWithFinalScore
        )
        pageMailbox?.setAllowedActions([])
        pageMailbox?.show(pageReport.figures)
    }

    func reportFailure(_ failure: LabError) {
        pageReport.figures.phase = .failed
        pageReport.figures.failure = failure.reason
        pageMailbox?.setAllowedActions([])
        pageMailbox?.show(pageReport.figures)
    }

    /// Lets visitors of the live page disturb the worker, Redis and the simulated APNs during the season.
    func allowPageActions() {
        var actions = Set(PageAction.allCases)
        // If a result counts superseded commands that have no result of their own, a killed worker can lose this count,
        // and the demo would wait for these commands until it fails. In the mode `each`, every command has a result.
        if options.supersededResults != .each { actions.remove(.killWorker) }
        pageMailbox?.setAllowedActions(actions)
    }

    /// Refuses further actions of the page's visitors. If a visitor has taken Redis away, waits until Redis runs again.
    func endPageActions() throws(LabError) {
        guard let pageMailbox else { return }
        pageMailbox.setAllowedActions([])
        try carryOutPageActions()
        while pageMailbox.disturbances.isOn(.takeRedisAway) {
            try checkInterruptionAndProcesses()
            Self.pause()
            try carryOutPageActions()
        }
    }

    /// Carries out what visitors have requested since the previous call of this method. Starts Redis again when it has
    /// been away long enough.
    func carryOutPageActions() throws(LabError) {
        guard let pageMailbox else { return }
        for step in pageMailbox.takeSteps(nowMilliseconds: Clock.monotonicMilliseconds) {
            switch step {
            case .begin(.killWorker): try causeDisturbance(.workerCrashes)
            case .begin(.takeRedisAway): try causeDisturbance(.redisStops)
            case .end(.takeRedisAway): try causeDisturbance(.redisRestarts)
            default: break
            }
        }
    }

    var pageDataSources: LivePageMailbox.DataSources {
        LivePageMailbox.DataSources(
            controlPort: deployment.simulator.controlPort,
            inspectCommandLine: LivePageMailbox.InspectCommandLine(
                program: deployment.causewayProgram,
                configurationFile: deployment.path("causeway.yaml"),
                standardErrorFile: deployment.path("inspect.log")
            )
        )
    }
}

/// What a demo reports to its page, and what it must remember until the next report.
struct DemoPageReport {
    var figures = LivePageFigures()
    var lateCommandCounter = LateCommandCounter()
    var reportDueMilliseconds: Int64 = 0
    private var freshness = RecentFreshness()

    /// Measures how long the pushes of about the last second took from the command's record to APNs' response.
    mutating func measureFreshness(_ tally: ResultTally, nowMilliseconds: Int64) {
        figures.freshness = freshness.measure(tally.freshness, nowMilliseconds: nowMilliseconds)
    }
}
