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

    @Test func `A postponed call to one server of a cluster leaves its credit to other commands`() {
        let core = CoreHarness { $0.creditsPerPoolMax = 1 }
        core.register(CommandText.registration(of: "z"))
        core.loseRedis(isBusy: true)
        core.receive(.update(1), .update(1, of: "b"))
        for _ in 0..<2 { core.delivery.postponeNextStoreCall(now: core.now) }
        core.elapse(100)
        #expect(core.outstandingCalls == ["registerToken z", "admit b.u1"], "the server of b responds")
        core.reply(.registered)
        core.admitAndRespond()
        core.receive(.update(2))
        core.elapseInSteps(1_000 + PaceTests.timerPrecisionMilliseconds)
        #expect(
            core.outstandingCalls == ["admit u2"] && core.outcomes.contains("u1 superseded"),
            "the core makes the call again after a while"
        )
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
