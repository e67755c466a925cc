import Delivery
import LiveActivity
import Testing

/// An end replaces an older start, wherever the start waits. If the start's push is in flight or accepted, the end
/// follows the start instead. (R13)
@Suite struct StartAndEndTests {
    @Test func `A start and its end in one backlog send no start`() {
        let core = CoreHarness()
        core.receive(.start(1), .update(2), .end(3))
        #expect(core.outcomes == ["u2 superseded", "s1 superseded"])
        #expect(core.outstandingCalls == ["admit e3"])
    }

    @Test func `The end of an activity that never started is held`() {
        let core = CoreHarness()
        core.receive(.start(1), .end(3))
        core.reply(.noToken)
        #expect(core.outstandingCalls == ["hold e3"])
        core.reply(.held)
        #expect(core.outcomes == ["s1 superseded", "e3 held"])
        core.acknowledgeAll()
        #expect(core.committableOffset == 2)
        #expect(core.inProgressRecordCount == 0)
    }

    @Test func `An end that comes late replaces the start before a newer update`() {
        let core = CoreHarness()
        core.receive(.start(1), .update(5), .end(3))
        #expect(core.outcomes == ["s1 superseded"])
        #expect(core.outstandingCalls == ["admit e3"])
    }

    @Test func `A start that comes after its end is not sent`() {
        let core = CoreHarness()
        core.receive(.end(3), .start(1))
        #expect(core.outcomes == ["s1 superseded"])
        #expect(core.outstandingCalls == ["admit e3"])
    }

    @Test func `A start after the end begins the next life`() {
        let core = CoreHarness()
        core.receive(.start(1), .end(3), .start(4))
        #expect(core.outcomes == ["s1 superseded"])
        core.admitAndRespond()
        core.elapseSpacing()
        #expect(core.outstandingCalls == ["takeStartToken s4"])
    }

    @Test func `A held start that its device releases is replaced by the waiting end`() {
        let core = CoreHarness()
        core.receive(.update(2))
        core.receive(.end(3))
        core.register(CommandText.deviceRegistration())
        core.reply(.registered, held: .start(1), toNewest: true)
        #expect(core.outcomes == ["s1 superseded"])
    }

    // MARK: - Where the start is when its end comes

    @Test func `An end replaces a start while its token is looked up`() {
        let core = CoreHarness()
        core.receive(.start(1))
        core.receive(.end(3))
        core.reply(.tokenFound, draw: 77)
        #expect(core.outcomes == ["s1 superseded"])
        #expect(core.settlements == ["s1 refunded"])
        #expect(core.outstandingCalls == ["admit e3"])
    }

    @Test func `An end replaces a start while it has no token`() {
        let core = CoreHarness()
        core.receive(.start(1))
        core.receive(.end(3))
        core.reply(.noToken)
        #expect(core.outcomes == ["s1 superseded"])
        #expect(core.outstandingCalls == ["admit e3"])
    }

    @Test func `An end replaces a start while it waits for its device's budget`() {
        let core = CoreHarness()
        core.receive(.start(1))
        core.reply(.wait, waitMilliseconds: 100_000)
        core.receive(.end(3))
        #expect(core.outcomes == ["s1 superseded"])
    }

    @Test func `An end replaces a start while it is admitted`() {
        let core = CoreHarness()
        core.receive(.start(1))
        core.reply(.tokenFound, draw: 77)
        core.receive(.end(3))
        core.reply(.send)
        #expect(core.push() == nil)
        #expect(core.outcomes == ["s1 superseded"])
        #expect(core.settlements == ["s1 notShown", "s1 refunded", "s1 notShown (device)"])
        core.elapseSpacing()
        #expect(core.outstandingCalls == ["admit e3"])
    }

    @Test func `An end replaces a start while it waits for a stream`() {
        let core = CoreHarness()
        core.receive(.start(1))
        core.reply(.tokenFound)
        core.reply(.send)
        core.receive(.end(3))
        #expect(core.push() == nil)
        #expect(core.outcomes == ["s1 superseded"])
    }

    @Test func `An end replaces a start while it backs off`() {
        let core = CoreHarness { $0.retryBaseMilliseconds = 30_000 }
        core.receive(.start(1))
        core.reply(.tokenFound)
        core.admitAndRespond(.retryLater)
        core.receive(.end(3))
        #expect(core.outcomes == ["s1 superseded"])
        core.elapse(120_000)
        #expect(core.outstandingCalls == ["admit e3"])
    }

    @Test func `An end that comes after its start was sent follows the start`() {
        let core = CoreHarness()
        core.receive(.start(1))
        core.reply(.tokenFound)
        core.reply(.send)
        core.push()
        core.receive(.end(3))
        core.respond(.accepted)
        #expect(core.outcomes == ["s1 accepted"])
        core.elapseSpacing()
        #expect(core.outstandingCalls == ["admit e3"])
    }
}
