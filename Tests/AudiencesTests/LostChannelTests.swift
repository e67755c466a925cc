import ActivityStore
import LiveActivity
import Testing

@testable import Audiences
@testable import Delivery

/// While Redis may have lost channels, a command waits until the keeper has looked for the channel of its audience.
@Suite struct LostChannelTests {
    /// Returns a harness whose store may have lost its channels just now.
    private func harnessAfterLoss(patterns: String...) -> RoundHarness {
        let harness = RoundHarness(channelRule: AudienceChannelRule(patterns: patterns, environments: [.production]))
        harness.core.storeMayHaveLostDataAtMilliseconds = harness.nowMilliseconds
        harness.core.membersLastCompleteAtMilliseconds = harness.nowMilliseconds + 1
        return harness
    }

    private func handOver(_ number: Int, _ event: Event = .update, to harness: RoundHarness) {
        harness.handOver(number, event)
        harness.performPendingWork()
    }

    /// The keeper has looked for the channel.
    private func lookUp(isFound: Bool, _ harness: RoundHarness) {
        harness.core.handleChannelLookup(
            appIndex: 0,
            audience: RoundHarness.digest,
            environment: .production,
            isFound: isFound,
            now: harness.moment
        )
        harness.performPendingWork()
    }

    /// No pattern matches the audience, but an earlier command or an operator may have requested a channel for it.
    @Test(arguments: [Event.update, .end])
    func `A command to any audience waits for a channel that is perhaps lost`(event: Event) throws {
        let harness = harnessAfterLoss()
        handOver(1, event, to: harness)
        #expect(harness.instructions.isEmpty)
        #expect(harness.takeChannelRequests().map(\.kind) == [.sought], "`wanted` would create a channel")
        let identifier = try #require(ChannelIdentifier("Y2hhbm5lbA=="))
        let channel = AudienceChannel(environment: .production, storage: .none, identifier: identifier)
        harness.store.setChannel(channel, in: .production, of: RoundHarness.digest, app: RoundHarness.app)
        lookUp(isFound: true, harness)
        #expect(harness.instructions.contains { $0.channel == channel })
        let requestKinds = harness.takeChannelRequests().map(\.kind)
        #expect(requestKinds == (event == .end ? [.ended(storedUntilWallMilliseconds: 0)] : []))
    }

    @Test func `A command to an audience that needs no channel continues when the keeper has found none`() {
        let harness = harnessAfterLoss()
        handOver(1, .end, to: harness)
        #expect(harness.instructions.isEmpty)
        lookUp(isFound: false, harness)
        #expect(!harness.instructions.isEmpty)
        #expect(harness.instructions.allSatisfy { $0.channel == nil && $0.channelAbsence == nil })
        #expect(harness.core.commandsAwaitingChannelCount == 0 && harness.core.commandsAwaitingChannelBytes == 0)
    }

    /// The registry is complete, but APNs' channel management does not respond. The commands of the next minute do not
    /// wait, although the possible loss is recent.
    @Test func `If the keeper has found no channel, a command waits only as long as usual for a new one`() {
        let harness = harnessAfterLoss(patterns: "*")
        handOver(1, to: harness)
        harness.advanceClock(milliseconds: 500)
        lookUp(isFound: false, harness)
        harness.advanceClock(milliseconds: Audiences.usualChannelWaitMilliseconds - 1)
        #expect(harness.instructions.isEmpty)
        harness.advanceClock(milliseconds: 1)
        #expect(!harness.instructions.isEmpty)
        #expect(harness.instructions.allSatisfy { $0.channelAbsence == .notInTime })
        harness.instructions.removeAll()
        harness.advanceClock(milliseconds: 30_000)
        handOver(40, to: harness)
        #expect(!harness.instructions.isEmpty)
        #expect(harness.instructions.allSatisfy { $0.channelAbsence == .notAwaited })
    }

    /// The keeper looked for the channel before the second loss, so its response does not show what Redis has lost
    /// then.
    @Test func `After a further loss, a command waits until the keeper has looked again`() {
        let harness = harnessAfterLoss(patterns: "*")
        handOver(1, to: harness)
        harness.advanceClock(milliseconds: 500)
        lookUp(isFound: false, harness)
        harness.advanceClock(milliseconds: 500)
        harness.core.storeMayHaveLostDataAtMilliseconds = harness.nowMilliseconds
        for _ in 0..<5 { harness.advanceClock(milliseconds: Audiences.usualChannelWaitMilliseconds) }
        #expect(harness.instructions.isEmpty)
    }

    /// The room has 1,024 places, and half of them are in use. Each of two apps may use 256 places even then.
    @Test(arguments: [(255, true), (256, false)])
    func `An app whose commands wait for channels leaves room to the others`(waitingCount: Int, waits: Bool) {
        let harness = harnessAfterLoss(patterns: "*")
        harness.core.commandsAwaitingChannelCount = Audiences.commandsAwaitingChannelMax / 2
        harness.core.apps[0].commandsAwaitingChannelCount = waitingCount
        handOver(1, to: harness)
        #expect(harness.instructions.isEmpty == waits)
    }

    /// There is no other app to leave room to.
    @Test func `The commands of a single app may use all room for the waits`() {
        let harness = harnessAfterLoss(patterns: "*")
        harness.core.apps.removeLast()
        harness.core.commandsAwaitingChannelCount = Audiences.commandsAwaitingChannelMax - 1
        harness.core.apps[0].commandsAwaitingChannelCount = Audiences.commandsAwaitingChannelMax - 1
        handOver(1, to: harness)
        #expect(harness.instructions.isEmpty)
    }

    @Test func `Commands that wait for channels use at most half of the table of commands, and of the bytes`() {
        let harness = RoundHarness(
            commandsMax: 2,
            channelRule: AudienceChannelRule(patterns: ["*"], environments: [.production])
        )
        harness.core.commandsAwaitingChannelCount = 1
        handOver(1, to: harness)
        #expect(harness.instructions.contains { $0.channelAbsence == .notAwaited })
        let secondHarness = harnessAfterLoss(patterns: "*")
        secondHarness.core.commandsAwaitingChannelBytes = 4 << 20
        handOver(1, to: secondHarness)
        #expect(secondHarness.instructions.contains { $0.channelAbsence == .notAwaited })
    }
}
