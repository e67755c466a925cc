import APNsSimulator
import RedisTestbed
import Testbed
import Testing

@testable import CausewayWorker

/// Several keepers that change the channels of one register at the same time.
@Suite(.ownThread) struct ChannelKeeperTests {
    private static let audience = "final"
    private static let appEnvironment = ChannelKeeperFixture.appEnvironment

    // MARK: - Publishing

    /// The first worker has read the register, and waits for APNs to delete another channel. Meanwhile a start cancels
    /// the planned deletion. If the topic kept the plan, it would return after a loss of Redis.
    @Test func `A worker does not publish a plan that another worker has cancelled since it read the register`()
        async throws
    {
        try await ChannelKeeperFixture.run { fixture in
            let (worker, otherWorker) = (try await fixture.makeKeeper(), try await fixture.makeKeeper())
            let dueEntry = try await worker.create("a-semifinal", Self.appEnvironment)
            let entry = try await worker.create(Self.audience, Self.appEnvironment)
            try await worker.change(dueEntry) { $0.deleteAfterMilliseconds = 1 }
            try await worker.change(entry) { ($0.deleteAfterMilliseconds, $0.isPublished) = (.max, nil) }

            try await fixture.delayNextResponse(milliseconds: 3_000)
            async let maintenance: Void = worker.maintain(worker.managedEnvironment)
            try await eventuallyInTask("a deletion at APNs") {
                try await fixture.channelsAtAPNs() == [entry.channel]
            }
            let activeEntry = try await otherWorker.create(Self.audience, Self.appEnvironment)
            #expect(activeEntry.deleteAfterMilliseconds == nil)
            try await maintenance
            #expect(try await fixture.entry(of: Self.audience, by: worker) == activeEntry)
            let publishedEntry = try fixture.publishedEntry(of: Self.audience)
            #expect(publishedEntry?.topicValue == activeEntry.topicValue)
        }
    }

    @Test func `An entry that is published after another worker's newer one is published again, and not announced`()
        async throws
    {
        try await ChannelKeeperFixture.run { fixture in
            let worker = try await fixture.makeKeeper()
            let entry = try await worker.create(Self.audience, Self.appEnvironment)
            var oldEntry = entry
            (oldEntry.channel, oldEntry.isPublished) = ("b2xkLWNoYW5uZWw=", nil)
            _ = try await worker.publishAndAnnounce(oldEntry)
            #expect(try fixture.announcedChannel(of: Self.audience) == entry.audienceRecordValue)
            try await worker.maintain(worker.managedEnvironment)
            #expect(try fixture.publishedEntry(of: Self.audience)?.channel == entry.channel)
        }
    }

    // MARK: - Deleting

    /// Two workers complete a deletion that a third one has begun. The second one is done, and the audience has a new
    /// channel, when the first one gets APNs' response.
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
            _ = try await deletion
            #expect(try await fixture.entry(of: Self.audience, by: worker).channel == newEntry.channel)
            // The first worker's record about the former channel may be the newest in the topic, so the present entry is
            // published again.
            try await worker.maintain(worker.managedEnvironment)
            #expect(try fixture.publishedEntry(of: Self.audience)?.channel == newEntry.channel)
            #expect(try await fixture.channelsAtAPNs() == [newEntry.channel])
        }
    }

    // MARK: - Entries that cannot be read

    @Test func `No channel is created for an audience whose entry cannot be read`() async throws {
        try await ChannelKeeperFixture.run { fixture in
            let worker = try await fixture.makeKeeper()
            fixture.server.command("HSET", ChannelKeeperFixture.registerKey, "a:\(Self.audience)", "?")
            let error = await #expect(throws: ChannelRefusal.self) {
                try await worker.create(Self.audience, Self.appEnvironment)
            }
            let text = error?.text ?? ""
            #expect(text.contains("a:final") && text.contains("cannot be read"), "\(text)")
            #expect(try await fixture.simulator.statistics().managementRequests == 0)
            // The others get their channels.
            _ = try await worker.create("semifinal", Self.appEnvironment)
        }
    }

    /// An old intent is left, so a listed channel that no entry names would count as left behind.
    @Test func `A comparison with APNs' list deletes nothing while an entry cannot be read`() async throws {
        try await ChannelKeeperFixture.run { fixture in
            let worker = try await fixture.makeKeeper()
            let entry = try await worker.create(Self.audience, Self.appEnvironment)
            let intent = ChannelCreationIntent(identifier: "1", audience: "x", createdAtMilliseconds: 1, worker: "")
            let intentText = String(decoding: intent.json, as: UTF8.self)
            fixture.server.command(
                "HSET",
                ChannelKeeperFixture.registerKey,
                "a:\(Self.audience)",
                "?",
                "i:1",
                intentText
            )
            await #expect(throws: ChannelRefusal.self) {
                try await worker.reconcile(Self.appEnvironment, deletesUnknown: true)
            }
            #expect(try await fixture.channelsAtAPNs() == [entry.channel])
        }
    }

    // MARK: - Planning

    /// The request to plan the deletion may come after the request of a newer start. That one found no plan to cancel.
    @Test(arguments: AudienceAdmitter.Command.allCases)
    func `A deletion is planned only if no newer start was admitted`(command: AudienceAdmitter.Command)
        async throws
    {
        try await ChannelKeeperFixture.run { fixture in
            let worker = try await fixture.makeKeeper()
            _ = try await worker.create(Self.audience, Self.appEnvironment)
            try fixture.admit(command, to: Self.audience)
            try await worker.planDeletionAfterEnd(
                of: Self.audience,
                at: worker.managedEnvironment,
                storedUntilWallMilliseconds: 0
            )
            let isPlanned = try await fixture.entry(of: Self.audience, by: worker).deleteAfterMilliseconds != nil
            #expect(isPlanned == (command == .end))
        }
    }

    /// A start's request may have found the new channel before its deletion was planned.
    @Test(arguments: AudienceAdmitter.Command.allCases)
    func `A new channel takes over a planned deletion only if no newer start was admitted`(
        command: AudienceAdmitter.Command
    ) async throws {
        try await ChannelKeeperFixture.run { fixture in
            let worker = try await fixture.makeKeeper()
            let entry = try await worker.create(Self.audience, Self.appEnvironment)
            try await worker.change(entry) { $0.deleteAfterMilliseconds = .max }
            try fixture.admit(command, to: Self.audience)
            let successor = try await worker.replace(entry.channel, of: Self.audience, at: worker.managedEnvironment)
            #expect(successor.channel != entry.channel)
            let isPlanned = try await fixture.entry(of: Self.audience, by: worker).deleteAfterMilliseconds == .max
            #expect(isPlanned == (command == .end))
        }
    }
}
