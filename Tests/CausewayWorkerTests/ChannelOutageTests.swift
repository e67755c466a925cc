import APNsSimulator
import Kafka
import Reactor
import RedisTestbed
import Synchronization
import Testbed
import Testing

@testable import CausewayWorker

/// While Kafka or APNs is away, the topic may lack entries of the registry. These tests show what a worker's periodic
/// work does about such entries.
@Suite(.ownThread) struct ChannelOutageTests {
    private static let appEnvironment = ChannelKeeperFixture.appEnvironment
    private static let audiences = ["final", "semifinal", "third-place"]
    /// The code of Kafka's error TOPIC_AUTHORIZATION_FAILED: the workers are not allowed to write to the topic.
    private static let topicAuthorizationFailedCode: Int32 = 29

    /// Creates a channel for each audience, and notes in the registry that the topic does not have the entries yet.
    private func makeUnpublishedEntries(_ worker: ChannelKeeper) async throws {
        for audience in Self.audiences {
            let entry = try await worker.create(audience, Self.appEnvironment)
            try await worker.change(entry) { $0.isPublished = nil }
        }
    }

    private func unpublishedAudiences(_ worker: ChannelKeeper) async throws -> [String] {
        try await worker.readEntries(Self.appEnvironment).filter { $0.isPublished != true }.map(\.audience)
    }

    /// If the end of the pause were a time of the wall clock, a clock that is set back would lengthen the pause by
    /// hours.
    @Test func `The pause after a failure is measured with the monotonic clock`() async throws {
        try await ChannelKeeperFixture.run { fixture in
            let worker = try await fixture.makeKeeper()
            let failure = await worker.makeFailure(CancellationError())
            let pauseMilliseconds = failure.retryPauseEndMilliseconds - EventLoop.monotonicMilliseconds
            #expect(pauseMilliseconds > 0 && pauseMilliseconds <= ChannelKeeper.transientFailurePauseMilliseconds)
        }
    }

    /// Each further attempt could wait for Kafka as long as the first one, so the worker makes none.
    @Test func `After Kafka has failed to take an entry, the other entries wait for the next period`() async throws {
        try await ChannelKeeperFixture.run { fixture in
            let worker = try await fixture.makeKeeper()
            try await makeUnpublishedEntries(worker)
            fixture.broker.failNextRequests(.produce, with: [Self.topicAuthorizationFailedCode])
            try await worker.doPeriodicWork(for: worker.managedEnvironment)
            #expect(try await unpublishedAudiences(worker) == Self.audiences)

            fixture.endPeriodicWorkLease()
            await worker.endTopicPause()
            try await worker.doPeriodicWork(for: worker.managedEnvironment)
            #expect(try await unpublishedAudiences(worker).isEmpty)
        }
    }

    /// Broadcasts need only the channel in the audience's hash, not the record in Kafka.
    @Test func `While Kafka is away, channels reach Redis, and only the first one waits for Kafka`() async throws {
        try await ChannelKeeperFixture.run { fixture in
            let worker = try await fixture.makeKeeper()
            fixture.broker.failNextRequests(.produce, with: [Self.topicAuthorizationFailedCode])
            for audience in Self.audiences {
                let entry = try await worker.create(audience, Self.appEnvironment)
                #expect(try fixture.channelInAudienceHash(of: audience) == entry.channelFieldValue)
            }
            #expect(try await unpublishedAudiences(worker) == Self.audiences)
        }
    }

    @Test func `An entry that Kafka refuses for a reason of its own does not keep others from the topic`() async throws
    {
        try await ChannelKeeperFixture.run { fixture in
            let worker = try await fixture.makeKeeper()
            try await makeUnpublishedEntries(worker)
            fixture.preventDailyReconciliation()
            fixture.broker.failNextRequests(.produce, with: [KafkaError.messageTooLargeCode])
            try await worker.doPeriodicWork(for: worker.managedEnvironment)
            #expect(try await unpublishedAudiences(worker).count == 1)
        }
    }

    /// In a fixed order, the same entry would be the first one each time. If its partition of the topic had no leader,
    /// the entries behind it would never get their turn.
    @Test func `A comparison with APNs' list works on the entries in another order each time`() async throws {
        try await ChannelKeeperFixture.run { fixture in
            let worker = try await fixture.makeKeeper()
            try await makeUnpublishedEntries(worker)
            // Kafka refuses the first entry of each comparison.
            var firstAudiences: Set<String> = []
            for _ in 0..<64 where firstAudiences.count < 2 {
                fixture.broker.failNextRequests(.produce, with: [KafkaError.messageTooLargeCode])
                let content = try await worker.readRegistry(Self.appEnvironment)
                _ = try await worker.carryOut(
                    Self.makeReconciliation(content),
                    content: content,
                    at: worker.managedEnvironment
                )
                firstAudiences.formUnion(try await unpublishedAudiences(worker))
                for entry in try await worker.readEntries(Self.appEnvironment) where entry.isPublished == true {
                    try await worker.change(entry) { $0.isPublished = nil }
                }
            }
            #expect(firstAudiences.count == 2)
        }
    }

    /// A deletion is due, and APNs does not carry it out. The other audiences must not wait for it.
    @Test(arguments: [true, false])
    func `While APNs is away, entries are published`(isReconciliation: Bool) async throws {
        try await ChannelKeeperFixture.run { fixture in
            let worker = try await fixture.makeKeeper()
            let dueEntry = try await worker.create("a-semifinal", Self.appEnvironment)
            try await makeUnpublishedEntries(worker)
            try await worker.change(dueEntry) { $0.deletionDueWallMilliseconds = 1 }
            let managedEnvironment = await worker.managedEnvironment
            let content = try await worker.readRegistry(Self.appEnvironment)
            try await fixture.makeManagementUnavailable()
            await #expect(throws: ChannelFailure.self) {
                if isReconciliation {
                    let reconciliation = Self.makeReconciliation(content)
                    try #require(reconciliation.entriesToDelete.map(\.audience) == ["a-semifinal"])
                    _ = try await worker.carryOut(reconciliation, content: content, at: managedEnvironment)
                } else {
                    try await worker.doPeriodicWork(for: managedEnvironment)
                }
            }
            #expect(try await unpublishedAudiences(worker) == [])
            #expect(try await fixture.channelsAtAPNs().count == 1 + Self.audiences.count)
        }
    }

    /// APNs responds late to a deletion. Until the registry is restored, admission does not know the audiences'
    /// channels.
    @Test func `A lost registry is restored while the periodic work waits for APNs`() async throws {
        try await ChannelKeeperFixture.run { fixture in
            let worker = try await fixture.makeKeeper()
            let entry = try await worker.create("final", Self.appEnvironment)
            try await worker.change(entry) { $0.deletionDueWallMilliseconds = 1 }
            fixture.preventDailyReconciliation()
            try await fixture.delayNextResponse(milliseconds: 10_000)
            let requests = AsyncStream.makeStream(of: ChannelRequest.self)
            let run = Task { await worker.run(requests.stream, respond: { _, _ in }) }
            defer { run.cancel() }
            try await eventuallyInTask("a deletion at APNs") { try await fixture.channelsAtAPNs().isEmpty }
            let key = ChannelKeeperFixture.registryKey
            fixture.server.command("HDEL", key, "t:")
            try await eventuallyInTask("a complete registry") {
                fixture.server.command("HGET", key, "t:").contains { !$0.isEmpty && !$0.hasPrefix("?") }
            }
            #expect(fixture.server.command("HEXISTS", key, "a:final") == ["1"], "the deletion has ended before")
            requests.continuation.finish()
            run.cancel()
            await run.value
        }
    }

    /// Collects the keeper's responses as texts, in order.
    private final class ResponseLog: Sendable {
        private let texts = Mutex<[String]>([])
        var responses: [String] { texts.withLock { $0 } }

        func append(_ response: ChannelResponse, to request: ChannelRequest) {
            let text =
                switch response {
                case .lookedUp(_, let isFound): "looked up \(request.audience), found: \(isFound)"
                case .channel, .endNoted, .failed: "\(response)"
                }
            texts.withLock { $0.append(text) }
        }
    }

    /// Creations have all permits, and APNs' channel management responds late to each of their requests.
    @Test func `A look-up does not wait for creations, restores the channel in the hash, and creates none`()
        async throws
    {
        try await ChannelKeeperFixture.run { fixture in
            let worker = try await fixture.makeKeeper()
            _ = try await worker.create("final", Self.appEnvironment)
            try fixture.expireAudienceHash(of: "final")
            fixture.preventDailyReconciliation()
            var faults = Faults()
            (faults.lateShare, faults.lateMilliseconds) = (1, 1_500)
            try await fixture.simulator.setFaults(faults, of: .management)
            let requests = AsyncStream.makeStream(of: ChannelRequest.self)
            let log = ResponseLog()
            let run = Task { await worker.run(requests.stream, respond: { log.append($1, to: $0) }) }
            defer { run.cancel() }
            for number in 0..<2 * ChannelRequestQueues.permitsMax {
                requests.continuation.yield(
                    ChannelRequest(.wanted, app: Self.appEnvironment.app, audience: "match-\(number)")
                )
            }
            for audience in ["final", "semifinal"] {
                requests.continuation.yield(
                    ChannelRequest(.sought, app: Self.appEnvironment.app, audience: audience)
                )
            }
            try await eventuallyInTask("two responses") { log.responses.count >= 2 }
            #expect(
                log.responses.prefix(2) == ["looked up final, found: true", "looked up semifinal, found: false"]
            )
            #expect(try fixture.channelInAudienceHash(of: "final") != nil)
            requests.continuation.finish()
            run.cancel()
            await run.value
            #expect(try await !worker.readEntries(Self.appEnvironment).contains { $0.audience == "semifinal" })
        }
    }

    /// While a primary of a cluster is unreachable, each call to it waits for Redis' timeout. The requests of other
    /// apps would wait too.
    @Test func `After Redis has failed to look up a channel, further look-ups of the app fail without a call`()
        async throws
    {
        try await ChannelKeeperFixture.run { fixture in
            let worker = try await fixture.makeKeeper()
            let managedEnvironment = await worker.managedEnvironment
            // The keeper looks up an entry with HMGET.
            fixture.server.command("ACL", "SETUSER", "default", "-hmget")
            await #expect(throws: ChannelFailure.self) {
                _ = try await worker.restoreChannelInHash(of: "final", at: managedEnvironment)
            }
            fixture.server.command("ACL", "SETUSER", "default", "+hmget")
            await #expect(throws: ChannelFailure.self) {
                _ = try await worker.restoreChannelInHash(of: "semifinal", at: managedEnvironment)
            }
            await worker.endLookupPauses()
            #expect(try await !worker.restoreChannelInHash(of: "final", at: managedEnvironment))
        }
    }

    /// Each deletion takes a request to APNs, and other apps wait for the end of the periodic work.
    @Test func `One periodic work deletes only some of many channels whose deletion is due`() async throws {
        try await ChannelKeeperFixture.run { fixture in
            let worker = try await fixture.makeKeeper()
            fixture.preventDailyReconciliation()
            for number in 0...ChannelKeeper.dueDeletionsMax {
                var entry = ChannelEntry(
                    app: Self.appEnvironment.app,
                    environment: Self.appEnvironment.environment,
                    audience: "match-\(number)",
                    channel: "channel that APNs does not have",
                    storage: .newest,
                    createdAtWallMilliseconds: 1
                )
                entry.deletionDueWallMilliseconds = 1
                fixture.setEntry(of: entry.audience, to: String(decoding: entry.json, as: UTF8.self))
            }
            try await worker.doPeriodicWork(for: worker.managedEnvironment)
            #expect(try await worker.readEntries(Self.appEnvironment).count == 1)
        }
    }

    // MARK: - Tombstones

    /// Kafka fails to take the tombstone after a deletion, or after a record that came too late.
    @Test(arguments: [true, false])
    func `A tombstone that Kafka has failed to take is written in the next period`(isLateRecord: Bool) async throws {
        try await ChannelKeeperFixture.run { fixture in
            let worker = try await fixture.makeKeeper()
            let entry = try await worker.create("final", Self.appEnvironment)
            if isLateRecord { _ = try await worker.delete("final", Self.appEnvironment) }
            // The code 0 means no error: Kafka takes the record before the tombstone, but not the tombstone.
            fixture.broker.failNextRequests(.produce, with: [0, Self.topicAuthorizationFailedCode])
            if isLateRecord {
                let lateEntry = Self.makeUnpublished(entry)
                #expect(try await worker.publishAndWriteToAudienceHash(lateEntry) == nil)
            } else {
                await #expect(throws: ChannelFailure.self) {
                    try await worker.delete("final", Self.appEnvironment)
                }
            }
            try #require(try fixture.publishedEntry(of: "final") != nil)
            await worker.endTopicPause()
            try await worker.doPeriodicWork(for: worker.managedEnvironment)
            #expect(try fixture.publishedEntry(of: "final") == nil)
            let values = fixture.server.command("HKEYS", ChannelKeeperFixture.registryKey)
            #expect(values.allSatisfy { !$0.contains("final") }, "\(values)")
        }
    }

    /// A tombstone after this record would delete the new channel from the topic.
    @Test func `A missing tombstone is not written after the record of a new channel`() async throws {
        try await ChannelKeeperFixture.run { fixture in
            let worker = try await fixture.makeKeeper()
            let entry = try await worker.create("final", Self.appEnvironment)
            _ = try await worker.delete("final", Self.appEnvironment)
            fixture.broker.failNextRequests(.produce, with: [0, Self.topicAuthorizationFailedCode])
            #expect(try await worker.publishAndWriteToAudienceHash(Self.makeUnpublished(entry)) == nil)
            await worker.endTopicPause()
            let newEntry = try await worker.create("final", Self.appEnvironment)
            try await worker.doPeriodicWork(for: worker.managedEnvironment)
            #expect(try fixture.publishedEntry(of: "final")?.recordValue == newEntry.recordValue)
            let values = fixture.server.command("HKEYS", ChannelKeeperFixture.registryKey)
            #expect(values.filter { $0.contains("final") } == ["a:final"])
        }
    }

    /// The audience gets a channel while a missing tombstone is on its way. The tombstone hides the channel's record.
    /// Redis fails before the worker can notice this.
    @Test func `A tombstone that comes after the record of a new channel is repaired after a failure of Redis`()
        async throws
    {
        try await ChannelKeeperFixture.run { fixture in
            let worker = try await fixture.makeKeeper()
            let managedEnvironment = await worker.managedEnvironment
            let entry = try await worker.create("final", Self.appEnvironment)
            _ = try await worker.delete("final", Self.appEnvironment)
            fixture.preventDailyReconciliation()
            let (key, note) = (ChannelKeeperFixture.registryKey, String(decoding: entry.json, as: UTF8.self))
            // The worker writes the note again, without the space, before it writes the tombstone.
            fixture.server.command("HSET", key, "d:final", note + " ")
            try fixture.broker.setRoundTripTime(milliseconds: 4_000)
            let periodicWork = Task { try await worker.doPeriodicWork(for: managedEnvironment) }
            try await eventuallyInTask("a tombstone") { fixture.server.command("HGET", key, "d:final") == [note] }
            // Another worker has published the channel.
            fixture.setEntry(of: "final", to: note)
            // HMGET fails, so the worker cannot look up the entry.
            fixture.server.command("ACL", "SETUSER", "default", "-hmget")
            await #expect(throws: ChannelFailure.self) { try await periodicWork.value }
            fixture.server.command("ACL", "SETUSER", "default", "+hmget")
            try fixture.broker.setRoundTripTime(milliseconds: 0)
            try #require(try fixture.publishedEntry(of: "final") == nil)

            fixture.endPeriodicWorkLease()
            try await worker.doPeriodicWork(for: managedEnvironment)
            #expect(try fixture.publishedEntry(of: "final")?.recordValue == entry.recordValue)
            #expect(fixture.server.command("HEXISTS", key, "d:final") == ["0"])
        }
    }

    private static func makeUnpublished(_ entry: ChannelEntry) -> ChannelEntry {
        var entry = entry
        entry.isPublished = nil
        return entry
    }

    /// Returns a comparison in which APNs' list has all channels of the registry.
    private static func makeReconciliation(_ content: Reconciliation.RegistryContent) -> Reconciliation {
        Reconciliation(
            content,
            listedChannels: content.entries.map(\.channel),
            listedAtWallMilliseconds: WallClock.systemMilliseconds
        )
    }
}
