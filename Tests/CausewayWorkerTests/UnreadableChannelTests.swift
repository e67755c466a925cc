import APNsSimulator
import RedisTestbed
import Testbed
import Testing

@testable import CausewayWorker

/// An entry of the registry or a record of the topic may be unreadable for this release. Only its audience is affected.
@Suite(.ownThread) struct UnreadableChannelTests {
    private static let audience = "final"
    private static let appEnvironment = ChannelKeeperFixture.appEnvironment

    @Test func `No channel is created for an audience whose entry cannot be read`() async throws {
        try await ChannelKeeperFixture.run { fixture in
            let worker = try await fixture.makeKeeper()
            fixture.setEntry(of: Self.audience, to: "?")
            let error = await #expect(throws: ChannelFailure.self) {
                try await worker.create(Self.audience, Self.appEnvironment)
            }
            let reason = error?.reason ?? ""
            #expect(reason.contains("a:final") && reason.contains("cannot be read"), "\(reason)")
            #expect(try await fixture.simulator.statistics().managementRequestCount == 0)
            // Other audiences still get their channels.
            _ = try await worker.create("semifinal", Self.appEnvironment)
        }
    }

    /// The newest record of one audience cannot be read. An older record is no substitute: it may name a channel that
    /// was deleted or replaced since. (R32)
    @Test func `After a loss of Redis, only the audience whose record cannot be read gets no channel`() async throws {
        try await ChannelKeeperFixture.run { fixture in
            let worker = try await fixture.makeKeeper()
            _ = try await worker.create(Self.audience, Self.appEnvironment)
            let otherEntry = try await worker.create("other", Self.appEnvironment)
            try fixture.publishUnreadable("?", for: Self.audience)
            fixture.server.command("FLUSHALL")
            let error = await #expect(throws: ChannelFailure.self) {
                try await worker.create(Self.audience, Self.appEnvironment)
            }
            #expect(
                error?.reason.contains("\(Self.appEnvironment.app)/production/final") == true,
                "\(String(describing: error))"
            )
            #expect(try await worker.create("other", Self.appEnvironment) == otherEntry)
            _ = try await worker.create("semifinal", Self.appEnvironment)
            #expect(try await worker.delete("other", Self.appEnvironment) == otherEntry)
        }
    }

    /// A newer release's record has a state that this release does not know.
    @Test func `A record that a newer release can read is kept for it, byte by byte`() async throws {
        try await ChannelKeeperFixture.run { fixture in
            let worker = try await fixture.makeKeeper()
            let entry = try await worker.create(Self.audience, Self.appEnvironment)
            let newerText = String(decoding: entry.recordValue, as: UTF8.self)
                .replacing(#""state":"active""#, with: #""state":"paused""#)
            try fixture.publishUnreadable(newerText, for: Self.audience)
            fixture.server.command("FLUSHALL")
            let content = try await worker.readRegistry(Self.appEnvironment)
            #expect(content.isComplete && content.entries.isEmpty)
            #expect(content.unreadableEntries == [.init(audience: Self.audience, channel: entry.channel)])
            let values = fixture.server.command("HGET", ChannelKeeperFixture.registryKey, "a:\(Self.audience)")
            #expect(values == [newerText])
        }
    }

    /// A newer release may have written the note that the tombstone is missing. The note's field names the audience.
    @Test func `A missing tombstone whose note cannot be read is written`() async throws {
        try await ChannelKeeperFixture.run { fixture in
            let worker = try await fixture.makeKeeper()
            let entry = try await worker.create(Self.audience, Self.appEnvironment)
            _ = try await worker.delete(Self.audience, Self.appEnvironment)
            try fixture.topic.publish(entry)
            fixture.server.command("HSET", ChannelKeeperFixture.registryKey, "d:\(Self.audience)", "?")
            try await worker.doPeriodicWork(for: worker.managedEnvironment)
            #expect(try fixture.publishedEntry(of: Self.audience) == nil)
            let fields = fixture.server.command("HKEYS", ChannelKeeperFixture.registryKey)
            #expect(!fields.contains("d:\(Self.audience)"), "\(fields)")
        }
    }

    // MARK: - Comparisons with APNs' list

    /// The registry has the old intent of an interrupted creation. A comparison deletes each listed channel that no
    /// entry names, because this creation may have made it.
    @Test(arguments: [true, false])
    func `A comparison does not delete the channel of an entry that cannot be read`(isChannelReadable: Bool)
        async throws
    {
        try await ChannelKeeperFixture.run { fixture in
            let worker = try await fixture.makeKeeper()
            let entry = try await worker.create(Self.audience, Self.appEnvironment)
            let dueEntry = try await worker.create("semifinal", Self.appEnvironment)
            try await worker.change(dueEntry) { $0.deletionDueWallMilliseconds = 1 }
            let intent = ChannelCreationIntent(identifier: "1", audience: "x", createdAtWallMilliseconds: 1, worker: "")
            let intentText = String(decoding: intent.json, as: UTF8.self)
            fixture.server.command("HSET", ChannelKeeperFixture.registryKey, "i:1", intentText)
            fixture.setEntry(of: Self.audience, to: isChannelReadable ? #"{"channel":"\#(entry.channel)"}"# : "?")
            let reconciliation = try await worker.reconcile(Self.appEnvironment, deletesUnknownChannels: true)
            #expect(reconciliation.hasUnreadableChannel == !isChannelReadable)
            // The deletion of the other channel was due.
            #expect(try await fixture.channelsAtAPNs() == [entry.channel])
            let content = try await worker.readRegistry(Self.appEnvironment)
            #expect(content.intents == (isChannelReadable ? [] : [intent]))
        }
    }

    /// The entry of the first audience cannot be read for a while. During this time, a channel is created for a second
    /// audience. The worker then records the first audience's channel as foreign: as the channel of another program.
    @Test func `A channel that was recorded as foreign is ours again when its entry can be read`() async throws {
        try await ChannelKeeperFixture.run { fixture in
            let worker = try await fixture.makeKeeper()
            let entry = try await worker.create(Self.audience, Self.appEnvironment)
            fixture.setEntry(of: Self.audience, to: "?")
            fixture.forgetRecordedList()
            _ = try await worker.create("semifinal", Self.appEnvironment)
            fixture.setEntry(of: Self.audience, to: String(decoding: entry.json, as: UTF8.self))
            _ = try await worker.reconcile(Self.appEnvironment, deletesUnknownChannels: true)
            #expect(try await fixture.channelsAtAPNs().contains(entry.channel))
            #expect(try await worker.readRegistry(Self.appEnvironment).foreignChannels.isEmpty)
        }
    }

    @Test func `A creation does not record the channel of an unreadable entry as foreign if it can be read`()
        async throws
    {
        try await ChannelKeeperFixture.run { fixture in
            let worker = try await fixture.makeKeeper()
            let entry = try await worker.create(Self.audience, Self.appEnvironment)
            fixture.setEntry(of: Self.audience, to: #"{"channel":"\#(entry.channel)"}"#)
            fixture.forgetRecordedList()
            _ = try await worker.create("semifinal", Self.appEnvironment)
            #expect(try await worker.readRegistry(Self.appEnvironment).foreignChannels.isEmpty)
        }
    }

    /// A newer release may have written the intent. APNs has the channel, but nothing else knows it.
    @Test func `A channel whose intent cannot be read is neither foreign nor deleted until the intent can be read`()
        async throws
    {
        try await ChannelKeeperFixture.run { fixture in
            let worker = try await fixture.makeKeeper()
            let orphan = try await worker.createUnrecordedChannel()
            let key = ChannelKeeperFixture.registryKey
            fixture.server.command("HSET", key, "i:1", "?")
            let entry = try await worker.create(Self.audience, Self.appEnvironment)
            let reconciliation = try await worker.reconcile(Self.appEnvironment, deletesUnknownChannels: false)
            #expect(reconciliation.mayHaveCreationUnderWay && reconciliation.channelsToDelete.isEmpty)
            #expect(try await worker.readRegistry(Self.appEnvironment).foreignChannels.isEmpty)
            let intent = ChannelCreationIntent(identifier: "1", audience: "x", createdAtWallMilliseconds: 1, worker: "")
            fixture.server.command("HSET", key, "i:1", String(decoding: intent.json, as: UTF8.self))
            #expect(
                try await worker.reconcile(Self.appEnvironment, deletesUnknownChannels: false).channelsToDelete == [
                    orphan
                ]
            )
            #expect(try await fixture.channelsAtAPNs() == [entry.channel])
        }
    }
}
