import Delivery
import LiveActivity
import Testing

@testable import Audiences

/// Versions that are broadcast to the channels of an audience. (R31)
@Suite struct BroadcastTests {
    private static let identifier = "dHN0LXNyY2gtY2hubA=="

    private func channel(
        _ identifier: String = BroadcastTests.identifier,
        storage: ChannelStorage = .newest
    ) throws -> AudienceChannel {
        AudienceChannel(
            environment: .production,
            storage: storage,
            identifier: try #require(ChannelIdentifier(identifier))
        )
    }

    private func result(of command: Int, in bench: RoundHarness) -> String {
        bench.results.last {
            SimulatedText.contains("\"command\":\"\(command)\"", in: $0)
                && SimulatedText.contains("\"channel\"", in: $0)
        } ?? ""
    }

    private func outcome(of command: Int, in bench: RoundHarness) -> String? {
        let parts = result(of: command, in: bench).split(separator: "\"outcome\":\"")
        return parts.count < 2 ? nil : parts[1].split(separator: "\"").first.map { "\($0)" }
    }

    @Test func `A channel gets one push`() throws {
        let bench = RoundHarness()
        bench.command(1, channel: try channel())
        bench.settle()
        let sent = bench.send()
        #expect(sent.map(\.member) == [Self.identifier] && sent.map(\.content) == [1])
        let push = try #require(bench.underWay.first?.push)
        #expect(push.isBroadcast && push.expiration == bench.now / 1_000 + 3_600 && push.priority == 5)
        bench.answerPushes()
        #expect(outcome(of: 1, in: bench) == "delivered")
        #expect(SimulatedText.contains("\"environment\":\"production\"", in: result(of: 1, in: bench)))
        #expect(bench.core.recordsInProgress == 0 && bench.committableOffset == 1)
    }

    /// APNs refuses every expiration except zero for a channel without storage.
    @Test func `The expiration is zero on a channel without storage`() throws {
        let bench = RoundHarness()
        bench.command(1, channel: try channel(storage: .none))
        bench.send()
        #expect(bench.underWay.map(\.push.expiration) == [0])
    }

    /// The channel gets the first state at once, and then the newest state once a second.
    @Test func `A channel gets one push a second`() throws {
        let bench = RoundHarness()
        var sent: [(at: Int64, content: Int)] = []
        let start = bench.now
        for number in 1...40 {
            bench.command(number, channel: try channel())
            bench.settle()
            sent += bench.send().map { (bench.now - start, $0.content) }
            bench.answerPushes()
            bench.pass(milliseconds: 100)
        }
        bench.pass(milliseconds: 1_000)
        sent += bench.send().map { (bench.now - start, $0.content) }
        bench.answerPushes()
        #expect(zip(sent, sent.dropFirst()).allSatisfy { $1.at - $0.at >= 1_000 })
        #expect(sent.map(\.content) == sent.map(\.content).sorted())
        #expect(sent.count == 5 && sent.last?.content == 40)
        #expect((1...40).count { outcome(of: $0, in: bench) == "superseded" } == 35)
        #expect(bench.core.recordsInProgress == 0 && bench.committableOffset == 40)
        bench.pass(milliseconds: ChannelPace.idleMilliseconds + 1_000)
        #expect(bench.core.channels.count == 0)
    }

    /// Redis has lost the timestamp that it gave to version 1, which was higher than the command's own.
    /// Phones show a state only if its timestamp is newer.
    @Test(arguments: [2, 5] as [Int64])
    func `A new version is sent although Redis forgot the last timestamp`(seconds: Int64) throws {
        let bench = RoundHarness()
        bench.command(1, channel: try channel(), grantedTimestamp: 1_790_000_000 + seconds)
        bench.send()
        bench.answerPushes()
        bench.pass(milliseconds: 1_000)
        bench.command(2, channel: try channel())
        let sent = bench.send()
        #expect(sent.map(\.content) == [2])
        #expect(sent.map(\.timestamp) == [1_790_000_001 + Int(seconds)])
        bench.answerPushes()
        #expect(outcome(of: 2, in: bench) == "delivered")
        #expect(bench.core.recordsInProgress == 0)
    }

    /// The end has an older version than the update before it, because updates supersede no end (R13). After
    /// the end, Kafka repeats the update.
    @Test func `An update from before a later state is not sent again`() throws {
        let bench = RoundHarness()
        bench.command(5, channel: try channel())
        bench.send()
        bench.answerPushes()
        let record = try #require(bench.log.last)
        bench.pass(milliseconds: 1_000)
        bench.command(4, event: .end, channel: try channel(), grantedTimestamp: 1_790_000_006)
        #expect(bench.send().map(\.content) == [4])
        bench.answerPushes()
        bench.pass(milliseconds: 1_000)
        bench.log.append(record)
        bench.read()
        #expect(bench.send().isEmpty)
        bench.settle()
        #expect(bench.core.recordsInProgress == 0)
    }

    @Test func `Limits double the spacing, and successes halve it`() throws {
        let bench = RoundHarness()
        bench.command(1, channel: try channel())
        bench.settle()
        for spacing in [2_000, 4_000, 8_000] as [Int64] {
            #expect(bench.send().count == 1)
            bench.answerPushes(.limited, reason: "TooManyRequests")
            bench.pass(milliseconds: spacing - 1)
            #expect(bench.send().isEmpty)
            bench.pass(milliseconds: 1)
        }
        #expect(bench.send().count == 1)
        bench.answerPushes()
        for (number, spacing) in [(2, 8_000), (3, 4_000), (4, 2_000), (5, 1_000)] as [(Int, Int64)] {
            bench.command(number, channel: try channel())
            bench.pass(milliseconds: spacing - 1)
            #expect(bench.send().isEmpty)
            bench.pass(milliseconds: 1)
            #expect(bench.send().map(\.content) == [number])
            bench.answerPushes()
        }
    }

    /// An alert that waits is sent once, with the newer state.
    @Test func `An alert rides on a newer state`() throws {
        let bench = RoundHarness()
        bench.command(1, channel: try channel())
        #expect(bench.finish().map(\.alert) == [nil])
        bench.command(2, hasAlert: true, channel: try channel())
        bench.command(3, channel: try channel())
        bench.command(4, channel: try channel())
        // The record with the alert settles only when the alert has been sent.
        bench.settle()
        #expect(bench.committableOffset == 1 && outcome(of: 2, in: bench) == nil)
        bench.pass(milliseconds: 1_000)
        let sent = bench.finish()
        #expect(sent.map(\.content) == [4] && sent.map(\.alert) == [2])
        #expect([2, 3, 4].map { outcome(of: $0, in: bench) } == ["superseded", "superseded", "delivered"])
        bench.command(5, channel: try channel())
        bench.pass(milliseconds: 1_000)
        #expect(bench.finish().map(\.alert) == [nil])
        #expect(bench.committableOffset == 5 && bench.core.recordsInProgress == 0)
    }

    @Test func `An old alert is not sent`() throws {
        let bench = RoundHarness()
        bench.command(1, hasAlert: true, channel: try channel())
        bench.settle()
        for _ in 0..<3 {
            bench.send()
            bench.answerPushes(.retryLater)
            bench.pass(milliseconds: 1_300_000)
        }
        #expect(bench.send().isEmpty)
        #expect(outcome(of: 1, in: bench) == "expired")
    }

    /// After a fault of the service the broadcast is tried again without limit. When the service answers
    /// again, the newest state is sent.
    @Test func `After a fault of the service the broadcast waits`() throws {
        let bench = RoundHarness()
        bench.command(1, channel: try channel())
        bench.settle()
        for disposition in [PushResult.Disposition.retryLater, .retryNow, .ambiguous, .retryLater] {
            #expect(bench.send().map(\.content) == [1])
            bench.answerPushes(disposition)
            bench.pass(milliseconds: 60_000)
        }
        #expect(bench.send().map(\.content) == [1])
        bench.command(2, channel: try channel())
        bench.answerPushes(.retryLater)
        #expect(outcome(of: 1, in: bench) == "superseded")
        bench.pass(milliseconds: 60_000)
        #expect(bench.finish().map(\.content) == [2])
        #expect(outcome(of: 2, in: bench) == "delivered")
    }

    @Test func `The result of a refusal says what to do`() throws {
        let bench = RoundHarness()
        bench.command(1, channel: try channel())
        bench.settle()
        bench.send()
        bench.answerPushes(.rejected, reason: "FeatureNotEnabled", advice: "enable Broadcast Capability")
        #expect(outcome(of: 1, in: bench) == "failed")
        let text = result(of: 1, in: bench)
        #expect(SimulatedText.contains("\"reason\":\"FeatureNotEnabled\"", in: text))
        #expect(SimulatedText.contains("Broadcast Capability", in: text))
    }

    /// A new channel replaces one that another program has deleted, and gets the newest state.
    @Test func `A lost channel is replaced`() throws {
        let bench = RoundHarness()
        bench.command(1, channel: try channel())
        bench.settle()
        bench.send()
        bench.answerPushes(.channelGone, reason: "ChannelNotRegistered")
        let gone = try channel()
        #expect(bench.needs() == [ChannelNeed(kind: .lost(gone), application: 0, audience: RoundHarness.audience)])
        bench.command(2, channel: try channel())
        bench.pass(milliseconds: 5_000)
        #expect(bench.send().isEmpty)
        bench.core.channelKnown(application: 0, audience: RoundHarness.digest, try channel("bmV3"), now: bench.moment)
        #expect(bench.finish().map(\.member) == ["bmV3"])
        #expect([1, 2].map { outcome(of: $0, in: bench) } == ["superseded", "delivered"])
    }

    /// A new channel has no subscribers, so an end on it would reach nobody.
    @Test func `If an end's channel is lost, no new channel is requested`() throws {
        let bench = RoundHarness()
        bench.command(1, event: .end, channel: try channel())
        bench.settle()
        bench.send()
        bench.answerPushes(.channelGone, reason: "ChannelNotRegistered")
        #expect(bench.needs().isEmpty)
        #expect(outcome(of: 1, in: bench) == "failed")
        #expect(bench.committableOffset == 1 && bench.core.recordsInProgress == 0)
    }

    @Test func `An older version is never sent behind a newer one`() throws {
        let bench = RoundHarness()
        bench.command(2, channel: try channel())
        #expect(bench.finish().map(\.content) == [2])
        bench.command(1, channel: try channel())
        bench.command(2, channel: try channel())
        bench.pass(milliseconds: 500)
        #expect(bench.finish().isEmpty)
        #expect(outcome(of: 1, in: bench) == "superseded")
        #expect(bench.committableOffset == 3 && bench.core.recordsInProgress == 0)
    }

    @Test func `The command's sum has its broadcasts`() throws {
        let bench = RoundHarness()
        bench.join(SimulatedNames.names[0][0])
        bench.command(1, channel: try channel(), broadcastCount: 1)
        bench.command(1, broadcastCount: 1)
        #expect(bench.finish().count == 2)
        bench.pass(milliseconds: 1_000)
        let sums = bench.results.filter { SimulatedText.contains("\"ranges\"", in: $0) }
        #expect(sums.count == 1)
        #expect(SimulatedText.contains("\"members\":{\"delivered\":1},\"broadcasts\":{\"delivered\":1}", in: sums[0]))
    }

    /// One broadcast is in flight, and still gets its answer. The next owner sends the newer state that
    /// waits.
    @Test func `A revoked partition sends nothing more`() throws {
        let bench = RoundHarness()
        bench.command(1, channel: try channel())
        bench.settle()
        #expect(bench.send().count == 1)
        bench.command(2, channel: try channel())
        #expect(!bench.revoke())
        #expect(bench.send().isEmpty)
        bench.answerPushes()
        let isDrained = bench.core.isDrained(0)
        #expect(isDrained && bench.committableOffset == 1)
        #expect(outcome(of: 1, in: bench) == "delivered" && outcome(of: 2, in: bench) == nil)
        bench.pass(milliseconds: 2_000)
        #expect(bench.core.recordsInProgress == 0 && bench.core.channels.count == 0)
    }

    @Test func `A released partition forgets its pushes in flight`() throws {
        let bench = RoundHarness()
        bench.command(1, hasAlert: true, channel: try channel())
        bench.settle()
        #expect(bench.send().count == 1)
        bench.command(2, channel: try channel())
        bench.core.release(partition: 0, now: bench.moment)
        bench.answerPushes()
        #expect(bench.core.recordsInProgress == 0 && bench.core.channels.count == 0 && bench.results.isEmpty)
    }

    @Test func `A push that finds no stream is sent again`() throws {
        let bench = RoundHarness()
        bench.command(1, channel: try channel())
        bench.settle()
        let pool = PoolIndex(application: 0, environment: .production)
        let offered = bench.core.nextPush(pool, inFlightMax: 10, now: bench.moment)
        bench.core.pushReturned(try #require(offered))
        let inFlight = bench.core.inFlight(pool)
        #expect(inFlight == 0)
        #expect(bench.finish().map(\.content) == [1])
    }
}
