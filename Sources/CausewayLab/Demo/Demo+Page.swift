import CausewayCommandLine
import Delivery
import LiveActivity

/// Reports a demo to the live page, and carries out its visitors' actions.
extension Demo {
    static let reportIntervalMilliseconds: Int64 = 250

    func run() throws(LabError) -> DemoFigures {
        do throws(LabError) {
            let figures = try playThrough()
            report(figures)
            return figures
        } catch {
            report(error)
            throw error
        }
    }

    /// Reports the demo's progress to the page: at most every 250 ms, and when the phase changes.
    func report(_ phase: LivePageFigures.Phase, _ reader: ResultsReader, elapsedMilliseconds: Int64? = nil) {
        guard let pageState else { return }
        let now = Clock.milliseconds
        guard now >= pageReport.nextReportMilliseconds || phase != pageReport.figures.phase else { return }
        pageReport.nextReportMilliseconds = now + Self.reportIntervalMilliseconds
        pageReport.measureFreshness(reader.tally, nowMilliseconds: now)
        pageReport.lateCommands.addSample(commands: feed.commands, nowMilliseconds: now)
        var figures = pageReport.figures
        figures.phase = phase
        figures.elapsedMilliseconds = elapsedMilliseconds ?? figures.elapsedMilliseconds
        figures.durationMilliseconds = Int64(options.seconds) * 1_000
        figures.commands = feed.commands
        figures.commandsInAll = feed.commandsInAll
        figures.results = reader.tally.commands
        figures.late = pageReport.lateCommands.lateCount(results: reader.tally.commands, nowMilliseconds: now)
        figures.lateAfterSeconds = Int(LateCommands.afterMilliseconds / 1_000)
        figures.budgetPushes = options.policy.frequentBudget.pushes
        figures.budgetRefillPerHour = options.policy.frequentBudget.refillPerHour
        figures.matchesOver = feed.matchesOver
        figures.matches = feed.matches.count
        figures.news = feed.news
        pageReport.figures = figures
        pageState.show(figures)
    }

    func report(_ demoFigures: DemoFigures) {
        pageReport.figures.phase = .over
        pageReport.figures.verdict = LivePageFigures.Verdict(
            isGood: demoFigures.isGood,
            text: demoFigures.verdict,
            lost: demoFigures.phones - demoFigures.phonesWithFinalScore
        )
        pageState?.allow([])
        pageState?.show(pageReport.figures)
    }

    func report(_ failure: LabError) {
        pageReport.figures.phase = .failed
        pageReport.figures.failure = failure.reason
        pageState?.allow([])
        pageState?.show(pageReport.figures)
    }

    /// Lets visitors of the live page disturb the worker, Redis and the simulated APNs while the season is
    /// played.
    func allowPageActions() {
        var actions = Set(PageAction.allCases)
        // If superseded commands have no results of their own, newer commands' results count them. A killed
        // worker can lose such counts. The demo would then wait for these commands until it fails.
        if options.supersededResults != .each { actions.remove(.killWorker) }
        pageState?.allow(actions)
    }

    /// Refuses further actions of the live page's visitors. If a visitor has taken Redis away, waits until
    /// Redis runs again.
    func endPageActions() throws(LabError) {
        guard let pageState else { return }
        pageState.allow([])
        try carryOutPageActions()
        while pageState.disturbances.isOn(.takeRedisAway) {
            try checkParts()
            Self.pause(milliseconds: Self.pauseMilliseconds)
            try carryOutPageActions()
        }
    }

    /// Carries out what visitors of the live page have requested.
    func carryOutPageActions() throws(LabError) {
        guard let pageState else { return }
        for step in pageState.takeSteps(nowMilliseconds: Clock.milliseconds) {
            switch step {
            case .begin(.killWorker): try disturb(.workerCrashes)
            case .begin(.takeRedisAway): try disturb(.redisGoes)
            case .end(.takeRedisAway): try disturb(.redisReturns)
            default: break
            }
        }
    }

    var declaredParts: LivePageState.Parts {
        LivePageState.Parts(
            controlPort: deployment.simulator.controlPort,
            inspection: LivePageState.Inspection(
                program: deployment.causewayProgram,
                configurationFile: deployment.path("causeway.yaml"),
                logFile: deployment.path("inspect.log")
            )
        )
    }
}

/// The state that a demo keeps between two reports to its page.
struct DemoReport {
    var figures = LivePageFigures()
    var lateCommands = LateCommands()
    var nextReportMilliseconds: Int64 = 0
    private var freshness = RecentFreshness()

    /// Measures how long the pushes of about the last second took.
    mutating func measureFreshness(_ tally: Tally, nowMilliseconds: Int64) {
        figures.freshness = freshness.measure(tally.freshness, nowMilliseconds: nowMilliseconds)
    }
}
