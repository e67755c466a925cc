import LiveActivity

import enum CausewayRecords.JSONValue

/// A summary of an app's activities, and a list of those that have spent the most of their budget.
struct AppOverview {
    /// The maximum number of activities that are read. If the app has more, the summary covers only the activities that
    /// were read, and the output says so.
    static let activitiesMax = 200_000
    /// How many activities are read from Redis at a time. The number limits the memory that they need.
    static let activitiesPerBatch = 5_000
    static let busiestActivitiesMax = 10

    private(set) var activityCount = 0
    private(set) var activitiesWithTokenCount = 0
    private(set) var activitiesWithHeldCommandCount = 0
    private(set) var endedActivityCount = 0
    private(set) var throttledActivityCount = 0
    /// Activities that have used up their budget for updates. They may still have a reserve for alerts.
    private(set) var outOfBudgetActivityCount = 0
    /// Activities whose value in Redis has an unknown form, for example because another program wrote it.
    private(set) var unreadableActivityCount = 0
    /// At most ``busiestActivitiesMax`` activities: those that have spent the most of their budget. If two have spent
    /// the same, the one with the later push comes first. An activity without a push is left out.
    private(set) var busiestActivities: [ActivityReport] = []

    mutating func add(_ report: ActivityReport) {
        activityCount += 1
        if report.token != nil { activitiesWithTokenCount += 1 }
        if report.heldCommand != nil { activitiesWithHeldCommandCount += 1 }
        if report.newestVersion?.isEnd == true { endedActivityCount += 1 }
        if report.pace.spacingDoublingCount > 0 { throttledActivityCount += 1 }
        if report.budget.remainingDrawCount <= report.budget.reservedDrawCount { outOfBudgetActivityCount += 1 }
        guard report.lastSentVersion != nil else { return }
        let index = busiestActivities.firstIndex { Self.isBusier(report, than: $0) } ?? busiestActivities.endIndex
        busiestActivities.insert(report, at: index)
        if busiestActivities.count > Self.busiestActivitiesMax { busiestActivities.removeLast() }
    }

    mutating func countUnreadableActivity() {
        activityCount += 1
        unreadableActivityCount += 1
    }

    private static func isBusier(_ left: ActivityReport, than right: ActivityReport) -> Bool {
        let (leftCount, rightCount) = (left.budget.spentDrawCount, right.budget.spentDrawCount)
        if leftCount != rightCount { return leftCount > rightCount }
        return left.lastSentVersion?.atMilliseconds ?? 0 > right.lastSentVersion?.atMilliseconds ?? 0
    }

    func lines(app: InspectedApp, policy: Policy, nowMilliseconds: Int64, isComplete: Bool) -> [String] {
        var lines = LabelledLines(labelWidth: 15)
        lines.add("app", "\(app.bundleId), policy \(policy.name)")
        lines.add("activities", "\(activityCount)\(isComplete ? "" : ", and more: not all were counted")")
        lines.add("with token", "\(activitiesWithTokenCount)")
        lines.add("held", "\(activitiesWithHeldCommandCount)")
        lines.add("ended", "\(endedActivityCount)")
        lines.add("throttled", "\(throttledActivityCount)")
        lines.add("out of budget", "\(outOfBudgetActivityCount)")
        if unreadableActivityCount > 0 { lines.add("unreadable", "\(unreadableActivityCount)") }
        guard !busiestActivities.isEmpty else { return lines.lines }
        lines.add("")
        lines.addTable(
            header: ["busiest activities", "used", "last push", "newest"],
            rows: busiestActivities.map { report in
                [
                    report.activity, "\(report.budget.spentDrawCount) of \(report.budget.drawsMax)",
                    report.lastSentVersion.map { TimeText.relative($0.atMilliseconds, to: nowMilliseconds) } ?? "-",
                    report.newestVersion?.phase.explanation ?? "-",
                ]
            },
            rightAligned: [1]
        )
        return lines.lines
    }

    /// Returns the summary as JSON, for programs. Times are UNIX milliseconds.
    func json(app: InspectedApp, policy: Policy, nowMilliseconds: Int64, isComplete: Bool) -> JSONValue {
        .objectOmittingNil([
            "app": .string(app.bundleId), "policy": .string(policy.name), "now": .integer(nowMilliseconds),
            "isComplete": .boolean(isComplete),
            "activities": .integer(Int64(activityCount)), "withToken": .integer(Int64(activitiesWithTokenCount)),
            "held": .integer(Int64(activitiesWithHeldCommandCount)), "ended": .integer(Int64(endedActivityCount)),
            "throttled": .integer(Int64(throttledActivityCount)),
            "outOfBudget": .integer(Int64(outOfBudgetActivityCount)),
            "unreadable": .integer(Int64(unreadableActivityCount)),
            "busiest": .array(busiestActivities.map { $0.json(results: nil) }),
        ])
    }
}

extension ActivityReport.Budget {
    var spentDrawCount: Int { max(0, drawsMax - remainingDrawCount) }
}
