import APNsSimulator
import Logging
import RedisTestbed
import Testbed
import Testing

@testable import CausewayWorker
@testable import Observability

/// Many audiences get their channels at the same time, as at kick-off.
@Suite(.ownThread) struct ChannelCreationTests {
    private static let appEnvironment = ChannelKeeperFixture.appEnvironment

    /// The client of APNs' channel management carries out a few requests at a time. If all leases began at once, the
    /// last ones could expire before their requests are sent.
    @Test func `The lease of a creation begins when only a few earlier creations of the app are under way`()
        async throws
    {
        try await ChannelKeeperFixture.run { fixture in
            let worker = try await fixture.makeKeeper()
            try await fixture.delayNextResponse(milliseconds: 1_000)
            let audiences = Self.makeAudiences(ChannelKeeper.creationsAtOnceMax + 1)
            let creations = Self.createChannels(of: audiences, by: worker)
            var leasesMax = 0
            try await eventuallyInTask("a channel for each audience") {
                leasesMax = max(leasesMax, fixture.creationCount(of: audiences))
                return try await fixture.channelsAtAPNs().count == audiences.count
            }
            #expect(leasesMax == ChannelKeeper.creationsAtOnceMax)
            for creation in creations { _ = try await creation.value }
        }
    }

    /// APNs has created the first channel, but responds late.
    @Test func `A creation does not wait for an earlier one that is slow`() async throws {
        try await ChannelKeeperFixture.run { fixture in
            let worker = try await fixture.makeKeeper()
            _ = try await worker.create("third-place", Self.appEnvironment)
            try await fixture.delayNextResponse(milliseconds: 4_000)
            let slowCreation = Task { try await worker.create("final", Self.appEnvironment) }
            try await eventuallyInTask("a second channel") { try await fixture.channelsAtAPNs().count == 2 }
            _ = try await worker.create("semifinal", Self.appEnvironment)
            #expect(fixture.isChannelBeingCreated("final"))
            _ = try await slowCreation.value
        }
    }

    /// A list before each creation would double the time until the last audience has its channel.
    @Test func `Creations that come together share one list of APNs' channels`() async throws {
        try await ChannelKeeperFixture.run { fixture in
            let worker = try await fixture.makeKeeper()
            let requestCount = try await fixture.simulator.statistics().managementRequestCount
            for creation in Self.createChannels(of: Self.makeAudiences(20), by: worker) { _ = try await creation.value }
            #expect(try await fixture.channelsAtAPNs().count == 20)
            // On a slow machine, the list may be repeated.
            #expect(try await fixture.simulator.statistics().managementRequestCount < requestCount + 30)
        }
    }

    /// All creations wait for the same list, which fails.
    @Test func `Creations that come together fail together if APNs refuses the list`() async throws {
        try await ChannelKeeperFixture.run { fixture in
            let worker = try await fixture.makeKeeper()
            let requestCount = try await fixture.simulator.statistics().managementRequestCount
            try await fixture.makeManagementUnavailable()
            let audiences = Self.makeAudiences(ChannelKeeper.creationsAtOnceMax)
            for creation in Self.createChannels(of: audiences, by: worker) {
                await #expect(throws: ChannelFailure.self) { try await creation.value }
            }
            #expect(try await fixture.simulator.statistics().managementRequestCount < requestCount + audiences.count)
        }
    }

    /// A list once a day is not enough: the alert at 8,000 of 10,000 channels would fire up to a day late.
    @Test func `A creation notes how many channels APNs has, for all workers`() async throws {
        try await ChannelKeeperFixture.run { fixture in
            let (worker, otherWorker) = (try await fixture.makeKeeper(), try await fixture.makeKeeper())
            for _ in 0..<3 { _ = try await worker.createUnrecordedChannel() }
            _ = try await worker.create("final", Self.appEnvironment)
            #expect(try await otherWorker.readRegistry(Self.appEnvironment).listedChannelCount == 3)
        }
    }

    /// Otherwise the number would stay at the peak of an evening, and the alert would fire until the next comparison.
    @Test func `After deletions a worker notes how many channels APNs still has`() async throws {
        try await ChannelKeeperFixture.run { fixture in
            let worker = try await fixture.makeKeeper()
            for audience in Self.makeAudiences(3) {
                let entry = try await worker.create(audience, Self.appEnvironment)
                try await worker.change(entry) { $0.deletionDueWallMilliseconds = 1 }
            }
            let channels = try await worker.listChannels(at: worker.managedEnvironment)
            #expect(channels.count == 3)
            fixture.preventDailyReconciliation()
            try await worker.doPeriodicWork(for: worker.managedEnvironment)
            #expect(try await worker.readRegistry(Self.appEnvironment).listedChannelCount == 0)
        }
    }

    /// Another worker has requested the list.
    @Test func `A worker shows the number of channels that it reads in the registry`() {
        let status = ChannelStatus(poolCount: 1)
        let logger = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
        let log = SharedLimitedLog(logger: logger, events: RecentEvents())
        func read(_ listedChannelCount: Int64?) {
            var content = Reconciliation.RegistryContent()
            content.listedChannelCount = listedChannelCount
            let (app, environment) = (Self.appEnvironment.app, Self.appEnvironment.environment)
            let event = ChannelEvent.registryRead(app: app, environment: environment, content)
            ChannelEventReporter.report(event, log, status, findPool: { _, _ in 0 })
        }
        read(8_001)
        #expect(status.poolStatuses[0].listedChannelCount == 8_001)
        // Redis has lost the number.
        read(nil)
        #expect(status.poolStatuses[0].listedChannelCount == 8_001)
    }

    private static func makeAudiences(_ count: Int) -> [String] { (1...count).map { "match-\($0)" } }

    private static func createChannels(of audiences: [String], by worker: ChannelKeeper)
        -> [Task<ChannelEntry, any Error>]
    {
        audiences.map { audience in Task { try await worker.create(audience, appEnvironment) } }
    }
}
