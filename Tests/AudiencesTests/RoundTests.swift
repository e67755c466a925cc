import Delivery
import LiveActivity
import Testing

@testable import Audiences

/// Rounds through a range, in which newer versions supersede older ones. (R28)
@Suite struct RoundTests {
    private let names = Array(SimulatedNames.names[0].prefix(4))
        .sorted { SimulatedNames.place(of: $0) < SimulatedNames.place(of: $1) }

    private func bench() -> RoundHarness {
        let bench = RoundHarness()
        for name in names { bench.join(name) }
        return bench
    }

    private func members(of command: Int, in bench: RoundHarness) -> String? {
        bench.result(of: command)?.split(separator: "\"members\":").last?.split(separator: "}").first.map { "\($0)}" }
    }

    @Test func `Every member is reached once, and counted`() {
        let bench = bench()
        bench.command(1)
        #expect(bench.finish().map(\.member) == names)
        bench.pass(milliseconds: 1_000)
        #expect(members(of: 1, in: bench) == "{\"delivered\":4}")
        #expect(bench.core.roundsHeld == 0 && bench.core.recordsInProgress == 0)
        #expect(bench.committableOffset == 1)
    }

    /// The newer version begins at the older version's position and continues to the end of the range. Then
    /// it goes through the members before this position.
    @Test func `A newer version continues at the position of the older one`() {
        let bench = bench()
        bench.command(1)
        bench.settle()
        #expect(bench.send(atMost: 2).map(\.content) == [1, 1])
        bench.answerPushes()
        bench.command(2)
        let sent = bench.finish()
        #expect(sent.map(\.member) == [names[2], names[3], names[0], names[1]])
        #expect(sent.map(\.content) == [2, 2, 2, 2])
        bench.pass(milliseconds: 1_000)
        #expect(members(of: 1, in: bench) == "{\"delivered\":2,\"superseded\":2}")
        #expect(members(of: 2, in: bench) == "{\"delivered\":4}")
        #expect(SimulatedText.contains("\"outcome\":\"delivered\"", in: bench.result(of: 2) ?? ""))
    }

    @Test func `A version of which nothing was sent ends at once`() {
        let bench = bench()
        bench.command(1)
        bench.settle()
        bench.command(2)
        #expect(bench.finish().map(\.content) == [2, 2, 2, 2])
        bench.pass(milliseconds: 1_000)
        #expect(members(of: 1, in: bench) == "{}")
        #expect(SimulatedText.contains("\"outcome\":\"superseded\"", in: bench.result(of: 1) ?? ""))
        #expect(bench.core.recordsInProgress == 0)
    }

    /// The newer version carries the alert to exactly those members that the older version did not reach.
    @Test func `An alert rides on for the members that have not heard it`() {
        let bench = bench()
        bench.command(1, hasAlert: true)
        bench.settle()
        #expect(bench.send(atMost: 1).map(\.alert) == [1])
        bench.answerPushes()
        bench.command(2)
        bench.settle()
        #expect(bench.send(atMost: 1).map(\.alert) == [1])
        bench.answerPushes()
        bench.command(3)
        let sent = bench.finish()
        #expect(sent.map(\.member) == [names[2], names[3], names[0], names[1]])
        #expect(sent.map(\.content) == [3, 3, 3, 3])
        #expect(sent.map(\.alert) == [1, 1, nil, nil])
    }

    /// A push with an alert failed, so the member is parked. Its next push has the newer state with that
    /// alert, and does not wait until the round reaches the member again.
    @Test func `A parked member gets the older alert with the newer state`() {
        let bench = bench()
        bench.command(1, hasAlert: true)
        bench.settle()
        #expect(bench.send().count == 4)
        bench.answerPushes(.retryLater)
        bench.command(2)
        bench.pass(milliseconds: 60_000)
        bench.settle()
        var heard: [String: Int] = [:]
        for sent in bench.finish() where sent.alert == 1 { heard[sent.member, default: 0] += 1 }
        #expect(heard == Dictionary(uniqueKeysWithValues: names.map { ($0, 1) }))
    }

    @Test func `The oldest version closes early beyond the limit`() {
        let bench = RoundHarness()
        let many = Array(SimulatedNames.names[0].prefix(60))
        for name in many { bench.join(name) }
        for number in 1...40 {
            bench.command(number)
            bench.settle()
            #expect(bench.send(atMost: 1).map(\.content) == [number])
            bench.answerPushes()
            bench.pass(milliseconds: 600)
        }
        // A version that the round has closed keeps its record until a checkpoint has recorded its counts. So
        // there may be one record more.
        #expect(bench.core.recordsInProgress <= Audiences.versionsPerRoundMax + 1)
        #expect(members(of: 1, in: bench) == "{\"delivered\":1,\"superseded\":31}")
        #expect(SimulatedText.contains("\"outcome\":\"superseded\"", in: bench.result(of: 1) ?? ""))
        #expect(Set(bench.finish().map(\.content)) == [40])
        bench.pass(milliseconds: 1_000)
        #expect(members(of: 40, in: bench) == "{\"delivered\":60}")
        #expect(bench.core.recordsInProgress == 0)
    }

    // MARK: - Claims

    /// Two workers claim the same round. The worker with the earlier claim reports no counts until it has
    /// claimed the round again.
    @Test func `A lost round is claimed again`() {
        let first = bench()
        first.command(1)
        first.settle()
        #expect(first.send().count == 4)
        let second = RoundHarness(store: first.store, seed: 2)
        second.log = first.log
        second.read()
        second.settle()
        #expect(second.send().count == 4)

        first.store = second.store
        first.answerPushes()
        first.pass(milliseconds: 100)
        #expect(first.core.counters.roundsLost == 1)
        #expect(first.send().isEmpty)
        #expect(first.result(of: 1) == nil)

        second.answerPushes()
        second.pass(milliseconds: 1_000)
        #expect(members(of: 1, in: second) == "{\"delivered\":4}")
        first.store = second.store
        first.pass(milliseconds: 1_000)
        #expect(first.send().isEmpty)
        #expect(first.core.recordsInProgress == 0 && first.core.roundsHeld == 0)
    }

    @Test func `The next owner continues from the checkpoint`() {
        let first = bench()
        first.command(1)
        first.settle()
        #expect(first.send(atMost: 2).count == 2)
        first.answerPushes()
        #expect(first.revoke())

        let second = RoundHarness(store: first.store, seed: 2)
        for name in names { second.join(name) }
        second.log = first.log
        second.read()
        #expect(second.finish().map(\.member) == [names[2], names[3]])
        second.pass(milliseconds: 1_000)
        #expect(members(of: 1, in: second) == "{\"delivered\":4}")
    }

    // MARK: - Pages

    /// Members join a page that is about to be read, so that it is split after the page before it was read.
    @Test func `A page that is split while it is read loses no member`() {
        let bench = RoundHarness()
        let all = SimulatedNames.longNames[0]
        for name in all.prefix(45) { bench.join(name) }
        bench.command(1)
        var reached: [String] = []
        var joined = 45
        for _ in 0..<400 {
            guard let call = bench.nextCall() else {
                reached += bench.send().map(\.member)
                bench.answerPushes()
                if bench.core.roundsHeld == 0 { break }
                bench.now += 500
                continue
            }
            if case .page = call.operation, joined < all.count {
                // The joins may split the page that the core has just asked for.
                for name in all[joined...].prefix(7) { bench.join(name) }
                joined = min(all.count, joined + 7)
            }
            bench.answer(call)
        }
        #expect(Set(reached).isSuperset(of: all.prefix(45)))
        #expect(Set(reached).count == reached.count)
        #expect(bench.core.roundsHeld == 0)
    }

    /// The core asks for the first pages at once, because nothing else is in progress. While many reads are
    /// in progress, further reads are batched.
    @Test func `Pages are requested together`() {
        let bench = RoundHarness()
        for name in SimulatedNames.longNames[0] + SimulatedNames.names[0] { bench.join(name) }
        bench.command(1)
        // The store's model has not admitted the version, so the core claims the round a second time.
        for _ in 0..<2 { if let claim = bench.nextCall() { bench.answer(claim) } }
        var asked: [AudienceCall<[UInt8]>] = []
        while let call = bench.nextCall() { asked.append(call) }
        #expect(asked.count > 8)
        let held = bench.core.pageReads.count + asked.count
        // A further read waits until a quarter of all pages wait, or until `PageReadBatch.waitMilliseconds`
        // are over.
        bench.answer(asked.removeFirst())
        while bench.core.pageReads.isEmpty, !asked.isEmpty { bench.answer(asked.removeFirst()) }
        #expect(!bench.core.pageReads.isEmpty && bench.core.pageReads.count * 4 < held)
        #expect(bench.nextCall() == nil)
        #expect(bench.core.nextDueMilliseconds == bench.now + PageReadBatch.waitMilliseconds)
        bench.now += PageReadBatch.waitMilliseconds
        #expect(bench.nextCall() != nil)
    }

    /// The core has room for eight full pages, and at first keeps room for a full page for each read. When it
    /// has learned that the pages of the forty audiences are small, it reads more than a hundred pages at
    /// once.
    @Test func `Pages of small audiences share the room`() {
        let bench = RoundHarness(pageBytesMax: 1)
        let names = SimulatedNames.names[0].prefix(3) + SimulatedNames.names[1].prefix(3)
        for number in 1...40 {
            for name in names { bench.join(name, "match-\(number)") }
            bench.command(number, "match-\(number)")
        }
        var (held, sent) = (0, [RoundHarness.Sent]())
        for _ in 0..<10_000 where bench.core.roundsHeld > 0 {
            bench.core.advance(now: bench.moment)
            if let due = bench.core.pageReads.leaveAtMilliseconds { bench.now = max(bench.now, due) }
            var calls: [AudienceCall<[UInt8]>] = []
            while let call = bench.nextCall() { calls.append(call) }
            held = max(held, bench.core.pages.count)
            #expect(bench.core.queues[0].pageBytes <= 8 * PageSlot.bytesMax)
            for call in calls { bench.answer(call) }
            if calls.isEmpty { sent += bench.finish() }
        }
        #expect(held > 100)
        #expect(sent.count == 40 * names.count)
        #expect(bench.core.queues[0].pageBytes == 0 && bench.core.queues[0].pages == 0)
    }

    /// The core has no room for the segment's next page until it has pushed to all members of the first page.
    @Test func `No member is read twice when a newer version takes over`() {
        let bench = RoundHarness(pagesMax: 8)
        let all = SimulatedNames.longNames[0]
        for name in all { bench.join(name) }
        bench.command(1, hasAlert: true)
        bench.settle()
        let first = bench.send()
        #expect((1..<all.count).contains(first.count))
        bench.command(2)
        bench.settle()
        bench.answerPushes()
        let sent = bench.finish()
        bench.pass(milliseconds: 1_000)
        #expect(sent.count == all.count && Set(sent.map(\.member)) == Set(all))
        #expect((first + sent).filter { $0.alert == 1 }.count == all.count)
        #expect(members(of: 2, in: bench) == "{\"delivered\":80}")
        #expect(bench.core.roundsHeld == 0)
    }
}
