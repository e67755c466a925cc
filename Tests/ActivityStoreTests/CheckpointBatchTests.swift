import LiveActivity
import RedisTestbed
import Testbed
import Testing

@testable import ActivityStore
@testable import Redis

/// Many checkpoints are sent as one Redis command, on a real server. (R29)
@Suite(.serialized, .ownThread) struct CheckpointBatchTests {
    private static let otherAudience = AudienceDigest(value: 2)

    private func range(_ index: Int) throws -> SegmentRange {
        try #require(SegmentRange(index: index, rangeCount: 256))
    }

    /// Returns a server on which the first ranges are claimed, and a caller. The server counts commands from zero.
    private func makeCaller(claimingRanges rangeCount: Int) throws -> (server: RedisServer, caller: AudienceCaller) {
        let server = try RedisServer()
        let caller = try AudienceCaller(server)
        for index in 0..<rangeCount {
            _ = try caller.issue(.claim(range(index), claim: UInt64(index)))
        }
        try caller.runLoopUntilIdle()
        server.command("CONFIG", "RESETSTAT")
        return (server, caller)
    }

    @Test(arguments: [(1, 1), (2, 1), (64, 1), (65, 2), (200, 4)])
    func `One command carries as many checkpoints as fit`(checkpointCount: Int, commandCount: Int) throws {
        let (server, caller) = try makeCaller(claimingRanges: checkpointCount)
        let tags = try (0..<checkpointCount)
            .map { try caller.issue(.checkpoint(range($0), claim: UInt64($0), text: [UInt8($0)])) }
        try caller.runLoopUntilIdle()
        #expect(tags.allSatisfy { caller.replies[$0]?.verdict == .settled })
        #expect(server.callCount(of: "evalsha") == commandCount)
        for index in 0..<checkpointCount {
            #expect(try caller.perform(.claim(range(index), claim: 1)).bytes == [UInt8(index)])
        }
    }

    @Test func `Each checkpoint of a Redis command gets its own verdict`() throws {
        let (_, caller) = try makeCaller(claimingRanges: 3)
        let ownTag = try caller.issue(.checkpoint(range(0), claim: 0, text: [1]))
        let claimedByAnotherTag = try caller.issue(.checkpoint(range(1), claim: 9, text: [2]))
        let unclaimedTag = try caller.issue(.checkpoint(range(4), claim: 9, text: [3]))
        try caller.runLoopUntilIdle()
        #expect(
            [ownTag, claimedByAnotherTag, unclaimedTag].map { caller.replies[$0]?.verdict } == [
                .settled, .claimedByAnother, .claimLost,
            ]
        )
        #expect(try caller.perform(.claim(range(1), claim: 1)).bytes == [])
        #expect(try caller.perform(.claim(range(4), claim: 1)).bytes == [])
    }

    @Test func `Another audience, too many bytes, or a call of another kind begins a new command`() throws {
        let (server, caller) = try makeCaller(claimingRanges: 8)
        let longText = [UInt8](repeating: 7, count: AudienceLimits.checkpointBytesMax)
        #expect(try caller.perform(.claim(range(0), claim: 0), audience: Self.otherAudience).verdict == .claimed)
        for index in 0..<8 { _ = try caller.issue(.checkpoint(range(index), claim: UInt64(index), text: longText)) }
        _ = try caller.issue(.checkpoint(range(0), claim: 0, text: [1]), audience: Self.otherAudience)
        let appendTag = try caller.issue(.append(AudienceScene.entries(0..<1, at: 1)[0]))
        _ = try caller.issue(.checkpoint(range(0), claim: 0, text: [1]))
        try caller.runLoopUntilIdle()
        #expect(caller.failures.isEmpty && caller.replies[appendTag]?.verdict == .appended)
        #expect(try caller.perform(.claim(range(7), claim: 1)).bytes == longText)
        #expect(try caller.perform(.claim(range(0), claim: 1)).bytes == [1])
        #expect(try caller.perform(.claim(range(0), claim: 1), audience: Self.otherAudience).bytes == [1])
        // Three long checkpoints fit into one Redis command, so eight need three commands. The other audience's
        // checkpoint needs one. The entry needs three: its page is missing, so the lane makes the page and sends the
        // entry again. The last checkpoint needs one. The test also makes four claims.
        #expect(server.callCount(of: "evalsha") == 3 + 1 + 3 + 1 + 4)
    }
}
