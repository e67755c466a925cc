import Testing

@testable import Audiences

/// While single commands wait, audiences may use at most nine tenths of a pool's streams, but at least one. (R22)
@Suite struct StreamShareTests {
    @Test(arguments: [(1_000, 900), (100, 90), (11, 9), (10, 9), (2, 1), (1, 1)])
    func `Waiting single commands get a tenth of the streams`(streams: Int, share: Int) {
        #expect(Audiences.inFlightMax(streams: streams, singleCommandsWait: true) == share)
        #expect(Audiences.inFlightMax(streams: streams, singleCommandsWait: false) == streams)
    }

    @Test func `A round leaves the last tenth of the streams while a single command waits`() {
        let harness = RoundHarness()
        for name in SimulatedNames.names[0].prefix(24) { harness.join(name) }
        harness.appendCommand(1)
        harness.settle()
        func send(whileSingleCommandsWait isWaiting: Bool) -> Int {
            harness.send(inFlightMax: Audiences.inFlightMax(streams: 10, singleCommandsWait: isWaiting)).count
        }
        #expect(send(whileSingleCommandsWait: true) == 9)
        #expect(send(whileSingleCommandsWait: true) == 0)
        #expect(send(whileSingleCommandsWait: false) == 1)
        harness.answerPushes()
        #expect(send(whileSingleCommandsWait: true) == 9)
    }
}
