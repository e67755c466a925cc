/// What a visitor of the live page can do to the parts.
enum PageAction: String, CaseIterable, Sendable {
    case killWorker = "kill-worker"
    case takeRedisAway = "take-redis-away"
    case answer503 = "answer-503"
    case cutConnections = "cut-connections"
    case blackHole = "black-hole"

    /// How long it lasts unless it is pressed again; nil: it happens at once and is over.
    var durationMilliseconds: Int64? {
        switch self {
        case .killWorker, .cutConnections: nil
        case .takeRedisAway: 10_000
        case .answer503, .blackHole: 15_000
        }
    }

    /// Whether the simulated APNs does it. The others are done by who owns the processes.
    var isOfService: Bool {
        switch self {
        case .killWorker, .takeRedisAway: false
        case .answer503, .cutConnections, .blackHole: true
        }
    }
}

/// The troubles that visitors have switched on. Each ends automatically, so that a visitor who leaves breaks nothing for long.
struct PageTroubles: Equatable {
    /// What must be done now.
    enum Step: Equatable {
        case begin(PageAction)
        case end(PageAction)
    }

    /// By trouble: when it ends.
    private(set) var endsAtMilliseconds: [PageAction: Int64] = [:]

    func isOn(_ action: PageAction) -> Bool { endsAtMilliseconds[action] != nil }

    /// A button was pressed: its trouble begins, or ends if it is on.
    mutating func press(_ action: PageAction, nowMilliseconds: Int64) -> Step {
        if endsAtMilliseconds.removeValue(forKey: action) != nil { return .end(action) }
        if let duration = action.durationMilliseconds { endsAtMilliseconds[action] = nowMilliseconds + duration }
        return .begin(action)
    }

    /// Ends what has lasted long enough, of the service's troubles or of the others.
    mutating func expire(nowMilliseconds: Int64, ofService isOfService: Bool) -> [Step] {
        let over = PageAction.allCases.filter {
            $0.isOfService == isOfService && (endsAtMilliseconds[$0] ?? .max) <= nowMilliseconds
        }
        for action in over { endsAtMilliseconds[action] = nil }
        return over.map(Step.end)
    }

    /// The faults of the simulated APNs that correspond, for `PUT /faults`.
    var faults: String {
        var members: [String] = []
        if isOn(.answer503) { members.append(#""serviceUnavailableShare":1"#) }
        // New connections are left alone as soon as TLS is established, and nothing that arrives on them is read.
        if isOn(.blackHole) { members.append(#""silentAfterRequests":0,"silentStopsReading":true"#) }
        return "{\(members.joined(separator: ","))}"
    }
}
