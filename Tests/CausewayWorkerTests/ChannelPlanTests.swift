import APNsSimulator
import Foundation
import RedisTestbed
import Testbed
import Testing

@testable import CausewayWorker

/// Each channel of an ended audience gets a planned deletion, and the plan is kept, even if a worker or APNs fails.
@Suite(.ownThread) struct ChannelPlanTests {
    private static let audience = "final"
    private static let appEnvironment = ChannelKeeperFixture.appEnvironment

    // MARK: - Replacements

    /// Redis forgets an ended audience after about a day. From then on, only the channel's entry says that the channel
    /// must be deleted.
    @Test func `A planned deletion outlives a replacement that APNs refuses`() async throws {
        try await ChannelKeeperFixture.run { fixture in
            let (worker, otherWorker) = (try await fixture.makeKeeper(), try await fixture.makeKeeper())
            let entry = try await worker.create(Self.audience, Self.appEnvironment)
            try await worker.change(entry) { $0.deletionDueWallMilliseconds = .max }
            try await fixture.deleteAtAPNs(entry.channel)
            try await fixture.makeManagementUnavailable()
            await #expect(throws: ChannelFailure.self) {
                try await worker.replace(entry.channel, of: Self.audience, at: worker.managedEnvironment)
            }
            try await fixture.makeManagementAvailable()
            // The worker that got the refusal makes a pause. The other worker has not got it, so it tries at once.
            let successor = try await otherWorker.replace(
                entry.channel,
                of: Self.audience,
                at: otherWorker.managedEnvironment
            )
            #expect(successor.channel != entry.channel && successor.deletionDueWallMilliseconds == .max)
            #expect(try await fixture.entry(of: Self.audience, by: worker) == successor)
        }
    }

    /// Two lanes have noticed the loss. The request of the second lane comes when the channel is already replaced.
    @Test func `A late request to replace a lost channel does not cancel the planned deletion`() async throws {
        try await ChannelKeeperFixture.run { fixture in
            let worker = try await fixture.makeKeeper()
            let entry = try await worker.create(Self.audience, Self.appEnvironment)
            try await worker.change(entry) { $0.deletionDueWallMilliseconds = .max }
            try await fixture.deleteAtAPNs(entry.channel)
            let successor = try await worker.replace(entry.channel, of: Self.audience, at: worker.managedEnvironment)
            let currentEntry = try await worker.replace(entry.channel, of: Self.audience, at: worker.managedEnvironment)
            #expect(currentEntry == successor && currentEntry.deletionDueWallMilliseconds == .max)
        }
    }

    /// When another worker plans the deletion, the registry still has the entry of the lost channel.
    @Test func `A deletion that is planned while a lost channel is replaced applies to the new channel`() async throws {
        try await ChannelKeeperFixture.run { fixture in
            let (worker, otherWorker) = (try await fixture.makeKeeper(), try await fixture.makeKeeper())
            let entry = try await worker.create(Self.audience, Self.appEnvironment)
            try await fixture.deleteAtAPNs(entry.channel)
            try await fixture.delayNextResponse(milliseconds: 4_000)
            async let replacement = worker.replace(
                entry.channel,
                of: Self.audience,
                at: worker.managedEnvironment
            )
            try await eventuallyInTask("a lease for the creation") { fixture.isChannelBeingCreated(Self.audience) }
            try await otherWorker.planDeletionUnlessStarted(
                of: Self.audience,
                at: otherWorker.managedEnvironment,
                dueWallMilliseconds: .max
            )
            let successor = try await replacement
            #expect(successor.channel != entry.channel)
            let currentEntry = try await fixture.entry(of: Self.audience, by: worker)
            #expect(currentEntry.channel == successor.channel && currentEntry.deletionDueWallMilliseconds == .max)
            #expect(try await fixture.channelsAtAPNs() == [successor.channel])
        }
    }

    /// When APNs has created the new channel, the registry has no entry that says that the deletion is planned.
    @Test func `A replacement takes over the plan of a lost channel that another worker has deleted meanwhile`()
        async throws
    {
        try await ChannelKeeperFixture.run { fixture in
            let (worker, otherWorker) = (try await fixture.makeKeeper(), try await fixture.makeKeeper())
            let entry = try await worker.create(Self.audience, Self.appEnvironment)
            let plannedEntry = try await worker.change(entry) { $0.deletionDueWallMilliseconds = .max }
            try await fixture.deleteAtAPNs(entry.channel)
            let requestCount = try await fixture.simulator.statistics().managementRequestCount
            try await fixture.delayNextResponse(milliseconds: 4_000)
            async let replacement = worker.replace(entry.channel, of: Self.audience, at: worker.managedEnvironment)
            try await eventuallyInTask("a request about the channel") {
                try await fixture.simulator.statistics().managementRequestCount > requestCount
            }
            let isDeleted = try await otherWorker.delete(plannedEntry, at: otherWorker.managedEnvironment)
            #expect(isDeleted, "the other worker came too late: the replacement already has an entry")
            let successor = try await replacement
            #expect(successor.channel != entry.channel && successor.deletionDueWallMilliseconds == .max)
        }
    }

    /// APNs' list lacks the channel. Another worker deletes it before the comparison comes to its entry.
    @Test func `A comparison does not replace a lost channel that another worker has deleted`() async throws {
        try await ChannelKeeperFixture.run { fixture in
            let (worker, otherWorker) = (try await fixture.makeKeeper(), try await fixture.makeKeeper())
            let managedEnvironment = await worker.managedEnvironment
            let entry = try await worker.create(Self.audience, Self.appEnvironment)
            let plannedEntry = try await worker.change(entry) { $0.deletionDueWallMilliseconds = .max }
            let content = try await worker.readRegistry(Self.appEnvironment)
            let reconciliation = Reconciliation(content, listedChannels: [], listedAtWallMilliseconds: .max)
            try #require(reconciliation.lostEntries == [plannedEntry])
            try await otherWorker.delete(plannedEntry, at: otherWorker.managedEnvironment)
            _ = try await worker.carryOut(reconciliation, content: content, at: managedEnvironment)
            #expect(try await fixture.channelsAtAPNs() == [])
        }
    }

    // MARK: - Ends

    /// The worker that admitted the end dies while it waits for the creation.
    @Test(arguments: [true, false])
    func `A channel whose audience ends while it is created gets a planned deletion`(isMadeByOperator: Bool)
        async throws
    {
        try await ChannelKeeperFixture.run { fixture in
            let worker = try await fixture.makeKeeper()
            let managedEnvironment = await worker.managedEnvironment
            try await fixture.delayNextResponse(milliseconds: 4_000)
            async let creation =
                isMadeByOperator
                ? worker.create(Self.audience, Self.appEnvironment)
                : worker.ensureChannel(of: Self.audience, at: managedEnvironment)
            try await eventuallyInTask("a lease for the creation") { fixture.isChannelBeingCreated(Self.audience) }
            try fixture.admit(.end, to: Self.audience)
            _ = try await creation
            let currentEntry = try await fixture.entry(of: Self.audience, by: worker)
            #expect(currentEntry.deletionDueWallMilliseconds != nil)
        }
    }

    /// The request of an earlier command comes after the end, because another worker was slow.
    @Test(arguments: [true, false])
    func `A late request of a command creates no channel that stays, and cancels no planned deletion`(
        hasChannel: Bool
    ) async throws {
        try await ChannelKeeperFixture.run { fixture in
            let worker = try await fixture.makeKeeper()
            let managedEnvironment = await worker.managedEnvironment
            if hasChannel {
                let entry = try await worker.create(Self.audience, Self.appEnvironment)
                try await worker.change(entry) { $0.deletionDueWallMilliseconds = .max }
            }
            try fixture.admit(.end, to: Self.audience)
            let entry = try await worker.ensureChannel(of: Self.audience, at: managedEnvironment)
            #expect(entry.deletionDueWallMilliseconds != nil)
            // A start needs the channel.
            try fixture.admit(.start, to: Self.audience)
            let activeEntry = try await worker.ensureChannel(of: Self.audience, at: managedEnvironment)
            #expect(activeEntry.channel == entry.channel && activeEntry.deletionDueWallMilliseconds == nil)
        }
    }

    /// Another worker has begun the deletion, and has noticed a start. The audience ends before this worker's decision.
    @Test func `An end plans the deletion of a channel that another worker keeps because of an earlier start`()
        async throws
    {
        try await ChannelKeeperFixture.run { fixture in
            let (worker, otherWorker) = (try await fixture.makeKeeper(), try await fixture.makeKeeper())
            let managedEnvironment = await worker.managedEnvironment
            let entry = try await worker.create(Self.audience, Self.appEnvironment)
            let deletingEntry = try await worker.change(entry) {
                ($0.deletionDueWallMilliseconds, $0.state) = (1, .deleting)
            }
            try fixture.admit(.end, to: Self.audience)
            fixture.server.command("CONFIG", "RESETSTAT")
            let planning = Task { try await Self.planDeletionAfterEnd(by: worker, at: managedEnvironment) }
            try await eventuallyInTask("a lookup of the entry") {
                fixture.server.command("INFO", "commandstats").contains { $0.contains("cmdstat_hmget") }
            }
            try await otherWorker.change(deletingEntry) { ($0.deletionDueWallMilliseconds, $0.state) = (nil, .active) }
            try await planning.value
            let currentEntry = try await fixture.entry(of: Self.audience, by: worker)
            #expect(currentEntry.state == .active && currentEntry.deletionDueWallMilliseconds != nil)
        }
    }

    /// In a cluster, the server with the audience's hash came back empty, and the server with the registry did not. The
    /// end waits for its channel.
    @Test func `An end brings the channel back into the audience's hash`() async throws {
        try await ChannelKeeperFixture.run { fixture in
            let worker = try await fixture.makeKeeper()
            let entry = try await worker.create(Self.audience, Self.appEnvironment)
            try fixture.expireAudienceHash(of: Self.audience)
            try fixture.admit(.end, to: Self.audience)
            try #require(try fixture.channelInAudienceHash(of: Self.audience) == nil)
            try await Self.planDeletionAfterEnd(by: worker, at: worker.managedEnvironment)
            #expect(try fixture.channelInAudienceHash(of: Self.audience) == entry.channelFieldValue)
        }
    }

    /// The worker that admitted the end has died before it planned the deletion.
    @Test func `The new channel of an ended audience gets the planned deletion that the lost one lacks`()
        async throws
    {
        try await ChannelKeeperFixture.run { fixture in
            let worker = try await fixture.makeKeeper()
            let entry = try await worker.create(Self.audience, Self.appEnvironment)
            try fixture.admit(.end, to: Self.audience)
            try await fixture.deleteAtAPNs(entry.channel)
            let successor = try await worker.replace(entry.channel, of: Self.audience, at: worker.managedEnvironment)
            #expect(successor.channel != entry.channel && successor.deletionDueWallMilliseconds != nil)
        }
    }

    /// An operator wants the channel although the audience has ended.
    @Test func `A channel that an operator creates after the end stays, and so does its successor`() async throws {
        try await ChannelKeeperFixture.run { fixture in
            let worker = try await fixture.makeKeeper()
            try fixture.admit(.end, to: Self.audience)
            // The channel must be newer than the end.
            let endedAt = Date()
            try await eventuallyInTask("the next millisecond") { Date().timeIntervalSince(endedAt) > 0.001 }
            let entry = try await worker.create(Self.audience, Self.appEnvironment)
            #expect(entry.deletionDueWallMilliseconds == nil)
            try await fixture.deleteAtAPNs(entry.channel)
            let successor = try await worker.replace(entry.channel, of: Self.audience, at: worker.managedEnvironment)
            #expect(successor.channel != entry.channel && successor.deletionDueWallMilliseconds == nil)
            // A worker reads the end again, for example after a crash.
            try await Self.planDeletionAfterEnd(by: worker, at: worker.managedEnvironment)
            #expect(try await fixture.entry(of: Self.audience, by: worker) == successor)
        }
    }

    /// The channel is older than the end. An operator cancels its planned deletion with `causeway channels create`.
    @Test func `A channel that an operator keeps after the end stays until the next end`() async throws {
        try await ChannelKeeperFixture.run { fixture in
            let worker = try await fixture.makeKeeper()
            let managedEnvironment = await worker.managedEnvironment
            _ = try await worker.create(Self.audience, Self.appEnvironment)
            try fixture.admit(.end, to: Self.audience)
            try await Self.planDeletionAfterEnd(by: worker, at: managedEnvironment)
            let entry = try await worker.create(Self.audience, Self.appEnvironment)
            #expect(entry.deletionDueWallMilliseconds == nil)
            _ = try await worker.reconcile(Self.appEnvironment, deletesUnknownChannels: false)
            // A worker reads the end again, for example after a crash.
            try await Self.planDeletionAfterEnd(by: worker, at: managedEnvironment)
            #expect(try await fixture.entry(of: Self.audience, by: worker) == entry)
            try fixture.admit(.start, to: Self.audience)
            try fixture.admit(.end, to: Self.audience)
            try await Self.planDeletionAfterEnd(by: worker, at: managedEnvironment)
            #expect(try await fixture.entry(of: Self.audience, by: worker).deletionDueWallMilliseconds != nil)
        }
    }

    private static func planDeletionAfterEnd(
        by worker: ChannelKeeper,
        at managedEnvironment: ChannelKeeper.ManagedEnvironment
    ) async throws {
        try await worker.planDeletionAfterEnd(of: audience, at: managedEnvironment, storedUntilWallMilliseconds: 0)
    }

    // MARK: - Starts

    /// The registry says that the deletion has begun, and its worker may have died. The channel is still in the
    /// audience's hash, so a start may have named it.
    ///
    /// - Parameter isRequested: whether the start's request finds the entry first, or the periodic work.
    @Test(arguments: [true, false])
    func `A channel that a start may have named is not deleted, although its deletion has begun`(isRequested: Bool)
        async throws
    {
        try await ChannelKeeperFixture.run { fixture in
            let worker = try await fixture.makeKeeper()
            let managedEnvironment = await worker.managedEnvironment
            let entry = try await worker.create(Self.audience, Self.appEnvironment)
            try await worker.change(entry) { ($0.deletionDueWallMilliseconds, $0.state) = (1, .deleting) }
            try fixture.admit(.start, to: Self.audience)
            if isRequested {
                _ = try await worker.ensureChannel(of: Self.audience, at: managedEnvironment)
            } else {
                try await worker.doPeriodicWork(for: managedEnvironment)
            }
            #expect(try await fixture.entry(of: Self.audience, by: worker) == entry)
            #expect(try await fixture.channelsAtAPNs() == [entry.channel])
            #expect(try fixture.channelInAudienceHash(of: Self.audience) == entry.channelFieldValue)
            #expect(try fixture.publishedEntry(of: Self.audience)?.recordValue == entry.recordValue)
        }
    }

    /// Another worker has removed the channel from the audience's hash, and has not decided yet, or has died. A start
    /// may have named the channel before.
    ///
    /// - Parameter isAtAPNs: false: a worker of an older release has deleted the channel at APNs. Such a worker keeps
    ///   the plan until the deletion ends.
    @Test(arguments: [true, false])
    func `A deletion that is not decided is cancelled by a start if APNs still has the channel`(isAtAPNs: Bool)
        async throws
    {
        try await ChannelKeeperFixture.run { fixture in
            let worker = try await fixture.makeKeeper()
            let entry = try await worker.create(Self.audience, Self.appEnvironment)
            try await worker.change(entry) { ($0.deletionDueWallMilliseconds, $0.state) = (1, .deleting) }
            try await worker.removeChannelFromAudienceHash(of: entry)
            if !isAtAPNs { try await fixture.deleteAtAPNs(entry.channel) }
            try fixture.admit(.start, to: Self.audience)
            try await worker.doPeriodicWork(for: worker.managedEnvironment)
            #expect(try await worker.readEntries(Self.appEnvironment) == (isAtAPNs ? [entry] : []))
            #expect(try await fixture.channelsAtAPNs() == (isAtAPNs ? [entry.channel] : []))
            let channelInAudienceHash = try fixture.channelInAudienceHash(of: Self.audience)
            #expect(channelInAudienceHash == (isAtAPNs ? entry.channelFieldValue : nil))
        }
    }

    /// The entry has no plan any more: another worker has decided, and APNs may have deleted the channel already.
    @Test func `A deletion that is decided is completed although the audience has been started`() async throws {
        try await ChannelKeeperFixture.run { fixture in
            let worker = try await fixture.makeKeeper()
            let entry = try await worker.create(Self.audience, Self.appEnvironment)
            try await worker.change(entry) { $0.state = .deleting }
            try await worker.removeChannelFromAudienceHash(of: entry)
            try fixture.admit(.start, to: Self.audience)
            try await worker.doPeriodicWork(for: worker.managedEnvironment)
            #expect(try await fixture.channelsAtAPNs() == [])
            #expect(try fixture.channelInAudienceHash(of: Self.audience) == nil)
        }
    }

    @Test func `An operator deletes a channel although its audience has been started`() async throws {
        try await ChannelKeeperFixture.run { fixture in
            let worker = try await fixture.makeKeeper()
            let entry = try await worker.create(Self.audience, Self.appEnvironment)
            try await worker.change(entry) { $0.deletionDueWallMilliseconds = .max }
            try fixture.admit(.start, to: Self.audience)
            _ = try await worker.delete(Self.audience, Self.appEnvironment)
            #expect(try await fixture.channelsAtAPNs() == [])
        }
    }

    // MARK: - A loss of Redis

    /// After the loss, the workers have not yet read the newest commands again. One of them may be a start.
    @Test func `A planned deletion that is due when it is restored waits for starts that are read again`() async throws
    {
        try await ChannelKeeperFixture.run { fixture in
            let worker = try await fixture.makeKeeper()
            let entry = try await worker.create(Self.audience, Self.appEnvironment)
            let plannedEntry = try await worker.change(entry) {
                ($0.deletionDueWallMilliseconds, $0.isPublished) = (1, nil)
            }
            try fixture.topic.publish(plannedEntry)
            fixture.server.command("FLUSHALL")
            try await worker.doPeriodicWork(for: worker.managedEnvironment)
            #expect(try await fixture.channelsAtAPNs() == [entry.channel])
            let restoredEntry = try await fixture.entry(of: Self.audience, by: worker)
            #expect(restoredEntry.deletionDueWallMilliseconds.map { $0 > 1 } == true)
            try fixture.admit(.start, to: Self.audience)
            let managedEnvironment = await worker.managedEnvironment
            let activeEntry = try await worker.ensureChannel(of: Self.audience, at: managedEnvironment)
            #expect(activeEntry == entry)
        }
    }
}
