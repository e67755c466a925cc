import ActivityStore
import LiveActivity
import Testing

@testable import Audiences
@testable import Delivery

/// The first command of an audience waits for the channel that it needs, but only for a limited time.
@Suite struct ChannelWaitTests {
    private func bench(_ environments: DeviceEnvironment...) -> RoundHarness {
        RoundHarness(channelRule: ChannelRule(patterns: ["*"], environments: environments))
    }

    private func channel(_ environment: DeviceEnvironment = .production) throws -> AudienceChannel {
        let identifier = try #require(ChannelIdentifier("Y2hhbm5lbA=="))
        return AudienceChannel(environment: environment, storage: .newest, identifier: identifier)
    }

    /// Writes the channel to the audience's record and notifies the core, as the `ChannelKeeper` does.
    private func create(_ channel: AudienceChannel, _ bench: RoundHarness) {
        bench.store.set(channel, in: channel.environment, of: RoundHarness.digest, app: RoundHarness.application)
        bench.core.channelKnown(application: 0, audience: RoundHarness.digest, channel, now: bench.moment)
        bench.settle()
    }

    private func refuse(_ environment: DeviceEnvironment, _ bench: RoundHarness) {
        bench.core
            .channelRefused(application: 0, audience: RoundHarness.digest, environment: environment, now: bench.moment)
        bench.settle()
    }

    private func handOver(_ number: Int, _ event: Event = .update, to bench: RoundHarness) {
        bench.handOver(number, event)
        bench.settle()
    }

    @Test func `The first command is broadcast to the channel that it requested`() throws {
        let bench = bench(.production)
        handOver(1, to: bench)
        #expect(bench.orders.isEmpty)
        #expect(bench.needs().map(\.kind) == [.wanted])
        create(try channel(), bench)
        #expect(bench.orders.contains { $0.channel?.environment == .production })
        #expect(bench.orders.allSatisfy { $0.channelAbsence == nil && $0.grant.broadcastCount <= 1 })
        #expect(bench.core.channelWaiters == 0)
    }

    @Test func `A start waits for the channel and names it`() throws {
        let bench = bench(.production)
        handOver(1, .start, to: bench)
        #expect(bench.orders.isEmpty)
        create(try channel(), bench)
        #expect(!bench.orders.isEmpty)
        #expect(bench.orders.allSatisfy { $0.startChannels.production != nil && $0.channel == nil })
    }

    /// No pattern of the configuration matches the audience, but the command itself requests a channel.
    @Test func `A command may request a channel`() throws {
        let bench = RoundHarness(channelRule: ChannelRule(patterns: [], environments: [.production]))
        handOver(1, to: bench)
        #expect(!bench.orders.isEmpty && bench.needs().isEmpty)
        bench.orders.removeAll()
        bench.pass(milliseconds: 30_000)
        bench.handOver(40, .update, requestsChannel: true)
        bench.settle()
        #expect(bench.orders.isEmpty)
        #expect(bench.needs().map(\.kind) == [.wanted])
        create(try channel(), bench)
        #expect(bench.orders.contains { $0.channel != nil })
    }

    @Test func `An end does not wait for a channel`() {
        let bench = bench(.production)
        handOver(1, .end, to: bench)
        #expect(!bench.orders.isEmpty)
        #expect(bench.orders.allSatisfy { $0.channelAbsence == nil })
    }

    @Test func `After two seconds a command continues without a channel`() {
        let bench = bench(.production)
        handOver(1, to: bench)
        bench.pass(milliseconds: Audiences.channelWaitMilliseconds - 1)
        #expect(bench.orders.isEmpty)
        bench.pass(milliseconds: 1)
        #expect(!bench.orders.isEmpty)
        #expect(bench.orders.allSatisfy { $0.channel == nil && $0.channelAbsence == .notInTime })
        #expect(bench.core.channelWaiters == 0)
    }

    @Test func `A channel that comes too late is used by the next command`() throws {
        let bench = bench(.production)
        handOver(1, to: bench)
        bench.pass(milliseconds: Audiences.channelWaitMilliseconds)
        bench.orders.removeAll()
        create(try channel(), bench)
        #expect(bench.orders.isEmpty)
        bench.pass(milliseconds: 30_000)
        handOver(40, to: bench)
        #expect(bench.orders.contains { $0.channel != nil })
        #expect(bench.orders.allSatisfy { $0.channelAbsence == nil })
    }

    @Test func `After a refusal a command does not wait`() {
        let bench = bench(.production)
        handOver(1, to: bench)
        refuse(.production, bench)
        #expect(!bench.orders.isEmpty)
        #expect(bench.orders.allSatisfy { $0.channel == nil && $0.channelAbsence == .refused })
    }

    @Test func `A command waits for the channel of each environment`() throws {
        let bench = bench(.production, .sandbox)
        handOver(1, to: bench)
        create(try channel(.sandbox), bench)
        #expect(bench.orders.isEmpty)
        refuse(.production, bench)
        #expect(bench.orders.compactMap(\.channel?.environment) == [.sandbox])
        #expect(bench.orders.allSatisfy { $0.channelAbsence == .refused })
    }

    /// The management service may not answer for hours. So after one command has waited, the commands of the
    /// next minute do not wait.
    @Test func `Only one command a minute waits`() {
        let bench = bench(.production)
        handOver(1, to: bench)
        bench.pass(milliseconds: Audiences.channelWaitMilliseconds)
        bench.orders.removeAll()
        for number in [2, 3] {
            bench.pass(milliseconds: Audiences.channelWaitPauseMilliseconds / 2 - 1)
            handOver(number * 30, to: bench)
            #expect(!bench.orders.isEmpty)
            #expect(bench.orders.allSatisfy { $0.channelAbsence == .notAwaited })
            bench.orders.removeAll()
        }
        bench.pass(milliseconds: 2)
        bench.pass(milliseconds: 30_000)
        handOver(200, to: bench)
        #expect(bench.orders.isEmpty, "it waits again")
    }

    @Test func `Commands beyond the limit do not wait`() {
        let bench = bench(.production)
        bench.core.channelWaiters = Audiences.channelWaitersMax
        handOver(1, to: bench)
        #expect(!bench.orders.isEmpty)
        #expect(bench.orders.allSatisfy { $0.channelAbsence == .notAwaited })
    }

    /// The management service did not answer while 4,096 audiences began. So the table of pauses is full until
    /// the pauses are over.
    @Test func `A full table of pauses is emptied when the pauses are over`() {
        let bench = bench(.production)
        for other in 0..<Audiences.channelWaitPausesMax {
            let digest = Array("other \(other)".utf8).withUnsafeBytes { AudienceDigest(of: $0) }
            bench.core.channelWaitPauses[AudienceKey(application: 7, digest: digest)] =
                bench.moment.monotonicMilliseconds + Audiences.channelWaitPauseMilliseconds
        }
        handOver(1, to: bench)
        #expect(bench.orders.contains { $0.channelAbsence == .notAwaited })
        bench.orders.removeAll()
        bench.pass(milliseconds: Audiences.channelWaitPauseMilliseconds)
        handOver(80, to: bench)
        #expect(bench.orders.isEmpty, "the command waits")
        #expect(bench.core.channelWaitPauses.isEmpty)
    }

    @Test func `The command's result says that there was none`() {
        let bench = bench(.production)
        handOver(1, to: bench)
        bench.pass(milliseconds: Audiences.channelWaitMilliseconds)
        bench.log = zip(bench.results, bench.orders).map { SimulatedFanout(value: Array($0.utf8), order: $1) }
        bench.results.removeAll()
        bench.read()
        for _ in 0..<4 { bench.pass(milliseconds: 500) }
        let results = bench.results.filter { $0.contains("\"ranges\"") }
        #expect(results.count == 1)
        #expect(results.allSatisfy { $0.contains(#""channel":"none","channelReason":"notInTime","ranges":1"#) })
    }
}
