import LiveActivity

/// Checks the additional expectations of a case against the observations.
struct OutageExpectationChecker {
    private static let nonfinalOutcomeNames = Set(Outcome.allCases.filter { !$0.isFinal }.map { "\($0.name)" })

    var findings: OutageFindings
    /// The outcomes of each command, in the order of its results.
    var outcomeNamesByCommand: [String: [String]]
    var invalidationCount: Int
    var history = OutageHistory()
    /// When the first command was due, UNIX milliseconds.
    var firstCommandAtWallMilliseconds: Int64 = 0
    var longestCommitWaitMilliseconds: Int64 = 0

    /// The number of commands without a result. Every case requires that it is 0.
    var missingResultCount: Int { history.commands.count { outcomeNamesByCommand[$0.identifier] == nil } }

    func unmetExpectations(of expectations: [OutageExpectation]) -> [String] {
        let missingResults = missingResultCount == 0 ? [] : ["\(missingResultCount) commands have no result"]
        return missingResults + expectations.compactMap(violation(of:))
    }

    /// Returns why an expectation is not met; nil if it is met.
    func violation(of expectation: OutageExpectation) -> String? {
        switch expectation {
        case .freshnessP99(let app, let boundMilliseconds):
            guard let measuredMilliseconds = findings.freshnessP99Milliseconds(of: app) else {
                return "\(app) had no push"
            }
            return measuredMilliseconds <= boundMilliseconds
                ? nil : "99 of 100 pushes of \(app) took \(measuredMilliseconds) ms; limit \(boundMilliseconds)"
        case .noOutcome(let outcome):
            let count = commandCount(with: outcome)
            return count == 0 ? nil : "\(count) commands have the outcome \(outcome)"
        case .outcome(let outcome, let expectedCount):
            let count = commandCount(with: outcome)
            return count == expectedCount
                ? nil : "\(count) commands have the outcome \(outcome), expected \(expectedCount)"
        case .invalidationCount(let expectedCount):
            return invalidationCount == expectedCount
                ? nil : "\(invalidationCount) invalidations, expected \(expectedCount)"
        case .oneFinalResultPerCommand:
            let repeatedCount = outcomeNamesByCommand.values.count {
                $0.count { !Self.nonfinalOutcomeNames.contains($0) } > 1
            }
            return repeatedCount == 0 ? nil : "\(repeatedCount) commands have two final results"
        case .noSilenceLongerThan(let boundMilliseconds):
            let measuredMilliseconds = findings.longestSilenceMilliseconds
            return measuredMilliseconds <= boundMilliseconds
                ? nil : "an activity waited \(measuredMilliseconds) ms; the limit is \(boundMilliseconds)"
        case .committedWithin(let boundMilliseconds):
            let measuredMilliseconds = longestCommitWaitMilliseconds
            return measuredMilliseconds <= boundMilliseconds
                ? nil : "a record waited \(measuredMilliseconds) ms for its commit; the limit is \(boundMilliseconds)"
        case .noPush(let app):
            let count = acceptedPushes(of: app).count
            return count == 0 ? nil : "\(app) got \(count) pushes, expected none"
        case .atMostOnePushPerActivity(let app, let sinceMilliseconds):
            let latePushes = acceptedPushes(of: app)
                .filter { $0.arrivedAtMilliseconds >= firstCommandAtWallMilliseconds + sinceMilliseconds }
            let surplusCount = latePushes.count - Set(latePushes.map(\.activity)).count
            return surplusCount == 0 ? nil : "\(app) got \(surplusCount) pushes beyond one for each activity"
        }
    }

    private func acceptedPushes(of app: String) -> [OutageHistory.Push] {
        let activities = Set(history.commands.lazy.filter { $0.app == app }.map(\.activity))
        return history.pushes.filter { $0.status == 200 && activities.contains($0.activity) }
    }

    private func commandCount(with outcome: String) -> Int {
        outcomeNamesByCommand.values.count { $0.contains(outcome) }
    }
}
