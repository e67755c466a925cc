import ActivityStore
import Delivery
import LiveActivity
import Testing

@testable import Audiences

/// During a round the store loses all data, including members and claims. (R26)
@Suite struct StoreLossTests {
    /// The members are in two segments, so that the core writes a checkpoint between the pages of the two
    /// segments.
    private static let members = SimulatedNames.names[0..<2].flatMap { $0.prefix(30) }

    /// Returns a core whose round had reached some members when the store lost all data. The core has noticed
    /// the loss.
    private func benchAfterLoss() -> (bench: RoundHarness, reached: Set<String>) {
        let bench = RoundHarness()
        for name in Self.members { bench.join(name) }
        bench.command(1, hasAlert: true)
        bench.settle()
        let reached = Set(bench.send(atMost: 30).map(\.member))
        bench.answerPushes()
        bench.pass(milliseconds: 1_000)
        bench.store = AudienceStoreModel(nowMilliseconds: bench.now)
        bench.core.membersCompleteMilliseconds = .min
        bench.send(atMost: 1)
        bench.answerPushes()
        bench.pass(milliseconds: 1_000)
        return (bench, reached)
    }

    @Test func `After a loss of the store a round waits for its members, and reaches them with the alert`() throws {
        let (bench, reached) = benchAfterLoss()
        for _ in 0..<20 {
            bench.pass(milliseconds: 500)
            _ = bench.finish()
        }
        #expect(bench.result(of: 1) == nil, "pages without members end no range")

        for name in Self.members { bench.join(name) }
        bench.core.membersCompleteMilliseconds = bench.moment.monotonicMilliseconds
        var sent: [RoundHarness.Sent] = []
        for _ in 0..<10 {
            bench.pass(milliseconds: 500)
            sent += bench.finish()
        }
        #expect(Set(sent.map(\.member)) == Set(Self.members).subtracting(reached))
        #expect(sent.allSatisfy { $0.alert == 1 })
        #expect(try #require(bench.result(of: 1)).contains("\"delivered\":60"))
        #expect(bench.committableOffset == 1)
    }

    @Test func `A round that begins while the store lacks its members waits for them, and reaches them with the alert`()
        throws
    {
        let bench = RoundHarness()
        bench.core.membersCompleteMilliseconds = .min
        admit(1, in: bench)
        let sent = passUntilMembersReturn(to: bench)
        #expect(Set(sent.map(\.member)) == Set(Self.members))
        #expect(sent.allSatisfy { $0.alert == 1 })
        #expect(try #require(bench.result(of: 1)).contains("\"delivered\":60"))
    }

    /// The connection was lost after the marks were read, so the server may have restarted without its data
    /// since then.
    @Test func `A poll from before a lost connection proves nothing`() {
        let bench = RoundHarness()
        bench.core.membersCompleteMilliseconds = bench.moment.monotonicMilliseconds
        bench.pass(milliseconds: 10)
        bench.core.storeLostMilliseconds = bench.moment.monotonicMilliseconds
        admit(1, in: bench)
        #expect(Set(passUntilMembersReturn(to: bench).map(\.member)) == Set(Self.members))
    }

    /// The worker has not read the marks since the loss.
    @Test func `A round whose version the store does not know waits for the next poll`() {
        let bench = RoundHarness()
        bench.core.membersCompleteMilliseconds = bench.moment.monotonicMilliseconds
        bench.command(1, hasAlert: true)
        bench.settle()
        bench.pass(milliseconds: 10)
        #expect(Set(passUntilMembersReturn(to: bench).map(\.member)) == Set(Self.members))
    }

    /// The Redis user has no right to read the marks, so no reading ever succeeds.
    @Test func `A round that no poll releases begins after ten minutes`() {
        let bench = RoundHarness()
        for name in Self.members { bench.join(name) }
        bench.core.membersCompleteMilliseconds = .min
        admit(1, in: bench)
        bench.pass(milliseconds: 590_000)
        #expect(bench.finish().isEmpty)
        bench.pass(milliseconds: 11_000)
        var sent: [RoundHarness.Sent] = []
        for _ in 0..<10 {
            bench.pass(milliseconds: 500)
            sent += bench.finish()
        }
        #expect(Set(sent.map(\.member)) == Set(Self.members))
    }

    /// One server of a cluster does not answer. Each failed attempt to connect is reported as a loss.
    @Test func `Losses that are reported all the time delay a round by a few polls`() {
        let bench = RoundHarness()
        for name in Self.members { bench.join(name) }
        admit(1, in: bench)
        var sent: [RoundHarness.Sent] = []
        for _ in 0..<20 {
            bench.core.membersCompleteMilliseconds = bench.moment.monotonicMilliseconds
            bench.pass(milliseconds: 1_000)
            bench.core.storeLostMilliseconds = bench.moment.monotonicMilliseconds
            sent += bench.finish()
        }
        #expect(Set(sent.map(\.member)) == Set(Self.members))
    }

    /// Admits a command after the loss, so that the store knows its version.
    private func admit(_ number: Int, in bench: RoundHarness) {
        let admission = AudienceAdmission<[UInt8]>(
            version: Version(timestamp: 1_790_000_000 + Int64(number), sequence: 0),
            digest: 1,
            pace: Policy(name: "default").pace,
            isEnd: false,
            isStart: false,
            requestsHighPriority: true,
            mayUseReserve: true,
            rangeCount: 1,
            body: [],
            expiration: 0
        )
        #expect(bench.store.perform(bench.call(.admit(admission))).verdict == .send)
        bench.command(number, hasAlert: true)
        bench.settle()
    }

    private func passUntilMembersReturn(to bench: RoundHarness) -> [RoundHarness.Sent] {
        for _ in 0..<20 {
            bench.pass(milliseconds: 500)
            #expect(bench.finish().isEmpty)
        }
        #expect(bench.result(of: 1) == nil, "pages without members end no range")
        for name in Self.members { bench.join(name) }
        bench.core.membersCompleteMilliseconds = bench.moment.monotonicMilliseconds
        var sent: [RoundHarness.Sent] = []
        for _ in 0..<10 {
            bench.pass(milliseconds: 500)
            sent += bench.finish()
        }
        return sent
    }

    /// The shell read the marks just before the loss. It reports them after the core has noticed the loss.
    @Test func `A check before the loss releases no round`() {
        let (bench, reached) = benchAfterLoss()
        bench.core.membersCompleteMilliseconds = bench.moment.monotonicMilliseconds - 3_000
        bench.pass(milliseconds: 10_000)
        #expect(bench.finish().isEmpty)
        for name in Self.members { bench.join(name) }
        bench.core.membersCompleteMilliseconds = bench.moment.monotonicMilliseconds
        bench.pass(milliseconds: 1_000)
        #expect(Set(bench.finish().map(\.member)) == Set(Self.members).subtracting(reached))
    }

    @Test func `A newer version takes over as usual`() throws {
        let (bench, _) = benchAfterLoss()
        bench.command(2)
        for name in Self.members { bench.join(name) }
        bench.core.membersCompleteMilliseconds = bench.moment.monotonicMilliseconds
        var sent: [RoundHarness.Sent] = []
        for _ in 0..<10 {
            bench.pass(milliseconds: 500)
            sent += bench.finish()
        }
        #expect(Set(sent.filter { $0.content == 2 }.map(\.member)) == Set(Self.members))
        #expect(bench.result(of: 2) != nil)
        #expect(bench.committableOffset == 2)
    }

    /// A worker died after it had fanned out more commands than it had committed. A store without its data
    /// takes each of these commands for a new one.
    @Test func `Only the newest of commands that come together is admitted`() {
        let bench = RoundHarness()
        for name in Self.members { bench.join(name) }
        for number in 1...3 { bench.handOver(number, .update) }
        bench.settle()
        bench.pass(milliseconds: 2_000)
        #expect(bench.orders.map(\.offset) == [3])
    }
}
