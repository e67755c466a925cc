import Delivery
import LiveActivity
import Testing

@testable import Audiences

/// The APNs host of an app accepts no push for a long time. In most tests, new versions come all the time.
@Suite struct UnavailableHostTests {
    private static let names = Array(SimulatedNames.names[0].prefix(4))
        .sorted { SimulatedNames.location(of: $0) < SimulatedNames.location(of: $1) }
    private static let commandIntervalMilliseconds: Int64 = 5_000

    /// Returns a core with version 1 and four members. APNs gave the given response to the pushes of two
    /// members; the other two got no push.
    private func makeHarness(hasAlert: Bool, response: PushResult.Disposition) -> RoundHarness {
        let harness = RoundHarness()
        for name in Self.names { harness.join(name) }
        harness.appendCommand(1, hasAlert: hasAlert)
        harness.performPendingWork()
        #expect(harness.send(atMost: 2).count == 2)
        harness.respondToPushes(response)
        return harness
    }

    /// Appends the commands with these numbers, one every five seconds. Checks that the core never has more than
    /// `recordsMax` records.
    private func appendCommands(_ numbers: ClosedRange<Int>, to harness: RoundHarness, recordsMax: Int) {
        var largestRecordCount = 0
        for number in numbers {
            harness.appendCommand(number)
            harness.advanceClock(milliseconds: Self.commandIntervalMilliseconds)
            largestRecordCount = max(largestRecordCount, harness.core.fanoutRecordCount)
        }
        #expect(largestRecordCount <= recordsMax)
    }

    @Test(arguments: [PushResult.Disposition.accepted, .retryLater])
    func `Replaced versions settle while the host is away`(response: PushResult.Disposition) {
        let harness = makeHarness(hasAlert: false, response: response)
        // At most four records are in the core at once: those that it read before it noticed the outage, and
        // one that waits for its version's checkpoint.
        appendCommands(2...720, to: harness, recordsMax: 4)
        #expect(harness.core.fanoutRecordCount == 1)
        #expect(harness.committableOffset == 719, "all commands except the newest are settled")
        #expect(harness.sendAndAcceptPushes().map(\.content) == [720, 720, 720, 720])
        harness.advanceClock(milliseconds: 1_000)
        #expect(harness.core.fanoutRecordCount == 0 && harness.core.roundCount == 0)
        #expect(SimulatedText.contains("\"outcome\":\"superseded\"", in: harness.result(of: 1) ?? ""))
    }

    /// Some members have not got the alert, so its version stays unsettled. Newer versions that are replaced still
    /// settle.
    @Test(arguments: [PushResult.Disposition.accepted, .retryLater])
    func `An alert that must still be sent keeps only its own version unsettled`(response: PushResult.Disposition) {
        let harness = makeHarness(hasAlert: true, response: response)
        appendCommands(2...600, to: harness, recordsMax: 4)
        #expect(harness.core.fanoutRecordCount == 2)
        #expect(harness.committableOffset == 0)
        let heard = harness.sendAndAcceptPushes().filter { $0.alert == 1 }.map(\.member)
        #expect(Set(heard) == Set(response == .accepted ? Array(Self.names[2...]) : Self.names))
        #expect(heard.count == Set(heard).count)
        harness.advanceClock(milliseconds: 1_000)
        #expect(harness.core.fanoutRecordCount == 0 && harness.core.roundCount == 0)
    }

    @Test func `An alert that is too old keeps no version unsettled`() {
        let harness = makeHarness(hasAlert: true, response: .retryLater)
        // The last command comes more than an hour after the alert, and an hour is the policy's limit.
        appendCommands(2...730, to: harness, recordsMax: 4)
        #expect(harness.core.fanoutRecordCount == 1)
        #expect(harness.committableOffset == 729)
    }

    /// The next owner reads the unsettled records again, and reaches the members that the previous owner did not
    /// reach.
    @Test func `The next owner takes over the remaining versions`() {
        let firstWorker = makeHarness(hasAlert: true, response: .retryLater)
        appendCommands(2...100, to: firstWorker, recordsMax: 4)
        #expect(firstWorker.beginRevoking())
        let progress = firstWorker.core.composeProgress(firstWorker.partitionIndex)
        #expect(progress?.committableOffset == 0)
        let secondWorker = RoundHarness(store: firstWorker.store, seed: 2)
        secondWorker.nowMilliseconds = firstWorker.nowMilliseconds
        for name in Self.names { secondWorker.join(name) }
        secondWorker.log = firstWorker.log
        secondWorker.resume(progress)
        secondWorker.readLog()
        let sent = secondWorker.sendAndAcceptPushes()
        #expect(Set(sent.map(\.content)) == [100])
        #expect(Set(sent.filter { $0.alert == 1 }.map(\.member)) == Set(Self.names))
        secondWorker.advanceClock(milliseconds: 1_000)
        #expect(secondWorker.core.fanoutRecordCount == 0 && secondWorker.core.roundCount == 0)
    }

    /// The pool takes no push, and no newer version comes. So only the expiration can settle the version.
    @Test func `An expired version settles without the host`() {
        let harness = makeHarness(hasAlert: false, response: .accepted)
        // An update is too old after eight hours.
        harness.advanceClock(milliseconds: 28_700_000)
        #expect(harness.core.fanoutRecordCount == 1)
        for _ in 0..<10 { harness.advanceClock(milliseconds: 30_000) }
        #expect(harness.core.fanoutRecordCount == 0 && harness.core.roundCount == 0)
        #expect(harness.committableOffset == 1)
        #expect(SimulatedText.contains("\"members\":{\"delivered\":2,\"expired\":2}", in: harness.result(of: 1) ?? ""))
    }

    /// The policy's hour for an update says only how long APNs stores a push. (R18)
    @Test func `The newest version waits for the host for hours`() {
        let harness = makeHarness(hasAlert: false, response: .retryLater)
        for _ in 0..<240 { harness.advanceClock(milliseconds: 30_000) }
        #expect(harness.core.fanoutRecordCount == 1)
        #expect(Set(harness.sendAndAcceptPushes().map(\.member)) == Set(Self.names))
    }

    /// The sandbox's pool of the first app never takes a push, for example because its key is wrong. The 64 records of
    /// the second app come in the same partition, and fill its ledger.
    @Test func `A member of an unavailable pool does not stop the partition of other apps`() {
        let harness = RoundHarness(ledgerSpanOffsetCount: 64)
        harness.join(Self.names[0], environment: .sandbox)
        for name in Self.names[1...2] { harness.join(name) }
        harness.join(Self.names[3], "match-2", appIndex: 1)
        harness.appendCommand(1)
        #expect(Set(harness.sendAndAcceptPushes().map(\.member)) == Set(Self.names[1...2]))
        // The policy's time for an update is an hour.
        harness.advanceClock(milliseconds: 3_662_000)
        #expect(harness.core.fanoutRecordCount == 1)
        for number in 2...65 {
            harness.appendCommand(number, "match-2", appIndex: 1)
            #expect(harness.sendAndAcceptPushes(appIndex: 1).map(\.content) == [number])
            harness.advanceClock(milliseconds: 1_000)
        }
        #expect(harness.core.fanoutRecordCount == 0 && harness.committableOffset == 65)
        #expect(SimulatedText.contains("\"members\":{\"delivered\":2,\"expired\":1}", in: harness.result(of: 1) ?? ""))
    }

    /// Returns a harness with the production members `names`, and a command whose partition's ledger is half full.
    private func makeHarnessWithHalfLedger(sentCount: Int) -> RoundHarness {
        let harness = RoundHarness(ledgerSpanOffsetCount: 64)
        for name in Self.names { harness.join(name) }
        harness.appendCommand(1)
        harness.performPendingWork()
        harness.send(atMost: sentCount)
        harness.respondToPushes()
        let unreadable = SimulatedFanout(value: [], instruction: harness.log[0].instruction)
        harness.log += Array(repeating: unreadable, count: 40)
        harness.readLog()
        return harness
    }

    /// The sandbox's pool is idle, but the members are in production.
    @Test func `An outage of APNs gives up no members, although the ledger is half full`() {
        let harness = makeHarnessWithHalfLedger(sentCount: 0)
        for _ in 0..<370 {
            harness.send(environment: .sandbox)
            harness.advanceClock(milliseconds: 10_000)
        }
        #expect(harness.core.fanoutRecordCount == 1)
        #expect(Set(harness.sendAndAcceptPushes().map(\.member)) == Set(Self.names))
    }

    @Test func `A failed attempt gives up no member of a pool that takes pushes`() {
        let harness = makeHarnessWithHalfLedger(sentCount: 3)
        harness.advanceClock(milliseconds: 3_662_000)
        // The first time, the core only discards pages that are too old.
        harness.send()
        harness.performPendingWork()
        #expect(harness.send().count == 1)
        harness.respondToPushes(.retryLater)
        harness.advanceClock(milliseconds: 61_000)
        #expect(harness.core.fanoutRecordCount == 1)
        #expect(harness.sendAndAcceptPushes().count == 1)
    }

    /// The lane asks for pushes of the sandbox in each iteration, because its pool is not full. But the pool has no
    /// connection, or its only stream waits for a response. The members of the sandbox have the lowest positions.
    @Test(arguments: [0, 1])
    func `A pool without a free stream does not hold up the members of the other pool`(streamCount: Int) {
        let harness = RoundHarness()
        for name in Self.names.prefix(2) { harness.join(name, environment: .sandbox) }
        for name in Self.names.suffix(2) { harness.join(name) }
        harness.appendCommand(1)
        harness.performPendingWork()
        var (sandboxPushCount, reached) = (0, [String]())
        for _ in 0..<30 {
            harness.advanceClock(milliseconds: 100)
            sandboxPushCount += harness.send(environment: .sandbox, pushesInFlightMax: streamCount).count
            reached += harness.send().map(\.member)
        }
        #expect(sandboxPushCount == streamCount)
        #expect(reached == Array(Self.names.suffix(2)))
    }

    /// The member of the sandbox has the lowest position, and its pool takes no push. So the alert of command 1 waits,
    /// and command 2 carries it. The round waits one lap above this member (K15), but no longer than the alert may
    /// ring.
    @Test func `An alert that is too old does not hold up the members of the other pool`() {
        let harness = RoundHarness()
        harness.join(Self.names[0], environment: .sandbox)
        for name in Self.names.dropFirst() { harness.join(name) }
        harness.appendCommand(1, hasAlert: true)
        #expect(harness.sendAndAcceptPushes().map(\.content) == [1, 1, 1])
        harness.advanceClock(milliseconds: 600_000)
        harness.appendCommand(2)
        // The checkpoint is recorded, so its timer cannot wake the round later.
        for _ in 0..<3 { harness.advanceClock(milliseconds: 1_000) }
        #expect(harness.sendAndAcceptPushes().isEmpty)
        // The policy's limit for alerts is an hour.
        for _ in 0..<3 { harness.advanceClock(milliseconds: 1_000) }
        harness.advanceClock(milliseconds: 3_000_000)
        #expect(harness.sendAndAcceptPushes().map(\.content) == [2, 2, 2])
    }

    /// The breaker of the sandbox's pool is open: the pool takes one probe a second, and APNs refuses it. The 50
    /// members of the sandbox have the lowest positions.
    @Test func `A pool that only probes does not hold up the members of the other pool`() {
        let harness = RoundHarness()
        let names = SimulatedNames.names[0].prefix(51)
            .sorted { SimulatedNames.location(of: $0) < SimulatedNames.location(of: $1) }
        for name in names.dropLast() { harness.join(name, environment: .sandbox) }
        for name in names.suffix(1) { harness.join(name) }
        harness.appendCommand(1)
        harness.performPendingWork()
        var (probeCount, reached) = (0, [String]())
        for _ in 0..<3 {
            probeCount += harness.send(environment: .sandbox, pushesInFlightMax: 1, isProbing: true).count
            reached += harness.send().map(\.member)
            harness.advanceClock(milliseconds: 50)
            harness.respondToPushes(.retryLater)
            harness.send(environment: .sandbox, pushesInFlightMax: 0)
            reached += harness.send().map(\.member)
            harness.advanceClock(milliseconds: 1_000)
        }
        #expect(probeCount > 0)
        #expect(reached.first == names.last)
    }
}
