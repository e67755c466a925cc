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
        guard let pageState else { return }
        let nowMilliseconds = Clock.monotonicMilliseconds
        guard nowMilliseconds >= reportState.reportDueMilliseconds || phase != reportState.figures.phase else {
            return
        }
        reportState.reportDueMilliseconds = nowMilliseconds + Self.reportIntervalMilliseconds
        reportState.measureFreshness(reader.tally, nowMilliseconds: nowMilliseconds)
        reportState.lateCommandCounter.addSample(commandCount: feed.commandCount, nowMilliseconds: nowMilliseconds)
        var figures = reportState.figures
        figures.phase = phase
        figures.elapsedMilliseconds = elapsedMilliseconds ?? figures.elapsedMilliseconds
        figures.durationMilliseconds = Int64(options.seasonSeconds) * 1_000
        figures.commands = feed.commandCount
        figures.commandsInAll = feed.totalCommandCount
        figures.results = reader.tally.commandCount
        figures.late = reportState.lateCommandCounter.lateCount(
            resultCount: reader.tally.commandCount,
            nowMilliseconds: nowMilliseconds
        )
        figures.lateAfterSeconds = Int(LateCommandCounter.lateAfterMilliseconds / 1_000)
        figures.budgetPushes = options.policy.frequentBudget.pushes
        figures.budgetRefillPerHour = options.policy.frequentBudget.refillPerHour
        figures.matchesOver = feed.finishedMatchCount
        figures.matches = feed.matches.count
        figures.news = feed.latestEventText
        reportState.figures = figures
        pageState.show(figures)
    }

    func reportEnd(_ demoFigures: DemoFigures) {
        reportState.figures.phase = .over
        reportState.figures.verdict = LivePageFigures.Verdict(
            isGood: demoFigures.hasSucceeded,
            text: demoFigures.summary,
            lost: demoFigures.phones - demoFigures.phonesWithFinalScore
        )
        pageState?.setAllowedActions([])
        pageState?.show(reportState.figures)
    }

    func reportFailure(_ failure: LabError) {
        reportState.figures.phase = .failed
        reportState.figures.failure = failure.reason
        pageState?.setAllowedActions([])
        pageState?.show(reportState.figures)
    }

    /// Lets visitors of the live page disturb the worker, Redis and the simulated APNs during the season.
    func allowPageActions() {
        var actions = Set(PageAction.allCases)
        // If a result counts superseded commands that have no result of their own, a killed worker can lose this count.
        // The demo would then wait for these commands until it fails. In the mode `each`, every command has a result.
        if options.supersededResults != .each { actions.remove(.killWorker) }
        pageState?.setAllowedActions(actions)
    }

    /// Refuses further actions of the page's visitors. If a visitor has taken Redis away, waits until Redis runs again.
    func endPageActions() throws(LabError) {
        guard let pageState else { return }
        pageState.setAllowedActions([])
        try carryOutPageActions()
        while pageState.disturbances.isOn(.takeRedisAway) {
            try checkInterruptionAndProcesses()
            Self.pause()
            try carryOutPageActions()
        }
    }

    /// Carries out what visitors have requested since the last call. Ends the disturbance of Redis when it has lasted
    /// long enough.
    func carryOutPageActions() throws(LabError) {
        guard let pageState else { return }
        for step in pageState.takeSteps(nowMilliseconds: Clock.monotonicMilliseconds) {
            switch step {
            case .begin(.killWorker): try causeDisturbance(.workerCrashes)
            case .begin(.takeRedisAway): try causeDisturbance(.redisStops)
            case .end(.takeRedisAway): try causeDisturbance(.redisRestarts)
            default: break
            }
        }
    }

    var pageDataSources: LivePageState.DataSources {
        LivePageState.DataSources(
            controlPort: deployment.simulator.controlPort,
            inspectCommandLine: LivePageState.InspectCommandLine(
                program: deployment.causewayProgram,
                configurationFile: deployment.path("causeway.yaml"),
                logFile: deployment.path("inspect.log")
            )
        )
    }
}

/// What a demo must remember between two reports to its page.
struct DemoReportState {
    var figures = LivePageFigures()
    var lateCommandCounter = LateCommandCounter()
    var reportDueMilliseconds: Int64 = 0
    private var freshness = RecentFreshness()

    /// Measures how long the pushes of about the last second took from the command's record to APNs' response.
    mutating func measureFreshness(_ tally: ResultTally, nowMilliseconds: Int64) {
        figures.freshness = freshness.measure(tally.freshness, nowMilliseconds: nowMilliseconds)
    }
}
