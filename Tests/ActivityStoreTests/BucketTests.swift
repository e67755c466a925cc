import LiveActivity
import Testbed
import Testing

@testable import ActivityStore
@testable import Redis

/// A bucket is stored as the time at which it will be full. This time may be far in the future for the policy that
/// reads it: the policy got faster refills since, or the clock was set back. The bucket then refills from empty.
@Suite(.serialized, .ownThread) struct BucketTests {
    private static let startMilliseconds: Int64 = 1_760_000_400_000
    private static let hourMilliseconds: Int64 = 3_600_000

    private let token = OwnedToken(token: [1, 2, 3], environment: .sandbox, registeredAtMilliseconds: 5)
    private let slowBucket = Policy.Bucket.filling(intervalMilliseconds: 450_000, pushes: 8, reserved: 0)
    private let shortBucket = Policy.Bucket.filling(intervalMilliseconds: 60_000, pushes: 2, reserved: 0)
    private let fastBucket = Policy.Bucket.filling(intervalMilliseconds: 60_000, pushes: 20, reserved: 0)

    @Test(arguments: [false, true])
    func `A device with an empty budget of starts waits for one refill`(isClockSetBack: Bool) throws {
        let comparison = try ScriptComparison(.device("phone"), nowMilliseconds: Self.startMilliseconds)
        func takeStartToken(_ bucket: Policy.Bucket) -> OwnedReply {
            comparison.perform(.takeStartToken(attributesType: "Game", startBudget: bucket, registration: token))
        }
        for _ in 0..<7 { #expect(takeStartToken(slowBucket).verdict == .tokenFound) }
        let lastDraw = takeStartToken(slowBucket).drawIdentifier
        if isClockSetBack { comparison.advanceClock(-Self.hourMilliseconds) }
        let bucket = isClockSetBack ? slowBucket : fastBucket
        #expect(takeStartToken(bucket).waitMilliseconds == bucket.intervalMilliseconds)
        comparison.advanceClock(bucket.intervalMilliseconds)
        #expect(takeStartToken(bucket).verdict == .tokenFound)
        #expect(takeStartToken(bucket).waitMilliseconds == bucket.intervalMilliseconds)
        // The name of an earlier draw still stands for this draw.
        comparison.refundStart(bucket, drawIdentifier: lastDraw)
        #expect(takeStartToken(bucket).verdict == .tokenFound)
    }

    @Test(arguments: [false, true])
    func `An activity with an empty budget gets priority 10 after one refill`(isClockSetBack: Bool) throws {
        let comparison = try ScriptComparison(nowMilliseconds: Self.startMilliseconds)
        func push(_ timestamp: Int64, _ bucket: Policy.Bucket) -> OwnedReply {
            comparison.perform(update(at: timestamp, bucket))
        }
        for timestamp in 1...8 { #expect(push(Int64(timestamp), slowBucket).priority == PushPriority.high) }
        if isClockSetBack { comparison.advanceClock(-Self.hourMilliseconds) }
        let bucket = isClockSetBack ? slowBucket : fastBucket
        #expect(push(9, bucket).isDemoted)
        comparison.advanceClock(bucket.intervalMilliseconds)
        #expect(push(10, bucket).priority == PushPriority.high)
        #expect(push(11, bucket).isDemoted)
    }

    /// The default policy fills a budget in an hour, and another policy in two minutes. Both draw on the same device.
    @Test func `A policy that fills faster does not fill the budget of starts of another policy`() throws {
        let comparison = try ScriptComparison(.device("phone"), nowMilliseconds: Self.startMilliseconds)
        func takeStartToken(_ bucket: Policy.Bucket) -> StoreVerdict {
            comparison.verdict(.takeStartToken(attributesType: "Game", startBudget: bucket, registration: token))
        }
        let (slow, short) = (withLongestFill(slowBucket), withLongestFill(shortBucket))
        for _ in 0..<8 { #expect(takeStartToken(slow) == .tokenFound) }
        #expect(takeStartToken(short) == .wait)
        #expect(takeStartToken(slow) == .wait)
        // The slowest bucket still limits the time: the clock may be set back.
        comparison.advanceClock(-Self.hourMilliseconds)
        #expect(takeStartToken(short) == .wait)
        comparison.advanceClock(slow.intervalMilliseconds)
        #expect(takeStartToken(slow) == .tokenFound)
        #expect(takeStartToken(slow) == .wait)
    }

    /// An update with a token takes the long path of the script.
    @Test(arguments: [false, true])
    func `A policy that fills faster does not fill the budget of another policy`(takesLongPath: Bool) throws {
        let comparison = try ScriptComparison(nowMilliseconds: Self.startMilliseconds)
        let (slow, short) = (withLongestFill(slowBucket), withLongestFill(shortBucket))
        for timestamp in 1...8 {
            #expect(comparison.perform(update(at: Int64(timestamp), slow)).priority == PushPriority.high)
        }
        #expect(comparison.perform(update(at: 9, short, hasToken: takesLongPath)).isDemoted)
        #expect(comparison.perform(update(at: 10, slow)).isDemoted)
        comparison.advanceClock(slow.intervalMilliseconds)
        #expect(comparison.perform(update(at: 11, slow)).priority == PushPriority.high)
        #expect(comparison.perform(update(at: 12, slow)).isDemoted)
    }

    private func withLongestFill(_ bucket: Policy.Bucket) -> Policy.Bucket {
        var bucket = bucket
        bucket.longestFillSeconds = slowBucket.fillSeconds
        return bucket
    }

    private func update(at timestamp: Int64, _ bucket: Policy.Bucket, hasToken: Bool = false) -> Operation {
        .command(
            event: .update,
            version: .at(timestamp),
            digest: UInt64(timestamp),
            pace: Policy.Pace(
                spacingMilliseconds: 0,
                throttledSpacingMillisecondsMax: 5_000,
                throttleRecoveryMilliseconds: 60_000,
                budget: bucket,
                frequentBudget: bucket
            ),
            options: AdmissionOptions(requestsHighPriority: true, mayUseReserve: false, hasAlert: false),
            registration: hasToken || timestamp == 1 ? token : nil
        )
    }
}
