import LiveActivity
import Testing

@testable import Audiences
@testable import Delivery

/// The table of parked members is full, or has too little room; or a round has so many parked members that it is
/// halted.
@Suite struct ParkingRoomTests {
    private static let parkedMembersMax = 64
    private static let names = SimulatedNames.names.flatMap { $0 }

    /// Lets a worker die after the first version of an audience has reached no member: all members are parked.
    private func storeCheckpointWithParkedMembers(
        _ names: [String],
        of audience: String,
        _ harness: RoundHarness
    ) throws {
        // The only range has all 256 segments, each with `1 << 32` positions.
        var checkpoint = Checkpoint(completedPosition: UInt64(1) << 40, newestSettledVersion: Version.zero)
        let version = Version(timestamp: RoundHarness.startSeconds + 1, sequence: 0)
        checkpoint.entries = [Checkpoint.Entry(version: version, startPosition: 0, counts: MemberOutcomeCounts())]
        checkpoint.parkedPositions = names.map { UInt64(SimulatedNames.location(of: $0).ordinal) }.sorted()
        harness.storeCheckpoint(try #require(checkpoint.encode()), of: audience)
    }

    /// Returns the members that get a push, in any order.
    private func sendInTurns(_ harness: RoundHarness) -> [String] {
        var members: [String] = []
        for _ in 0..<10 {
            members += harness.sendAndAcceptPushes().map(\.member)
            harness.advanceClock(milliseconds: 200)
        }
        return members.sorted()
    }

    /// All rounds read their parked members at the same time, and together have more of them than there is room for.
    @Test(arguments: [(audienceCount: 70, memberCount: 1), (2, 40), (3, 64)])
    func `After a crash, rounds park their members again one after the other if there is little room`(
        audienceCount: Int,
        memberCount: Int
    ) throws {
        let harness = RoundHarness(parkedMembersMax: Self.parkedMembersMax)
        for number in 0..<audienceCount {
            let names = Self.names[number * memberCount..<(number + 1) * memberCount]
            for name in names { harness.join(name, "match-\(number)") }
            try storeCheckpointWithParkedMembers(Array(names), of: "match-\(number)", harness)
        }
        for number in 0..<audienceCount {
            harness.appendCommand(1, "match-\(number)")
        }
        #expect(sendInTurns(harness) == Self.names.prefix(audienceCount * memberCount).sorted())
        #expect(harness.core.parkedMemberCount == 0 && harness.core.reservedParkingPlaceCount == 0)
        #expect(harness.committableOffset == Int64(audienceCount))
    }

    @Test(arguments: [false, true])
    func `A round that is revoked while it parks its members gives up its room`(isReleased: Bool) throws {
        let harness = RoundHarness(parkedMembersMax: Self.parkedMembersMax)
        for name in Self.names.prefix(40) { harness.join(name) }
        try storeCheckpointWithParkedMembers(Array(Self.names.prefix(40)), of: "match-1", harness)
        harness.appendCommand(1)
        while harness.core.reservedParkingPlaceCount != 38 {
            harness.core.advance(now: harness.moment)
            if let due = harness.core.pageReads.sendDueMilliseconds { harness.nowMilliseconds = due }
            harness.reply(to: try #require(harness.nextCall()))
        }
        if isReleased {
            harness.core.release(partition: harness.partitionIndex, now: harness.moment)
        } else {
            #expect(harness.beginRevoking())
        }
        harness.performPendingWork()
        #expect(harness.core.parkedMemberCount == 0 && harness.core.reservedParkingPlaceCount == 0)
    }

    @Test func `Members of an unavailable pool wait on their pages if no more members can be parked`() {
        let harness = RoundHarness(parkedMembersMax: Self.parkedMembersMax)
        for name in Self.names.prefix(100) { harness.join(name, environment: .sandbox) }
        for name in Self.names[100..<110] { harness.join(name) }
        harness.appendCommand(1)
        harness.performPendingWork()
        // The lane asks for no push of the sandbox for so long that this pool counts as unavailable.
        for _ in 0..<20 {
            harness.advanceClock(milliseconds: 100)
            _ = harness.send()
            harness.respondToPushes()
        }
        #expect(harness.core.parkedMemberCount == Self.parkedMembersMax / 2, "the rest is for the other app")
        var reachedCount = 0
        for _ in 0..<20 {
            harness.performPendingWork()
            reachedCount += harness.send(environment: .sandbox).count
            harness.respondToPushes()
            _ = harness.send()
            harness.respondToPushes()
            harness.advanceClock(milliseconds: 200)
        }
        #expect(reachedCount == 100)
        #expect(harness.core.parkedMemberCount == 0)
        #expect(harness.committableOffset == 1)
    }

    /// The lane asks for no push of the first app's sandbox, so the first app parks as many members as it may. (R22)
    @Test func `An app that parks many members leaves room for the members of other apps`() {
        let harness = RoundHarness(parkedMembersMax: Self.parkedMembersMax)
        for name in Self.names.prefix(100) { harness.join(name, environment: .sandbox) }
        harness.join(Self.names[100], appIndex: 1)
        harness.appendCommand(1)
        harness.appendCommand(2, appIndex: 1)
        harness.performPendingWork()
        for _ in 0..<20 {
            harness.advanceClock(milliseconds: 100)
            #expect(harness.send().isEmpty)
        }
        #expect(harness.sendAndAcceptPushes(appIndex: 1).map(\.member) == [Self.names[100]])
    }

    /// The sandbox is unavailable, so the round of the first audience is halted. It has read more members, and its
    /// pages use all the app's room for pages.
    @Test func `A halted round leaves the room for pages to other rounds of its app, and goes on later`() {
        let harness = RoundHarness(pagesMax: 16, parkedCountThatHaltsRound: 4)
        for name in Self.names.prefix(20) { harness.join(name, environment: .sandbox) }
        harness.join(Self.names[20], "match-2")
        harness.appendCommand(1)
        harness.performPendingWork()
        #expect(harness.send().isEmpty)
        #expect(harness.core.parkedMemberCount == 4)
        #expect(harness.core.apps[0].pageCount == harness.core.configuration.pagesPerAppMax)
        harness.appendCommand(2, "match-2")
        var reached: [String] = []
        for _ in 0..<30 {
            harness.advanceClock(milliseconds: 100)
            reached += harness.send().map(\.member)
            harness.respondToPushes()
        }
        #expect(reached == [Self.names[20]])
        #expect(harness.core.parkedMemberCount == 4)

        // The sandbox is available again.
        var reachedCount = 0
        for _ in 0..<20 {
            reachedCount += harness.send(environment: .sandbox).count
            harness.respondToPushes()
            harness.advanceClock(milliseconds: 200)
        }
        #expect(reachedCount == 20)
        #expect(harness.core.roundCount == 0 && harness.committableOffset == 2)
    }

    /// Adds a round that uses all the app's room for pages for a long time: 60 members of production in many segments.
    private func beginLongRound(_ harness: RoundHarness, _ number: Int, of audience: String) {
        for member in 0..<60 { harness.join("long-round-\(member)", audience) }
        harness.appendCommand(number, audience)
        harness.performPendingWork()
        #expect(harness.core.apps[0].pageCount == harness.core.configuration.pagesPerAppMax)
    }

    /// Sends one push of production, and all of the sandbox, in each iteration.
    ///
    /// - Returns: the number of members of the sandbox that got a push.
    private func sandboxMemberCount(_ harness: RoundHarness, iterationCount: Int) -> Int {
        var count = 0
        for _ in 0..<iterationCount {
            harness.send(atMost: 1)
            harness.respondToPushes()
            count += harness.send(environment: .sandbox).count
            harness.respondToPushes()
            harness.advanceClock(milliseconds: 50)
        }
        return count
    }

    /// The halted round has no pages to give up, and must read each parked member again before its push.
    @Test func `A halted round gets a page after an outage although another round uses all the room`() {
        let harness = RoundHarness(pagesMax: 16, parkedCountThatHaltsRound: 4)
        for name in Self.names.prefix(20) { harness.join(name, environment: .sandbox) }
        harness.appendCommand(1)
        harness.performPendingWork()
        #expect(harness.send().isEmpty)
        #expect(harness.core.parkedMemberCount == 4)
        for _ in 0..<3 { harness.advanceClock(milliseconds: 1_000) }
        #expect(harness.core.apps[0].pageCount == 0)
        beginLongRound(harness, 2, of: "match-2")
        #expect(sandboxMemberCount(harness, iterationCount: 15) > 0)
    }

    /// Each parked member is read again on a page of its own.
    @Test func `After a crash, a round reads its parked members although another round uses all the room`() throws {
        let harness = RoundHarness(pagesMax: 16)
        beginLongRound(harness, 1, of: "match-2")
        let names = Array(Self.names.prefix(3))
        for name in names { harness.join(name, environment: .sandbox) }
        try storeCheckpointWithParkedMembers(names, of: "match-1", harness)
        harness.appendCommand(1)
        harness.performPendingWork()
        #expect(sandboxMemberCount(harness, iterationCount: 30) == 3)
    }

    /// Adds a round with a member of production in nearly every segment. While it sends, it reads the next segments all
    /// the time, so its next member is never too old.
    private func beginSteadyRound(_ harness: RoundHarness, _ number: Int, of audience: String) {
        var segments: Set<UInt8> = []
        for member in 0..<2_000 {
            let name = "steady-round-\(member)"
            if segments.insert(SimulatedNames.location(of: name).segment).inserted { harness.join(name, audience) }
        }
        harness.appendCommand(number, audience)
        harness.performPendingWork()
    }

    /// Parks the members of production of the first audience, and lets them become due and too old. Further members of
    /// the sandbox, for whose pushes the lane never asks, are parked too.
    private func beginHaltedRound(_ harness: RoundHarness, _ names: [String], sandboxNames: [String] = []) {
        for name in names { harness.join(name) }
        for name in sandboxNames { harness.join(name, environment: .sandbox) }
        harness.appendCommand(1)
        harness.performPendingWork()
        #expect(harness.send().count == names.count)
        harness.respondToPushes(.retryLater)
        harness.advanceClock(milliseconds: 3_000)
        #expect(harness.core.parkedMemberCount == names.count + sandboxNames.count)
    }

    /// Sends one push of production in each iteration, and returns the members that got one.
    private func membersOfProduction(
        _ harness: RoundHarness,
        iterationCount: Int,
        millisecondsPerPush: Int64
    ) -> [String] {
        var members: [String] = []
        for _ in 0..<iterationCount {
            members += harness.send(atMost: 1).map(\.member)
            harness.respondToPushes()
            harness.advanceClock(milliseconds: millisecondsPerPush)
        }
        return members
    }

    /// A turn of the other round has 64 pushes and lasts more than a second. If the halted round had to wait for it,
    /// the members that it has just read would be too old again.
    @Test(arguments: [256, 16], [false, true])
    func `A halted round reaches the members that it has read again although another round is busy`(
        pagesMax: Int,
        hasSandboxMember: Bool
    ) {
        let harness = RoundHarness(pagesMax: pagesMax, parkedCountThatHaltsRound: 4)
        let names = Array(Self.names.prefix(4))
        beginHaltedRound(harness, names, sandboxNames: hasSandboxMember ? [Self.names[4]] : [])
        beginSteadyRound(harness, 2, of: "match-2")
        let members = membersOfProduction(harness, iterationCount: 150, millisecondsPerPush: 17)
        #expect(Set(members).isSuperset(of: names))
    }

    @Test func `A halted round with many members that it has read again leaves turns to the other rounds of its app`() {
        let harness = RoundHarness(parkedCountThatHaltsRound: 4)
        // So few members of each segment that they fit on one page, and more of them than a turn has pushes.
        let names = SimulatedNames.names.flatMap { $0.prefix(20) }
        beginHaltedRound(harness, names)
        beginSteadyRound(harness, 2, of: "match-2")
        let members = membersOfProduction(harness, iterationCount: 220, millisecondsPerPush: 10)
        #expect(Set(members).isSuperset(of: names))
        // The longest sequence of pushes of the halted round, between pushes of the other one.
        let longestTurn = members.split { !names.contains($0) }.map(\.count).max()
        #expect(longestTurn == Int(harness.core.configuration.consecutivePushesMax))
    }

    /// The first member has not got the alert, and APNs does not respond to its push. So the round waits one lap above
    /// this member.
    @Test func `A round that waits for a parked member leaves the room for pages to other rounds of its app`() {
        let harness = RoundHarness(pagesMax: 16)
        let names = SimulatedNames.names[0].prefix(20)
        for name in names { harness.join(name) }
        harness.join(Self.names[20], "match-2")
        harness.appendCommand(1, hasAlert: true)
        harness.performPendingWork()
        #expect(harness.send(atMost: 1).count == 1)
        harness.respondToPushes(.retryLater)
        #expect(harness.send().count == 19)
        harness.respondToPushes()
        harness.appendCommand(2)
        harness.performPendingWork()
        for _ in 0..<20 where harness.pushesInFlight.isEmpty {
            harness.advanceClock(milliseconds: 100)
            harness.send()
        }
        #expect(harness.pushesInFlight.map { $0.sent.alert } == [1])
        harness.performPendingWork()
        harness.appendCommand(3, "match-2")
        var reached: [String] = []
        for _ in 0..<30 {
            harness.advanceClock(milliseconds: 100)
            reached += harness.send().map(\.member)
        }
        #expect(reached == [Self.names[20]])
        // APNs responds, and the round goes on.
        harness.respondToPushes()
        #expect(Set(harness.sendAndAcceptPushes().map(\.member)) == Set(names))
        harness.advanceClock(milliseconds: 1_000)
        #expect(harness.core.parkedMemberCount == 0 && harness.committableOffset == 3)
    }
}
