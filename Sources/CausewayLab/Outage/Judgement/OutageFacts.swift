/// What a case's further expectations are held against.
struct OutageFacts {
    /// Outcomes that another one follows in good order.
    private static let passing: Set<String> = ["held"]

    var verdict: OutageVerdict
    /// Of each command, in their order.
    var outcomes: [String: [String]]
    var invalidations: Int
    var history = OutageHistory()
    /// When the first command was due.
    var beganMilliseconds: Int64 = 0
    var longestCommitMilliseconds: Int64 = 0

    /// Each command must have a result, whatever a case asks for.
    var commandsWithoutResult: Int { history.commands.count { outcomes[$0.identifier] == nil } }

    /// What is not met, in words.
    func broken(_ expectations: [OutageExpectation]) -> [String] {
        let missing = commandsWithoutResult
        return (missing == 0 ? [] : ["\(missing) commands have no result"]) + expectations.compactMap(whatBreaks)
    }

    /// In words; nil if it is met.
    func whatBreaks(_ expectation: OutageExpectation) -> String? {
        switch expectation {
        case .freshness99(let app, let bound):
            guard let measured = verdict.freshness99(of: app) else { return "\(app) had no push" }
            return measured <= bound ? nil : "99 of 100 pushes of \(app) took \(measured) ms, not \(bound)"
        case .never(let outcome):
            let count = count(of: outcome)
            return count == 0 ? nil : "\(count) commands came to \(outcome)"
        case .outcome(let outcome, let wanted):
            let count = count(of: outcome)
            return count == wanted ? nil : "\(count) commands came to \(outcome), not \(wanted)"
        case .invalidations(let wanted):
            return invalidations == wanted ? nil : "\(invalidations) invalidations, not \(wanted)"
        case .oneResultEach:
            let again = outcomes.values.count { $0.count { !Self.passing.contains($0) } > 1 }
            return again == 0 ? nil : "\(again) commands have two results"
        case .silence(let bound):
            let measured = verdict.longestSilenceMilliseconds
            return measured <= bound ? nil : "an activity waited \(measured) ms, not \(bound)"
        case .committedWithin(let bound):
            let measured = longestCommitMilliseconds
            return measured <= bound ? nil : "a record waited \(measured) ms for its commit, not \(bound)"
        case .noPush(let app):
            let count = accepted(of: app).count
            return count == 0 ? nil : "\(count) pushes of \(app), which was to have none"
        case .onePushEach(let app, let since):
            let late = accepted(of: app).filter { $0.milliseconds >= beganMilliseconds + since }
            let again = late.count - Set(late.map(\.activity)).count
            return again == 0 ? nil : "\(again) pushes of \(app) more than one for each activity"
        }
    }

    private func accepted(of app: String) -> [OutageHistory.Push] {
        let activities = Set(history.commands.lazy.filter { $0.app == app }.map(\.activity))
        return history.pushes.filter { $0.status == 200 && activities.contains($0.activity) }
    }

    private func count(of outcome: String) -> Int { outcomes.values.count { $0.contains(outcome) } }
}
