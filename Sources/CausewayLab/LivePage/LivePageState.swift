import Synchronization

/// Where a run and its page meet: the run says how far it is and where its parts are, and takes what visitors have requested. Any thread.
final class LivePageState: Sendable {
    /// How to ask a worker's Redis and results about an activity.
    struct Inspection: Sendable, Equatable {
        /// The program `causeway`.
        var program: String
        var configurationFile: String
        /// The log of the inspecting processes.
        var logFile: String
    }

    /// The parts that the page itself asks.
    struct Parts: Sendable, Equatable {
        /// The simulator's control interface.
        var controlPort: UInt16
        var inspection: Inspection?
    }

    /// Presses that wait for the run. More are refused.
    static let pressesMax = 8

    private struct State {
        var parts: Parts?
        var figures = LivePageFigures().json
        var allowed: Set<PageAction> = []
        var remarks: [PageAction: String] = [:]
        var presses: [PageAction] = []
        var troubles = PageTroubles()
    }

    private let state = Mutex(State())

    var parts: Parts? { state.withLock { $0.parts } }
    var allowed: Set<PageAction> { state.withLock { $0.allowed } }
    /// What the page says about an action, such as why it is not allowed.
    var remarks: [PageAction: String] { state.withLock { $0.remarks } }
    /// The newest figures, as JSON.
    var figures: [UInt8] { state.withLock { $0.figures } }
    /// What is switched on, of the run's and the service's troubles.
    var troubles: PageTroubles { state.withLock { $0.troubles } }

    // MARK: - The run

    func show(_ parts: Parts?) { state.withLock { $0.parts = parts } }

    func show(_ figures: LivePageFigures) {
        let json = figures.json
        state.withLock { $0.figures = json }
    }

    /// Sets what visitors may do from now on.
    ///
    /// - Parameter remarks: what they must know of an action, such as why they may not do it.
    func allow(_ actions: Set<PageAction>, remarks: [PageAction: String] = [:]) {
        state.withLock { state in
            state.allowed = actions
            state.remarks = remarks
        }
    }

    /// What visitors have asked the run to do since the last call, and what must end.
    func takeSteps(nowMilliseconds: Int64) -> [PageTroubles.Step] {
        takeSteps(ofService: false, nowMilliseconds: nowMilliseconds)
    }

    // MARK: - The page

    /// - Returns: false if the action is not allowed now, or too many wait.
    func press(_ action: PageAction) -> Bool {
        state.withLock { state in
            guard state.allowed.contains(action), state.presses.count < Self.pressesMax else { return false }
            state.presses.append(action)
            return true
        }
    }

    func takeServiceSteps(nowMilliseconds: Int64) -> [PageTroubles.Step] {
        takeSteps(ofService: true, nowMilliseconds: nowMilliseconds)
    }

    private func takeSteps(ofService isOfService: Bool, nowMilliseconds: Int64) -> [PageTroubles.Step] {
        state.withLock { state in
            let own = state.presses.filter { $0.isOfService == isOfService }
            state.presses.removeAll { $0.isOfService == isOfService }
            var steps = state.troubles.expire(nowMilliseconds: nowMilliseconds, ofService: isOfService)
            for action in own { steps.append(state.troubles.press(action, nowMilliseconds: nowMilliseconds)) }
            return steps
        }
    }
}
