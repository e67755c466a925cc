import Delivery
import LiveActivity
import Testing

/// Redis is asked about a restart again if its first reply may not be true any more.
extension LifetimeRestartTests {
    /// The update gets its outcome `ended` after Redis has permitted the restart. So the restart would show an older
    /// state, and the update's state would never be shown.
    @Test(arguments: [false, true])
    func `Redis is asked about a restart again after an update that was before it`(isUpdateFirst: Bool) {
        let core = restartingCore()
        core.elapse(10_000)
        core.receive(.update(4))
        core.receive(Self.restartCommand)
        if isUpdateFirst { core.reply(.ended) }
        core.reply(.retry, toNewest: true)
        if !isUpdateFirst { core.reply(.ended) }
        #expect(core.outcomes == ["u4 ended"] && lifetimeEvents(core) == [.updatedAfterEnd])
        #expect(core.outstandingCalls == ["checkLifetime \(Self.identifier)"])
        core.reply(.superseded)
        #expect(core.outcomes == ["u4 ended", "\(Self.identifier) superseded"])
        core.acknowledgeAll()
        #expect(core.committableOffset == 2 && core.inProgressRecordCount == 0)
    }

    @Test func `If Redis permits a restart a second time, it is sent`() {
        let core = restartingCore()
        core.elapse(10_000)
        core.receive(.update(4))
        core.receive(Self.restartCommand)
        core.reply(.retry, toNewest: true)
        core.reply(.ended)
        core.reply(.retry)
        #expect(core.outstandingCalls == ["takeStartToken \(Self.identifier)"])
    }

    /// Redis decided about the end before it permitted the restart, but did not know the end's report then.
    @Test func `Redis is asked about a restart again after an end that the producer sent`() {
        let core = restartingCore()
        core.elapse(10_000)
        core.receive(.end(11))
        core.receive(Self.restartCommand)
        core.reply(.ended)
        core.reply(.retry)
        #expect(core.outstandingCalls == ["checkLifetime \(Self.identifier)"])
    }

    /// The keeper made the restart twice. If the duplicate reported the new life, the keeper would not make the restart
    /// again after Redis has refused the other record.
    @Test func `A second record of a waiting restart does not report a new life`() {
        let core = restartingCore()
        core.elapse(10_000)
        core.receive(Self.restartCommand)
        core.reply(.retry)
        core.reply(.wait, waitMilliseconds: 500)
        core.receive(Self.restartCommand)
        core.reply(.retry)
        #expect(core.outcomes == ["\(Self.identifier) duplicate"] && lifetimeEvents(core) == [])
    }

    /// Otherwise the lane would ask Redis about the two commands in turn, without end.
    @Test func `A newer update waits for a restart, and Redis is not asked about the restart again`() {
        let core = restartingCore()
        core.elapse(10_000)
        core.receive(.update(12))
        core.receive(Self.restartCommand)
        core.reply(.retry, toNewest: true)
        core.reply(.ended)
        #expect(core.outcomes == [] && core.outstandingCalls == ["takeStartToken \(Self.identifier)"])
    }

    /// A drawn restart may be admitted already.
    @Test func `An older update does not come before a restart that has drawn from the budget`() {
        let core = restartingCore()
        core.elapse(10_000)
        core.receive(Self.restartCommand)
        core.reply(.retry)
        core.reply(.tokenFound, draw: 77)
        core.reply(.wait, waitMilliseconds: 500)
        core.receive(.update(8))
        #expect(core.outcomes == ["u8 superseded"] && core.outstandingCalls == [])
    }

    /// The timestamp of a restart is the time at which it was made. So an update that was on its way is older.
    @Test func `An older update is put before a restart that waits for its budget`() {
        let core = restartingCore()
        core.elapse(10_000)
        core.receive(Self.restartCommand)
        core.reply(.retry)
        core.reply(.wait, waitMilliseconds: 500)
        core.receive(.update(8))
        core.elapse(500 + PaceTests.timerPrecisionMilliseconds)
        #expect(core.outcomes == [] && core.outstandingCalls == ["admit u8"])
        core.reply(.ended)
        #expect(core.outcomes == ["u8 ended"] && core.outstandingCalls == ["checkLifetime \(Self.identifier)"])
    }

    /// Redis would reply `ended` to the newer update, and its alert would be lost.
    @Test func `A newer alert waits while Redis is asked about a restart again`() {
        let core = coreAskingAgain(alertSecond: 12)
        core.reply(.retry)
        #expect(core.outstandingCalls == ["takeStartToken \(Self.identifier)"])
        core.reply(.tokenFound)
        core.admitAndRespond()
        core.acknowledgeAll()
        core.elapseSpacing()
        #expect(core.outstandingCalls == ["admit u12"])
        #expect(core.outcomes == ["u8 ended", "\(Self.identifier) accepted"])
    }

    /// The timetable has a newer state than the restart, so the keeper makes the restart again with this state.
    @Test(arguments: [false, true])
    func `If Redis refuses a restart, a newer alert waits for the next one`(isMadeAgain: Bool) {
        let core = coreAskingAgain(alertSecond: 12)
        core.reply(.superseded)
        #expect(core.outcomes == ["u8 ended", "\(Self.identifier) superseded"] && core.outstandingCalls == [])
        guard isMadeAgain else {
            core.elapse(35_000 + PaceTests.timerPrecisionMilliseconds)
            #expect(core.outstandingCalls == ["admit u12"])
            return
        }
        let endedAtMilliseconds = (CoreHarness.startSeconds + 10) * 1_000
        let nextIdentifier = "lifetime:\(endedAtMilliseconds):\(CoreHarness.startSeconds + 8).0"
        core.receive(CommandText.start(10, id: nextIdentifier))
        core.reply(.retry)
        #expect(core.outstandingCalls == ["takeStartToken \(nextIdentifier)"])
    }

    @Test func `An end of the producer waits for Redis' reply about a restart, and is then sent at once`() {
        let core = coreAskingAgain()
        core.receive(.end(11))
        #expect(core.outstandingCalls == ["checkLifetime \(Self.identifier)"])
        core.reply(.retry)
        #expect(core.outcomes == ["u8 ended", "\(Self.identifier) superseded"])
        #expect(core.outstandingCalls == ["admit e11"])
    }

    /// Returns a core that asks Redis about a restart again, because an older update has come before the restart.
    ///
    /// - Parameter alertSecond: the second of an update with an alert that waits behind the restart; nil: none waits.
    private func coreAskingAgain(alertSecond: Int64? = nil) -> CoreHarness {
        let core = restartingCore()
        core.elapse(10_000)
        core.receive(Self.restartCommand)
        core.reply(.retry)
        core.reply(.wait, waitMilliseconds: 500)
        core.receive(.update(8))
        if let alertSecond { core.receive(.alert(alertSecond)) }
        core.elapse(500 + PaceTests.timerPrecisionMilliseconds)
        core.reply(.ended)
        #expect(core.outcomes == ["u8 ended"] && core.outstandingCalls == ["checkLifetime \(Self.identifier)"])
        return core
    }

    /// Redis must not refuse such a restart for a newer state: the activity may have begun. But Redis must still know
    /// that the command is no end.
    @Test func `A restart whose push was attempted names the highest version`() throws {
        let core = restartingCore {
            $0.retryBaseMilliseconds = 300_000
            $0.reloadable.retryMillisecondsMax = 300_000
        }
        core.elapse(10_000)
        core.receive(Self.restartCommand)
        core.reply(.retry)
        core.reply(.tokenFound, draw: 77)
        core.reply(.send)
        core.push()
        core.respond(.retryLater, status: 503)
        core.acknowledgeAll()
        core.elapseInSteps(30_000)
        core.receive(try #require(core.deferrals.first))
        let stateVersions = core.calls.compactMap { call -> Version? in
            guard case .checkLifetime(_, let stateVersion, _) = call.operation else { return nil }
            return stateVersion
        }
        #expect(stateVersions == [Version(timestamp: Limits.timestampMax, sequence: .max)])
    }
}
