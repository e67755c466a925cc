import LiveActivity
import Reactor
import RedisTestbed
import Testbed
import Testing

@testable import ActivityStore
@testable import Redis

/// The server loses all data during a round, or it loses a single page. Registrations and commands that are read again
/// bring the data back.
@Suite(.serialized, .ownThread) struct AudienceLossTests {
    private let version = Version(timestamp: 1_790_000_000, sequence: 4)

    private func makeAdmission() -> AudienceAdmission<[UInt8]> {
        var history = AudienceOperationHistory(seed: 1, nowMilliseconds: 0)
        var admission = history.randomAdmission(version)
        (admission.isEnd, admission.isStart, admission.rangeCount) = (false, false, 2)
        admission.expirationSeconds = Limits.timestampMax
        return admission
    }

    private func makeDeliveredCounts(_ count: UInt32) -> MemberOutcomeCounts {
        var counts = MemberOutcomeCounts()
        counts[.delivered] = count
        return counts
    }

    @Test
    func `After Redis lost its data in a round, registrations bring the members back, and the command the totals`()
        throws
    {
        let server = try RedisServer()
        let caller = try AudienceCaller(server)
        let entries = AudienceScene.entries(0..<300, at: caller.loop.wallMilliseconds)
        let ranges = try (0..<2).map { try #require(SegmentRange(index: $0, rangeCount: 2)) }
        try caller.join(entries)
        let grant = try #require(try caller.perform(.admit(makeAdmission())).grant)
        let firstFinishReply = try caller.perform(
            .finishRange(ranges[0], version: version, makeDeliveredCounts(100), ResponseTimes())
        )
        #expect(firstFinishReply.unfinishedPartCount == 1)
        #expect(try caller.perform(.claim(ranges[1], claim: 7)).verdict == .claimed)
        server.command("FLUSHALL")

        // The lane reads pages without members. The reply to its checkpoint is `claimLost`, and the lane claims the
        // range again.
        #expect(try caller.perform(.readDirectory(segment: 0)).bytes == [])
        #expect(try caller.perform(.readPage(segment: 0, lowerBound: 0)).bytes == [])
        let checkpoint = try caller.perform(.checkpoint(ranges[1], claim: 7, text: [1, 2]))
        #expect(checkpoint.verdict == .claimLost && checkpoint.newestVersion == nil)
        #expect(try caller.perform(.claim(ranges[1], claim: 8)).bytes == [])
        #expect(try caller.perform(.checkpoint(ranges[1], claim: 7, text: [3])).verdict == .claimedByAnother)
        // Redis has lost the counts of range 0, and does not know that this range is finished. So one range is left
        // when range 1 is finished, and the reply has no totals.
        #expect(
            try caller.perform(.finishRange(ranges[1], version: version, makeDeliveredCounts(200), ResponseTimes()))
                .unfinishedPartCount == 1
        )
        #expect(try caller.perform(.readNewestState).verdict == .unknown)

        // The lane's cache still has the bounds of pages that no longer exist. Each member must still join the right
        // page.
        try caller.join(entries)
        #expect(try caller.members() == AudienceScene.tokens(entries))
        #expect(try caller.perform(.admit(makeAdmission())).grant == grant)
        #expect(try caller.perform(.readNewestState).newestVersion == version)
        for (range, count) in zip(ranges, [101, 199] as [UInt32]) {
            _ = try caller.perform(.finishRange(range, version: version, makeDeliveredCounts(count), ResponseTimes()))
        }
        let repeatedFinishReply = try caller.perform(
            .finishRange(ranges[1], version: version, makeDeliveredCounts(199), ResponseTimes())
        )
        #expect(repeatedFinishReply.unfinishedPartCount == 0 && repeatedFinishReply.totals == makeDeliveredCounts(300))
        #expect(caller.failures.isEmpty)
    }

    @Test func `Lost pages among others are empty for a reader, and a join creates them`() throws {
        let server = try RedisServer()
        let caller = try AudienceCaller(server)
        let entries = AudienceScene.entries(0..<600, at: caller.loop.wallMilliseconds)
        try caller.join(entries)
        let bounds = AudienceScene.bounds(ofDirectory: try caller.perform(.readDirectory(segment: 0)).bytes ?? [])
        let lostBound = bounds[bounds.count / 2]
        let boundAfterLost = bounds[bounds.count / 2 + 1]
        server.command(bytes: [Array("DEL".utf8), AudienceScene.pageKey(lostBound)])
        #expect(try caller.perform(.readPage(segment: 0, lowerBound: lostBound)).bytes == [])

        let isLost = { (entry: MemberEntry<[UInt8]>) in (lostBound..<boundAfterLost).contains(entry.location.position) }
        let returningEntry = try #require(entries.first(where: isLost))
        try caller.join([returningEntry])
        let expected = entries.filter { !isLost($0) || $0.identifier == returningEntry.identifier }
        #expect(expected.count < entries.count)
        #expect(try caller.members() == AudienceScene.tokens(expected))
        try caller.join(entries)
        #expect(try caller.members() == AudienceScene.tokens(entries))
    }
}
