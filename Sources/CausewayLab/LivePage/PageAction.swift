/// An action with which a visitor of the live page disturbs the worker, Redis or the simulated APNs.
enum PageAction: String, CaseIterable, Sendable {
    case killWorker = "kill-worker"
    case takeRedisAway = "take-redis-away"
    case respondWith503 = "respond-503"
    case cutConnections = "cut-connections"
    case blackHole = "black-hole"

    /// How long the disturbance lasts, unless a second press of the button ends it. Nil: the action happens at once and
    /// does not last.
    var durationMilliseconds: Int64? {
        switch self {
        case .killWorker, .cutConnections: nil
        case .takeRedisAway: 10_000
        case .respondWith503, .blackHole: 15_000
        }
    }

    /// Whether the action disturbs the simulated APNs. The page's sampler carries out such an action. The run carries
    /// out all other actions; without a run, `SimulatorPage` does this.
    var isForAPNs: Bool {
        switch self {
        case .killWorker, .takeRedisAway: false
        case .respondWith503, .cutConnections, .blackHole: true
        }
    }
}

/// The disturbances that visitors have begun and that still last. Each ends by itself after its duration, because the
/// visitor may have left the page.
struct PageDisturbances: Equatable {
    /// What the run or the ``LivePageSampler`` must do now: begin an action, or end its disturbance.
    enum Step: Equatable {
        case begin(PageAction)
        case end(PageAction)
    }

    /// When each disturbance ends. Monotonic milliseconds.
    private(set) var endMillisecondsByAction: [PageAction: Int64] = [:]

    func isOn(_ action: PageAction) -> Bool { endMillisecondsByAction[action] != nil }

    /// Handles a press of the action's button, and returns the step to carry out. If the action's disturbance is on,
    /// the disturbance ends; otherwise the action begins.
    mutating func press(_ action: PageAction, nowMilliseconds: Int64) -> Step {
        if endMillisecondsByAction.removeValue(forKey: action) != nil { return .end(action) }
        if let durationMilliseconds = action.durationMilliseconds {
            endMillisecondsByAction[action] = nowMilliseconds + durationMilliseconds
        }
        return .begin(action)
    }

    /// Ends the disturbances that have lasted long enough, and returns a step for each of them.
    ///
    /// - Parameter isForAPNs: true: only the disturbances of the simulated APNs; false: only the others.
    mutating func expire(nowMilliseconds: Int64, forAPNs isForAPNs: Bool) -> [Step] {
        let expiredActions = PageAction.allCases.filter {
            $0.isForAPNs == isForAPNs && (endMillisecondsByAction[$0] ?? .max) <= nowMilliseconds
        }
        for action in expiredActions { endMillisecondsByAction[action] = nil }
        return expiredActions.map(Step.end)
    }

    /// The faults of the simulated APNs for these disturbances, as the body of `PUT /faults`.
    var faultsJSON: String {
        var members: [String] = []
        if isOn(.respondWith503) { members.append(#""serviceUnavailableShare":1"#) }
        // With these faults, APNs completes TLS on a new connection, and then neither reads nor sends.
        if isOn(.blackHole) { members.append(#""silentAfterRequests":0,"silentStopsReading":true"#) }
        return "{\(members.joined(separator: ","))}"
    }
}
