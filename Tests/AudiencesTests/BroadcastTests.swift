import Delivery
import Foundation
import LiveActivity
import Testing

@testable import Audiences

/// Versions that are broadcast to the channels of an audience. (R31)
@Suite struct BroadcastTests {
    private static let identifier = "dHN0LXNyY2gtY2hubA=="
    private static let newIdentifier = "bmV3"

    private func makeChannel(
        _ identifier: String = BroadcastTests.identifier,
        storage: ChannelStoragePolicy = .newest
    ) throws -> AudienceChannel {
        AudienceChannel(
            environment: .production,
            storage: storage,
            identifier: try #require(ChannelIdentifier(identifier))
        )
    }

    /// Returns the last result of the command's broadcast; nil if there is none.
    private func broadcastResult(of command: Int, in harness: RoundHarness) -> [String: Any]? {
        harness.producedRecords
            .compactMap { try? JSONSerialization.jsonObject(with: Data($0.utf8)) as? [String: Any] }
            .last { $0["command"] as? String == "\(command)" && $0["channel"] != nil }
    }

    private func outcome(of command: Int, in harness: RoundHarness) -> String? {
        broadcastResult(of: command, in: harness)?["outcome"] as? String
    }

    @Test func `A broadcast is one push to the channel`() throws {
        let harness = RoundHarness()
        harness.appendCommand(1, channel: try makeChannel())
        harness.performPendingWork()
        let sent = harness.send()
        #expect(sent.map(\.member) == [Self.identifier] && sent.map(\.content) == [1])
        let push = try #require(harness.pushesInFlight.first?.push)
        #expect(
            push.isBroadcast && push.expirationSeconds == harness.nowMilliseconds / 1_000 + 3_600 && push.priority == 5
        )
        harness.respondToPushes()
        #expect(outcome(of: 1, in: harness) == "delivered")
        #expect(broadcastResult(of: 1, in: harness)?["environment"] as? String == "production")
        #expect(harness.core.fanoutRecordCount == 0 && harness.committableOffset == 1)
    }

    /// APNs refuses every expiration except zero for a channel without storage.
    @Test func `A push to a channel without storage has the expiration zero`() throws {
        let harness = RoundHarness()
        harness.appendCommand(1, channel: try makeChannel(storage: .none))
        harness.send()
        #expect(harness.pushesInFlight.map(\.push.expirationSeconds) == [0])
    }

    /// The channel gets the first state at once, and then the newest state once a second.
    @Test func `A channel gets one push a second`() throws {
        let harness = RoundHarness()
        var sent: [(at: Int64, content: Int)] = []
        let start = harness.nowMilliseconds
        for number in 1...40 {
            harness.appendCommand(number, channel: try makeChannel())
            harness.performPendingWork()
            sent += harness.send().map { (harness.nowMilliseconds - start, $0.content) }
            harness.respondToPushes()
            harness.advanceClock(milliseconds: 100)
        }
        harness.advanceClock(milliseconds: 1_000)
        sent += harness.send().map { (harness.nowMilliseconds - start, $0.content) }
        harness.respondToPushes()
        #expect(zip(sent, sent.dropFirst()).allSatisfy { $1.at - $0.at >= 1_000 })
        #expect(sent.map(\.content) == sent.map(\.content).sorted())
        // The states come within 4 s: one push is sent at the beginning, and one after each second.
        #expect(sent.count == 5 && sent.last?.content == 40)
        #expect((1...40).count { outcome(of: $0, in: harness) == "superseded" } == 35)
        #expect(harness.core.fanoutRecordCount == 0 && harness.committableOffset == 40)
        harness.advanceClock(milliseconds: ChannelPace.idleMillisecondsMax + 1_000)
        #expect(harness.core.channels.count == 0)
    }

    /// Redis gave version 1 a higher timestamp than the command's own, and has lost it. Phones ignore a state whose
    /// timestamp is older than that of the shown state.
    @Test(arguments: [2, 5] as [Int64])
    func `A new version is sent although Redis forgot the last timestamp`(seconds: Int64) throws {
        let harness = RoundHarness()
        harness.appendCommand(1, channel: try makeChannel(), grantedTimestamp: RoundHarness.startSeconds + seconds)
        harness.send()
        harness.respondToPushes()
        harness.advanceClock(milliseconds: 1_000)
        harness.appendCommand(2, channel: try makeChannel())
        let sent = harness.send()
        #expect(sent.map(\.content) == [2])
        #expect(sent.map(\.timestamp) == [Int(RoundHarness.startSeconds) + 1 + Int(seconds)])
        harness.respondToPushes()
        #expect(outcome(of: 2, in: harness) == "delivered")
        #expect(harness.core.fanoutRecordCount == 0)
    }

    /// The end is older than the update before it. It is still sent, because an update never supersedes an end (R13).
    /// After the end, Kafka repeats the update.
    @Test func `After an end, a repeated update is not sent`() throws {
        let harness = RoundHarness()
        harness.appendCommand(5, channel: try makeChannel())
        harness.send()
        harness.respondToPushes()
        let record = try #require(harness.log.last)
        harness.advanceClock(milliseconds: 1_000)
        harness.appendCommand(
            4,
            event: .end,
            channel: try makeChannel(),
            grantedTimestamp: RoundHarness.startSeconds + 6
        )
        #expect(harness.send().map(\.content) == [4])
        harness.respondToPushes()
        harness.advanceClock(milliseconds: 1_000)
        harness.log.append(record)
        harness.readLog()
        #expect(harness.send().isEmpty)
        harness.performPendingWork()
        #expect(harness.core.fanoutRecordCount == 0)
    }

    @Test func `A 429 doubles the spacing, and accepted broadcasts halve it`() throws {
        let harness = RoundHarness()
        harness.appendCommand(1, channel: try makeChannel())
        harness.performPendingWork()
        for spacing in [2_000, 4_000, 8_000] as [Int64] {
            #expect(harness.send().count == 1)
            harness.respondToPushes(.throttled, reason: "TooManyRequests")
            harness.advanceClock(milliseconds: spacing - 1)
            #expect(harness.send().isEmpty)
            harness.advanceClock(milliseconds: 1)
        }
        #expect(harness.send().count == 1)
        harness.respondToPushes()
        for (number, spacing) in [(2, 8_000), (3, 4_000), (4, 2_000), (5, 1_000)] as [(Int, Int64)] {
            harness.appendCommand(number, channel: try makeChannel())
            harness.advanceClock(milliseconds: spacing - 1)
            #expect(harness.send().isEmpty)
            harness.advanceClock(milliseconds: 1)
            #expect(harness.send().map(\.content) == [number])
            harness.respondToPushes()
        }
    }

    /// The alert of command 2 is sent once, with state 4. Later states have no alert.
    @Test func `An alert rides on a newer state`() throws {
        let harness = RoundHarness()
        harness.appendCommand(1, channel: try makeChannel())
        #expect(harness.sendAndAcceptPushes().map(\.alert) == [nil])
        harness.appendCommand(2, hasAlert: true, channel: try makeChannel())
        harness.appendCommand(3, channel: try makeChannel())
        harness.appendCommand(4, channel: try makeChannel())
        // The record with the alert settles only when the alert has been sent.
        harness.performPendingWork()
        #expect(harness.committableOffset == 1 && outcome(of: 2, in: harness) == nil)
        harness.advanceClock(milliseconds: 1_000)
        let sent = harness.sendAndAcceptPushes()
        #expect(sent.map(\.content) == [4] && sent.map(\.alert) == [2])
        #expect([2, 3, 4].map { outcome(of: $0, in: harness) } == ["superseded", "superseded", "delivered"])
        harness.appendCommand(5, channel: try makeChannel())
        harness.advanceClock(milliseconds: 1_000)
        #expect(harness.sendAndAcceptPushes().map(\.alert) == [nil])
        #expect(harness.committableOffset == 5 && harness.core.fanoutRecordCount == 0)
    }

    @Test func `An expired broadcast is not sent`() throws {
        let harness = RoundHarness()
        harness.appendCommand(1, hasAlert: true, channel: try makeChannel())
        harness.performPendingWork()
        for _ in 0..<3 {
            harness.send()
            harness.respondToPushes(.retryLater)
            // An update is too old after eight hours. The three waits take 20 minutes more.
            harness.advanceClock(milliseconds: 10_000_000)
        }
        #expect(harness.send().isEmpty)
        #expect(outcome(of: 1, in: harness) == "expired")
    }

    /// The alert is older than the policy's limit of an hour. The state waits longer than APNs would store it.
    @Test func `A broadcast that is sent late has no old alert`() throws {
        let harness = RoundHarness()
        harness.appendCommand(1, hasAlert: true, channel: try makeChannel())
        harness.performPendingWork()
        #expect(harness.send().map(\.alert) == [1])
        harness.respondToPushes(.retryLater)
        harness.advanceClock(milliseconds: 3_700_000)
        let sent = harness.send()
        #expect(sent.map(\.content) == [1] && sent.map(\.alert) == [nil])
        harness.respondToPushes()
        #expect(outcome(of: 1, in: harness) == "delivered")
    }

    @Test func `A broadcast is sent again after each fault of the service, until a newer state replaces it`() throws {
        let harness = RoundHarness()
        harness.appendCommand(1, channel: try makeChannel())
        harness.performPendingWork()
        for disposition in [PushResult.Disposition.retryLater, .retrySoon, .ambiguous, .retryLater] {
            #expect(harness.send().map(\.content) == [1])
            harness.respondToPushes(disposition)
            harness.advanceClock(milliseconds: 60_000)
        }
        #expect(harness.send().map(\.content) == [1])
        harness.appendCommand(2, channel: try makeChannel())
        harness.respondToPushes(.retryLater)
        #expect(outcome(of: 1, in: harness) == "superseded")
        harness.advanceClock(milliseconds: 60_000)
        #expect(harness.sendAndAcceptPushes().map(\.content) == [2])
        #expect(outcome(of: 2, in: harness) == "delivered")
    }

    @Test func `The result of a refusal says what to do`() throws {
        let harness = RoundHarness()
        harness.appendCommand(1, channel: try makeChannel())
        harness.performPendingWork()
        harness.send()
        harness.respondToPushes(.rejected, reason: "FeatureNotEnabled", advice: "enable Broadcast Capability")
        #expect(outcome(of: 1, in: harness) == "failed")
        let result = try #require(broadcastResult(of: 1, in: harness))
        #expect(result["reason"] as? String == "FeatureNotEnabled")
        #expect((result["advice"] as? String)?.contains("Broadcast Capability") == true)
    }

    /// A new channel replaces one that another program has deleted, and gets the newest state.
    @Test func `A lost channel is replaced`() throws {
        let harness = RoundHarness()
        harness.appendCommand(1, channel: try makeChannel())
        harness.performPendingWork()
        harness.send()
        harness.respondToPushes(.channelGone, reason: "ChannelNotRegistered")
        let lostChannel = try makeChannel()
        #expect(
            harness.takeChannelRequests() == [
                CoreChannelRequest(kind: .lost(lostChannel), appIndex: 0, audience: RoundHarness.audience)
            ]
        )
        harness.appendCommand(2, channel: try makeChannel())
        harness.advanceClock(milliseconds: 5_000)
        #expect(harness.send().isEmpty)
        harness.core.handleProvidedChannel(
            appIndex: 0,
            audience: RoundHarness.digest,
            try makeChannel(Self.newIdentifier),
            now: harness.moment
        )
        #expect(harness.sendAndAcceptPushes().map(\.member) == [Self.newIdentifier])
        #expect([1, 2].map { outcome(of: $0, in: harness) } == ["superseded", "delivered"])
    }

    /// The keeper could not create a channel (`isRefused`), or the core does not learn what the keeper did.
    @Test(arguments: [true, false])
    func `If no new channel comes, the core sends again after a minute, and asks again`(isRefused: Bool) throws {
        let harness = RoundHarness()
        let lostChannel = try makeChannel()
        harness.appendCommand(1, channel: lostChannel)
        harness.performPendingWork()
        harness.send()
        harness.respondToPushes(.channelGone, reason: "ChannelNotRegistered")
        #expect(harness.takeChannelRequests().count == 1)
        if isRefused {
            // After the refusal, the core waits for `replacementChannelWaitMillisecondsMax` again.
            harness.advanceClock(milliseconds: 10_000)
            harness.core.handleRefusedChannel(
                appIndex: 0,
                audience: RoundHarness.digest,
                environment: .production,
                now: harness.moment
            )
        }
        harness.advanceClock(milliseconds: Audiences.replacementChannelWaitMillisecondsMax - 1)
        #expect(harness.send().isEmpty)
        harness.advanceClock(milliseconds: 1)
        #expect(harness.send().map(\.content) == [1])
        harness.respondToPushes(.channelGone, reason: "ChannelNotRegistered")
        #expect(
            harness.takeChannelRequests() == [
                CoreChannelRequest(kind: .lost(lostChannel), appIndex: 0, audience: RoundHarness.audience)
            ]
        )
        #expect(outcome(of: 1, in: harness) == nil && harness.core.fanoutRecordCount == 1)
    }

    /// The push to the old channel was under way when the keeper named the new channel.
    @Test func `A late response about the old channel does not replace the new channel`() throws {
        let harness = RoundHarness()
        harness.appendCommand(1, channel: try makeChannel())
        harness.performPendingWork()
        #expect(harness.send().map(\.member) == [Self.identifier])
        harness.core.handleProvidedChannel(
            appIndex: 0,
            audience: RoundHarness.digest,
            try makeChannel(Self.newIdentifier),
            now: harness.moment
        )
        harness.respondToPushes(.channelGone, reason: "ChannelNotRegistered")
        #expect(harness.takeChannelRequests().isEmpty)
        harness.advanceClock(milliseconds: 1_000)
        #expect(harness.sendAndAcceptPushes().map(\.member) == [Self.newIdentifier])
        #expect(outcome(of: 1, in: harness) == "delivered")
    }

    /// A new channel has no subscribers, so an end on it would reach nobody.
    @Test func `If an end's channel is lost, no new channel is requested`() throws {
        let harness = RoundHarness()
        harness.appendCommand(1, event: .end, channel: try makeChannel())
        harness.performPendingWork()
        harness.send()
        harness.respondToPushes(.channelGone, reason: "ChannelNotRegistered")
        #expect(harness.takeChannelRequests().isEmpty)
        #expect(outcome(of: 1, in: harness) == "failed")
        #expect(harness.committableOffset == 1 && harness.core.fanoutRecordCount == 0)
    }

    @Test func `After a version is sent, neither an older version nor the same one is sent`() throws {
        let harness = RoundHarness()
        harness.appendCommand(2, channel: try makeChannel())
        #expect(harness.sendAndAcceptPushes().map(\.content) == [2])
        harness.appendCommand(1, channel: try makeChannel())
        harness.appendCommand(2, channel: try makeChannel())
        harness.advanceClock(milliseconds: 500)
        #expect(harness.sendAndAcceptPushes().isEmpty)
        #expect(outcome(of: 1, in: harness) == "superseded")
        #expect(harness.committableOffset == 3 && harness.core.fanoutRecordCount == 0)
    }

    @Test func `A command's result counts its members and its broadcasts`() throws {
        let harness = RoundHarness()
        harness.join(SimulatedNames.names[0][0])
        harness.appendCommand(1, channel: try makeChannel(), broadcastCount: 1)
        harness.appendCommand(1, broadcastCount: 1)
        #expect(harness.sendAndAcceptPushes().count == 2)
        harness.advanceClock(milliseconds: 1_000)
        let sums = harness.producedRecords.filter { SimulatedText.contains("\"ranges\"", in: $0) }
        #expect(sums.count == 1)
        #expect(SimulatedText.contains("\"members\":{\"delivered\":1},\"broadcasts\":{\"delivered\":1}", in: sums[0]))
    }

    /// One broadcast is in flight, and still gets its response. The newer state that waits is left to the next owner.
    @Test func `After its partition is revoked, a channel sends no further broadcast`() throws {
        let harness = RoundHarness()
        harness.appendCommand(1, channel: try makeChannel())
        harness.performPendingWork()
        #expect(harness.send().count == 1)
        harness.appendCommand(2, channel: try makeChannel())
        #expect(!harness.beginRevoking())
        #expect(harness.send().isEmpty)
        harness.respondToPushes()
        let isDrained = harness.core.isDrained(0)
        #expect(isDrained && harness.committableOffset == 1)
        #expect(outcome(of: 1, in: harness) == "delivered" && outcome(of: 2, in: harness) == nil)
        harness.advanceClock(milliseconds: 2_000)
        #expect(harness.core.fanoutRecordCount == 0 && harness.core.channels.count == 0)
    }

    @Test func `After a partition is released, a late response changes nothing`() throws {
        let harness = RoundHarness()
        harness.appendCommand(1, hasAlert: true, channel: try makeChannel())
        harness.performPendingWork()
        #expect(harness.send().count == 1)
        harness.appendCommand(2, channel: try makeChannel())
        harness.core.release(partition: 0, now: harness.moment)
        harness.respondToPushes()
        #expect(
            harness.core.fanoutRecordCount == 0 && harness.core.channels.count == 0 && harness.producedRecords.isEmpty
        )
    }

    @Test func `A broadcast that finds no free stream is sent later`() throws {
        let harness = RoundHarness()
        harness.appendCommand(1, channel: try makeChannel())
        harness.performPendingWork()
        let pool = PoolTarget(appIndex: 0, environment: .production)
        let offered = harness.core.takeNextPush(pool, pushesInFlightMax: 10, now: harness.moment)
        harness.core.putBackPush(try #require(offered))
        let inFlight = harness.core.inFlightPushCount(of: pool)
        #expect(inFlight == 0)
        #expect(harness.sendAndAcceptPushes().map(\.content) == [1])
    }
}
