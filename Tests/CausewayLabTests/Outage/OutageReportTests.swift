import LiveActivity
import Testing

@testable import CausewayLab

@Suite("The report of an outage")
struct OutageReportTests {
    private func report(_ findings: OutageFindings, unmetExpectations: [String] = []) -> OutageReport {
        OutageReport(name: "apns-503", findings: findings, unmetExpectations: unmetExpectations)
    }

    @Test func `A case is one line, followed by its findings`() {
        var findings = OutageFindings(longestSilenceMilliseconds: 12_340)
        #expect(
            report(findings).text
                == "ok     apns-503: lost 0, old 0, twice 0, longest silence 12.34 s, permitted repeats 0"
        )
        findings.losses = (1...7).map { "a-\($0): no phone has it" }
        let lines = report(findings).text.split(separator: "\n")
        #expect(lines.count == 7 && lines[0].hasPrefix("BROKEN apns-503: lost 7") && lines[6].hasSuffix("and 2 more"))
    }

    @Test func `Repetitions after a crash break no promise`() {
        #expect(report(OutageFindings(permittedAlertRepeats: ["a"])).hasSucceeded)
        #expect(!report(OutageFindings(repeats: ["a"])).hasSucceeded)
        #expect(!report(OutageFindings(), unmetExpectations: ["no"]).hasSucceeded)
    }

    @Test func `The last line sums up`() {
        let reports = [
            report(OutageFindings(losses: ["a"], oldPushes: ["b", "c"])), report(OutageFindings(repeats: ["d"])),
        ]
        #expect(OutageReport.summary(of: reports) == "2 cases: lost 1, old 2, twice 1")
        #expect(
            OutageReport.summary(of: reports + [report(OutageFindings(), unmetExpectations: ["x"])])
                == "3 cases: lost 1, old 2, twice 1; 1 other expectations broken"
        )
    }

    @Test func `The names of the cases are unique and simple`() {
        let names = OutageCase.all.map(\.name)
        #expect(Set(names).count == names.count && !names.isEmpty)
        for name in names { #expect(name.allSatisfy { $0.isLowercase || $0.isNumber || $0 == "-" }) }
        for outage in OutageCase.all {
            #expect(outage.steps.map(\.dueMilliseconds) == outage.steps.map(\.dueMilliseconds).sorted())
        }
    }

    @Test func `Each command must have a result`() {
        var history = OutageHistory()
        for number in UInt64(1)...3 {
            history.commands.append(
                OutageHistory.Command(
                    app: "match",
                    activity: "a",
                    event: .update,
                    version: Version(timestamp: 1, sequence: number),
                    stateDigest: "a-\(number)",
                    producedAtMilliseconds: 1_000
                )
            )
        }
        var expectationChecker = OutageExpectationChecker(
            findings: OutageFindings(),
            outcomeNamesByCommand: ["a/1": ["held"], "a/2": ["superseded"]],
            invalidationCount: 0,
            history: history
        )
        #expect(expectationChecker.unmetExpectations(of: [.noOutcome("failed")]) == ["1 commands have no result"])
        expectationChecker.outcomeNamesByCommand["a/3"] = ["accepted"]
        #expect(expectationChecker.unmetExpectations(of: [.noOutcome("failed")]).isEmpty)
    }

    @Test func `Pushes that a case forbids, and waits that are too long, are reported`() {
        var history = OutageHistory()
        for (activity, milliseconds) in [("a", Int64(1_000)), ("a", 5_000), ("a", 6_000), ("b", 6_000)] {
            history.pushes.append(
                OutageHistory.Push(arrivedAtMilliseconds: milliseconds, status: 200, activity: activity, effect: .shown)
            )
        }
        history.commands.append(
            OutageHistory.Command(
                app: "match",
                activity: "a",
                event: .update,
                version: Version(timestamp: 1, sequence: 1),
                stateDigest: "a-1",
                producedAtMilliseconds: 1_000
            )
        )
        let expectationChecker = OutageExpectationChecker(
            findings: OutageFindings(longestSilenceMilliseconds: 3_000),
            outcomeNamesByCommand: [:],
            invalidationCount: 0,
            history: history,
            firstCommandAtWallMilliseconds: 1_000,
            longestCommitWaitMilliseconds: 2_000
        )
        #expect(expectationChecker.violation(of: .noPush(app: "match")) == "match got 3 pushes, expected none")
        #expect(expectationChecker.violation(of: .noPush(app: "other")) == nil)
        #expect(
            expectationChecker.violation(of: .atMostOnePushPerActivity(app: "match", sinceMilliseconds: 5_000)) == nil
        )
        #expect(
            expectationChecker.violation(of: .atMostOnePushPerActivity(app: "match", sinceMilliseconds: 4_000)) != nil
        )
        #expect(expectationChecker.violation(of: .noSilenceLongerThan(milliseconds: 3_000)) == nil)
        #expect(expectationChecker.violation(of: .noSilenceLongerThan(milliseconds: 2_999)) != nil)
        #expect(expectationChecker.violation(of: .committedWithin(milliseconds: 2_000)) == nil)
        #expect(expectationChecker.violation(of: .committedWithin(milliseconds: 1_999)) != nil)
    }

    @Test func `The additional requirements of a case are checked`() {
        let findings = OutageFindings(freshnessMillisecondsByApp: ["match": [100, 200, 900]])
        let expectationChecker = OutageExpectationChecker(
            findings: findings,
            outcomeNamesByCommand: [
                "a/1": ["held", "accepted"], "a/2": ["failed"], "a/3": ["accepted", "duplicate"],
            ],
            invalidationCount: 2
        )
        #expect(expectationChecker.violation(of: .freshnessP99(app: "match", milliseconds: 900)) == nil)
        #expect(expectationChecker.violation(of: .freshnessP99(app: "match", milliseconds: 899)) != nil)
        #expect(expectationChecker.violation(of: .freshnessP99(app: "other", milliseconds: 899)) == "other had no push")
        #expect(expectationChecker.violation(of: .noOutcome("expired")) == nil)
        #expect(expectationChecker.violation(of: .noOutcome("failed")) == "1 commands have the outcome failed")
        #expect(expectationChecker.violation(of: .outcome("accepted", count: 2)) == nil)
        #expect(expectationChecker.violation(of: .outcome("accepted", count: 3)) != nil)
        #expect(expectationChecker.violation(of: .invalidationCount(2)) == nil)
        #expect(expectationChecker.violation(of: .invalidationCount(0)) != nil)
        #expect(expectationChecker.violation(of: .oneFinalResultPerCommand) == "1 commands have two final results")
    }
}
