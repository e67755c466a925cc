import LiveActivity

import enum CausewayRecords.JSONValue

/// A summary of all activities of an app, with the activities that got the most pushes.
struct AppOverview {
    /// The most activities that are read. If the app has more, the summary covers only these, and the output
    /// says so.
    static let activitiesMax = 200_000
    /// How many activities are read from Redis at a time, to limit the memory.
    static let activitiesPerStep = 5_000
    static let busiestMax = 10

    private(set) var activities = 0
    private(set) var withToken = 0
    private(set) var held = 0
    private(set) var ended = 0
    private(set) var throttled = 0
    /// Activities that have used up their budget for updates. They may still have a reserve for alerts.
    private(set) var outOfBudget = 0
    /// Activities whose value in Redis has an unknown form, because another program wrote it.
    private(set) var unreadable = 0
    /// The activities that have spent the most of their budget. If two have spent the same, the one with the
    /// later push comes first.
    private(set) var busiest: [ActivityReport] = []

    mutating func add(_ report: ActivityReport) {
        activities += 1
        if report.token != nil { withToken += 1 }
        if report.held != nil { held += 1 }
        if report.newest?.isEnd == true { ended += 1 }
        if report.pace.spacingDoublings > 0 { throttled += 1 }
        if report.budget.left <= report.budget.reserved { outOfBudget += 1 }
        guard report.sent != nil else { return }
        let place = busiest.firstIndex { Self.isBusier(report, than: $0) } ?? busiest.endIndex
        busiest.insert(report, at: place)
        if busiest.count > Self.busiestMax { busiest.removeLast() }
    }

    mutating func addUnreadable() {
        activities += 1
        unreadable += 1
    }

    private static func isBusier(_ left: ActivityReport, than right: ActivityReport) -> Bool {
        let (spent, otherSpent) = (left.budget.spent, right.budget.spent)
        if spent != otherSpent { return spent > otherSpent }
        return left.sent?.atMilliseconds ?? 0 > right.sent?.atMilliseconds ?? 0
    }

    func lines(app: InspectedApp, policy: Policy, now: Int64, isComplete: Bool) -> [String] {
        var lines = LabelledLines(labelWidth: 15)
        lines.add("app", "\(app.bundleIdentifier), policy \(policy.name)")
        lines.add("activities", "\(activities)\(isComplete ? "" : ", and more: counting stopped here")")
        lines.add("with token", "\(withToken)")
        lines.add("held", "\(held)")
        lines.add("ended", "\(ended)")
        lines.add("throttled", "\(throttled)")
        lines.add("out of budget", "\(outOfBudget)")
        if unreadable > 0 { lines.add("unreadable", "\(unreadable)") }
        guard !busiest.isEmpty else { return lines.lines }
        lines.add("")
        lines.addTable(
            header: ["busiest activities", "spent", "last push", "newest"],
            rows: busiest.map { report in
                [
                    report.activity, "\(report.budget.spent) of \(report.budget.pushes)",
                    report.sent.map { TimeText.relative($0.atMilliseconds, to: now) } ?? "-",
                    report.newest?.state.words ?? "-",
                ]
            },
            rightAligned: [1]
        )
        return lines.lines
    }

    /// Returns the summary as JSON, for programs.
    func json(app: InspectedApp, policy: Policy, now: Int64, isComplete: Bool) -> JSONValue {
        .members([
            "app": .string(app.bundleIdentifier), "policy": .string(policy.name), "now": .integer(now),
            "isComplete": .boolean(isComplete),
            "activities": .integer(Int64(activities)), "withToken": .integer(Int64(withToken)),
            "held": .integer(Int64(held)), "ended": .integer(Int64(ended)),
            "throttled": .integer(Int64(throttled)), "outOfBudget": .integer(Int64(outOfBudget)),
            "unreadable": .integer(Int64(unreadable)),
            "busiest": .array(busiest.map { $0.json(results: nil) }),
        ])
    }
}

extension ActivityReport.Budget {
    var spent: Int { max(0, pushes - left) }
}
