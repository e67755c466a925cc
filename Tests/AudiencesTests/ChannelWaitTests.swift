import ActivityStore
import LiveActivity
import Testing

@testable import Audiences
@testable import Delivery

/// If an audience has no channel yet, its start or update waits for the channel, but only for a limited time. After a
/// command has waited without success, the audience's commands of the next minute do not wait.
@Suite struct ChannelWaitTests {
    private func makeHarness(_ environments: APNsEnvironment...) -> RoundHarness {
        RoundHarness(channelRule: ChannelRule(patterns: ["*"], environments: environments))
    }

    private func makeChannel(_ environment: APNsEnvironment = .production) throws -> AudienceChannel {
        let identifier = try #require(ChannelIdentifier("Y2hhbm5lbA=="))
        return AudienceChannel(environment: environment, storage: .newest, identifier: identifier)
    }

    /// Writes the channel to the audience's hash and notifies the core, as the `ChannelKeeper` does.
    private func create(_ channel: AudienceChannel, _ harness: RoundHarness) {
        harness.store.setChannel(channel, in: channel.environment, of: RoundHarness.digest, app: RoundHarness.app)
        harness.core.channelProvided(appIndex: 0, audience: RoundHarness.digest, channel, now: harness.moment)
        harness.performPendingWork()
    }

    private func refuse(_ environment: APNsEnvironment, _ harness: RoundHarness) {
        harness.core
            .channelRefused(
                appIndex: 0,
                audience: RoundHarness.digest,
                environment: environment,
                now: harness.moment
            )
        harness.performPendingWork()
    }

    private func handOver(_ number: Int, _ event: Event = .update, to harness: RoundHarness) {
        harness.handOver(number, event)
        harness.performPendingWork()
    }

    @Test func `The first command is broadcast to the channel that it requested`() throws {
        let harness = makeHarness(.production)
        handOver(1, to: harness)
        #expect(harness.instructions.isEmpty)
        #expect(harness.takeChannelRequests().map(\.kind) == [.wanted])
        create(try makeChannel(), harness)
        #expect(harness.instructions.contains { $0.channel?.environment == .production })
        #expect(harness.instructions.allSatisfy { $0.channelAbsence == nil && $0.grant.broadcastCount <= 1 })
        #expect(harness.core.commandsAwaitingChannelCount == 0)
    }

    @Test func `A start waits for the channel and names it`() throws {
        let harness = makeHarness(.production)
        handOver(1, .start, to: harness)
        #expect(harness.instructions.isEmpty)
        create(try makeChannel(), harness)
        #expect(!harness.instructions.isEmpty)
        #expect(harness.instructions.allSatisfy { $0.channelsForStarts.production != nil && $0.channel == nil })
    }

    /// No pattern of the configuration matches the audience, but the command itself requests a channel.
    @Test func `A command may request a channel`() throws {
        let harness = RoundHarness(channelRule: ChannelRule(patterns: [], environments: [.production]))
        handOver(1, to: harness)
        #expect(!harness.instructions.isEmpty && harness.takeChannelRequests().isEmpty)
        harness.instructions.removeAll()
        harness.advanceClock(milliseconds: 30_000)
        harness.handOver(40, .update, requestsChannel: true)
        harness.performPendingWork()
        #expect(harness.instructions.isEmpty)
        #expect(harness.takeChannelRequests().map(\.kind) == [.wanted])
        create(try makeChannel(), harness)
        #expect(harness.instructions.contains { $0.channel != nil })
    }

    @Test func `An end does not wait for a channel`() {
        let harness = makeHarness(.production)
        handOver(1, .end, to: harness)
        #expect(!harness.instructions.isEmpty)
        #expect(harness.instructions.allSatisfy { $0.channelAbsence == nil })
    }

    @Test func `After two seconds a command continues without a channel`() {
        let harness = makeHarness(.production)
        handOver(1, to: harness)
        harness.advanceClock(milliseconds: Audiences.channelWaitMillisecondsMax - 1)
        #expect(harness.instructions.isEmpty)
        harness.advanceClock(milliseconds: 1)
        #expect(!harness.instructions.isEmpty)
        #expect(harness.instructions.allSatisfy { $0.channel == nil && $0.channelAbsence == .notInTime })
        #expect(harness.core.commandsAwaitingChannelCount == 0)
    }

    @Test func `A channel that comes too late is used by the next command`() throws {
        let harness = makeHarness(.production)
        handOver(1, to: harness)
        harness.advanceClock(milliseconds: Audiences.channelWaitMillisecondsMax)
        harness.instructions.removeAll()
        create(try makeChannel(), harness)
        #expect(harness.instructions.isEmpty)
        harness.advanceClock(milliseconds: 30_000)
        handOver(40, to: harness)
        #expect(harness.instructions.contains { $0.channel != nil })
        #expect(harness.instructions.allSatisfy { $0.channelAbsence == nil })
    }

    @Test func `After a refusal a command waits no longer`() {
        let harness = makeHarness(.production)
        handOver(1, to: harness)
        refuse(.production, harness)
        #expect(!harness.instructions.isEmpty)
        #expect(harness.instructions.allSatisfy { $0.channel == nil && $0.channelAbsence == .refused })
    }

    @Test func `A command waits for the channel of each environment`() throws {
        let harness = makeHarness(.production, .sandbox)
        handOver(1, to: harness)
        create(try makeChannel(.sandbox), harness)
        #expect(harness.instructions.isEmpty)
        refuse(.production, harness)
        #expect(harness.instructions.compactMap(\.channel?.environment) == [.sandbox])
        #expect(harness.instructions.allSatisfy { $0.channelAbsence == .refused })
    }

    /// APNs' service that creates channels perhaps does not respond for hours. So after one command has waited without
    /// success, the commands of the next minute do not wait.
    @Test func `Only one command a minute waits`() {
        let harness = makeHarness(.production)
        handOver(1, to: harness)
        harness.advanceClock(milliseconds: Audiences.channelWaitMillisecondsMax)
        harness.instructions.removeAll()
        for number in [2, 3] {
            harness.advanceClock(milliseconds: Audiences.pauseAfterFailedChannelWaitMilliseconds / 2 - 1)
            handOver(number * 30, to: harness)
            #expect(!harness.instructions.isEmpty)
            #expect(harness.instructions.allSatisfy { $0.channelAbsence == .notAwaited })
            harness.instructions.removeAll()
        }
        harness.advanceClock(milliseconds: 2)
        harness.advanceClock(milliseconds: 30_000)
        handOver(200, to: harness)
        #expect(harness.instructions.isEmpty, "it waits again")
    }

    @Test func `If too many commands wait for a channel, the next command does not wait`() {
        let harness = makeHarness(.production)
        harness.core.commandsAwaitingChannelCount = Audiences.commandsAwaitingChannelMax
        handOver(1, to: harness)
        #expect(!harness.instructions.isEmpty)
        #expect(harness.instructions.allSatisfy { $0.channelAbsence == .notAwaited })
    }

    /// After a command has waited for a channel without success, its audience pauses: the next commands do not wait.
    /// With 4,096 pauses the table is full, and no further command of any audience waits.
    @Test func `A full table of pauses is emptied when the pauses are over`() {
        let harness = makeHarness(.production)
        for other in 0..<Audiences.channelWaitPausesMax {
            let digest = Array("other \(other)".utf8).withUnsafeBytes { AudienceDigest(of: $0) }
            harness.core.channelWaitPauseEndMilliseconds[AudienceKey(appIndex: 7, digest: digest)] =
                harness.moment.monotonicMilliseconds + Audiences.pauseAfterFailedChannelWaitMilliseconds
        }
        handOver(1, to: harness)
        #expect(harness.instructions.contains { $0.channelAbsence == .notAwaited })
        harness.instructions.removeAll()
        harness.advanceClock(milliseconds: Audiences.pauseAfterFailedChannelWaitMilliseconds)
        handOver(80, to: harness)
        #expect(harness.instructions.isEmpty, "the command waits")
        #expect(harness.core.channelWaitPauseEndMilliseconds.isEmpty)
    }

    @Test func `The command's result says that there was no channel`() {
        let harness = makeHarness(.production)
        handOver(1, to: harness)
        harness.advanceClock(milliseconds: Audiences.channelWaitMillisecondsMax)
        harness.log = zip(harness.producedRecords, harness.instructions)
            .map { SimulatedFanout(value: Array($0.utf8), instruction: $1) }
        harness.producedRecords.removeAll()
        harness.readLog()
        for _ in 0..<4 { harness.advanceClock(milliseconds: 500) }
        let results = harness.producedRecords.filter { $0.contains("\"ranges\"") }
        #expect(results.count == 1)
        #expect(results.allSatisfy { $0.contains(#""channel":"none","channelReason":"notInTime","ranges":1"#) })
    }
}
