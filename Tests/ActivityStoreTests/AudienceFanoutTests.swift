import LiveActivity
import RedisTestbed
import Testbed
import Testing

@testable import ActivityStore

/// Which fan-outs of an audience Redis keeps until all their ranges are finished. Each reply is compared with the
/// model's.
@Suite(.serialized, .ownThread) struct AudienceFanoutTests {
    /// While APNs is unavailable, one range carries an alert, so its version stays unfinished. In the other ranges,
    /// newer versions replace this version.
    @Test(arguments: [true, false])
    func `A version with an open range gets its totals after 200 newer versions`(areNewerFinished: Bool) throws {
        let audience = try ComparedAudience()
        try audience.admit(1)
        #expect(try audience.finish(1, rangeIndex: 0, deliveredCount: 200).unfinishedPartCount == 1)
        for sequence in 2...201 as ClosedRange<UInt64> {
            try audience.admit(sequence)
            guard areNewerFinished else { continue }
            for index in 0..<2 { _ = try audience.finish(sequence, rangeIndex: index, deliveredCount: 1) }
        }
        let reply = try audience.finish(1, rangeIndex: 1, deliveredCount: 56)
        #expect(reply.totals?[.delivered] == 256)
        // After a crash the call is repeated, and the result too.
        #expect(try audience.finish(1, rangeIndex: 1, deliveredCount: 56) == reply)
    }

    /// Known issue (K27): the oldest version gets no totals. The call about its last range must not remove the counts
    /// of another version.
    @Test func `With too many versions under way, only the oldest one has no totals`() throws {
        let audience = try ComparedAudience()
        let newest = UInt64(AudienceHashLimits.rangesUnderWayMax / AudienceHashLimits.countedRangesMin + 1)
        for sequence in 1...newest {
            try audience.admit(sequence)
            if sequence <= 2 { _ = try audience.finish(sequence, rangeIndex: 0, deliveredCount: 200) }
        }
        let oldestReply = try audience.finish(1, rangeIndex: 1, deliveredCount: 56)
        #expect(oldestReply.totals == nil && oldestReply.unfinishedPartCount == 2)
        #expect(try audience.finish(2, rangeIndex: 1, deliveredCount: 56).totals?[.delivered] == 256)
    }

    @Test func `Redis keeps the totals of the last versions only`() throws {
        let audience = try ComparedAudience()
        let newest: UInt64 = 200
        for sequence in 1...newest {
            try audience.admit(sequence)
            for index in 0..<2 { _ = try audience.finish(sequence, rangeIndex: index, deliveredCount: 1) }
        }
        let oldestKept = newest - UInt64(AudienceHashLimits.otherFanoutsMax)
        #expect(try audience.finish(oldestKept, rangeIndex: 1, deliveredCount: 1).totals?[.delivered] == 2)
        #expect(try audience.finish(oldestKept - 1, rangeIndex: 1, deliveredCount: 1).totals == nil)
    }
}

extension AudienceFanoutTests {
    /// The version never finishes because, for example, the record of one of its ranges is lost. If more than 64
    /// versions got its number of ranges, the audience would have only two ranges for 12 hours, however much it grows.
    @Test func `A version that never finishes sets the number of ranges of the next 64 versions only`() throws {
        let audience = try ComparedAudience()
        #expect(try audience.admit(1) == 2)
        for sequence in 2...66 as ClosedRange<UInt64> {
            let rangeCount = try audience.admit(sequence, rangeCount: 4)
            #expect(rangeCount == (sequence <= 65 ? 2 : 4))
            for index in 0..<rangeCount {
                _ = try audience.finish(sequence, rangeIndex: index, rangeCount: rangeCount, deliveredCount: 1)
            }
        }
        #expect(try audience.admit(67, rangeCount: 4) == 4)
        #expect(try audience.finish(1, rangeIndex: 0, deliveredCount: 1).unfinishedPartCount == 1, "it is still known")
    }

    /// One range of each version stays open. Without a limit, the hash of an audience could grow to 33 MB.
    @Test func `With 256 ranges, Redis keeps the counts of 320 versions under way`() throws {
        let audience = try ComparedAudience()
        let newest: UInt64 = 330
        for sequence in 1...newest {
            try audience.admit(sequence, rangeCount: 256)
            _ = try audience.finish(sequence, rangeIndex: 0, rangeCount: 256, deliveredCount: 1)
        }
        func unfinishedPartCount(_ sequence: UInt64) throws -> Int {
            try audience.finish(sequence, rangeIndex: 1, rangeCount: 256, deliveredCount: 1).unfinishedPartCount
        }
        #expect(try unfinishedPartCount(newest - 320) == 256, "its counts are gone, and this range is not counted")
        #expect(try unfinishedPartCount(newest - 319) == 254)
    }

    /// The audience has grown, so new versions have 256 ranges. They replace versions of two ranges, each of which
    /// counts as 80 ranges.
    @Test func `Versions of few ranges make room for versions of many ranges`() throws {
        let audience = try ComparedAudience()
        for sequence in 1...1_010 as ClosedRange<UInt64> { try audience.admit(sequence) }
        for sequence in 1_011...1_074 as ClosedRange<UInt64> {
            try audience.admit(sequence)
            for index in 0..<2 { _ = try audience.finish(sequence, rangeIndex: index, deliveredCount: 1) }
        }
        for sequence in 1_075...1_079 as ClosedRange<UInt64> {
            #expect(try audience.admit(sequence, rangeCount: 256) == 256)
        }
        // 1,010 × 80 + 5 × 256 ranges would be 160 too many. So two versions are removed.
        #expect(try audience.finish(2, rangeIndex: 0, deliveredCount: 1).unfinishedPartCount == 2)
        #expect(try audience.finish(3, rangeIndex: 0, deliveredCount: 1).unfinishedPartCount == 1)
    }
}

/// An audience in Redis and in the model. A version is admitted every second, and usually has two ranges.
private final class ComparedAudience {
    private static let startMilliseconds: Int64 = 1_790_000_000_000

    private let server: RedisServer
    private let caller: AudienceCaller
    private var model: AudienceStoreModel
    /// The time that the server has, so that only a changed time needs a connection of its own.
    private var serverTimeMilliseconds: Int64 = 0

    init() throws {
        model = AudienceStoreModel(nowMilliseconds: Self.startMilliseconds)
        server = try RedisServer()
        caller = try AudienceCaller(server)
        try server.loadAudienceScriptsWithSettableTime(caller)
    }

    /// Admits a version that wants this number of ranges. Returns the number that it gets.
    @discardableResult
    func admit(_ sequence: UInt64, rangeCount: UInt16 = 2) throws -> Int {
        model.nowMilliseconds += 1_000
        var history = AudienceOperationHistory(seed: 1, nowMilliseconds: model.nowMilliseconds)
        var admission = history.randomAdmission(version(sequence))
        (admission.isStart, admission.isEnd, admission.digest) = (false, false, sequence)
        admission.rangeCount = rangeCount
        let reply = try perform(.admit(admission))
        #expect(reply.verdict == .send)
        return Int(try #require(reply.grant).rangeCount)
    }

    func finish(
        _ sequence: UInt64,
        rangeIndex: Int,
        rangeCount: Int = 2,
        deliveredCount: UInt32
    ) throws -> AudienceReply<[UInt8]> {
        let range = try #require(SegmentRange(index: rangeIndex, rangeCount: rangeCount))
        var counts = MemberOutcomeCounts()
        counts[.delivered] = deliveredCount
        return try perform(.finishRange(range, version: version(sequence), counts, ResponseTimes()))
    }

    private func perform(_ operation: AudienceCaller.Operation) throws -> AudienceReply<[UInt8]> {
        if serverTimeMilliseconds != model.nowMilliseconds {
            server.setTime(milliseconds: model.nowMilliseconds)
            serverTimeMilliseconds = model.nowMilliseconds
        }
        let reply = try caller.perform(operation)
        let expectedReply = model.perform(AudienceScene.call(operation))
        try #require(reply == expectedReply)
        return reply
    }

    private func version(_ sequence: UInt64) -> Version {
        Version(timestamp: Self.startMilliseconds / 1_000, sequence: sequence)
    }
}
