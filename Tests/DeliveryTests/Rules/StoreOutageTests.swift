import Delivery
import LiveActivity
import Testing

/// While Redis, or one server of a cluster, does not reply or temporarily refuses calls, no command is lost. Commands
/// whose keys are on other servers do not wait. (R19)
@Suite struct StoreOutageTests {
    /// A silent Redis decides about no command, so a deferred command would only wait again.
    @Test func `A command that waits for Redis during its outage is not deferred`() {
        let core = CoreHarness(hasSandboxPool: false) {
            ($0.reloadable.deferAfterMilliseconds, $0.reloadable.deferredDelayMilliseconds) = (10_000, 30_000)
            $0.creditsPerPoolMax = 2
        }
        for activity in ["a", "b", "c", "d"] { core.receive(.update(1, of: activity)) }
        core.elapseInSteps(120_000)
        #expect(core.deferrals.isEmpty && core.inProgressRecordCount == 4)
        for _ in 0..<4 { core.admitAndRespond() }
        #expect(core.results.count == 4)
    }

    /// After a takeover, lifetime commands ask Redis once a second whether they may be sent. Redis replies at once, so
    /// the pushes of a blocked pool are deferred as usual.
    @Test func `Redis is not silent while a lifetime command only waits to ask again`() {
        let core = CoreHarness {
            ($0.reloadable.deferAfterMilliseconds, $0.reloadable.deferredDelayMilliseconds) = (1_000, 30_000)
        }
        core.delivery.awaitDeferredBacklog(core.deferredPartition, from: 0, now: core.now)
        core.receive(.update(1))
        core.reply(.send)
        for second in 1...4 {
            let identifier = "lifetime:\(CoreHarness.startSeconds * 1_000)"
            core.receive(CommandText.end(9, of: "ended\(second)", id: identifier))
            while !core.outstandingCalls.isEmpty { core.reply(.retry) }
            core.elapseInSteps(1_000)
        }
        #expect(core.deferrals.map(\.command).contains("u1"))
    }

    @Test func `A postponed call to one server of a cluster leaves its credit to other commands`() {
        let core = CoreHarness { $0.creditsPerPoolMax = 1 }
        core.register(CommandText.registration(of: "z"))
        core.loseRedis(isBusy: true)
        core.receive(.update(1), .update(1, of: "b"))
        for _ in 0..<2 { core.delivery.delayNextStoreCallForUnavailableServer(now: core.now) }
        core.elapse(100)
        #expect(core.outstandingCalls == ["admit b.u1"], "the server of b responds")
        core.admitAndRespond()
        core.receive(.update(2))
        core.elapseInSteps(1_000 + PaceTests.timerPrecisionMilliseconds)
        #expect(
            core.outstandingCalls == ["registerToken z", "admit u2"] && core.outcomes.contains("u1 superseded"),
            "the core makes the calls again after a while"
        )
    }

    /// A lane postpones each call that its server cannot take now, until the core has no other call.
    @Test func `Calls that are postponed do not come again before the calls behind them`() {
        let core = CoreHarness()
        core.register(CommandText.registration())
        core.register(CommandText.registration(of: "b"))
        core.receive(.update(1, of: "c"))
        core.loseRedis(isBusy: true)
        core.elapseWithoutTakingActions(100)
        var offeredCalls: [String] = []
        while offeredCalls.count < 10, let call = core.delayNextCallForUnavailableServer() { offeredCalls.append(call) }
        #expect(offeredCalls == ["registerToken a", "registerToken b", "admit c.u1"])
        core.elapseInSteps(1_000 + PaceTests.timerPrecisionMilliseconds)
        #expect(core.outstandingCalls == offeredCalls)
    }

    /// A start takes its token from the server of its device, and asks the server of its activity for the admission.
    /// Only the first of the two servers works.
    @Test func `A postponed admission of a start leaves its credit to other commands`() throws {
        let core = CoreHarness { $0.creditsPerPoolMax = 1 }
        core.receive(.start(1))
        core.reply(.tokenFound)
        let claim = try core.oldestCall.claim
        core.loseRedis(isBusy: true)
        core.receive(.update(1, of: "b"))
        core.delivery.delayNextStoreCallForUnavailableServer(now: core.now)
        core.elapse(100)
        #expect(core.outstandingCalls == ["admit b.u1"], "the server of b responds")
        core.admitAndRespond()
        core.elapseInSteps(1_000 + PaceTests.timerPrecisionMilliseconds)
        core.acknowledgeAll()
        #expect(core.outstandingCalls == ["admit s1"])
        #expect(try core.oldestCall.claim == claim)
        core.admitAndRespond()
        #expect(core.outcomes == ["b.u1 accepted", "s1 accepted"])
    }

    @Test(arguments: [false, true])
    func `An admission of a start that one server temporarily refuses leaves its credit to other commands`(
        isServerBusy: Bool
    ) {
        let core = CoreHarness { $0.creditsPerPoolMax = 1 }
        core.receive(.start(1), .update(1, of: "b"))
        core.reply(.tokenFound)
        if isServerBusy { core.loseRedis(isBusy: true) } else { core.failOldestCallForUnknownReason() }
        core.elapse(100)
        #expect(core.outstandingCalls == ["admit b.u1"])
        core.admitAndRespond()
        core.elapseInSteps(1_000 + PaceTests.timerPrecisionMilliseconds)
        #expect(core.outstandingCalls == ["admit s1"], "the core makes the call again after a while")
    }

    /// The unavailable server may have admitted the start. So the next owner would report it as `unknown`.
    @Test func `A start whose admission was postponed stays with its lane during a revocation`() {
        let core = CoreHarness()
        core.receive(.start(1))
        core.reply(.tokenFound)
        core.loseRedis(isBusy: true)
        core.delivery.delayNextStoreCallForUnavailableServer(now: core.now)
        core.beginRevoking(core.commandsPartition)
        core.elapseInSteps(1_000 + PaceTests.timerPrecisionMilliseconds)
        #expect(core.outstandingCalls == ["admit s1"])
        core.admitAndRespond()
        #expect(core.outcomes == ["s1 accepted"])
    }

    /// Perhaps Redis has admitted another record of this start. A settlement would keep that record from being sent.
    @Test func `A start whose admission was postponed is not settled when an end replaces it`() {
        let core = CoreHarness()
        core.receive(.start(1))
        core.reply(.tokenFound)
        core.loseRedis(isBusy: true)
        core.delivery.delayNextStoreCallForUnavailableServer(now: core.now)
        core.receive(.end(2))
        #expect(core.outstandingCalls == ["admit e2"])
        #expect(core.outcomes == ["s1 superseded"] && core.settlements == ["s1 refunded"])
    }

    /// One server of a cluster may be full for hours. The calls to this server wait, and do not take the room of calls
    /// to other servers.
    @Test(arguments: [false, true])
    func `A call that one server temporarily refuses leaves its credit to other commands`(
        isServerBusy: Bool
    ) {
        let core = CoreHarness { $0.creditsPerPoolMax = 1 }
        core.receive(.update(1), .update(1, of: "b"))
        if isServerBusy { core.loseRedis(isBusy: true) } else { core.failOldestCallForUnknownReason() }
        core.elapse(100)
        #expect(core.outstandingCalls == ["admit b.u1"])
        core.admitAndRespond()
        core.elapseInSteps(1_000 + PaceTests.timerPrecisionMilliseconds)
        #expect(core.outstandingCalls == ["admit u1"], "the core makes the call again after a while")
    }
}
