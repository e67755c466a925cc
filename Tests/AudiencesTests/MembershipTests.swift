import Delivery
import LiveActivity
import Testing

@testable import Audiences

/// Members join and leave audiences. (R27)
@Suite struct MembershipTests {
    private let name = SimulatedNames.names[0][0]

    @Test func `A new member gets the newest state at once`() {
        let bench = RoundHarness()
        bench.admit(1, timestamp: 1_790_000_000, hasAlert: true)
        bench.register(name)
        bench.settle()
        #expect(bench.registered().isEmpty)
        let sent = bench.send()
        #expect(sent == [.init(member: name, content: 1, alert: nil, timestamp: 1_790_000_000, priority: 5)])
        bench.answerPushes()
        #expect(bench.registered() == [1])
        #expect(bench.core.membershipsHeld == 0)
        // Later commands reach the new member, too.
        bench.command(2)
        #expect(bench.finish().map(\.member) == [name])
    }

    /// After a loss of the store all members join again at once. The round may have passed their positions by
    /// then.
    @Test func `Each of many new members gets the newest state`() {
        let bench = RoundHarness(membershipsMax: 32)
        bench.admit(1, timestamp: 1_790_000_000)
        bench.send()
        let names = Array(SimulatedNames.names[0].prefix(32))
        for (place, name) in names.enumerated() { bench.register(name, record: UInt32(place)) }
        bench.settle()
        #expect(Set(bench.finish().map(\.member)) == Set(names))
    }

    /// Members whose host accepts no pushes must leave room for members of other hosts.
    @Test func `Members whose host is away take at most half of the room`() {
        let bench = RoundHarness(membershipsMax: 32)
        bench.admit(1, timestamp: 1_790_000_000)
        for (place, name) in SimulatedNames.names[0].prefix(32).enumerated() {
            bench.register(name, record: UInt32(place))
        }
        bench.settle()
        bench.pass(milliseconds: 10_000)
        #expect(bench.core.membershipsHeld <= 16)
    }

    @Test func `Changes are counted when their audiences have stored them`() {
        let bench = RoundHarness()
        bench.register(name)
        #expect(bench.changes == [0, 0, 0])
        bench.settle()
        bench.now += 1
        bench.register(name, record: 2, wasMember: true)
        bench.settle()
        bench.now += 1
        bench.register(name, record: 3, departures: true)
        bench.settle()
        #expect(bench.changes == [1, 1, 1])
    }

    /// The store granted a higher timestamp than the command's own.
    @Test func `A new member gets the timestamp that the store granted`() {
        let bench = RoundHarness()
        bench.admit(1, timestamp: 1_790_000_000)
        bench.now += 5_000
        bench.admit(2, timestamp: 1_790_000_000)
        bench.register(name)
        bench.settle()
        #expect(bench.send().map(\.timestamp) == [1_790_000_001])
    }

    @Test func `A new member gets an end with the high priority`() {
        let bench = RoundHarness()
        bench.admit(1, timestamp: 1_790_000_000, isEnd: true)
        bench.register(name)
        bench.settle()
        #expect(bench.send().map(\.priority) == [10])
    }

    @Test func `A member that already shows the state gets no push`() {
        let bench = RoundHarness()
        bench.admit(3, timestamp: 1_790_000_000)
        bench.register(name, shows: Version(timestamp: 1_790_000_000, sequence: 3))
        bench.settle()
        #expect(bench.send().isEmpty)
        #expect(bench.registered() == [1])
    }

    @Test func `Members that join together share one call`() {
        let bench = RoundHarness()
        bench.admit(1, timestamp: 1_790_000_000)
        for (place, name) in SimulatedNames.names[0].prefix(50).enumerated() {
            bench.register(name, record: UInt32(place))
        }
        var questions = 0
        while let call = bench.nextCall() {
            if case .newest = call.operation { questions += 1 }
            bench.answer(call)
        }
        // The core asks the store when the first member joins. The other members join before the store's
        // answer, so one more call serves all of them.
        #expect(questions <= 2)
        #expect(bench.send().count == 50)
        bench.answerPushes()
        #expect(bench.registered().count == 50)
    }

    /// The pool accepts nothing. After a second the registration settles without the member's push. After a
    /// minute the core gives up the push.
    @Test func `A registration does not wait for a pool that is away`() {
        let bench = RoundHarness()
        bench.admit(1, timestamp: 1_790_000_000)
        bench.register(name)
        bench.settle()
        bench.pass(milliseconds: 999)
        #expect(bench.registered().isEmpty)
        bench.pass(milliseconds: 1)
        #expect(bench.registered() == [1])
        bench.pass(milliseconds: 59_000)
        #expect(bench.core.membershipsHeld == 1)
        bench.pass(milliseconds: 1)
        #expect(bench.core.membershipsHeld == 0)
        #expect(bench.send().isEmpty)
    }

    @Test func `A failed push is sent again with the then newest state`() {
        let bench = RoundHarness()
        bench.admit(1, timestamp: 1_790_000_000)
        bench.register(name)
        bench.settle()
        #expect(bench.send().map(\.content) == [1])
        bench.answerPushes(.retryLater)
        #expect(bench.registered() == [1])
        bench.now += 2_000
        bench.admit(2, timestamp: 1_790_000_002)
        bench.pass(milliseconds: 1)
        #expect(bench.send().map(\.content) == [2])
    }

    /// A member changes twice before the core sends it a state. The core sends the state once, for the later
    /// change.
    @Test func `A later change of a member replaces an earlier one`() {
        let bench = RoundHarness()
        bench.admit(1, timestamp: 1_790_000_000)
        bench.register(name, record: 1)
        bench.settle()
        bench.now += 1
        bench.register(name, record: 2)
        bench.settle()
        #expect(bench.registered() == [1])
        #expect(bench.send().count == 1)
        bench.answerPushes()
        #expect(bench.registered() == [2])
    }
}
