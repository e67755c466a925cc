import LiveActivity
import Testing

@testable import Delivery

/// The core tells the timetable when an activity with a limited lifetime begins, lives and ends. It sends the keeper's
/// end only while the timetable has the life. (R34, R35)
@Suite struct LifetimeTests {
    static let beganAtMilliseconds = CoreHarness.startSeconds * 1_000
    static let lifetimeEnd = CommandText.end(9, id: "lifetime:\(beganAtMilliseconds)")
    /// The report that the lifetime's end has ended the life, and that the activity starts again.
    static let endWithRestart = LifetimeEvent.lifeFinished(
        beganAtMilliseconds: beganAtMilliseconds,
        restartAtMilliseconds: beganAtMilliseconds + 10_000
    )

    /// Returns a core whose default policy limits the lifetime to an hour. Policy `endless` has no limit.
    func coreWithLimitedLifetimes() -> CoreHarness {
        CoreHarness {
            $0.reloadable.deferAfterMilliseconds = 10_000
            $0.reloadable.deferredDelayMilliseconds = 30_000
            $0.reloadable.policies[0].lifetimeSeconds = 3_600
            $0.reloadable.policies.append(Policy(name: "endless"))
        }
    }

    func lifetimeEvents(_ core: CoreHarness) -> [LifetimeEvent] {
        core.calls.compactMap { if case .reportLifetimeEvent(let event, _) = $0.operation { event } else { nil } }
    }

    private func aliveEvent(atSecond second: Int64) -> LifetimeEvent {
        .alive(atMilliseconds: Self.beganAtMilliseconds + second * 1_000, lifetimeMilliseconds: 3_600_000)
    }

    @Test func `A start reports when its activity began, and settles only after Redis' reply`() {
        let core = coreWithLimitedLifetimes()
        core.elapse(5_000)
        core.receive(.start(1))
        core.reply(.tokenFound)
        core.admitAndRespond()
        #expect(
            lifetimeEvents(core) == [
                .began(atMilliseconds: Self.beganAtMilliseconds + 5_000, lifetimeMilliseconds: 3_600_000)
            ]
        )
        core.acknowledgeOutgoingRecords()
        #expect(core.committableOffset == 0)
        core.acknowledgeSettlements()
        #expect(core.committableOffset == 1)
    }

    @Test func `An accepted update reports that its activity is alive, and an accepted end that it is over`() {
        let core = coreWithLimitedLifetimes()
        core.elapse(5_000)
        core.receive(.update(1))
        core.admitAndRespond()
        #expect(lifetimeEvents(core) == [aliveEvent(atSecond: 1)])
        core.acknowledgeAll()
        core.elapse(1_000)
        core.receive(.end(2))
        core.admitAndRespond()
        #expect(lifetimeEvents(core) == [.endedOrUnlimited])
    }

    @Test func `An update with a timestamp in the future reports that its activity is alive now`() {
        let core = coreWithLimitedLifetimes()
        core.receive(.update(60))
        core.admitAndRespond()
        #expect(lifetimeEvents(core) == [aliveEvent(atSecond: 0)])
    }

    @Test func `A command whose policy has no lifetime takes its activity out of the timetable`() {
        let core = coreWithLimitedLifetimes()
        core.receive(.update(1, beside: #""policy":"endless","#))
        core.admitAndRespond()
        #expect(lifetimeEvents(core) == [.endedOrUnlimited])
    }

    @Test func `Without a lifetime, the timetable gets no call`() {
        let core = CoreHarness()
        core.register(CommandText.registration())
        core.reply(.registered)
        core.receive(.start(1))
        core.reply(.tokenFound)
        core.admitAndRespond()
        core.unregister(key: "a")
        #expect(lifetimeEvents(core) == [])
    }

    @Test func `A registration reports that its activity is alive before it registers the token`() {
        let core = coreWithLimitedLifetimes()
        core.elapse(5_000)
        core.register(CommandText.registration(at: 3))
        #expect(lifetimeEvents(core) == [aliveEvent(atSecond: 3)] && core.outstandingCalls == [])
        core.acknowledgeSettlements()
        #expect(core.outstandingCalls == ["registerToken a"])
        core.reply(.registered)
        #expect(core.committableOffset(core.registrationsPartition) == 1)
    }

    @Test func `If Redis refuses a registration's report, the token is still registered`() {
        let core = coreWithLimitedLifetimes()
        core.register(CommandText.registration())
        core.refuseOldestCall("NOPERM")
        #expect(core.outstandingCalls == ["registerToken a"])
    }

    @Test func `A tombstone reports that its activity is over`() {
        let core = coreWithLimitedLifetimes()
        core.unregister(key: "a")
        #expect(lifetimeEvents(core) == [.endedOrUnlimited])
        core.reply(.unregistered)
        core.reply(.unregistered)
        #expect(core.committableOffset(core.registrationsPartition) == 0)
        core.acknowledgeSettlements()
        #expect(core.committableOffset(core.registrationsPartition) == 1)
    }

    /// Redis has lost the timetable, so reading the start again must write the activity to the timetable again. (R25)
    @Test func `A start that is read again reports that its activity was alive then, and is not sent`() {
        let core = coreWithLimitedLifetimes()
        core.elapse(5_000)
        core.reread(below: 2)
        core.receive(.start(1))
        #expect(lifetimeEvents(core) == [aliveEvent(atSecond: 1)])
        #expect(core.outstandingCalls == [] && core.committableOffset == 0)
        core.acknowledgeSettlements()
        #expect(core.outcomes == [] && core.committableOffset == 1 && core.inProgressRecordCount == 0)
    }
}
