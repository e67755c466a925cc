import APNsSimulator
import RedisTestbed
import Testbed
import Testing

@testable import CausewayWorker

/// Several keepers that change the channels of one registry at the same time.
@Suite(.ownThread) struct ChannelKeeperTests {
    private static let audience = "final"
    private static let appEnvironment = ChannelKeeperFixture.appEnvironment

    // MARK: - Publishing

    /// A worker has read a planned deletion, and publishes it. Meanwhile a start cancels the plan. If the topic kept
    /// the plan, the plan would return after a loss of Redis.
    @Test func `A worker does not publish a plan that another worker has cancelled since it read the registry`()
        async throws
    {
        try await ChannelKeeperFixture.run { fixture in
            let (worker, otherWorker) = (try await fixture.makeKeeper(), try await fixture.makeKeeper())
            let entry = try await worker.create(Self.audience, Self.appEnvironment)
            let plannedEntry = try await worker.change(entry) {
                ($0.deletionDueWallMilliseconds, $0.isPublished) = (.max, nil)
            }
            let activeEntry = try await otherWorker.create(Self.audience, Self.appEnvironment)
            #expect(activeEntry.deletionDueWallMilliseconds == nil)
            try await worker.publishAndWriteToAudienceHashIfUnchanged(plannedEntry)
            #expect(try await fixture.entry(of: Self.audience, by: worker) == activeEntry)
            let publishedEntry = try fixture.publishedEntry(of: Self.audience)
            #expect(publishedEntry?.recordValue == activeEntry.recordValue)
        }
    }

    /// Two workers publish entries of one audience: first the newer entry, then the older one.
    ///
    /// - Parameter isPublished: what the registry says when the older entry reaches the topic. true: the newer entry is
    ///   published. nil: nothing yet; the registry is told only afterwards.
    @Test(arguments: [true, nil])
    func `An older entry that reaches the topic after a newer one is replaced there and in the hash`(
        isPublished: Bool?
    ) async throws {
        try await ChannelKeeperFixture.run { fixture in
            let worker = try await fixture.makeKeeper()
            let entry = try await worker.create(Self.audience, Self.appEnvironment)
            let currentEntry = isPublished == true ? entry : try await worker.change(entry) { $0.isPublished = nil }
            let olderEntry = Self.makeOlderEntry(of: entry, isPublished: nil)
            #expect(try await worker.publishAndWriteToAudienceHash(olderEntry) == nil)
            // If `isPublished` is nil, the newer entry is noted as published only now.
            try await worker.notePublishedIfUnchanged(currentEntry)
            #expect(try fixture.channelInAudienceHash(of: Self.audience) == entry.channelFieldValue)
            #expect(try fixture.publishedEntry(of: Self.audience)?.channel == entry.channel)
            #expect(try await fixture.entry(of: Self.audience, by: worker).isPublished == true)
        }
    }

    @Test func `An entry that reaches the topic after its channel's deletion is removed there and from the hash`()
        async throws
    {
        try await ChannelKeeperFixture.run { fixture in
            let worker = try await fixture.makeKeeper()
            let entry = try await worker.create(Self.audience, Self.appEnvironment)
            _ = try await worker.delete(Self.audience, Self.appEnvironment)
            #expect(
                try await worker.publishAndWriteToAudienceHash(Self.makeOlderEntry(of: entry, isPublished: nil)) == nil
            )
            #expect(try fixture.publishedEntry(of: Self.audience) == nil)
            #expect(try fixture.channelInAudienceHash(of: Self.audience) == nil)
        }
    }

    /// Without the registry, only the topic says which channel the audience has.
    @Test func `An entry that is published when Redis has lost the registry stays in the topic`() async throws {
        try await ChannelKeeperFixture.run { fixture in
            let worker = try await fixture.makeKeeper()
            let entry = try await worker.create(Self.audience, Self.appEnvironment)
            fixture.server.command("FLUSHALL")
            #expect(
                try await worker.publishAndWriteToAudienceHash(Self.makeOlderEntry(of: entry, isPublished: nil)) == nil
            )
            #expect(try fixture.publishedEntry(of: Self.audience) != nil)
        }
    }

    // MARK: - The channel in the audience's hash

    /// Another worker has replaced or deleted the channel since this worker read the entry.
    @Test(arguments: [true, false])
    func `An entry that is written late leaves the present channel in the audience's hash`(isDeleted: Bool)
        async throws
    {
        try await ChannelKeeperFixture.run { fixture in
            let worker = try await fixture.makeKeeper()
            let entry = try await worker.create(Self.audience, Self.appEnvironment)
            if isDeleted { _ = try await worker.delete(Self.audience, Self.appEnvironment) }
            let olderEntry = Self.makeOlderEntry(of: entry, isPublished: true)
            #expect(try await worker.publishAndWriteToAudienceHash(olderEntry) == nil)
            let channelInAudienceHash = try fixture.channelInAudienceHash(of: Self.audience)
            #expect(channelInAudienceHash == (isDeleted ? nil : entry.channelFieldValue))
        }
    }

    @Test func `A newer channel stays in the audience's hash when a former one is removed late`() async throws {
        try await ChannelKeeperFixture.run { fixture in
            let worker = try await fixture.makeKeeper()
            let entry = try await worker.create(Self.audience, Self.appEnvironment)
            let olderEntry = Self.makeOlderEntry(of: entry, isPublished: true)
            try await worker.removeChannelFromAudienceHash(of: olderEntry)
            #expect(try fixture.channelInAudienceHash(of: Self.audience) == entry.channelFieldValue)
            try await worker.removeChannelFromAudienceHash(of: entry)
            #expect(try fixture.channelInAudienceHash(of: Self.audience) == nil)
        }
    }

    /// The hash expires 25 hours after its last change, and no request writes a published channel again.
    @Test func `The periodic work writes the channel of an audience without commands to its hash again`() async throws {
        try await ChannelKeeperFixture.run { fixture in
            let worker = try await fixture.makeKeeper()
            let entry = try await worker.create(Self.audience, Self.appEnvironment)
            try fixture.expireAudienceHash(of: Self.audience)
            fixture.preventDailyReconciliation()
            try await worker.doPeriodicWork(for: worker.managedEnvironment)
            #expect(try fixture.channelInAudienceHash(of: Self.audience) == entry.channelFieldValue)
        }
    }

    /// The entry of a channel that the audience had before.
    private static func makeOlderEntry(of entry: ChannelEntry, isPublished: Bool?) -> ChannelEntry {
        var olderEntry = entry
        (olderEntry.channel, olderEntry.isPublished) = ("b2xkLWNoYW5uZWw=", isPublished)
        olderEntry.createdAtWallMilliseconds -= 1
        return olderEntry
    }

    // MARK: - Deleting

    /// A deletion has begun, and two workers complete it. APNs responds late to the first worker. By then, the second
    /// worker has completed the deletion and created a new channel for the audience.
    @Test func `A slow deletion leaves the channel that the audience has got meanwhile`() async throws {
        try await ChannelKeeperFixture.run { fixture in
            let (worker, otherWorker) = (try await fixture.makeKeeper(), try await fixture.makeKeeper())
            let entry = try await worker.create(Self.audience, Self.appEnvironment)
            let deletingEntry = try await worker.change(entry) { $0.state = .deleting }
            try await fixture.delayNextResponse(milliseconds: 3_000)
            async let deletion = worker.delete(deletingEntry, at: worker.managedEnvironment)
            try await eventuallyInTask("a deletion at APNs") { try await fixture.channelsAtAPNs().isEmpty }
            let newEntry = try await otherWorker.create(Self.audience, Self.appEnvironment)
            #expect(newEntry.channel != entry.channel)
            // The first worker's record about the former channel reaches the topic only now.
            try fixture.topic.publish(deletingEntry)
            _ = try await deletion
            #expect(try await fixture.entry(of: Self.audience, by: worker).channel == newEntry.channel)
            #expect(try fixture.publishedEntry(of: Self.audience)?.channel == newEntry.channel)
            #expect(try await fixture.channelsAtAPNs() == [newEntry.channel])
        }
    }

    // MARK: - Planning

    /// An end requests a planned deletion, and a newer start cancels it. If the start's request comes first, it finds
    /// no plan to cancel. So the later request must not make the plan.
    @Test(arguments: AudienceAdmitter.Command.allCases)
    func `A deletion is planned only if no newer start was admitted`(command: AudienceAdmitter.Command)
        async throws
    {
        try await ChannelKeeperFixture.run { fixture in
            let worker = try await fixture.makeKeeper()
            let entry = try await worker.create(Self.audience, Self.appEnvironment)
            try fixture.admit(command, to: Self.audience)
            try await worker.planDeletionAfterEnd(
                of: Self.audience,
                at: worker.managedEnvironment,
                storedUntilWallMilliseconds: 0
            )
            let currentEntry = try await fixture.entry(of: Self.audience, by: worker)
            #expect((currentEntry.deletionDueWallMilliseconds != nil) == (command == .end))
            // After a start, the keeper must write no plan at all, not even one that it cancels at once. If the worker
            // died between the two writes, the plan would stay.
            if command == .start { #expect(currentEntry == entry) }
        }
    }

    /// The worker that planned the deletion may have died before it noticed the start.
    @Test(arguments: AudienceAdmitter.Command.allCases)
    func `A channel whose deletion is due is deleted only if no newer start was admitted`(
        command: AudienceAdmitter.Command
    ) async throws {
        try await ChannelKeeperFixture.run { fixture in
            let worker = try await fixture.makeKeeper()
            let entry = try await worker.create(Self.audience, Self.appEnvironment)
            try await worker.change(entry) { ($0.deletionDueWallMilliseconds, $0.isPublished) = (1, nil) }
            try fixture.admit(command, to: Self.audience)
            try await worker.doPeriodicWork(for: worker.managedEnvironment)
            let entries = try await worker.readEntries(Self.appEnvironment)
            #expect(entries == (command == .start ? [entry] : []))
            #expect(try await fixture.channelsAtAPNs() == entries.map(\.channel))
        }
    }

    /// A start's request may find the new channel before its deletion is planned, so the request has no plan to cancel.
    /// The keeper must therefore ask Redis whether a start was admitted.
    @Test(arguments: AudienceAdmitter.Command.allCases)
    func `A new channel takes over a planned deletion only if no newer start was admitted`(
        command: AudienceAdmitter.Command
    ) async throws {
        try await ChannelKeeperFixture.run { fixture in
            let worker = try await fixture.makeKeeper()
            let entry = try await worker.create(Self.audience, Self.appEnvironment)
            try await worker.change(entry) { $0.deletionDueWallMilliseconds = .max }
            try fixture.admit(command, to: Self.audience)
            try await fixture.deleteAtAPNs(entry.channel)
            let successor = try await worker.replace(entry.channel, of: Self.audience, at: worker.managedEnvironment)
            #expect(successor.channel != entry.channel)
            let currentEntry = try await fixture.entry(of: Self.audience, by: worker)
            #expect(currentEntry.deletionDueWallMilliseconds == (command == .end ? .max : nil))
            // The new entry has the plan from the beginning. If the keeper wrote the plan in a second step and died
            // before it, the channel would stay without a plan.
            #expect(try fixture.publishedEntry(of: Self.audience)?.recordValue == currentEntry.recordValue)
        }
    }

    // MARK: - Replacing

    /// APNs has refused one broadcast with ChannelNotRegistered. The phones of a channel that is replaced by mistake
    /// would get nothing more.
    @Test func `A channel that APNs still has is not replaced`() async throws {
        try await ChannelKeeperFixture.run { fixture in
            let worker = try await fixture.makeKeeper()
            let entry = try await worker.create(Self.audience, Self.appEnvironment)
            let failure = await #expect(throws: ChannelFailure.self) {
                try await worker.replace(entry.channel, of: Self.audience, at: worker.managedEnvironment)
            }
            #expect(failure?.isTransient == true)
            #expect(try await fixture.channelsAtAPNs() == [entry.channel])
            #expect(try await fixture.entry(of: Self.audience, by: worker) == entry)
            // The refusal causes no pause. A real loss is repaired at once.
            try await fixture.deleteAtAPNs(entry.channel)
            let successor = try await worker.replace(entry.channel, of: Self.audience, at: worker.managedEnvironment)
            #expect(try await fixture.channelsAtAPNs() == [successor.channel])
        }
    }

    @Test func `A comparison replaces no channel that APNs still has, although its list lacks the channel`()
        async throws
    {
        try await ChannelKeeperFixture.run { fixture in
            let worker = try await fixture.makeKeeper()
            let entry = try await worker.create(Self.audience, Self.appEnvironment)
            let content = try await worker.readRegistry(Self.appEnvironment)
            let reconciliation = Reconciliation(content, listedChannels: [], listedAtWallMilliseconds: .max)
            try #require(reconciliation.lostEntries == [entry])
            _ = try await worker.carryOut(reconciliation, content: content, at: worker.managedEnvironment)
            #expect(try await fixture.entry(of: Self.audience, by: worker) == entry)
            #expect(try await fixture.channelsAtAPNs() == [entry.channel])
        }
    }

    /// An id that APNs calls invalid cannot be deleted at APNs either. The deletion must not fail forever.
    @Test func `A channel with an invalid id does not exist, and is deleted from the registry`() async throws {
        try await ChannelKeeperFixture.run { fixture in
            let worker = try await fixture.makeKeeper()
            let entry = try await worker.create(Self.audience, Self.appEnvironment)
            let invalidEntry = try await worker.change(entry) { $0.channel = "invalid id" }
            #expect(try await worker.existsAtAPNs("invalid id", at: worker.managedEnvironment) == false)
            #expect(try await worker.delete(invalidEntry, at: worker.managedEnvironment))
            #expect(try await worker.readEntries(Self.appEnvironment).isEmpty)
        }
    }

    // MARK: - Channels of other programs

    /// Another program has deleted one of its channels.
    @Test func `A comparison forgets a foreign channel that no longer exists`() async throws {
        try await ChannelKeeperFixture.run { fixture in
            let worker = try await fixture.makeKeeper()
            let channels = [try await worker.createUnrecordedChannel(), try await worker.createUnrecordedChannel()]
            _ = try await worker.reconcile(Self.appEnvironment, deletesUnknownChannels: false)
            #expect(try await worker.readRegistry(Self.appEnvironment).foreignChannels == Set(channels))
            try await fixture.deleteAtAPNs(channels[0])
            _ = try await worker.reconcile(Self.appEnvironment, deletesUnknownChannels: false)
            #expect(try await worker.readRegistry(Self.appEnvironment).foreignChannels == [channels[1]])
        }
    }

    /// Another program's channel is gone, and so is one of an audience. Redis refuses to remove fields, so the keeper
    /// can forget no foreign channel.
    @Test func `A lost channel is replaced even if a foreign channel cannot be forgotten`() async throws {
        try await ChannelKeeperFixture.run { fixture in
            let worker = try await fixture.makeKeeper()
            let foreignChannel = try await worker.createUnrecordedChannel()
            _ = try await worker.reconcile(Self.appEnvironment, deletesUnknownChannels: false)
            let entry = try await worker.create(Self.audience, Self.appEnvironment)
            for channel in [foreignChannel, entry.channel] { try await fixture.deleteAtAPNs(channel) }
            let content = try await worker.readRegistry(Self.appEnvironment)
            let reconciliation = Reconciliation(content, listedChannels: [], listedAtWallMilliseconds: .max)
            try #require(reconciliation.missingForeignChannels == [foreignChannel])
            fixture.server.command("ACL", "SETUSER", "default", "-hdel")
            // The creation of the new channel cannot remove its intent either, and throws an error for this reason.
            _ = try? await worker.carryOut(reconciliation, content: content, at: worker.managedEnvironment)
            #expect(try await fixture.entry(of: Self.audience, by: worker).channel != entry.channel)
        }
    }

    /// APNs responds late to the list before the creation, and with 503 to the creation.
    @Test func `A creation that APNs refuses with 503 costs no channel of another program`() async throws {
        try await ChannelKeeperFixture.run { fixture in
            let worker = try await fixture.makeKeeper()
            let requestCount = try await fixture.simulator.statistics().managementRequestCount
            try await fixture.delayNextResponse(milliseconds: 3_000)
            let creation = Task { try await worker.create(Self.audience, Self.appEnvironment) }
            try await eventuallyInTask("a list of channels") {
                try await fixture.simulator.statistics().managementRequestCount > requestCount
            }
            try await fixture.makeManagementUnavailable()
            await #expect(throws: ChannelFailure.self) { try await creation.value }
            try await fixture.makeManagementAvailable()
            #expect(try await worker.readRegistry(Self.appEnvironment).intents.isEmpty)
            let foreignChannel = try await worker.createUnrecordedChannel()
            _ = try await worker.reconcile(Self.appEnvironment, deletesUnknownChannels: false)
            #expect(try await fixture.channelsAtAPNs() == [foreignChannel])
        }
    }

    // MARK: - Stopping

    /// Another process creates the audience's channel, and does not finish.
    @Test func `A cancelled request for a channel does not ask Redis again and again`() async throws {
        try await ChannelKeeperFixture.run { fixture in
            let worker = try await fixture.makeKeeper()
            fixture.beginCreationByOtherProcess(of: Self.audience)
            fixture.server.command("CONFIG", "RESETSTAT")
            let creation = Task { try await worker.create(Self.audience, Self.appEnvironment) }
            creation.cancel()
            await #expect(throws: ChannelFailure.self) { try await creation.value }
            let commandCount = try #require(fixture.processedCommandCount())
            #expect(commandCount < 1_000)
        }
    }
}
