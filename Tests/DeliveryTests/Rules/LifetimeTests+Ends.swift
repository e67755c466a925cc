import LiveActivity
import Testing

@testable import Delivery

/// The lifetime's end: the command that ends an activity whose lifetime is over. (R35)
extension LifetimeTests {
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
