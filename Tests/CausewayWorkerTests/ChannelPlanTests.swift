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
            try await worker.change(entry) { $0.deletionDueMilliseconds = .max }
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
            #expect(successor.channel != entry.channel && successor.deletionDueMilliseconds == .max)
            #expect(try await fixture.entry(of: Self.audience, by: worker) == successor)
        }
    }

    /// Two lanes have noticed the loss. The request of the second lane comes when the channel is already replaced.
    @Test func `A late request to replace a lost channel does not cancel the planned deletion`() async throws {
        try await ChannelKeeperFixture.run { fixture in
            let worker = try await fixture.makeKeeper()
            let entry = try await worker.create(Self.audience, Self.appEnvironment)
            try await worker.change(entry) { $0.deletionDueMilliseconds = .max }
            let successor = try await worker.replace(entry.channel, of: Self.audience, at: worker.managedEnvironment)
            let presentEntry = try await worker.replace(entry.channel, of: Self.audience, at: worker.managedEnvironment)
            #expect(presentEntry == successor && presentEntry.deletionDueMilliseconds == .max)
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
                dueMilliseconds: .max
            )
            let successor = try await replacement
            #expect(successor.channel != entry.channel)
            let presentEntry = try await fixture.entry(of: Self.audience, by: worker)
            #expect(presentEntry.channel == successor.channel && presentEntry.deletionDueMilliseconds == .max)
            #expect(try await fixture.channelsAtAPNs() == [successor.channel])
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
            let presentEntry = try await fixture.entry(of: Self.audience, by: worker)
            #expect(presentEntry.deletionDueMilliseconds != nil)
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
                try await worker.change(entry) { $0.deletionDueMilliseconds = .max }
            }
            try fixture.admit(.end, to: Self.audience)
            let entry = try await worker.ensureChannel(of: Self.audience, at: managedEnvironment)
            #expect(entry.deletionDueMilliseconds != nil)
            // A start needs the channel.
            try fixture.admit(.start, to: Self.audience)
            let activeEntry = try await worker.ensureChannel(of: Self.audience, at: managedEnvironment)
            #expect(activeEntry.channel == entry.channel && activeEntry.deletionDueMilliseconds == nil)
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
            let successor = try await worker.replace(entry.channel, of: Self.audience, at: worker.managedEnvironment)
            #expect(successor.channel != entry.channel && successor.deletionDueMilliseconds != nil)
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
            #expect(entry.deletionDueMilliseconds == nil)
            let successor = try await worker.replace(entry.channel, of: Self.audience, at: worker.managedEnvironment)
            #expect(successor.channel != entry.channel && successor.deletionDueMilliseconds == nil)
        }
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
            try await worker.change(entry) { ($0.deletionDueMilliseconds, $0.state) = (1, .deleting) }
            try fixture.admit(.start, to: Self.audience)
            if isRequested {
                _ = try await worker.ensureChannel(of: Self.audience, at: managedEnvironment)
            } else {
                try await worker.maintain(managedEnvironment)
            }
            #expect(try await fixture.entry(of: Self.audience, by: worker) == entry)
            #expect(try await fixture.channelsAtAPNs() == [entry.channel])
            #expect(try fixture.channelInAudienceHash(of: Self.audience) == entry.channelFieldValue)
            #expect(try fixture.publishedEntry(of: Self.audience)?.recordValue == entry.recordValue)
        }
    }

    /// No start names a channel that is not in the audience's hash, and APNs may have deleted the channel already.
    ///
    /// - Parameter hasPlan: whether the entry still has its plan. An older release keeps the plan until the deletion
    ///   ends.
    @Test(arguments: [true, false])
    func `A deletion that has begun is completed if the audience's hash has lost the channel`(hasPlan: Bool)
        async throws
    {
        try await ChannelKeeperFixture.run { fixture in
            let worker = try await fixture.makeKeeper()
            let entry = try await worker.create(Self.audience, Self.appEnvironment)
            try await worker.change(entry) { ($0.deletionDueMilliseconds, $0.state) = (hasPlan ? 1 : nil, .deleting) }
            try await worker.removeChannelFromAudienceHash(of: entry)
            try fixture.admit(.start, to: Self.audience)
            try await worker.maintain(worker.managedEnvironment)
            #expect(try await fixture.channelsAtAPNs() == [])
            #expect(try fixture.channelInAudienceHash(of: Self.audience) == nil)
        }
    }

    @Test func `An operator deletes a channel although its audience has been started`() async throws {
        try await ChannelKeeperFixture.run { fixture in
            let worker = try await fixture.makeKeeper()
            let entry = try await worker.create(Self.audience, Self.appEnvironment)
            try await worker.change(entry) { $0.deletionDueMilliseconds = .max }
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
                ($0.deletionDueMilliseconds, $0.isPublished) = (1, nil)
            }
            try fixture.topic.publish(plannedEntry)
            fixture.server.command("FLUSHALL")
            try await worker.maintain(worker.managedEnvironment)
            #expect(try await fixture.channelsAtAPNs() == [entry.channel])
            let restoredEntry = try await fixture.entry(of: Self.audience, by: worker)
            #expect(restoredEntry.deletionDueMilliseconds.map { $0 > 1 } == true)
            try fixture.admit(.start, to: Self.audience)
            let managedEnvironment = await worker.managedEnvironment
            let activeEntry = try await worker.ensureChannel(of: Self.audience, at: managedEnvironment)
            #expect(activeEntry == entry)
        }
    }
}
