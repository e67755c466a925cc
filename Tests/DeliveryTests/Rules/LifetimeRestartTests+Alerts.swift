import Delivery
import LiveActivity
import Testing

/// An update with an alert is older than an end of the lifetime that Redis has admitted and not settled. Redis does not
/// reply `ended` to it, because the end could be a producer's and carry the alert. The restart must show its state.
extension LifetimeRestartTests {
    private static let lifetimeEndName = "lifetime:\(LifetimeTests.beganAtMilliseconds)"

    @Test func `The state of an update whose alert finds no carrier is kept for the restart`() {
        let core = restartingCore()
        core.elapse(10_000)
        core.receive(.alert(4))
        core.reply(.alertAwaitsCarrier)
        #expect(core.outcomes == [])
        core.elapse(core.configuration.carrierWaitMillisecondsMax + PaceTests.timerPrecisionMilliseconds)
        #expect(core.outcomes == ["u4 superseded"])
        #expect(commandsKeptForRestart(core).map(\.event) == [.updatedAfterEnd])
        #expect(commandsKeptForRestart(core).first?.command.contains(#""content-state":{"n":4}"#) == true)
        core.acknowledgeAll()
        #expect(core.committableOffset == 1 && core.inProgressRecordCount == 0)
    }

    /// The timetable must have the state before it knows that the life has ended. Otherwise the restart could show an
    /// older state.
    @Test(arguments: [false, true])
    func `The lifetime's end carries the alert of an older update, whose state is kept`(isEndWaiting: Bool) throws {
        let core = restartingCore()
        core.elapse(10_000)
        core.receive(.alert(4))
        if !isEndWaiting { core.reply(.alertAwaitsCarrier) }
        core.receive(LifetimeTests.lifetimeEnd)
        core.reply(.retry, toNewest: true)
        if isEndWaiting { core.reply(.alertAwaitsCarrier) }
        #expect(core.outcomes == [] && core.outstandingCalls == ["admit \(Self.lifetimeEndName)"])
        core.reply(.send)
        #expect(try #require(core.push()).body.contains(CommandText.alertText(4)))
        core.respond(.accepted)
        #expect(core.outcomes == ["\(Self.lifetimeEndName) accepted", "u4 superseded"])
        #expect(lifetimeEvents(core) == [.updatedAfterEnd])
        #expect(commandsKeptForRestart(core).map(\.event) == [.updatedAfterEnd])
        core.acknowledgeSettlements()
        core.acknowledgeOutgoingRecords()
        #expect(lifetimeEvents(core) == [LifetimeTests.endWithRestart])
        core.acknowledgeAll()
        #expect(core.committableOffset == 2 && core.inProgressRecordCount == 0)
    }

    @Test func `If the policy only ends activities, no state is kept after a wait for a carrier`() {
        let core = restartingCore()
        core.receive(.alert(4, beside: #""policy":"once","#))
        core.reply(.alertAwaitsCarrier)
        core.elapse(core.configuration.carrierWaitMillisecondsMax + PaceTests.timerPrecisionMilliseconds)
        #expect(core.outcomes == ["u4 superseded"] && lifetimeEvents(core) == [])
    }
}
