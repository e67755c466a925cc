import LiveActivity
import Testing

@testable import Audiences
@testable import Delivery

/// Commands that name a channel instead of an audience.
@Suite struct OwnBroadcastTests {
    private static let channel = "dHN0LXNyY2gtY2hubA=="

    /// Hands commands that name the channel to the core until they are admitted. Then lets the core read the
    /// fan-out records that it produced for them.
    private func handOver(_ numbers: Int..., event: Event = .update, to bench: RoundHarness) {
        for number in numbers {
            bench.results.removeAll()
            bench.handOver(number, event, channel: Self.channel)
            bench.settle()
            bench.log += zip(bench.results, bench.orders).map { SimulatedFanout(value: Array($0.utf8), order: $1) }
            bench.results.removeAll()
            bench.orders.removeAll()
            bench.read()
            bench.settle()
        }
    }

    private func endings(_ bench: RoundHarness) -> [HandoverEnding] {
        var endings: [HandoverEnding] = []
        while let command = bench.core.nextReturnedCommand() { endings.append(command.ending) }
        return endings
    }

    @Test(arguments: [Event.update, .end]) func `A command is one broadcast with one result`(event: Event) throws {
        let bench = RoundHarness(channelRule: ChannelRule(patterns: ["*"], environments: [.production]))
        bench.join("somebody", Self.channel)
        handOver(1, event: event, to: bench)
        #expect(bench.log.count == 1 && endings(bench) == [.fannedOut])
        #expect(bench.send().map(\.member) == [Self.channel])
        bench.answerPushes()
        #expect(bench.results.count == 1)
        let result = try #require(bench.results.first)
        #expect(result.contains(#""channel":"\#(Self.channel)","environment":"production","outcome":"delivered""#))
        #expect(!result.contains("audience"))
        #expect(bench.core.recordsInProgress == 0 && bench.committableOffset == 1)
        #expect(bench.needs().isEmpty, "the keeper has nothing to do with it")
    }

    @Test func `A version is sent once, and no older one after it`() {
        let bench = RoundHarness()
        handOver(50, to: bench)
        bench.send()
        bench.answerPushes()
        bench.pass(milliseconds: 20_000)
        // Timestamps count from the test's clock, which is 20 s later now. So command 30 has the version of
        // command 50.
        handOver(30, 10, to: bench)
        #expect(endings(bench) == [.fannedOut, .outcome(.duplicate), .outcome(.superseded)])
        #expect(bench.send().isEmpty)
    }

    /// The producer created the channel, so only APNs knows whether the channel stores the newest state.
    @Test func `A channel without storage is recognized by its refusal`() throws {
        let bench = RoundHarness()
        handOver(1, to: bench)
        bench.send()
        #expect(try #require(bench.underWay.first?.push).expiration > 0)
        bench.answerPushes(.rejected, reason: "BadExpirationDate")
        bench.pass(milliseconds: 1_000)
        bench.send()
        #expect(bench.underWay.map(\.push.expiration) == [0])
        bench.answerPushes()
        #expect(bench.results.count { $0.contains(#""outcome":"delivered""#) } == 1)
        bench.pass(milliseconds: 30_000)
        handOver(60, to: bench)
        bench.send()
        #expect(bench.underWay.map(\.push.expiration) == [0])
    }

    @Test func `An unknown channel fails at once`() throws {
        let bench = RoundHarness()
        handOver(1, to: bench)
        bench.send()
        bench.answerPushes(.channelGone, reason: "ChannelNotRegistered")
        let result = try #require(bench.results.first)
        #expect(result.contains(#""outcome":"failed""#) && result.contains("ChannelNotRegistered"))
        #expect(bench.needs().isEmpty && bench.core.recordsInProgress == 0)
    }
}
