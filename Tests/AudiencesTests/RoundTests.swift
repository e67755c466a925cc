import Delivery
import LiveActivity
import Testing

@testable import Audiences

/// Rounds (``RoundSlot``) through a range, in which newer versions supersede older ones. (R28)
@Suite struct RoundTests {
    private let names = Array(SimulatedNames.names[0].prefix(4))
        .sorted { SimulatedNames.location(of: $0) < SimulatedNames.location(of: $1) }

    private func makeHarness() -> RoundHarness {
        let harness = RoundHarness()
        for name in names { harness.join(name) }
        return harness
    }

    /// Returns the number of members with each outcome, as the command's result says it: `{"delivered":4}`, for
    /// example.
    private func memberCountsText(of command: Int, in harness: RoundHarness) -> String? {
        harness.result(of: command)?.split(separator: "\"members\":").last?.split(separator: "}").first.map { "\($0)}" }
    }

    @Test func `Every member is reached once, and counted`() {
        let harness = makeHarness()
        harness.appendCommand(1)
        #expect(harness.sendAndAcceptPushes().map(\.member) == names)
        harness.advanceClock(milliseconds: 1_000)
        #expect(memberCountsText(of: 1, in: harness) == "{\"delivered\":4}")
        #expect(harness.core.roundCount == 0 && harness.core.fanoutRecordCount == 0)
        #expect(harness.committableOffset == 1)
    }

    @Test func `The result of a refused member counts its requests to APNs`() throws {
        let harness = makeHarness()
        harness.appendCommand(1)
        harness.performPendingWork()
        #expect(harness.send(atMost: 1).map(\.member) == [names[0]])
        harness.respondToPushes(.rejected, reason: "BadExpirationDate")
        let result = try #require(harness.producedRecords.first { SimulatedText.contains("BadExpirationDate", in: $0) })
        #expect(SimulatedText.contains("\"attempts\":1,", in: result))

        #expect(harness.send(atMost: 1).map(\.member) == [names[1]])
        harness.respondToPushes(.retryLater)
        var sent = harness.send()
        harness.respondToPushes()
        for _ in 0..<20 where !sent.contains(where: { $0.member == names[1] }) {
            harness.advanceClock(milliseconds: 1_000)
            sent = harness.send()
        }
        #expect(sent.map(\.member) == [names[1]])
        harness.respondToPushes(.rejected, reason: "BadPriority")
        let results = harness.producedRecords.filter { SimulatedText.contains("\"activity\":\"\(names[1])\"", in: $0) }
        #expect(results.count == 1 && SimulatedText.contains("\"attempts\":2,", in: results.first ?? ""))
    }

    /// The newer version begins at the older version's position and continues to the end of the range. Then it goes
    /// through the members before this position.
    @Test func `A newer version continues at the position of the older one`() {
        let harness = makeHarness()
        harness.appendCommand(1)
        harness.performPendingWork()
        #expect(harness.send(atMost: 2).map(\.content) == [1, 1])
        harness.respondToPushes()
        harness.appendCommand(2)
        let sent = harness.sendAndAcceptPushes()
        #expect(sent.map(\.member) == [names[2], names[3], names[0], names[1]])
        #expect(sent.map(\.content) == [2, 2, 2, 2])
        harness.advanceClock(milliseconds: 1_000)
        #expect(memberCountsText(of: 1, in: harness) == "{\"delivered\":2,\"superseded\":2}")
        #expect(memberCountsText(of: 2, in: harness) == "{\"delivered\":4}")
        #expect(SimulatedText.contains("\"outcome\":\"delivered\"", in: harness.result(of: 2) ?? ""))
    }

    @Test func `A version that reached no member ends as soon as a newer one comes`() {
        let harness = makeHarness()
        harness.appendCommand(1)
        harness.performPendingWork()
        harness.appendCommand(2)
        #expect(harness.sendAndAcceptPushes().map(\.content) == [2, 2, 2, 2])
        harness.advanceClock(milliseconds: 1_000)
        #expect(memberCountsText(of: 1, in: harness) == "{}")
        #expect(SimulatedText.contains("\"outcome\":\"superseded\"", in: harness.result(of: 1) ?? ""))
        #expect(harness.core.fanoutRecordCount == 0)
    }

    /// The newer versions carry the alert to exactly those members that have not got it yet.
    @Test func `An alert rides on for the members that have not heard it`() {
        let harness = makeHarness()
        harness.appendCommand(1, hasAlert: true)
        harness.performPendingWork()
        #expect(harness.send(atMost: 1).map(\.alert) == [1])
        harness.respondToPushes()
        harness.appendCommand(2)
        harness.performPendingWork()
        #expect(harness.send(atMost: 1).map(\.alert) == [1])
        harness.respondToPushes()
        harness.appendCommand(3)
        let sent = harness.sendAndAcceptPushes()
        #expect(sent.map(\.member) == [names[2], names[3], names[0], names[1]])
        #expect(sent.map(\.content) == [3, 3, 3, 3])
        #expect(sent.map(\.alert) == [1, 1, nil, nil])
    }

    /// A push with an alert failed, so the member is parked. Its next push has the newer state with that alert.
    @Test func `A parked member gets the older alert with the newer state`() {
        let harness = makeHarness()
        harness.appendCommand(1, hasAlert: true)
        harness.performPendingWork()
        #expect(harness.send().count == 4)
        harness.respondToPushes(.retryLater)
        harness.appendCommand(2)
        harness.advanceClock(milliseconds: 60_000)
        harness.performPendingWork()
        var heard: [String: Int] = [:]
        for sent in harness.sendAndAcceptPushes() where sent.alert == 1 { heard[sent.member, default: 0] += 1 }
        #expect(heard == Dictionary(uniqueKeysWithValues: names.map { ($0, 1) }))
    }

    @Test func `A round with too many open versions closes the oldest one early`() {
        let harness = RoundHarness()
        for name in SimulatedNames.names[0].prefix(60) { harness.join(name) }
        for number in 1...40 {
            harness.appendCommand(number)
            harness.performPendingWork()
            #expect(harness.send(atMost: 1).map(\.content) == [number])
            harness.respondToPushes()
            harness.advanceClock(milliseconds: 600)
        }
        // A version that the round has closed keeps its record until a checkpoint has recorded its counts. So
        // there may be one record more.
        #expect(harness.core.fanoutRecordCount <= Audiences.versionsPerRoundMax + 1)
        // A round has at most 32 open versions. So version 1 closes when version 33 comes. By then the round has passed
        // 32 members: one got version 1, and 31 got newer versions.
        #expect(memberCountsText(of: 1, in: harness) == "{\"delivered\":1,\"superseded\":31}")
        #expect(SimulatedText.contains("\"outcome\":\"superseded\"", in: harness.result(of: 1) ?? ""))
        #expect(Set(harness.sendAndAcceptPushes().map(\.content)) == [40])
        harness.advanceClock(milliseconds: 1_000)
        #expect(memberCountsText(of: 40, in: harness) == "{\"delivered\":60}")
        #expect(harness.core.fanoutRecordCount == 0)
    }

    // MARK: - Claims

    /// Two workers claim the same round, one after the other. The first one reports no counts until it has claimed the
    /// round again.
    @Test func `A lost round is claimed again`() {
        let firstWorker = makeHarness()
        firstWorker.appendCommand(1)
        firstWorker.performPendingWork()
        #expect(firstWorker.send().count == 4)
        let secondWorker = RoundHarness(store: firstWorker.store, seed: 2)
        secondWorker.log = firstWorker.log
        secondWorker.readLog()
        secondWorker.performPendingWork()
        #expect(secondWorker.send().count == 4)

        firstWorker.store = secondWorker.store
        firstWorker.respondToPushes()
        firstWorker.advanceClock(milliseconds: 100)
        #expect(firstWorker.core.counters.lostRoundCount == 1)
        #expect(firstWorker.send().isEmpty)
        #expect(firstWorker.result(of: 1) == nil)

        secondWorker.respondToPushes()
        secondWorker.advanceClock(milliseconds: 1_000)
        #expect(memberCountsText(of: 1, in: secondWorker) == "{\"delivered\":4}")
        firstWorker.store = secondWorker.store
        firstWorker.advanceClock(milliseconds: 1_000)
        #expect(firstWorker.send().isEmpty)
        #expect(firstWorker.core.fanoutRecordCount == 0 && firstWorker.core.roundCount == 0)
    }

    /// The pause before a claim doubles with each loss. After a claim that was kept for long, it is short again.
    @Test func `The pause after a lost claim grows only while losses follow each other`() {
        let harness = makeHarness()
        harness.appendCommand(1)
        var pauses: [Int64] = []
        for keptMilliseconds: Int64 in [0, 0, 0, 70_000, 0] {
            harness.performPendingWork()
            #expect(harness.send().count == 4)
            harness.respondToPushes(.retryLater)
            harness.nowMilliseconds += keptMilliseconds
            harness.core.handleLostClaim(harness.firstRound, areMembersLost: false, now: harness.moment)
            let pauseMilliseconds = harness.claimPauseMilliseconds
            pauses.append(pauseMilliseconds)
            harness.advanceClock(milliseconds: pauseMilliseconds)
        }
        // Jitter makes a pause up to one half shorter.
        for (pause, longest) in zip(pauses, [500, 1_000, 2_000, 500, 1_000] as [Int64]) {
            #expect((longest / 2...longest).contains(pause), "\(pauses)")
        }
    }

    @Test func `The next owner continues from the checkpoint`() {
        let firstWorker = makeHarness()
        firstWorker.appendCommand(1)
        firstWorker.performPendingWork()
        #expect(firstWorker.send(atMost: 2).count == 2)
        firstWorker.respondToPushes()
        #expect(firstWorker.beginRevoking())

        let secondWorker = RoundHarness(store: firstWorker.store, seed: 2)
        for name in names { secondWorker.join(name) }
        secondWorker.log = firstWorker.log
        secondWorker.readLog()
        #expect(secondWorker.sendAndAcceptPushes().map(\.member) == [names[2], names[3]])
        secondWorker.advanceClock(milliseconds: 1_000)
        #expect(memberCountsText(of: 1, in: secondWorker) == "{\"delivered\":4}")
    }

    // MARK: - Pages

    /// Members join a page after the core has asked for it and before the store replies. The joins may split
    /// the page.
    @Test func `A page that is split while it is read loses no member`() {
        let harness = RoundHarness()
        let allNames = SimulatedNames.longNames[0]
        let initialMemberCount = 45
        for name in allNames.prefix(initialMemberCount) { harness.join(name) }
        harness.appendCommand(1)
        var reached: [String] = []
        var joinedCount = initialMemberCount
        for _ in 0..<400 {
            guard let call = harness.nextCall() else {
                reached += harness.send().map(\.member)
                harness.respondToPushes()
                if harness.core.roundCount == 0 { break }
                harness.nowMilliseconds += 500
                continue
            }
            if case .readPage = call.operation, joinedCount < allNames.count {
                for name in allNames[joinedCount...].prefix(7) { harness.join(name) }
                joinedCount = min(allNames.count, joinedCount + 7)
            }
            harness.reply(to: call)
        }
        #expect(Set(reached).isSuperset(of: allNames.prefix(initialMemberCount)))
        #expect(Set(reached).count == reached.count)
        #expect(harness.core.roundCount == 0)
    }

    /// While few pages are in use, the core asks for pages at once. While many are in use, it batches further reads.
    @Test func `While many pages are in use, further reads are sent together`() {
        let harness = RoundHarness()
        for name in SimulatedNames.longNames[0] + SimulatedNames.names[0] { harness.join(name) }
        harness.appendCommand(1)
        // `appendCommand` does not admit the version, so the store's model does not know it. Such a store may lack
        // members. So the core claims the range a second time before it reads pages.
        for _ in 0..<2 { if let claim = harness.nextCall() { harness.reply(to: claim) } }
        var pageCalls: [AudienceCall<[UInt8]>] = []
        while let call = harness.nextCall() { pageCalls.append(call) }
        #expect(pageCalls.count > 8)
        let requestedPageCount = harness.core.pageReads.count + pageCalls.count
        // A further read waits until the waiting reads are a quarter of all pages in use, or until
        // `PageReadBatch.waitMillisecondsMax` are over.
        harness.reply(to: pageCalls.removeFirst())
        while harness.core.pageReads.isEmpty, !pageCalls.isEmpty { harness.reply(to: pageCalls.removeFirst()) }
        #expect(!harness.core.pageReads.isEmpty && harness.core.pageReads.count * 4 < requestedPageCount)
        #expect(harness.nextCall() == nil)
        #expect(harness.core.nextDueMilliseconds == harness.nowMilliseconds + PageReadBatch.waitMillisecondsMax)
        harness.nowMilliseconds += PageReadBatch.waitMillisecondsMax
        #expect(harness.nextCall() != nil)
    }

    /// The core has room for eight full pages. At first it keeps room for a full page for each read. When it has
    /// learned that the pages of the forty audiences are small, it reads more than a hundred pages at once.
    @Test func `Pages of small audiences share the room`() {
        let harness = RoundHarness(pageBytesMax: 1)
        let names = SimulatedNames.names[0].prefix(3) + SimulatedNames.names[1].prefix(3)
        for number in 1...40 {
            for name in names { harness.join(name, "match-\(number)") }
            harness.appendCommand(number, "match-\(number)")
        }
        var (largestPageCount, sent) = (0, [RoundHarness.SentPush]())
        for _ in 0..<10_000 where harness.core.roundCount > 0 {
            harness.core.advance(now: harness.moment)
            if let due = harness.core.pageReads.sendDueMilliseconds {
                harness.nowMilliseconds = max(harness.nowMilliseconds, due)
            }
            var calls: [AudienceCall<[UInt8]>] = []
            while let call = harness.nextCall() { calls.append(call) }
            largestPageCount = max(largestPageCount, harness.core.pages.count)
            #expect(harness.core.apps[0].pageBytes <= 8 * PageSlot.expectedBytesMax)
            for call in calls { harness.reply(to: call) }
            if calls.isEmpty { sent += harness.sendAndAcceptPushes() }
        }
        #expect(largestPageCount > 100)
        #expect(sent.count == 40 * names.count)
        #expect(harness.core.apps[0].pageBytes == 0 && harness.core.apps[0].pageCount == 0)
    }

    /// The core has no room for the segment's next page until it has pushed to all members of the first page.
    @Test func `A newer version that takes over a round reaches each member once`() {
        let harness = RoundHarness(pagesMax: 8)
        let allNames = SimulatedNames.longNames[0]
        for name in allNames { harness.join(name) }
        harness.appendCommand(1, hasAlert: true)
        harness.performPendingWork()
        let earlierPushes = harness.send()
        #expect((1..<allNames.count).contains(earlierPushes.count))
        harness.appendCommand(2)
        harness.performPendingWork()
        harness.respondToPushes()
        let laterPushes = harness.sendAndAcceptPushes()
        harness.advanceClock(milliseconds: 1_000)
        #expect(laterPushes.count == allNames.count && Set(laterPushes.map(\.member)) == Set(allNames))
        #expect((earlierPushes + laterPushes).filter { $0.alert == 1 }.count == allNames.count)
        #expect(memberCountsText(of: 2, in: harness) == "{\"delivered\":80}")
        #expect(harness.core.roundCount == 0)
    }
}
