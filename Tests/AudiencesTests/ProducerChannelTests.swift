import LiveActivity
import Testing

@testable import Audiences
@testable import Delivery

/// Commands that name a channel instead of an audience.
@Suite struct ProducerChannelTests {
    private static let channel = "dHN0LXNyY2gtY2hubA=="

    /// Hands commands that name the channel to the core, one after the other. After each command, lets the core read
    /// the fan-out record that it produced for the command.
    private func handOver(_ numbers: Int..., event: Event = .update, to harness: RoundHarness) {
        for number in numbers {
            harness.producedRecords.removeAll()
            harness.handOver(number, event, channel: Self.channel)
            harness.performPendingWork()
            harness.log += zip(harness.producedRecords, harness.instructions)
                .map { SimulatedFanout(value: Array($0.utf8), instruction: $1) }
            harness.producedRecords.removeAll()
            harness.instructions.removeAll()
            harness.readLog()
            harness.performPendingWork()
        }
    }

    private func takeEndings(_ harness: RoundHarness) -> [HandoverResult] {
        var endings: [HandoverResult] = []
        while let command = harness.core.takeReturnedCommand() { endings.append(command.handoverResult) }
        return endings
    }

    @Test(arguments: [Event.update, .end]) func `A command is one broadcast with one result`(event: Event) throws {
        let harness = RoundHarness(channelRule: AudienceChannelRule(patterns: ["*"], environments: [.production]))
        harness.join("somebody", Self.channel)
        handOver(1, event: event, to: harness)
        #expect(harness.log.count == 1 && takeEndings(harness) == [.fannedOut])
        #expect(harness.send().map(\.member) == [Self.channel])
        harness.respondToPushes()
        #expect(harness.producedRecords.count == 1)
        let result = try #require(harness.producedRecords.first)
        #expect(result.contains(#""channel":"\#(Self.channel)","environment":"production","outcome":"delivered""#))
        #expect(!result.contains("audience"))
        #expect(harness.core.fanoutRecordCount == 0 && harness.committableOffset == 1)
        #expect(harness.takeChannelRequests().isEmpty, "the keeper has nothing to do with it")
    }

    @Test func `A version is sent once, and no older one after it`() {
        let harness = RoundHarness()
        handOver(50, to: harness)
        harness.send()
        harness.respondToPushes()
        harness.advanceClock(milliseconds: 20_000)
        // A command's timestamp is the clock's second plus the command's number. The clock is 20 s later now, so
        // command 30 has the timestamp that command 50 had, and command 10 has an older one.
        handOver(30, 10, to: harness)
        #expect(takeEndings(harness) == [.fannedOut, .outcome(.duplicate), .outcome(.superseded)])
        #expect(harness.send().isEmpty)
    }

    /// The producer created the channel, so only APNs knows whether the channel stores the newest state.
    @Test func `A refused expiration shows that a channel has no storage`() throws {
        let harness = RoundHarness()
        handOver(1, to: harness)
        harness.send()
        #expect(try #require(harness.pushesInFlight.first?.push).expirationSeconds > 0)
        harness.respondToPushes(.rejected, reason: "BadExpirationDate")
        harness.advanceClock(milliseconds: 1_000)
        harness.send()
        #expect(harness.pushesInFlight.map(\.push.expirationSeconds) == [0])
        harness.respondToPushes()
        #expect(harness.producedRecords.count { $0.contains(#""outcome":"delivered""#) } == 1)
        harness.advanceClock(milliseconds: 30_000)
        handOver(60, to: harness)
        harness.send()
        #expect(harness.pushesInFlight.map(\.push.expirationSeconds) == [0])
    }

    @Test func `A command to an unknown channel fails at once`() throws {
        let harness = RoundHarness()
        handOver(1, to: harness)
        harness.send()
        harness.respondToPushes(.channelGone, reason: "ChannelNotRegistered")
        let result = try #require(harness.producedRecords.first)
        #expect(result.contains(#""outcome":"failed""#) && result.contains("ChannelNotRegistered"))
        #expect(harness.takeChannelRequests().isEmpty && harness.core.fanoutRecordCount == 0)
    }
}
