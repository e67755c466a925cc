import LiveActivity
import Testing

@testable import CausewayLab

@Suite("The report of an outage")
struct OutageReportTests {
    private func report(_ verdict: OutageVerdict, brokenExpectations: [String] = []) -> OutageReport {
        OutageReport(name: "apns-503", verdict: verdict, brokenExpectations: brokenExpectations)
    }

    @Test func `A case is one line, followed by its findings`() {
        var verdict = OutageVerdict(longestSilenceMilliseconds: 12_340)
        #expect(
            report(verdict).text
                == "ok     apns-503: lost 0, old 0, twice 0, longest silence 12.34 s, repeated after a crash 0"
        )
        verdict.losses = (1...7).map { "a-\($0): no phone has it" }
        let lines = report(verdict).text.split(separator: "\n")
        #expect(lines.count == 7 && lines[0].hasPrefix("BROKEN apns-503: lost 7") && lines[6].hasSuffix("and 2 more"))
    }

    @Test func `Repetitions after a crash break no promise`() {
        #expect(report(OutageVerdict(excusedRepeats: ["a"])).isGood)
        #expect(!report(OutageVerdict(repeats: ["a"])).isGood)
        #expect(!report(OutageVerdict(), brokenExpectations: ["no"]).isGood)
    }

    @Test func `The last line sums up`() {
        let reports = [
            report(OutageVerdict(losses: ["a"], oldPushes: ["b", "c"])), report(OutageVerdict(repeats: ["d"])),
        ]
        #expect(OutageReport.summary(of: reports) == "2 cases: lost 1, old 2, twice 1")
        #expect(
            OutageReport.summary(of: reports + [report(OutageVerdict(), brokenExpectations: ["x"])])
                == "3 cases: lost 1, old 2, twice 1; 1 other expectations broken"
        )
    }

    @Test func `The names of the cases are unique and simple`() {
        let names = OutageCase.all.map(\.name)
        #expect(Set(names).count == names.count && !names.isEmpty)
        for name in names { #expect(name.allSatisfy { $0.isLowercase || $0.isNumber || $0 == "-" }) }
        for outage in OutageCase.all {
            #expect(outage.steps.map(\.milliseconds) == outage.steps.map(\.milliseconds).sorted())
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
                    state: "a-\(number)",
                    producedMilliseconds: 1_000
                )
            )
        }
        var facts = OutageFacts(
            verdict: OutageVerdict(),
            outcomes: ["a/1": ["held"], "a/2": ["superseded"]],
            invalidations: 0,
            history: history
        )
        #expect(facts.unmetExpectations(of: [.never("failed")]) == ["1 commands have no result"])
        facts.outcomes["a/3"] = ["accepted"]
        #expect(facts.unmetExpectations(of: [.never("failed")]).isEmpty)
    }

    @Test func `Superfluous pushes are counted`() {
        var history = OutageHistory()
        for (activity, milliseconds) in [("a", Int64(1_000)), ("a", 5_000), ("a", 6_000), ("b", 6_000)] {
            history.pushes.append(
                OutageHistory.Push(milliseconds: milliseconds, status: 200, activity: activity, effect: .shown)
            )
        }
        history.commands.append(
            OutageHistory.Command(
                app: "match",
                activity: "a",
                event: .update,
                version: Version(timestamp: 1, sequence: 1),
                state: "a-1",
                producedMilliseconds: 1_000
            )
        )
        let facts = OutageFacts(
            verdict: OutageVerdict(longestSilenceMilliseconds: 3_000),
            outcomes: [:],
            invalidations: 0,
            history: history,
            firstCommandMilliseconds: 1_000,
            longestCommitMilliseconds: 2_000
        )
        #expect(facts.violation(.noPush(app: "match")) == "match got 3 pushes, expected none")
        #expect(facts.violation(.noPush(app: "other")) == nil)
        #expect(facts.violation(.onePushEach(app: "match", sinceMilliseconds: 5_000)) == nil)
        #expect(facts.violation(.onePushEach(app: "match", sinceMilliseconds: 4_000)) != nil)
        #expect(facts.violation(.silence(milliseconds: 3_000)) == nil)
        #expect(facts.violation(.silence(milliseconds: 2_999)) != nil)
        #expect(facts.violation(.committedWithin(milliseconds: 2_000)) == nil)
        #expect(facts.violation(.committedWithin(milliseconds: 1_999)) != nil)
    }

    @Test func `The additional requirements of a case are checked`() {
        let verdict = OutageVerdict(freshnessMilliseconds: ["match": [100, 200, 900]])
        let facts = OutageFacts(
            verdict: verdict,
            outcomes: ["a/1": ["held", "accepted"], "a/2": ["failed"], "a/3": ["accepted", "duplicate"]],
            invalidations: 2
        )
        #expect(facts.violation(.freshness99(app: "match", milliseconds: 900)) == nil)
        #expect(facts.violation(.freshness99(app: "match", milliseconds: 899)) != nil)
        #expect(facts.violation(.freshness99(app: "other", milliseconds: 899)) == "other had no push")
        #expect(facts.violation(.never("expired")) == nil)
        #expect(facts.violation(.never("failed")) == "1 commands have the outcome failed")
        #expect(facts.violation(.outcome("accepted", count: 2)) == nil)
        #expect(facts.violation(.outcome("accepted", count: 3)) != nil)
        #expect(facts.violation(.invalidations(2)) == nil)
        #expect(facts.violation(.invalidations(0)) != nil)
        #expect(facts.violation(.oneResultEach) == "1 commands have two final results")
    }
}
