import Testing

@testable import CausewayWorker

/// ``MemberCompleteness`` decides by the marks of the registrations' partitions whether Redis has the members of all
/// audiences. (R26)
@Suite struct MemberCompletenessTests {
    private static let completeMarks = [PartitionMark("a 100 -"), PartitionMark("a 0 -")]

    private func status(_ primaries: (String, [PartitionMark?])...) -> MemberCompleteness.Status {
        var members = MemberCompleteness()
        return members.updateStatus(primaries.map { ($0.0, $0.1) }, nowMilliseconds: 0)
    }

    @Test func `Members are complete if every partition has its mark on every primary`() {
        #expect(status(("a", Self.completeMarks)) == .complete)
        #expect(
            status(("a", Self.completeMarks), ("b", [PartitionMark("b 100 -"), PartitionMark("b 7 -")])) == .complete
        )
        #expect(status(("a", [])) == .complete, "there are no registrations")
        #expect(status(("", Self.completeMarks)) == .complete, "a primary that does not tell its run id")
    }

    @Test(arguments: ["- - 7", "a 90 7", "b 100 -", "what is this"]) func `An incomplete mark means missing members`(
        text: String
    ) {
        #expect(status(("a", [PartitionMark("a 100 -"), PartitionMark(text)])) == .missing)
        #expect(status(("a", Self.completeMarks), ("b", [nil, nil])) == .missing)
    }

    @Test func `The wait for missing members has a limit`() {
        var members = MemberCompleteness()
        let end = 1_000 + MemberCompleteness.waitMillisecondsMax
        func updateStatus(_ marks: [PartitionMark?], _ nowMilliseconds: Int64) -> MemberCompleteness.Status {
            members.updateStatus([("a", marks)], nowMilliseconds: nowMilliseconds)
        }
        #expect(updateStatus([nil], 1_000) == .missing)
        #expect(updateStatus([nil], end - 1) == .missing)
        #expect(updateStatus([nil], end) == .waitIsOver(isFirstReport: true))
        #expect(updateStatus([nil], end + 1_000) == .waitIsOver(isFirstReport: false))
        #expect(updateStatus(Self.completeMarks, end + 2_000) == .complete)
        #expect(updateStatus([nil], end + 3_000) == .missing)
    }
}
