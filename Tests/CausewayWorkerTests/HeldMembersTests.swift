import Testing

@testable import CausewayWorker

/// Whether Redis holds the members of all audiences, by the marks of the registrations' partitions. (R26)
@Suite struct HeldMembersTests {
    private static let held = [PartitionMark("a 100 -"), PartitionMark("a 0 -")]

    private func verdict(_ primaries: (String, [PartitionMark?])...) -> HeldMembers.Verdict {
        var members = HeldMembers()
        return members.evaluate(primaries.map { ($0.0, $0.1) }, now: 0)
    }

    @Test func `Members are held if every partition has its mark on every primary`() {
        #expect(verdict(("a", Self.held)) == .held)
        #expect(verdict(("a", Self.held), ("b", [PartitionMark("b 100 -"), PartitionMark("b 7 -")])) == .held)
        #expect(verdict(("a", [])) == .held, "there are no registrations")
        #expect(verdict(("", Self.held)) == .held, "a primary that does not tell its run id")
    }

    @Test(arguments: ["- - 7", "a 90 7", "b 100 -", "what is this"]) func `An incomplete mark means missing members`(
        text: String
    ) {
        #expect(verdict(("a", [PartitionMark("a 100 -"), PartitionMark(text)])) == .missing)
        #expect(verdict(("a", Self.held), ("b", [nil, nil])) == .missing)
    }

    @Test func `The wait for members ends`() {
        var members = HeldMembers()
        let end = 1_000 + HeldMembers.waitMillisecondsMax
        func evaluate(_ marks: [PartitionMark?], _ now: Int64) -> HeldMembers.Verdict {
            members.evaluate([("a", marks)], now: now)
        }
        #expect(evaluate([nil], 1_000) == .missing)
        #expect(evaluate([nil], end - 1) == .missing)
        #expect(evaluate([nil], end) == .waitIsOver(isNew: true))
        #expect(evaluate([nil], end + 1_000) == .waitIsOver(isNew: false))
        #expect(evaluate(Self.held, end + 2_000) == .held)
        #expect(evaluate([nil], end + 3_000) == .missing)
    }
}
