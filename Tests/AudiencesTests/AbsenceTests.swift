import Delivery
import LiveActivity
import Testing

@testable import Audiences

/// The APNs host of an app does not answer for an hour or more, while new versions keep coming.
@Suite struct AbsenceTests {
    private static let names = Array(SimulatedNames.names[0].prefix(4))
        .sorted { SimulatedNames.place(of: $0) < SimulatedNames.place(of: $1) }
    private static let periodMilliseconds: Int64 = 5_000

    /// Returns a core with version 1 and four members. APNs gave the given answer to the pushes of two
    /// members; the other two got no push.
    private func bench(hasAlert: Bool, answer: PushResult.Disposition) -> RoundHarness {
        let bench = RoundHarness()
        for name in Self.names { bench.join(name) }
        bench.command(1, hasAlert: hasAlert)
        bench.settle()
        #expect(bench.send(atMost: 2).count == 2)
        bench.answerPushes(answer)
        return bench
    }

    /// Writes a command every five seconds for an hour, and checks that the core never has more than
    /// `heldMax` records.
    private func hour(_ bench: RoundHarness, _ numbers: ClosedRange<Int> = 2...720, heldMax: Int) {
        var most = 0
        for number in numbers {
            bench.command(number)
            bench.pass(milliseconds: Self.periodMilliseconds)
            most = max(most, bench.core.recordsInProgress)
        }
        #expect(most <= heldMax)
    }

    @Test(arguments: [PushResult.Disposition.accepted, .retryLater])
    func `Replaced versions settle while the host is away`(answer: PushResult.Disposition) {
        let bench = bench(hasAlert: false, answer: answer)
        // At most four records are in the core at once: those that it read before it noticed the outage, and
        // one that waits for its version's checkpoint.
        hour(bench, heldMax: 4)
        #expect(bench.core.recordsInProgress == 1)
        #expect(bench.committableOffset == 719, "the newest is not settled, and all before it are")
        #expect(bench.finish().map(\.content) == [720, 720, 720, 720])
        bench.pass(milliseconds: 1_000)
        #expect(bench.core.recordsInProgress == 0 && bench.core.roundsHeld == 0)
        #expect(SimulatedText.contains("\"outcome\":\"superseded\"", in: bench.result(of: 1) ?? ""))
    }

    /// Some members have not got the alert. Its version stays unsettled until they have got it; newer
    /// versions still settle.
    @Test(arguments: [PushResult.Disposition.accepted, .retryLater])
    func `An alert that must still be sent holds only its own version`(answer: PushResult.Disposition) {
        let bench = bench(hasAlert: true, answer: answer)
        hour(bench, 2...600, heldMax: 4)
        #expect(bench.core.recordsInProgress == 2)
        #expect(bench.committableOffset == 0)
        let heard = bench.finish().filter { $0.alert == 1 }.map(\.member)
        #expect(Set(heard) == Set(answer == .accepted ? Array(Self.names[2...]) : Self.names))
        #expect(heard.count == Set(heard).count)
        bench.pass(milliseconds: 1_000)
        #expect(bench.core.recordsInProgress == 0 && bench.core.roundsHeld == 0)
    }

    @Test func `An alert that is too old holds no version`() {
        let bench = bench(hasAlert: true, answer: .retryLater)
        hour(bench, 2...730, heldMax: 4)
        #expect(bench.core.recordsInProgress == 1)
        #expect(bench.committableOffset == 729)
    }

    /// The next owner reads the unsettled records again, and reaches the members that the last owner did not
    /// reach.
    @Test func `The next owner takes over the remaining versions`() {
        let first = bench(hasAlert: true, answer: .retryLater)
        hour(first, 2...100, heldMax: 4)
        #expect(first.revoke())
        let progress = first.core.progress(first.place)
        #expect(progress?.committableOffset == 0)
        let second = RoundHarness(store: first.store, seed: 2)
        second.now = first.now
        for name in Self.names { second.join(name) }
        second.log = first.log
        second.resume(progress)
        second.read()
        let sent = second.finish()
        #expect(Set(sent.map(\.content)) == [100])
        #expect(Set(sent.filter { $0.alert == 1 }.map(\.member)) == Set(Self.names))
        second.pass(milliseconds: 1_000)
        #expect(second.core.recordsInProgress == 0 && second.core.roundsHeld == 0)
    }

    /// The pool takes no push, so only the expiration can settle the version.
    @Test func `An expired version settles without the host`() {
        let bench = bench(hasAlert: false, answer: .accepted)
        bench.pass(milliseconds: 3_500_000)
        #expect(bench.core.recordsInProgress == 1)
        for _ in 0..<10 { bench.pass(milliseconds: 30_000) }
        #expect(bench.core.recordsInProgress == 0 && bench.core.roundsHeld == 0)
        #expect(bench.committableOffset == 1)
        #expect(SimulatedText.contains("\"members\":{\"delivered\":2,\"expired\":2}", in: bench.result(of: 1) ?? ""))
    }
}
