import Delivery
import LiveActivity
import Testing

/// An activity whose policy says `restart` is started again after the end of its lifetime. The timetable keeps what the
/// start needs. These tests call the new start a restart. The core sends it only while the timetable has it. (R34, R35)
@Suite struct LifetimeRestartTests {
    private static let endedAtMilliseconds = (CoreHarness.startSeconds + 10) * 1_000
    private static let stateVersion = Version(timestamp: CoreHarness.startSeconds + 3, sequence: 0)
    /// The id of the restart: it names the end of the last life, and the version of the state that the restart shows.
    static let identifier = "lifetime:\(endedAtMilliseconds):\(stateVersion.timestamp).0"
    static let restartCommand = CommandText.start(10, id: identifier)

    /// Returns a core whose default policy ends activities after an hour and starts them again. Policy `once` only ends
    /// them.
    func restartingCore(_ change: (inout DeliveryConfiguration) -> Void = { _ in }) -> CoreHarness {
        CoreHarness {
            $0.reloadable.deferAfterMilliseconds = 10_000
            $0.reloadable.deferredDelayMilliseconds = 30_000
            $0.reloadable.policies[0].lifetimeSeconds = 3_600
            $0.reloadable.policies[0].afterLifetime = .restart
            var once = Policy(name: "once")
            once.lifetimeSeconds = 3_600
            $0.reloadable.policies.append(once)
            change(&$0)
        }
    }

    /// The commands that the core reports to the timetable, each with its event. `command` begins with `start` or
    /// `shown`.
    func commandsKeptForRestart(_ core: CoreHarness) -> [(event: LifetimeEvent, command: String)] {
        core.calls.compactMap { call in
            guard case .reportLifetimeEvent(let event, let command?) = call.operation else { return nil }
            return (event, "\(command.isStart ? "start" : "shown") \(String(decoding: command.record, as: UTF8.self))")
        }
    }

    func lifetimeEvents(_ core: CoreHarness) -> [LifetimeEvent] {
        core.calls.compactMap { if case .reportLifetimeEvent(let event, _) = $0.operation { event } else { nil } }
    }

    @Test func `The core repeats the start and the newest state until the timetable has them`() {
        let core = restartingCore()
        core.receive(.start(1))
        core.reply(.tokenFound)
        core.admitAndRespond()
        #expect(commandsKeptForRestart(core).count == 1)
        #expect(
            commandsKeptForRestart(core).first?.command
                .hasPrefix(#"start {"app":"com.example.match","activity":"a","device":"d","#)
                == true
        )
        core.loseRedis()
        core.loseRedis()
        #expect(
            commandsKeptForRestart(core).count == 1
                && commandsKeptForRestart(core).first?.command.contains(#""content-state":{"n":0}"#) == true
        )
        core.acknowledgeAll()
        core.elapse(5_000)
        core.receive(.update(2))
        core.admitAndRespond()
        #expect(
            commandsKeptForRestart(core).count == 1
                && commandsKeptForRestart(core).first?.command.hasPrefix("shown ") == true
        )
        core.acknowledgeAll()
        #expect(core.committableOffset == 2 && core.inProgressRecordCount == 0)
    }

    @Test func `A state that comes after the end is kept for the restart`() {
        let core = restartingCore()
        core.receive(.update(3))
        core.reply(.ended)
        #expect(core.outcomes == ["u3 ended"])
        #expect(commandsKeptForRestart(core).map(\.event) == [.updatedAfterEnd])
        core.acknowledgeAll()
        #expect(core.committableOffset == 1)
    }

    @Test func `If the policy only ends activities, the timetable keeps no command`() {
        let core = restartingCore()
        core.receive(.update(1, beside: #""policy":"once","#))
        core.admitAndRespond()
        #expect(commandsKeptForRestart(core).isEmpty && lifetimeEvents(core).count == 1)
        core.acknowledgeAll()
        core.receive(.update(2, of: "b", beside: #""policy":"once","#))
        core.reply(.ended)
        #expect(lifetimeEvents(core) == [])
    }

    /// Redis has lost the timetable, so reading the start again must write it to the timetable again. (R25)
    @Test func `A start that is read again goes to the timetable again`() {
        let core = restartingCore()
        core.elapse(5_000)
        core.reread(below: 2)
        core.receive(.start(1))
        #expect(
            commandsKeptForRestart(core).map(\.event) == lifetimeEvents(core)
                && commandsKeptForRestart(core).first?.command.hasPrefix("start ") == true
        )
        core.acknowledgeSettlements()
        #expect(core.outcomes == [] && core.committableOffset == 1 && core.inProgressRecordCount == 0)
    }

    /// The timetable keeps the start without the fields that its policy dropped, as it was sent. It keeps no start that
    /// stays too large. (R33)
    @Test(arguments: [(["lineups"], true), (["other"], false)])
    func `A start that was too large is kept again if dropped fields made it fit`(dropped: [String], isKept: Bool) {
        let core = restartingCore { $0.reloadable.policies[0].oversize = dropped }
        core.elapse(5_000)
        core.reread(below: 2)
        let filler = String(repeating: "x", count: 4_096)
        core.receive(
            CommandText.start(1)
                .replacing(#""content-state":{"n":0}"#, with: #""content-state":{"n":0,"lineups":"\#(filler)"}"#)
        )
        #expect(lifetimeEvents(core).count == 1 && core.outcomes == [])
        #expect(
            commandsKeptForRestart(core).map { $0.command.contains(#""content-state":{"n":0}"#) }
                == (isKept ? [true] : [])
        )
        core.acknowledgeSettlements()
        #expect(core.committableOffset == 1 && core.inProgressRecordCount == 0)
    }

    @Test func `A restart is sent if the timetable waits for it, and begins the next life`() {
        let core = restartingCore()
        core.elapse(10_000)
        core.receive(Self.restartCommand)
        #expect(core.outstandingCalls == ["checkLifetime \(Self.identifier)"])
        core.reply(.retry)
        core.reply(.tokenFound)
        core.admitAndRespond()
        #expect(core.outcomes == ["\(Self.identifier) accepted"] && core.results.map(\.isLifetimeCommand) == [true])
        #expect(
            lifetimeEvents(core) == [.began(atMilliseconds: Self.endedAtMilliseconds, lifetimeMilliseconds: 3_600_000)]
        )
        #expect(commandsKeptForRestart(core).count == 1)
        core.acknowledgeAll()
        #expect(core.committableOffset == 1 && core.inProgressRecordCount == 0)
    }

    @Test func `A restart is not sent if the producer has ended or started the activity`() {
        let core = restartingCore()
        core.elapse(10_000)
        core.receive(Self.restartCommand)
        core.reply(.superseded)
        #expect(core.outcomes == ["\(Self.identifier) superseded"] && lifetimeEvents(core) == [])
        for event in [CommandText.start(11), CommandText.end(11)] {
            let core = restartingCore()
            core.elapse(10_000)
            core.receive(event)
            core.receive(Self.restartCommand)
            core.reply(.retry, toNewest: true)
            #expect(core.outcomes == ["\(Self.identifier) superseded"] && lifetimeEvents(core) == [])
        }
    }

    /// The end has a lower timestamp than the start. The end still wins, because Causeway chose the timestamp of the
    /// start. (R35)
    @Test(arguments: [false, true])
    func `An end of the producer replaces a restart that waits for its budget`(hasNewerUpdate: Bool) {
        let core = restartingCore()
        core.elapse(10_000)
        core.receive(Self.restartCommand)
        core.reply(.retry)
        if hasNewerUpdate { core.receive(.update(12)) }
        core.receive(.end(7))
        core.reply(.wait, waitMilliseconds: 500)
        #expect(core.outcomes == ["\(Self.identifier) superseded"])
        core.elapse(500 + PaceTests.timerPrecisionMilliseconds)
        #expect(core.outstandingCalls == ["admit e7"])
    }

    @Test func `A restart without a token is held, and the timetable forgets it after its result`() {
        let core = restartingCore()
        core.elapse(10_000)
        core.receive(Self.restartCommand)
        core.reply(.retry)
        core.reply(.noToken)
        core.reply(.held)
        #expect(core.outcomes == ["\(Self.identifier) held"])
        #expect(lifetimeEvents(core) == [])
        core.acknowledgeOutgoingRecords()
        #expect(
            lifetimeEvents(core) == [
                .lifeFinished(beganAtMilliseconds: Self.endedAtMilliseconds, restartAtMilliseconds: 0)
            ]
                && core.committableOffset == 0
        )
        core.acknowledgeSettlements()
        #expect(core.committableOffset == 1 && core.inProgressRecordCount == 0)
    }

    /// If a newer state has come since the keeper made this start, the start is not sent. The keeper must make another
    /// start with the newer state.
    @Test func `The core asks Redis whether a state has come that is newer than the restart's`() {
        let core = restartingCore()
        core.elapse(10_000)
        core.receive(Self.restartCommand)
        guard
            case .checkLifetime(Self.endedAtMilliseconds, let stateVersion, let claimDelayMilliseconds)? = core.calls
                .first?
                .operation
        else {
            Issue.record("\(core.outstandingCalls)")
            return
        }
        #expect(stateVersion == Self.stateVersion)
        // The next claim must come after the worker has read the deferred command again. Otherwise the keeper would
        // make a second start.
        #expect(claimDelayMilliseconds > 10_000 + 30_000)
    }

    /// The pool accepts nothing, so the core defers the start. While the start is deferred, the keeper makes the same
    /// start again.
    @Test func `A restart that comes back from the deferred topic is sent with its claim`() throws {
        let core = restartingCore()
        core.elapse(10_000)
        core.receive(Self.restartCommand)
        core.reply(.retry)
        core.reply(.tokenFound)
        core.reply(.send)
        core.elapseInSteps(12_000)
        core.acknowledgeAll()
        let deferredCommand = try #require(core.deferrals.first)
        #expect(core.results.isEmpty && lifetimeEvents(core) == [])
        // The second record of the start waits for Redis.
        core.receive(Self.restartCommand)
        core.reply(.retry)
        core.receive(deferredCommand)
        core.reply(.retry, toNewest: true)
        core.reply(.tokenFound)
        core.reply(.unknown)
        core.acknowledgeAll()
        core.elapseInSteps(1_000)
        core.reply(.tokenFound)
        core.reply(.send)
        core.push()
        core.respond(.accepted)
        #expect(core.outcomes == ["\(Self.identifier) unknown", "\(Self.identifier) accepted"])
        #expect(
            lifetimeEvents(core) == [.began(atMilliseconds: Self.endedAtMilliseconds, lifetimeMilliseconds: 3_600_000)]
        )
    }

    @Test func `A restart that is read again reports that its life began`() {
        let core = restartingCore()
        core.elapse(20_000)
        core.reread(below: 2)
        core.receive(Self.restartCommand)
        #expect(
            lifetimeEvents(core) == [.began(atMilliseconds: Self.endedAtMilliseconds, lifetimeMilliseconds: 3_600_000)]
        )
    }

    @Test func `A restart is not sent if its policy no longer restarts activities`() {
        let core = restartingCore()
        core.elapse(10_000)
        core.receive(CommandText.start(10, id: Self.identifier, beside: #""policy":"once","#))
        core.reply(.retry)
        #expect(core.outcomes == ["\(Self.identifier) expired"])
        core.acknowledgeOutgoingRecords()
        #expect(
            lifetimeEvents(core) == [
                .lifeFinished(beganAtMilliseconds: Self.endedAtMilliseconds, restartAtMilliseconds: 0)
            ]
        )
    }

    @Test func `A restart that is too old is not sent, and the timetable forgets it`() {
        let core = restartingCore()
        core.elapse(3_600_000)
        core.receive(Self.restartCommand)
        core.reply(.retry)
        #expect(core.outcomes == ["\(Self.identifier) expired"])
        core.acknowledgeOutgoingRecords()
        #expect(
            lifetimeEvents(core) == [
                .lifeFinished(beganAtMilliseconds: Self.endedAtMilliseconds, restartAtMilliseconds: 0)
            ]
        )
    }

    /// The start's policy was removed, or its body is too large. The timetable must forget the start; otherwise the
    /// keeper would make it again and again for 12 h.
    @Test(arguments: [#""policy":"gone","#, #""payload":{"x":"\#(String(repeating: "x", count: 4_096))"},"#])
    func `An invalid restart has one result and one dead letter, and the timetable forgets it`(member: String) {
        let core = restartingCore()
        core.elapse(10_000)
        core.receive(CommandText.start(10, id: Self.identifier, beside: member))
        #expect(core.outcomes == ["\(Self.identifier) invalid"] && core.deadLetters.count == 1)
        #expect(core.results.map(\.isLifetimeCommand) == [true] && core.results.map(\.activity) == ["a"])
        // The timetable forgets the start only after Kafka has acknowledged the result and the dead letter.
        #expect(lifetimeEvents(core) == [])
        core.acknowledgeOutgoingRecords()
        #expect(
            lifetimeEvents(core) == [
                .lifeFinished(beganAtMilliseconds: Self.endedAtMilliseconds, restartAtMilliseconds: 0)
            ]
        )
        #expect(core.committableOffset == 0)
        core.acknowledgeSettlements()
        #expect(core.committableOffset == 1 && core.inProgressRecordCount == 0)
    }

    @Test func `An invalid command of the producer takes no life out of the timetable`() {
        let core = restartingCore()
        core.receive(.start(1, beside: #""policy":"gone","#))
        core.acknowledgeAll()
        #expect(core.outcomes == ["s1 invalid"] && lifetimeEvents(core) == [] && core.committableOffset == 1)
    }
}
