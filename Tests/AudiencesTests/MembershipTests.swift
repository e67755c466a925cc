import Delivery
import LiveActivity
import Testing

@testable import Audiences

/// Members join and leave audiences. (R27)
@Suite struct MembershipTests {
    private let name = SimulatedNames.names[0][0]

    @Test func `A new member gets the newest state at once`() {
        let harness = RoundHarness()
        harness.admit(1, timestamp: RoundHarness.startSeconds, hasAlert: true)
        harness.register(name)
        harness.performPendingWork()
        #expect(harness.takeReturnedRegistrations().isEmpty)
        let sent = harness.send()
        #expect(
            sent == [
                .init(member: name, content: 1, alert: nil, timestamp: Int(RoundHarness.startSeconds), priority: 5)
            ]
        )
        harness.respondToPushes()
        #expect(harness.takeReturnedRegistrations() == [1])
        #expect(harness.core.membershipChangeCount == 0)
        // Later commands reach the new member, too.
        harness.appendCommand(2)
        #expect(harness.sendAndAcceptPushes().map(\.member) == [name])
    }

    /// After the store has lost its data, all members join again at once. The round may have passed their positions by
    /// then.
    @Test func `Each of many new members gets the newest state`() {
        let harness = RoundHarness(membershipChangesMax: 32)
        harness.admit(1, timestamp: RoundHarness.startSeconds)
        harness.send()
        let names = Array(SimulatedNames.names[0].prefix(32))
        for (index, name) in names.enumerated() { harness.register(name, record: UInt32(index)) }
        harness.performPendingWork()
        #expect(Set(harness.sendAndAcceptPushes().map(\.member)) == Set(names))
    }

    /// Members whose host accepts no pushes must leave room for members of other hosts.
    @Test func `Members whose host is away take at most half of the room`() {
        let harness = RoundHarness(membershipChangesMax: 32)
        harness.admit(1, timestamp: RoundHarness.startSeconds)
        for (index, name) in SimulatedNames.names[0].prefix(32).enumerated() {
            harness.register(name, record: UInt32(index))
        }
        harness.performPendingWork()
        harness.advanceClock(milliseconds: 10_000)
        #expect(harness.core.membershipChangeCount <= 16)
    }

    /// The lane did not run for a while, for example because the process was stopped. So it asked for no push
    /// meanwhile.
    @Test func `After a stall of the lane, new members get the newest state though room is scarce`() {
        let harness = RoundHarness(membershipChangesMax: 32)
        harness.admit(1, timestamp: RoundHarness.startSeconds)
        harness.performPendingWork()
        let names = Array(SimulatedNames.names[0].prefix(32))
        for (index, name) in names.enumerated() { harness.register(name, record: UInt32(index)) }
        harness.send()
        harness.advanceClock(milliseconds: 1_500)
        #expect(Set(harness.sendAndAcceptPushes().map(\.member)) == Set(names))
    }

    /// The states of members that wait for their pushes have a limit of bytes. (R4)
    @Test func `A member waits for its state while the states of other members use up the room`() {
        let harness = RoundHarness(newestStateBytesMax: 1)
        harness.admit(1, timestamp: RoundHarness.startSeconds)
        harness.send()
        let names = SimulatedNames.names[0]
        harness.register(names[0])
        harness.performPendingWork()
        harness.register(names[1], record: 2)
        harness.performPendingWork()
        #expect(harness.sendAndAcceptPushes().map(\.member) == [names[0]])
        #expect(harness.core.newestStateBytes == 0)
        harness.advanceClock(milliseconds: 400)
        #expect(harness.sendAndAcceptPushes().map(\.member) == [names[1]])
        #expect(Set(harness.takeReturnedRegistrations()) == [1, 2])
        #expect(harness.core.newestStateBytes == 0 && harness.core.membershipChangeCount == 0)
    }

    @Test func `Changes are counted when their audiences have stored them`() {
        let harness = RoundHarness()
        harness.register(name)
        #expect(harness.membershipChangeCounts == [0, 0, 0])
        harness.performPendingWork()
        harness.nowMilliseconds += 1
        harness.register(name, record: 2, wasMemberOfAllAudiences: true)
        harness.performPendingWork()
        harness.nowMilliseconds += 1
        harness.register(name, record: 3, isLeaving: true)
        harness.performPendingWork()
        #expect(harness.membershipChangeCounts == [1, 1, 1])
    }

    /// The store granted a higher timestamp than the command's own.
    @Test func `A new member gets the timestamp that the store granted`() {
        let harness = RoundHarness()
        harness.admit(1, timestamp: RoundHarness.startSeconds)
        harness.nowMilliseconds += 5_000
        harness.admit(2, timestamp: RoundHarness.startSeconds)
        harness.register(name)
        harness.performPendingWork()
        #expect(harness.send().map(\.timestamp) == [Int(RoundHarness.startSeconds) + 1])
    }

    @Test func `A new member gets an end with the high priority`() {
        let harness = RoundHarness()
        harness.admit(1, timestamp: RoundHarness.startSeconds, isEnd: true)
        harness.register(name)
        harness.performPendingWork()
        #expect(harness.send().map(\.priority) == [10])
    }

    /// The policy's 3,600 s for an update and 14,400 s for an end say only how long APNs stores a push. (R18)
    @Test(arguments: [(Event.update, 28_800, 3_600), (.end, 43_200, 14_400)] as [(Event, Int64, Int64)])
    func `A new member gets the newest state until the state is too old`(
        event: Event,
        ageSecondsMax: Int64,
        storedSeconds: Int64
    ) {
        let harness = RoundHarness()
        harness.handOver(0, event)
        harness.performPendingWork()
        harness.advanceClock(milliseconds: (ageSecondsMax - 10) * 1_000)
        harness.register(name)
        harness.performPendingWork()
        harness.send()
        let nowSeconds = harness.nowMilliseconds / 1_000
        #expect(harness.pushesInFlight.map(\.push.expirationSeconds) == [nowSeconds + storedSeconds])
        harness.respondToPushes()
        harness.advanceClock(milliseconds: 20_000)
        harness.register(SimulatedNames.names[0][1], record: 2)
        harness.performPendingWork()
        #expect(harness.send().isEmpty)
    }

    @Test func `A new member gets the newest state until the expiration of its command`() {
        let harness = RoundHarness()
        let expirationSeconds = harness.nowMilliseconds / 1_000 + 60
        harness.handOver(0, .update, expirationSeconds: expirationSeconds)
        harness.performPendingWork()
        harness.advanceClock(milliseconds: 50_000)
        harness.register(name)
        harness.performPendingWork()
        harness.send()
        #expect(harness.pushesInFlight.map(\.push.expirationSeconds) == [expirationSeconds])
        harness.respondToPushes()
        harness.advanceClock(milliseconds: 20_000)
        harness.register(SimulatedNames.names[0][1], record: 2)
        harness.performPendingWork()
        #expect(harness.send().isEmpty)
    }

    @Test func `A member that already shows the state gets no push`() {
        let harness = RoundHarness()
        harness.admit(3, timestamp: RoundHarness.startSeconds)
        harness.register(name, shows: Version(timestamp: RoundHarness.startSeconds, sequence: 3))
        harness.performPendingWork()
        #expect(harness.send().isEmpty)
        #expect(harness.takeReturnedRegistrations() == [1])
    }

    @Test func `Members that join together share one call`() {
        let harness = RoundHarness()
        harness.admit(1, timestamp: RoundHarness.startSeconds)
        for (index, name) in SimulatedNames.names[0].prefix(50).enumerated() {
            harness.register(name, record: UInt32(index))
        }
        var newestStateCallCount = 0
        while let call = harness.nextCall() {
            if case .readNewestState = call.operation { newestStateCallCount += 1 }
            harness.reply(to: call)
        }
        // The core asks the store when the first member joins. The other members join before the store replies, so one
        // more call serves all of them.
        #expect(newestStateCallCount <= 2)
        #expect(harness.send().count == 50)
        harness.respondToPushes()
        #expect(harness.takeReturnedRegistrations().count == 50)
    }

    /// The pool accepts nothing for an hour. After a second the core gives the registration back, although the member's
    /// push waits. (R18)
    @Test func `A registration does not wait for a pool that is away, but the push to its member does`() {
        let harness = RoundHarness()
        harness.admit(1, timestamp: RoundHarness.startSeconds)
        harness.register(name)
        harness.performPendingWork()
        harness.advanceClock(milliseconds: 999)
        #expect(harness.takeReturnedRegistrations().isEmpty)
        harness.advanceClock(milliseconds: 1)
        #expect(harness.takeReturnedRegistrations() == [1])
        harness.advanceClock(milliseconds: 3_600_000)
        #expect(harness.core.membershipChangeCount == 1)
        #expect(harness.core.newestStateBytes == 0, "a member that waits long keeps no state")
        #expect(harness.sendAndAcceptPushes().map(\.content) == [1])
        #expect(harness.core.membershipChangeCount == 0)
    }

    @Test func `A push that waits for its pool is given up when its state is too old`() {
        let harness = RoundHarness()
        harness.admit(1, timestamp: RoundHarness.startSeconds)
        harness.register(name)
        harness.performPendingWork()
        for _ in 0..<8 { harness.advanceClock(milliseconds: 3_599_000) }
        #expect(harness.core.membershipChangeCount == 1)
        harness.advanceClock(milliseconds: 20_000)
        #expect(harness.core.membershipChangeCount == 0)
        #expect(harness.sendAndAcceptPushes().isEmpty)
    }

    /// The members of the first app, whose pool is away, use half of the slots. A push of the second app fails once.
    @Test func `During an outage of one app, a member of another app waits for its retry`() {
        let harness = RoundHarness(membershipChangesMax: 32)
        harness.admit(1, timestamp: RoundHarness.startSeconds)
        for (index, name) in SimulatedNames.names[0].prefix(16).enumerated() {
            harness.register(name, record: UInt32(index))
        }
        harness.performPendingWork()
        harness.admit(2, timestamp: RoundHarness.startSeconds, appIndex: 1)
        harness.register(SimulatedNames.names[0][16], record: 16, appIndex: 1)
        harness.performPendingWork()
        #expect(harness.send(appIndex: 1).map(\.content) == [2])
        harness.respondToPushes(.retryLater)
        harness.advanceClock(milliseconds: 60_000)
        #expect(harness.sendAndAcceptPushes(appIndex: 1).map(\.content) == [2])
    }

    @Test func `A failed push to a new member is sent again with the newest state`() {
        let harness = harnessWithPushToNewMember()
        harness.respondToPushes(.retryLater)
        #expect(harness.takeReturnedRegistrations() == [1])
        harness.nowMilliseconds += 2_000
        harness.admit(2, timestamp: RoundHarness.startSeconds + 2)
        harness.advanceClock(milliseconds: 1)
        #expect(harness.send().map(\.content) == [2])
    }

    @Test func `A push to a new member is sent again after each failure`() {
        let harness = harnessWithPushToNewMember()
        for _ in 0..<60 {
            harness.respondToPushes(.retryLater)
            harness.advanceClock(milliseconds: 60_000)
            #expect(harness.send().map(\.content) == [1])
        }
        #expect(harness.takeReturnedRegistrations() == [1])
        harness.respondToPushes()
        #expect(harness.core.membershipChangeCount == 0)
    }

    /// A 429 says that this phone gets too many pushes. So the retry waits longer than after another failure.
    @Test func `A throttled push to a new member is sent again only after a long pause`() {
        let harness = harnessWithPushToNewMember()
        harness.respondToPushes(.throttled)
        harness.advanceClock(milliseconds: 10_000)
        #expect(harness.send().isEmpty)
        harness.advanceClock(milliseconds: 35_000)
        #expect(harness.send().map(\.content) == [1])
    }

    /// Only the first audience has a state. Its reply comes more than a second before that of the second audience.
    @Test func `A new member of several audiences gets the newest state although the replies come slowly`() throws {
        let harness = RoundHarness()
        harness.admit(1, timestamp: RoundHarness.startSeconds)
        harness.register(name, ["match-1", "match-2"])
        // Two calls write the member's entries. The third one reads the state of the first audience.
        for _ in 0..<3 { harness.reply(to: try #require(harness.nextCall())) }
        harness.nowMilliseconds += 1_100
        harness.reply(to: try #require(harness.nextCall()))
        #expect(harness.send().map(\.content) == [1])
        harness.respondToPushes()
        #expect(harness.takeReturnedRegistrations() == [1])
    }

    /// Returns a harness in which the push that shows the newest state to a new member is in flight.
    private func harnessWithPushToNewMember() -> RoundHarness {
        let harness = RoundHarness()
        harness.admit(1, timestamp: RoundHarness.startSeconds)
        harness.register(name)
        harness.performPendingWork()
        #expect(harness.send().map(\.content) == [1])
        return harness
    }

    /// A member changes twice before the core sends it a state. The core sends the state once, for the later
    /// change.
    @Test func `A later change of a member replaces an earlier one`() {
        let harness = RoundHarness()
        harness.admit(1, timestamp: RoundHarness.startSeconds)
        harness.register(name, record: 1)
        harness.performPendingWork()
        harness.nowMilliseconds += 1
        harness.register(name, record: 2)
        harness.performPendingWork()
        #expect(harness.takeReturnedRegistrations() == [1])
        #expect(harness.send().count == 1)
        harness.respondToPushes()
        #expect(harness.takeReturnedRegistrations() == [2])
    }
}
