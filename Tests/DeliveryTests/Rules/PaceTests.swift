import Delivery
import LiveActivity
import Testing

/// An activity has one push at a time and a spacing between two pushes. During the spacing a newer state
/// replaces the state that waits.
@Suite struct PaceTests {
    /// The timers' precision in milliseconds: a timer fires at most this late, and never early. This is one tick of
    /// `TimerWheel`.
    static let timerPrecisionMilliseconds: Int64 = 8

    @Test func `One activity has one push in flight`() {
        let core = CoreHarness()
        core.receive(.update(1))
        core.reply(.send)
        core.push()
        core.receive(.update(2))
        core.elapse(5_000)
        #expect(core.outstandingCalls == [])
        core.respond(.accepted)
        #expect(core.outstandingCalls == ["admit u2"])
    }

    @Test func `Pushes of different activities do not wait for each other`() {
        let core = CoreHarness()
        core.receive(.update(1), .update(1, of: "b"))
        core.reply(.send)
        core.reply(.send)
        #expect(core.push()?.command == "u1")
        #expect(core.push()?.command == "b.u1")
        #expect(core.push() == nil)
    }

    @Test func `The next state waits for the spacing`() {
        let core = CoreHarness { $0.reloadable.policies[0].spacingMilliseconds = 3_000 }
        core.receive(.update(1))
        core.admitAndRespond()
        core.receive(.update(2))
        core.elapse(2_999)
        #expect(core.outstandingCalls == [])
        core.elapse(1 + Self.timerPrecisionMilliseconds)
        #expect(core.outstandingCalls == ["admit u2"])
    }

    @Test func `The spacing counts from the sending of a push`() {
        let core = CoreHarness()
        core.receive(.update(1))
        core.reply(.send)
        core.elapse(800)
        core.push()
        core.respond(.accepted)
        core.receive(.update(2))
        core.elapse(999)
        #expect(core.outstandingCalls == [])
        core.elapse(1 + Self.timerPrecisionMilliseconds)
        #expect(core.outstandingCalls == ["admit u2"])
    }

    @Test func `Newer states replace the one that waits for the spacing`() {
        let core = CoreHarness()
        core.receive(.update(1))
        core.admitAndRespond()
        core.receive(.update(2))
        core.receive(.update(3))
        #expect(core.outcomes == ["u1 accepted", "u2 superseded"])
        core.elapse(1_000 + Self.timerPrecisionMilliseconds)
        #expect(core.outstandingCalls == ["admit u3"])
    }

    @Test func `The core says when it must be called next`() throws {
        let core = CoreHarness()
        #expect(core.nextDueMilliseconds == nil)
        core.receive(.update(1))
        core.admitAndRespond()
        core.receive(.update(2))
        var iterationCount = 0
        while core.outstandingCalls.isEmpty, iterationCount < 100 {
            let dueMilliseconds = try #require(core.nextDueMilliseconds)
            #expect(dueMilliseconds > core.now.monotonicMilliseconds)
            core.elapse(dueMilliseconds - core.now.monotonicMilliseconds)
            iterationCount += 1
        }
        #expect(core.outstandingCalls == ["admit u2"])
        let waitedMilliseconds = core.now.monotonicMilliseconds - CoreHarness.startMonotonicMilliseconds
        #expect((1_000...1_000 + Self.timerPrecisionMilliseconds).contains(waitedMilliseconds))
    }

    @Test func `A command waits as long as the verdict of Redis says`() {
        let core = CoreHarness()
        core.receive(.update(1))
        core.reply(.wait, waitMilliseconds: 400)
        #expect(core.outcomes == [])
        core.elapse(399)
        #expect(core.outstandingCalls == [])
        core.elapse(1 + Self.timerPrecisionMilliseconds)
        #expect(core.outstandingCalls == ["admit u1"])
    }

    @Test(arguments: [Int64.min, -1, 0])
    func `After an invalid wait the core soon asks again`(milliseconds: Int64) {
        let core = CoreHarness()
        core.receive(.update(1))
        core.reply(.wait, waitMilliseconds: milliseconds)
        core.elapse(1 + Self.timerPrecisionMilliseconds)
        #expect(core.outstandingCalls == ["admit u1"])
    }

    @Test func `A wait is never longer than the longest spacing`() {
        let core = CoreHarness { $0.reloadable.policies[0].throttledSpacingMillisecondsMax = 20_000 }
        core.receive(.update(1))
        core.reply(.wait, waitMilliseconds: .max)
        core.elapse(19_999)
        #expect(core.outstandingCalls == [])
        core.elapse(1 + Self.timerPrecisionMilliseconds)
        #expect(core.outstandingCalls == ["admit u1"])
    }

    @Test func `A state that must wait is replaced by a newer one`() {
        let core = CoreHarness()
        core.receive(.update(1))
        core.receive(.update(2))
        core.reply(.wait, waitMilliseconds: 400)
        #expect(core.outcomes == ["u1 superseded"])
        core.receive(.update(3))
        #expect(core.outcomes == ["u1 superseded", "u2 superseded"])
        core.elapse(400 + Self.timerPrecisionMilliseconds)
        #expect(core.outstandingCalls == ["admit u3"])
    }

    @Test func `A start that must wait is not replaced by an update`() {
        let core = CoreHarness()
        core.receive(.start(1), .update(2))
        core.reply(.tokenFound)
        core.reply(.wait, waitMilliseconds: 400)
        core.elapse(400 + Self.timerPrecisionMilliseconds)
        #expect(core.outstandingCalls == ["admit s1"], "the start keeps its token and its draw")
        #expect(core.outcomes == [])
    }

    @Test func `A push that finds no stream for a spacing is superseded by a newer state`() {
        let core = CoreHarness()
        core.receive(.update(1))
        core.reply(.send)
        core.receive(.update(2))
        core.elapse(1_000)
        #expect(core.push() == nil)
        #expect(core.outcomes == ["u1 superseded"])
        #expect(core.settlements == ["u1 notShown"])
        #expect(core.outstandingCalls == ["admit u2"])
    }

    @Test func `A push is sent if the spacing still delays the newer state`() {
        let core = CoreHarness()
        core.receive(.update(1))
        core.reply(.send)
        core.receive(.update(2))
        core.elapse(999)
        #expect(core.push()?.command == "u1")
    }

    @Test func `A push that found no stream stays the next one, and no attempt is counted`() throws {
        let core = CoreHarness()
        core.receive(.update(1), .update(1, of: "b"))
        core.reply(.send)
        core.reply(.send)
        core.push()
        core.returnPush()
        #expect(core.hasReadyPush(PoolTarget(appIndex: 0, environment: .production)))
        let push = try #require(core.push())
        #expect(push.command == "u1")
        #expect(push.attempts == 1)
    }

    /// The push found no stream, so no spacing follows. A newer state replaces the state that waits, and is
    /// admitted at once.
    @Test func `A push that found no stream may still be superseded`() {
        let core = CoreHarness()
        core.receive(.update(1))
        core.reply(.send)
        core.elapseSpacing()
        core.push()
        core.returnPush()
        core.receive(.update(2))
        #expect(core.push() == nil)
        #expect(core.outcomes == ["u1 superseded"])
        #expect(core.results.first?.attempts == 0)
        #expect(core.results.first?.sentAtMilliseconds == -1, "the push was never sent")
        #expect(core.outstandingCalls == ["admit u2"], "no spacing follows a push that was not sent")
    }

    @Test func `An activity without commands is forgotten after its spacing`() {
        let core = CoreHarness()
        core.receive(.update(1))
        core.admitAndRespond()
        core.acknowledgeAll()
        core.elapse(1_000 + Self.timerPrecisionMilliseconds)
        #expect(core.nextDueMilliseconds == nil)
        core.receive(.update(2))
        #expect(core.outstandingCalls == ["admit u2"])
    }
}
