import Synchronization

/// What a run and its live page share; any thread may use it. The run sets its progress and the page's data sources,
/// and takes the button presses of visitors.
final class LivePageMailbox: Sendable {
    /// The command line of `causeway inspect`, which the page runs to show what Redis and the results topic have about
    /// an activity.
    struct InspectCommandLine: Sendable, Equatable {
        /// The path of the program `causeway`.
        var program: String
        var configurationFile: String
        /// The file for the standard error of `causeway inspect`.
        var standardErrorFile: String
    }

    /// What the page itself queries: the simulator, and a worker through `causeway inspect`.
    struct DataSources: Sendable, Equatable {
        /// The port of the simulator's control interface.
        var controlPort: UInt16
        var inspectCommandLine: InspectCommandLine?
    }

    /// The maximum number of button presses that wait until the run or the sampler carries them out. Further presses
    /// are refused.
    static let waitingPressesMax = 8

    private struct State {
        var dataSources: DataSources?
        var figures = LivePageFigures().json
        var allowedActions: Set<PageAction> = []
        var remarks: [PageAction: String] = [:]
        var presses: [PageAction] = []
        var disturbances = PageDisturbances()
    }

    private let state = Mutex(State())

    var dataSources: DataSources? { state.withLock { $0.dataSources } }
    var allowedActions: Set<PageAction> { state.withLock { $0.allowedActions } }
    /// What the page says about an action, for example why it is not allowed.
    var remarks: [PageAction: String] { state.withLock { $0.remarks } }
    /// The newest figures of the run (``LivePageFigures``), as JSON.
    var figures: [UInt8] { state.withLock { $0.figures } }
    /// The disturbances that are switched on: of Redis and of the simulated APNs.
    var disturbances: PageDisturbances { state.withLock { $0.disturbances } }

    // MARK: - Called by the run

    func show(_ dataSources: DataSources?) { state.withLock { $0.dataSources = dataSources } }

    func show(_ figures: LivePageFigures) {
        let json = figures.json
        state.withLock { $0.figures = json }
    }

    /// Sets the actions that visitors may do from now on.
    ///
    /// - Parameter remarks: texts that the page shows for actions, for example why an action is not possible.
    func setAllowedActions(_ actions: Set<PageAction>, remarks: [PageAction: String] = [:]) {
        state.withLock { state in
            state.allowedActions = actions
            state.remarks = remarks
        }
    }

    /// Returns the steps that the run must carry out now: for buttons that visitors have pressed since the last call,
    /// and for disturbances that have lasted long enough and must end.
    func takeSteps(nowMilliseconds: Int64) -> [PageDisturbances.Step] {
        takeSteps(forAPNs: false, nowMilliseconds: nowMilliseconds)
    }

    // MARK: - Called by the page

    /// Queues the press of an action's button. If the action concerns the simulated APNs, the ``LivePageSampler``
    /// carries it out, otherwise the run.
    ///
    /// - Returns: false if the action is not allowed now, or if too many presses wait.
    func press(_ action: PageAction) -> Bool {
        state.withLock { state in
            guard state.allowedActions.contains(action), state.presses.count < Self.waitingPressesMax else {
                return false
            }
            state.presses.append(action)
            return true
        }
    }

    /// Returns the steps that the ``LivePageSampler`` must carry out now, because they concern the simulated APNs.
    func takeStepsAtAPNs(nowMilliseconds: Int64) -> [PageDisturbances.Step] {
        takeSteps(forAPNs: true, nowMilliseconds: nowMilliseconds)
    }

    private func takeSteps(forAPNs isForAPNs: Bool, nowMilliseconds: Int64) -> [PageDisturbances.Step] {
        state.withLock { state in
            let actions = state.presses.filter { $0.isForAPNs == isForAPNs }
            state.presses.removeAll { $0.isForAPNs == isForAPNs }
            var steps = state.disturbances.expire(nowMilliseconds: nowMilliseconds, forAPNs: isForAPNs)
            for action in actions { steps.append(state.disturbances.press(action, nowMilliseconds: nowMilliseconds)) }
            return steps
        }
    }
}
