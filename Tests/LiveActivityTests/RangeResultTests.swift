import Foundation
import LiveActivity
import Testing

@Suite("Results of a command to an audience")
struct RangeResultTests {
    private static func counts(_ counts: [MemberOutcome: UInt32]) -> MemberOutcomeCounts {
        var members = MemberOutcomeCounts()
        for (outcome, count) in counts { members[outcome] = count }
        return members
    }

    private static func withCommandReference<Result>(
        identifier: String?,
        _ body: (AudienceCommandReference) throws -> Result
    ) throws -> Result {
        try withTexts([identifier, "com.example.match", "final \"A\"", "causeway.commands"]) { texts in
            try body(
                AudienceCommandReference(
                    identifier: texts[0],
                    app: try #require(texts[1]),
                    audience: texts[2],
                    sourceTopic: try #require(texts[3]),
                    sourcePartition: 3,
                    sourceOffset: 17
                )
            )
        }
    }

    @Test
    func `A range's result has its segments, a count of each outcome that occurred, and the first and last response`()
        throws
    {
        let range = try #require(SegmentRange(index: 3, rangeCount: 16))
        let object = try Self.withCommandReference(identifier: "goal-17") { reference in
            try writtenObject { writer in
                RangeResultRecord(
                    command: reference,
                    range: range,
                    memberCounts: Self.counts([.delivered: 4_000_000_000, .superseded: 2, .unregistered: 1]),
                    times: ResponseTimes(
                        firstResponseAtMilliseconds: 1_790_000_000_001,
                        lastResponseAtMilliseconds: 1_790_000_000_900
                    )
                )
                .write(to: &writer)
            }
        }
        #expect(
            NSDictionary(dictionary: object)
                == [
                    "command": "goal-17", "app": "com.example.match", "audience": "final \"A\"", "segments": [48, 63],
                    "outcome": "superseded",
                    "members": ["delivered": 4_000_000_000, "superseded": 2, "unregistered": 1],
                    "source": ["topic": "causeway.commands", "partition": 3, "offset": 17],
                    "times": ["first": 1_790_000_000_001, "last": 1_790_000_000_900],
                ]
        )
    }

    @Test func `A result without any push has no times, and names a command without id by its place`() throws {
        let range = try #require(SegmentRange(index: 0, rangeCount: 1))
        let object = try Self.withCommandReference(identifier: nil) { reference in
            try writtenObject { writer in
                RangeResultRecord(
                    command: reference,
                    range: range,
                    memberCounts: MemberOutcomeCounts(),
                    times: ResponseTimes()
                )
                .write(to: &writer)
            }
        }
        #expect(object["command"] as? String == "causeway.commands/3/17")
        #expect(object["segments"] as? [Int] == [0, 255])
        #expect(object["outcome"] as? String == "delivered")
        #expect(
            (object["members"] as? [String: Int])?.isEmpty == true
                && (object["times"] as? [String: Int])?.isEmpty == true
        )
    }

    @Test
    func `The command's result has the totals, the ways of sending, and the times from its record to the last phone`()
        throws
    {
        let object = try Self.withCommandReference(identifier: "goal-17") { reference in
            var result = AudienceResultRecord(
                command: reference,
                memberCounts: Self.counts([.delivered: 999_990, .failed: 10]),
                times: ResponseTimes(
                    firstResponseAtMilliseconds: 1_790_000_000_101,
                    lastResponseAtMilliseconds: 1_790_000_008_000
                ),
                timestamp: 1_790_000_000,
                rangeCount: 256
            )
            result.recordTimestampMilliseconds = 1_790_000_000_001
            result.admittedAtMilliseconds = 1_790_000_000_005
            (result.isDemoted, result.wasAlertRemovedByAge) = (true, true)
            return try writtenObject { result.write(to: &$0) }
        }
        #expect(
            NSDictionary(dictionary: object)
                == [
                    "command": "goal-17", "app": "com.example.match", "audience": "final \"A\"", "outcome": "delivered",
                    "members": ["delivered": 999_990, "failed": 10], "ranges": 256, "reason": "alertExpired",
                    "demoted": true, "timestamp": 1_790_000_000,
                    "source": ["topic": "causeway.commands", "partition": 3, "offset": 17],
                    "times": [
                        "record": 1_790_000_000_001, "admitted": 1_790_000_000_005, "first": 1_790_000_000_101,
                        "last": 1_790_000_008_000,
                    ],
                ]
        )
    }

    @Test func `If any member was superseded, the outcome is superseded; else if any expired, it is expired`() {
        #expect(Self.counts([.delivered: 9, .expired: 1, .superseded: 1]).outcome == .superseded)
        #expect(Self.counts([.delivered: 9, .expired: 1, .failed: 3]).outcome == .expired)
        #expect(Self.counts([.started: 9, .failed: 1]).outcome == .started)
        #expect(Self.counts([.failed: 3, .unregistered: 2]).outcome == .reachedAllMembers)
        #expect(Set(FanoutOutcome.allCases.map { "\($0.name)" }).count == FanoutOutcome.allCases.count)
    }
}
