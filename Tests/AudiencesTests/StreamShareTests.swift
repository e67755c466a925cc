import Testing

@testable import Audiences

/// While single commands wait, audiences may use at most nine tenths of a pool's streams, but at least one. (R22)
@Suite struct StreamShareTests {
    @Test(arguments: [(1_000, 900), (100, 90), (11, 9), (10, 9), (2, 1), (1, 1)])
    func `Waiting single commands get a tenth of the streams`(streamCount: Int, share: Int) {
        #expect(Audiences.pushesInFlightMax(streamCount: streamCount, areSingleCommandsWaiting: true) == share)
        #expect(Audiences.pushesInFlightMax(streamCount: streamCount, areSingleCommandsWaiting: false) == streamCount)
    }

    @Test func `A round leaves the last tenth of the streams while a single command waits`() {
        let harness = RoundHarness()
        for name in SimulatedNames.names[0].prefix(24) { harness.join(name) }
        harness.appendCommand(1)
        harness.performPendingWork()
        func send(whileSingleCommandsWait isWaiting: Bool) -> Int {
            harness.send(
                pushesInFlightMax: Audiences.pushesInFlightMax(streamCount: 10, areSingleCommandsWaiting: isWaiting)
            )
            .count
        }
        #expect(send(whileSingleCommandsWait: true) == 9)
        #expect(send(whileSingleCommandsWait: true) == 0)
        #expect(send(whileSingleCommandsWait: false) == 1)
        harness.respondToPushes()
        #expect(send(whileSingleCommandsWait: true) == 9)
    }
}
