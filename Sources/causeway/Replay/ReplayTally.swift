import LiveActivity

import enum CausewayRecords.JSONValue

/// Counts the decisions about commands, in total and for each app.
struct ReplayTally {
    private(set) var readRecordCount = 0
    private(set) var skippedRecordCount = 0
    /// The counts by the index of the app. The index nil counts records without a known app: registrations, unreadable
    /// records, and records that name no configured app.
    private(set) var reasonCountsByApp: [Int?: [ReplayReason: Int]] = [:]
    /// The number of invalid records, by the code of their result.
    private(set) var invalidCounts: [String: Int] = [:]
    private(set) var droppedAlertCount = 0

    mutating func count(_ record: RecordClassification) {
        readRecordCount += 1
        switch record {
        case .command: break
        case .skipped: skippedRecordCount += 1
        case .invalid(let code, let appIndex):
            invalidCounts[code, default: 0] += 1
            count(.invalid, appIndex: appIndex)
        case .registration: count(.registration, appIndex: nil)
        }
    }

    mutating func count(_ reason: ReplayReason, appIndex: Int?) {
        reasonCountsByApp[appIndex, default: [:]][reason, default: 0] += 1
    }

    mutating func count(_ verdict: ReplayVerdict, appIndex: Int) {
        count(verdict.reason, appIndex: appIndex)
        if verdict.dropsAlert { droppedAlertCount += 1 }
    }

    func total(_ reason: ReplayReason) -> Int { reasonCountsByApp.values.reduce(0) { $0 + ($1[reason] ?? 0) } }

    // MARK: - The counts as text and as JSON

    /// Returns the counts as text.
    ///
    /// - Parameter isSent: whether the commands have been sent.
    func lines(_ scope: ReplayScope, topic: String, isSent: Bool = false) -> [String] {
        var lines = LabelledLines()
        let skippedText =
            skippedRecordCount > 0 ? ", \(skippedRecordCount) of other apps or activities skipped" : ""
        lines.add("\(topic): \(readRecordCount) \(readRecordCount == 1 ? "record" : "records")\(skippedText)")
        let apps = reasonCountsByApp.keys.sorted { $0 ?? .max < $1 ?? .max }
        let reasons = ReplayReason.allCases.filter { total($0) > 0 }
        guard !reasons.isEmpty else { return lines.lines }
        let names = apps.count > 1 ? apps.map { $0.map { scope.apps[$0].bundleId } ?? "no app" } : []
        var rows = reasons.map { reason in
            [isSent ? reason.titleWhenSent : reason.title, "\(total(reason))"]
                + (names.isEmpty ? [] : apps.map { "\(reasonCountsByApp[$0]?[reason] ?? 0)" })
                + [reason.explanation]
        }
        if droppedAlertCount > 0 {
            let index = rows.firstIndex { $0[0] == ReplayReason.supersededInRange.title } ?? rows.count
            let blanks = names.map { _ in "" }
            rows.insert(
                ["  without the alert", "\(droppedAlertCount)"] + blanks + ["the alert is too old"],
                at: min(index, rows.count)
            )
        }
        lines.addTable(
            header: ["", "commands"] + names + [""],
            rows: rows,
            rightAligned: Set(1...1 + names.count)
        )
        for (code, count) in invalidCounts.sorted(by: { $0.key < $1.key }) { lines.add("invalid: \(count) \(code)") }
        return lines.lines
    }

    /// Returns the counts as JSON, for programs.
    ///
    /// - Parameter otherMembers: members that only this kind of replay has.
    func json(_ scope: ReplayScope, topic: String, isComplete: Bool, otherMembers: [String: JSONValue] = [:])
        -> JSONValue
    {
        func object(_ counts: [ReplayReason: Int]) -> JSONValue {
            .object(Dictionary(uniqueKeysWithValues: counts.map { ($0.key.rawValue, .integer(Int64($0.value))) }))
        }
        let totals = Dictionary(uniqueKeysWithValues: ReplayReason.allCases.map { ($0, total($0)) })
        let apps = reasonCountsByApp.compactMap { appIndex, counts in
            appIndex.map { (scope.apps[$0].bundleId, object(counts)) }
        }
        let members: [String: JSONValue] = [
            "topic": .string(topic),
            "records": .integer(Int64(readRecordCount)),
            "passedOver": .integer(Int64(skippedRecordCount)),
            "counts": object(totals.filter { $0.value > 0 }),
            "apps": .object(Dictionary(uniqueKeysWithValues: apps)),
            "invalid": .object(invalidCounts.mapValues { .integer(Int64($0)) }),
            "withoutAlert": .integer(Int64(droppedAlertCount)),
            "isComplete": .boolean(isComplete),
        ]
        return .object(members.merging(otherMembers) { $1 })
    }
}
