import Delivery
import LiveActivity
import Testing

/// A lane has an end and newer commands of the same activity. A start that this lane did not see may have begun a new
/// life between them: for example, the end was deferred, or another worker settled the start. Only Redis knows this. So
/// Redis decides about the end first. While the end waits, the lane does not assume that the newer commands are
/// `ended`. (R13)
@Suite struct EarlierLifeTests {
    @Test func `A waiting update is sent after Redis has superseded the end`() {
        let core = coreWithPush(of: .update(6))
        core.receive(.update(7))
        core.receive(.end(3))
        #expect(core.outcomes.isEmpty)
        core.acceptPush()
        #expect(core.outstandingCalls == ["admit e3"])
        core.reply(.superseded)
        #expect(core.outcomes == ["u6 accepted", "e3 superseded"])
        #expect(core.outstandingCalls == ["admit u7"])
    }

    @Test func `An update that comes behind the end is sent after Redis has superseded the end`() {
        let core = coreWithPush(of: .update(6))
        core.receive(.end(3))
        core.receive(.update(7))
        #expect(core.outcomes.isEmpty)
        core.acceptPush()
        core.reply(.superseded)
        #expect(core.outstandingCalls == ["admit u7"])
    }

    /// The newer end ends the activity in any case, so the older end is not needed.
    @Test(arguments: [false, true])
    func `A newer end replaces a waiting end`(isNewerFirst: Bool) {
        let core = coreWithPush(of: .update(6))
        if isNewerFirst { core.receive(.end(8)) }
        core.receive(.end(3))
        if !isNewerFirst { core.receive(.end(8)) }
        #expect(core.outcomes == ["e3 superseded"])
        core.acceptPush()
        #expect(core.outstandingCalls == ["admit e8"])
    }

    /// The start s7 has not reached Redis. So the end e3 can still end the life before this start.
    @Test func `The end is admitted before a start that waits`() {
        let core = coreWithPush(of: .update(2))
        core.receive(.start(7), .update(8))
        core.receive(.end(3))
        #expect(core.outcomes.isEmpty)
        core.acceptPush()
        #expect(core.outstandingCalls == ["admit e3"])
        core.admitAndAcceptPush()
        #expect(core.outstandingCalls == ["takeStartToken s7"])
    }

    /// An outage deferred the end and the start. A newer update was read before them.
    @Test func `An end and a start that come behind a newer update keep their order`() {
        let core = coreWithPush(of: .update(2))
        core.receive(.update(20))
        core.receive(.end(3))
        core.receive(.start(5))
        #expect(core.outcomes.isEmpty)
        core.acceptPush()
        core.admitAndAcceptPush()
        #expect(core.outcomes == ["u2 accepted", "e3 accepted"])
        #expect(core.outstandingCalls == ["takeStartToken s5"])
    }

    @Test func `A start that is older than a waiting end is superseded`() {
        let core = coreWithPush(of: .update(2))
        core.receive(.end(8))
        core.receive(.update(9))
        core.receive(.start(5))
        #expect(core.outcomes == ["s5 superseded"])
    }

    /// A newer update replaces the push that waits for a retry, although an older end waits before the update.
    @Test func `A push is replaced by an update behind a late end`() {
        let core = coreWithPush(of: .update(6))
        core.push()
        core.receive(.end(3))
        core.receive(.update(7))
        core.respond(.retryLater, status: 503)
        #expect(core.outcomes == ["u6 superseded"])
        core.elapseSpacing()
        #expect(core.outstandingCalls == ["admit e3"])
    }

    @Test func `The end replaces older updates that wait`() {
        let core = coreWithPush(of: .update(1))
        core.receive(.update(2))
        core.receive(.end(3))
        #expect(core.outcomes == ["u2 superseded"])
    }

    /// No start came after the end, so the later commands belong to the life that has ended.
    @Test func `Newer updates have the outcome ended if Redis admits the end`() {
        let core = coreWithPush(of: .update(6))
        core.receive(.update(7))
        core.receive(.end(3))
        core.acceptPush()
        core.admitAndAcceptPush()
        #expect(core.outstandingCalls == ["admit u7"])
        core.reply(.ended)
        #expect(core.outcomes == ["u6 accepted", "e3 accepted", "u7 ended"])
    }

    /// The current command u6 waits for a retry and carries the alert of u2, which is older than the end e3. The newer
    /// update u7 replaces u6.
    @Test func `An older alert moves to the end from the update that replaces the current one`() throws {
        let core = coreWithPush(of: .update(1))
        core.receive(.alert(2))
        core.receive(.update(6))
        core.acceptPush()
        core.reply(.send)
        core.push()
        core.receive(.end(3))
        core.receive(.update(7))
        core.respond(.retryLater, status: 503)
        core.elapseSpacing()
        core.reply(.send)
        let push = try #require(core.push())
        #expect(push.command == "e3" && push.body.contains(CommandText.alertText(2)))
    }

    /// If the second record removed the activity from the timetable, a newer life would lose its lifetime. (R34)
    @Test func `A second record of a waiting end does not report that the activity has ended`() {
        let core = coreWithPush(of: .update(6)) { $0.reloadable.policies[0].lifetimeSeconds = 3_600 }
        core.receive(.update(7))
        core.receive(.end(3))
        core.receive(.end(3))
        #expect(core.outcomes == ["e3 duplicate"])
        #expect(!core.outstandingCalls.contains { $0.hasPrefix("reportLifetimeEvent") })
    }

    /// When a policy restarts an activity, Causeway chooses the timestamp of the new start. An end that the producer
    /// sends later may have a lower timestamp, and must still end the new life.
    @Test(arguments: [false, true])
    func `An end may end a newer life only if its policy restarts activities`(restarts: Bool) {
        let core = CoreHarness {
            $0.reloadable.policies[0].lifetimeSeconds = 3_600
            if restarts { $0.reloadable.policies[0].afterLifetime = .restart }
        }
        core.receive(.end(3))
        guard case .admit(let admission)? = core.calls.first?.operation else {
            Issue.record("\(core.outstandingCalls)")
            return
        }
        #expect(admission.endsNewerLife == restarts && !admission.isLifetimeEnd)
    }

    /// Returns a core whose only push, of this command, waits for a stream.
    private func coreWithPush(
        of command: String,
        _ change: (inout DeliveryConfiguration) -> Void = { _ in }
    ) -> CoreHarness {
        let core = CoreHarness(change)
        core.receive(command)
        core.reply(.send)
        return core
    }
}

extension CoreHarness {
    /// Sends the push that waits for a stream, lets APNs accept it, and lets the spacing pass.
    fileprivate func acceptPush() {
        push()
        respond(.accepted)
        elapseSpacing()
    }

    /// Lets Redis admit the oldest command that waits for Redis, lets APNs accept its push, and lets the spacing pass.
    fileprivate func admitAndAcceptPush() {
        admitAndRespond()
        elapseSpacing()
    }
}
