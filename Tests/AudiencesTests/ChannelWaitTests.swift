import ActivityStore
import LiveActivity
import Testing

@testable import Audiences
@testable import Delivery

/// If an audience has no channel, its command waits for the channel, but only for a limited time. After a command has
/// waited without success, the audience's commands of the next minute do not wait.
@Suite struct ChannelWaitTests {
    private func makeHarness(_ environments: APNsEnvironment...) -> RoundHarness {
        RoundHarness(channelRule: AudienceChannelRule(patterns: ["*"], environments: environments))
    }

    private func makeChannel(_ environment: APNsEnvironment = .production) throws -> AudienceChannel {
        let identifier = try #require(ChannelIdentifier("Y2hhbm5lbA=="))
        return AudienceChannel(environment: environment, storage: .newest, identifier: identifier)
    }

    /// Writes the channel to the audience's hash and notifies the core, as the `ChannelKeeper` does.
    private func create(_ channel: AudienceChannel, _ harness: RoundHarness) {
        harness.store.setChannel(channel, in: channel.environment, of: RoundHarness.digest, app: RoundHarness.app)
        harness.core.handleProvidedChannel(appIndex: 0, audience: RoundHarness.digest, channel, now: harness.moment)
        harness.performPendingWork()
    }

    private func refuse(_ environment: APNsEnvironment, _ harness: RoundHarness) {
        harness.core
            .handleRefusedChannel(
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
        let harness = RoundHarness(channelRule: AudienceChannelRule(patterns: [], environments: [.production]))
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

    private func noteEnd(_ harness: RoundHarness) {
        harness.core.handleNotedAudienceEnd(appIndex: 0, audience: RoundHarness.digest, environment: .production)
        harness.performPendingWork()
    }

    /// The keeper looks for a channel that Redis may have lost, and creates none.
    @Test func `An end without a channel waits only until the keeper has noted it`() {
        let harness = makeHarness(.production)
        handOver(1, .end, to: harness)
        #expect(harness.instructions.isEmpty)
        noteEnd(harness)
        #expect(!harness.instructions.isEmpty)
        #expect(harness.instructions.allSatisfy { $0.channel == nil && $0.channelAbsence == nil })
    }

    @Test func `The result of an end that the keeper has not noted says that there was no channel`() {
        let harness = makeHarness(.production)
        handOver(1, .end, to: harness)
        harness.advanceClock(milliseconds: Audiences.usualChannelWaitMilliseconds)
        #expect(!harness.instructions.isEmpty)
        #expect(harness.instructions.allSatisfy { $0.channelAbsence == .notInTime })
    }

    /// The keeper responds to an earlier end. The start needs a new channel, which the keeper creates next.
    @Test func `A start waits although the keeper has noted an end`() {
        let harness = makeHarness(.production)
        handOver(1, .start, to: harness)
        noteEnd(harness)
        #expect(harness.instructions.isEmpty)
    }

    // MARK: - Channels that Redis has lost

    /// Redis came back empty. The members are back before the keeper has restored the channels.
    @Test(arguments: [Event.update, .end])
    func `After a loss of the store, a command is broadcast when its channel is restored`(event: Event) throws {
        let harness = makeHarness(.production)
        harness.core.storeMayHaveLostDataAtMilliseconds = harness.nowMilliseconds
        harness.core.membersLastCompleteAtMilliseconds = .min
        handOver(1, event, to: harness)
        for _ in 0..<3 { harness.advanceClock(milliseconds: Audiences.usualChannelWaitMilliseconds) }
        harness.core.membersLastCompleteAtMilliseconds = harness.nowMilliseconds
        harness.advanceClock(milliseconds: Audiences.usualChannelWaitMilliseconds)
        #expect(harness.instructions.isEmpty)
        let requestKinds = harness.takeChannelRequests().map(\.kind)
        #expect(requestKinds.count { $0 == .sought } == 5, "the request is repeated, because it may have been dropped")
        #expect(requestKinds.count { $0 != .sought } == 5)
        let channel = try makeChannel()
        harness.store.setChannel(channel, in: .production, of: RoundHarness.digest, app: RoundHarness.app)
        if event == .end { noteEnd(harness) } else { create(channel, harness) }
        #expect(harness.instructions.contains { $0.channel == channel })
        #expect(harness.instructions.allSatisfy { $0.channelAbsence == nil })
        #expect(harness.core.commandsAwaitingChannelCount == 0)
    }

    /// An operator has emptied Redis, and the lane has not noticed it. The keeper has, but Kafka does not respond to
    /// it.
    @Test func `A command waits on while the keeper cannot restore the channels`() throws {
        let harness = makeHarness(.production)
        handOver(1, to: harness)
        harness.core
            .handleRefusedChannel(
                appIndex: 0,
                audience: RoundHarness.digest,
                environment: .production,
                isRegistryComplete: false,
                now: harness.moment
            )
        harness.advanceClock(milliseconds: Audiences.usualChannelWaitMilliseconds)
        #expect(harness.instructions.isEmpty)
        create(try makeChannel(), harness)
        #expect(harness.instructions.contains { $0.channel != nil })
    }

    /// Without this limit, the members with tokens would get nothing while `causeway.channels` cannot be read.
    @Test func `The wait for lost channels ends after ten minutes`() {
        let harness = makeHarness(.production)
        harness.core.membersLastCompleteAtMilliseconds = .min
        handOver(1, to: harness)
        let waitCount = Audiences.memberWaitMillisecondsMax / Audiences.usualChannelWaitMilliseconds
        for _ in 1..<waitCount { harness.advanceClock(milliseconds: Audiences.usualChannelWaitMilliseconds) }
        #expect(harness.instructions.isEmpty)
        harness.advanceClock(milliseconds: Audiences.usualChannelWaitMilliseconds)
        #expect(!harness.instructions.isEmpty)
        #expect(harness.instructions.allSatisfy { $0.channelAbsence == .notInTime })
        harness.instructions.removeAll()
        harness.advanceClock(milliseconds: 30_000)
        handOver(40, to: harness)
        #expect(!harness.instructions.isEmpty)
        #expect(harness.instructions.allSatisfy { $0.channelAbsence == .notAwaited })
    }

    /// The wait may be long, and a partition that is being revoked must not wait for it.
    @Test func `A command that waits for its channel is dropped if its partition is revoked`() {
        let harness = makeHarness(.production)
        harness.core.membersLastCompleteAtMilliseconds = .min
        handOver(1, to: harness)
        harness.core.dropWaitingCommands { _ in true }
        let command = harness.core.takeReturnedCommand()
        #expect(command?.record.rawValue == 1 && command?.handoverResult == .dropped)
        harness.advanceClock(milliseconds: Audiences.usualChannelWaitMilliseconds)
        #expect(harness.instructions.isEmpty)
        #expect(harness.core.commandsAwaitingChannelCount == 0 && harness.core.commandCount == 0)
    }

    // MARK: - The limits of a wait

    @Test func `After two seconds a command continues without a channel`() {
        let harness = makeHarness(.production)
        handOver(1, to: harness)
        harness.advanceClock(milliseconds: Audiences.usualChannelWaitMilliseconds - 1)
        #expect(harness.instructions.isEmpty)
        harness.advanceClock(milliseconds: 1)
        #expect(!harness.instructions.isEmpty)
        #expect(harness.instructions.allSatisfy { $0.channel == nil && $0.channelAbsence == .notInTime })
        #expect(harness.core.commandsAwaitingChannelCount == 0)
    }

    /// How many waits of two seconds a start has at most.
    private static let startWaitCount =
        Audiences.startChannelWaitMillisecondsMax / Audiences.usualChannelWaitMilliseconds

    /// At kick-off, the keeper creates the channels of many audiences, a few at a time.
    @Test func `A start waits longer while the keeper provides channels of other audiences`() throws {
        let harness = makeHarness(.production)
        handOver(1, .start, to: harness)
        for _ in 1..<Self.startWaitCount { try waitWhileOthersGetChannels(.production, harness) }
        #expect(harness.instructions.isEmpty)
        create(try makeChannel(), harness)
        #expect(!harness.instructions.isEmpty)
        #expect(harness.instructions.allSatisfy { $0.channelsForStarts.production != nil })
    }

    /// The keeper may have dropped the request, because all its places were in use.
    @Test func `A start that waits longer requests its channel again`() throws {
        let harness = makeHarness(.production)
        handOver(1, .start, to: harness)
        #expect(harness.takeChannelRequests().map(\.kind) == [.wanted])
        for _ in 1...3 {
            try waitWhileOthersGetChannels(.production, harness)
            #expect(harness.takeChannelRequests().map(\.kind) == [.wanted])
        }
    }

    @Test func `A start waits at most half a minute`() throws {
        let harness = makeHarness(.production)
        handOver(1, .start, to: harness)
        for _ in 1...Self.startWaitCount { try waitWhileOthersGetChannels(.production, harness) }
        #expect(harness.instructions.contains { $0.channelAbsence == .notInTime })
        #expect(harness.core.commandsAwaitingChannelCount == 0)
    }

    /// The channels of one environment do not show that APNs creates those of the other one. The next update may be
    /// broadcast, so an update does not wait longer.
    @Test(arguments: [(Event.start, APNsEnvironment.sandbox), (.update, .production)])
    func `Only a start waits longer, and only for channels of its environment`(
        event: Event,
        environment: APNsEnvironment
    ) throws {
        let harness = makeHarness(.production)
        handOver(1, event, to: harness)
        try waitWhileOthersGetChannels(environment, harness)
        #expect(harness.instructions.contains { $0.channelAbsence == .notInTime })
    }

    /// Lets the time of one wait pass. Shortly before its end, the keeper provides the channel of another audience.
    private func waitWhileOthersGetChannels(_ environment: APNsEnvironment, _ harness: RoundHarness) throws {
        harness.advanceClock(milliseconds: Audiences.usualChannelWaitMilliseconds - 1)
        let otherAudience = RoundHarness.digest(of: "other")
        let channel = try makeChannel(environment)
        harness.core.handleProvidedChannel(appIndex: 0, audience: otherAudience, channel, now: harness.moment)
        harness.advanceClock(milliseconds: 1)
    }

    @Test func `A channel that comes too late is used by the next command`() throws {
        let harness = makeHarness(.production)
        handOver(1, to: harness)
        harness.advanceClock(milliseconds: Audiences.usualChannelWaitMilliseconds)
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
        harness.advanceClock(milliseconds: Audiences.usualChannelWaitMilliseconds)
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
        harness.advanceClock(milliseconds: Audiences.usualChannelWaitMilliseconds)
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
