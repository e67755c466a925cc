import LiveActivity
import Testing

@testable import Delivery

/// The core tells the timetable when an activity with a limited lifetime begins, lives and ends. It sends the keeper's
/// end only while the timetable has the life. (R34, R35)
@Suite struct LifetimeTests {
    private static let beganAtMilliseconds = CoreHarness.startSeconds * 1_000
    private static let lifetimeEnd = CommandText.end(9, id: "lifetime:\(beganAtMilliseconds)")
    /// The report that the lifetime's end has ended the life, and that the activity starts again.
    private static let endWithRestart = LifetimeEvent.lifeFinished(
        beganAtMilliseconds: beganAtMilliseconds,
        restartAtMilliseconds: beganAtMilliseconds + 10_000
    )

    /// Returns a core whose default policy limits the lifetime to an hour. Policy `endless` has no limit.
    private func coreWithLimitedLifetimes() -> CoreHarness {
        CoreHarness {
            $0.reloadable.deferAfterMilliseconds = 10_000
            $0.reloadable.deferredDelayMilliseconds = 30_000
            $0.reloadable.policies[0].lifetimeSeconds = 3_600
            $0.reloadable.policies.append(Policy(name: "endless"))
        }
    }

    private func lifetimeEvents(_ core: CoreHarness) -> [LifetimeEvent] {
        core.calls.compactMap { if case .reportLifetimeEvent(let event, _) = $0.operation { event } else { nil } }
    }

    private func aliveEvent(atSecond second: Int64) -> LifetimeEvent {
        .alive(atMilliseconds: Self.beganAtMilliseconds + second * 1_000, lifetimeMilliseconds: 3_600_000)
    }

    // MARK: - What the core writes to the timetable

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

    // MARK: - The lifetime's end: the command that ends an activity

    @Test func `A lifetime's end is admitted if the timetable has the life, and its result names the lifetime`() {
        let core = coreWithLimitedLifetimes()
        core.receive(Self.lifetimeEnd)
        #expect(core.outstandingCalls == ["checkLifetime lifetime:\(Self.beganAtMilliseconds)"])
        core.reply(.retry)
        #expect(core.outstandingCalls == ["admit lifetime:\(Self.beganAtMilliseconds)"])
        core.admitAndRespond()
        #expect(core.results.map(\.isLifetimeCommand) == [true])
        // If the worker dies before Kafka has acknowledged this result, the next worker reads the end again.
        // Redis must then still have the life.
        core.acknowledgeSettlements()
        #expect(lifetimeEvents(core) == [])
        core.acknowledgeOutgoingRecords()
        #expect(lifetimeEvents(core) == [Self.endWithRestart] && core.committableOffset == 0)
        core.acknowledgeSettlements()
        #expect(core.committableOffset == 1 && core.inProgressRecordCount == 0)
    }

    @Test func `A lifetime's end ends no later life`() {
        let core = coreWithLimitedLifetimes()
        core.receive(Self.lifetimeEnd)
        core.reply(.superseded)
        #expect(core.outcomes == ["lifetime:\(Self.beganAtMilliseconds) superseded"])
        core.acknowledgeAll()
        #expect(lifetimeEvents(core) == [] && core.committableOffset == 1)
    }

    @Test func `If the check of a lifetime's end gets no reply, the core repeats it`() {
        let core = coreWithLimitedLifetimes()
        core.receive(Self.lifetimeEnd)
        core.loseRedis()
        #expect(core.outstandingCalls == ["checkLifetime lifetime:\(Self.beganAtMilliseconds)"])
    }

    @Test func `A lifetime's end whose partition leaves is left to the next owner`() {
        let core = coreWithLimitedLifetimes()
        core.receive(Self.lifetimeEnd)
        core.beginRevoking(core.commandsPartition)
        core.reply(.retry)
        #expect(core.outcomes == [] && core.inProgressRecordCount == 0)
    }

    @Test(arguments: [10 as Int64, 8])
    func `A lifetime's end replaces no state that waits, older or newer`(second: Int64) {
        let core = coreWithLimitedLifetimes()
        core.receive(.update(1))
        core.receive(.update(second))
        core.receive(Self.lifetimeEnd)
        core.reply(.retry, toNewest: true)
        core.admitAndRespond()
        core.acknowledgeAll()
        core.elapseSpacing()
        #expect(core.outstandingCalls == ["admit u\(second)"])
        core.admitAndRespond()
        core.elapseSpacing()
        core.admitAndRespond()
        #expect(
            core.outcomes == ["u1 accepted", "u\(second) accepted", "lifetime:\(Self.beganAtMilliseconds) accepted"]
        )
    }

    /// The update u10 is newer than the keeper's end. Redis tells u10 to wait. After this wait the core must still
    /// admit u10 before the end.
    @Test func `A state that waits again is sent before the lifetime's end`() {
        let core = coreWithLimitedLifetimes()
        core.receive(.update(1))
        core.receive(.update(10))
        core.receive(Self.lifetimeEnd)
        core.reply(.retry, toNewest: true)
        core.admitAndRespond()
        core.acknowledgeAll()
        core.elapseSpacing()
        core.reply(.wait, waitMilliseconds: 500)
        core.elapse(500 + PaceTests.timerPrecisionMilliseconds)
        #expect(core.outstandingCalls == ["admit u10"])
        core.admitAndRespond()
        core.elapseSpacing()
        core.admitAndRespond()
        #expect(core.outcomes == ["u1 accepted", "u10 accepted", "lifetime:\(Self.beganAtMilliseconds) accepted"])
    }

    @Test(arguments: [10 as Int64, 9, 8])
    func `An end of the producer replaces the lifetime's end, whatever its version`(second: Int64) {
        let core = coreWithLimitedLifetimes()
        core.receive(.update(1))
        core.receive(Self.lifetimeEnd)
        core.reply(.retry, toNewest: true)
        core.receive(.end(second))
        #expect(core.outcomes == ["lifetime:\(Self.beganAtMilliseconds) superseded"])
    }

    @Test(arguments: [9 as Int64, 8])
    func `An update that comes later and is not newer is sent before the lifetime's end`(second: Int64) {
        let core = coreWithLimitedLifetimes()
        core.receive(.update(1))
        core.receive(Self.lifetimeEnd)
        core.reply(.retry, toNewest: true)
        core.receive(.update(second))
        core.admitAndRespond()
        core.acknowledgeAll()
        for _ in 0..<2 {
            core.elapseSpacing()
            core.admitAndRespond()
        }
        #expect(
            core.outcomes == ["u1 accepted", "u\(second) accepted", "lifetime:\(Self.beganAtMilliseconds) accepted"]
        )
    }

    @Test func `A lifetime's end does not wait behind a start or an end of the producer`() {
        for event in [CommandText.start(1), CommandText.end(1)] {
            let core = coreWithLimitedLifetimes()
            core.receive(event)
            core.receive(Self.lifetimeEnd)
            core.reply(.retry, toNewest: true)
            #expect(core.outcomes == ["lifetime:\(Self.beganAtMilliseconds) superseded"])
            #expect(lifetimeEvents(core) == [])
        }
    }

    @Test func `A lifetime's end without a token is not held`() {
        let core = coreWithLimitedLifetimes()
        core.receive(Self.lifetimeEnd)
        core.reply(.retry)
        core.reply(.noToken)
        #expect(core.outcomes == ["lifetime:\(Self.beganAtMilliseconds) expired"])
        core.acknowledgeSettlements()
        core.acknowledgeOutgoingRecords()
        #expect(
            lifetimeEvents(core) == [
                .lifeFinished(beganAtMilliseconds: Self.beganAtMilliseconds, restartAtMilliseconds: 0)
            ]
        )
    }

    /// The token died before the keeper made this end, so the 410 does not show that this end reached the
    /// phone. Perhaps a worker sent an earlier end of the same life, and died before it settled that end.
    @Test func `A lifetime's end with a dead token is not held, and the keeper makes it again`() {
        let core = coreWithLimitedLifetimes()
        core.receive(Self.lifetimeEnd)
        core.reply(.retry)
        core.reply(.send)
        core.push()
        core.respond(.tokenDead, status: 410, reason: "Unregistered", invalidAt: Self.beganAtMilliseconds + 1)
        core.report(.acknowledged, on: .invalidation)
        #expect(core.outcomes == ["lifetime:\(Self.beganAtMilliseconds) unregistered"])
        core.acknowledgeAll()
        #expect(lifetimeEvents(core) == [] && core.committableOffset == 1 && core.inProgressRecordCount == 0)
    }

    /// APNs says that the token died after the keeper made this end. A token dies when its activity ends. So the core
    /// assumes that an earlier attempt of this end reached the phone, and that its response was lost.
    @Test func `If the token died after the lifetime's end was made, the end counts as accepted`() {
        let core = coreWithLimitedLifetimes()
        core.receive(Self.lifetimeEnd)
        core.reply(.retry)
        core.reply(.send)
        core.push()
        core.respond(.tokenDead, status: 410, reason: "Unregistered", invalidAt: Self.beganAtMilliseconds + 9_000)
        core.report(.acknowledged, on: .invalidation)
        #expect(core.outcomes == ["lifetime:\(Self.beganAtMilliseconds) unregistered"])
        core.acknowledgeSettlements()
        core.acknowledgeOutgoingRecords()
        #expect(lifetimeEvents(core) == [Self.endWithRestart])
        // A worker that reads the end again after a crash learns from Redis that the end counts as accepted.
        #expect(core.settlements == ["lifetime:\(Self.beganAtMilliseconds) accepted"])
    }

    /// A worker died after it had settled the end in Redis. The core must find out whether APNs accepted the
    /// end, because only an end that was shown may lead to a new start.
    @Test(arguments: [true, false])
    func `A lifetime's end that was settled before counts as shown only if it was shown`(isUnshownDuplicate: Bool) {
        let core = coreWithLimitedLifetimes()
        core.receive(Self.lifetimeEnd)
        core.reply(.retry)
        core.reply(.duplicate, isUnshownDuplicate: isUnshownDuplicate)
        #expect(core.outcomes == ["lifetime:\(Self.beganAtMilliseconds) duplicate"])
        core.acknowledgeSettlements()
        core.acknowledgeOutgoingRecords()
        // If the end was not shown, the life stays in the timetable, and the keeper makes the end again.
        #expect(lifetimeEvents(core) == (isUnshownDuplicate ? [] : [Self.endWithRestart]))
        core.acknowledgeAll()
        #expect(core.committableOffset == 1 && core.inProgressRecordCount == 0)
    }

    /// The audience may have a newer state than the start in the timetable, so the activity only ends.
    @Test func `A member of audiences is not started again`() {
        let core = coreWithLimitedLifetimes()
        core.receive(Self.lifetimeEnd)
        core.reply(.retry)
        core.admitAndRespond()
        core.acknowledgeSettlement(departures: CoreHarness.departures("m", at: 1))
        core.acknowledgeOutgoingRecords()
        #expect(core.notifyAudiences() != nil)
        core.acknowledgeSettlement()
        #expect(
            lifetimeEvents(core) == [
                .lifeFinished(beganAtMilliseconds: Self.beganAtMilliseconds, restartAtMilliseconds: 0)
            ]
        )
    }

    // MARK: - The keeper has made the end again

    @Test func `A lifetime's end behind another end reports that the other end ended the life`() {
        let core = coreWithLimitedLifetimes()
        core.receive(Self.lifetimeEnd)
        core.reply(.retry)
        core.reply(.ended)
        #expect(core.outcomes == ["lifetime:\(Self.beganAtMilliseconds) ended"])
        core.acknowledgeSettlements()
        core.acknowledgeOutgoingRecords()
        #expect(lifetimeEvents(core) == [.otherEndAdmitted(beganAtMilliseconds: Self.beganAtMilliseconds)])
    }

    /// The keeper has made two ends of one life. The core keeps the older end, because Redis has admitted it.
    @Test func `Of two lifetime's ends, the older one is sent when it comes back from the deferred topic`() throws {
        let core = coreWithLimitedLifetimes()
        core.receive(Self.lifetimeEnd)
        core.reply(.retry)
        core.reply(.send)
        core.elapseInSteps(12_000)
        let deferredCommand = try #require(core.deferrals.first)
        core.acknowledgeAll()
        core.receive(CommandText.end(19, id: "lifetime:\(Self.beganAtMilliseconds)"))
        core.reply(.retry)
        #expect(core.outstandingCalls == [], "the newer end waits for the deferred one")
        core.receive(deferredCommand)
        core.reply(.retry)
        #expect(core.outcomes == ["lifetime:\(Self.beganAtMilliseconds) superseded"])
        core.reply(.send)
        #expect(core.push()?.body.contains("\"timestamp\":\(CoreHarness.startSeconds + 9)") == true)
    }

    @Test func `A lifetime's end that comes back too late leaves nothing in memory`() throws {
        let core = coreWithLimitedLifetimes()
        core.receive(Self.lifetimeEnd)
        core.reply(.retry)
        core.reply(.send)
        core.elapseInSteps(12_000)
        let deferredCommand = try #require(core.deferrals.first)
        core.acknowledgeAll()
        core.elapseInSteps(60_000)
        core.receive(deferredCommand)
        core.reply(.superseded)
        #expect(core.delivery.activities.count == 0)
    }

    @Test func `Only an end with an id of the right form is a lifetime's end`() {
        for identifier in [
            "lifetime:", "lifetime:1x", "lifetimes:1", "Lifetime:1", "lifetime:1234567890123456", "lifetime:1:",
            "lifetime:1:2", "lifetime:1:2.x",
        ] {
            let core = coreWithLimitedLifetimes()
            core.receive(CommandText.end(9, id: identifier))
            #expect(core.outstandingCalls == ["admit \(identifier)"])
        }
        let core = coreWithLimitedLifetimes()
        core.receive(CommandText.update(9, id: "lifetime:\(Self.beganAtMilliseconds)"))
        #expect(core.outstandingCalls == ["admit lifetime:\(Self.beganAtMilliseconds)"])
    }
}
