import Delivery
import LiveActivity
import Testing

/// A body that is too large for APNs loses fields that its policy names, one after the other until it fits, and the
/// core works only with the shorter state. A body that stays too large is invalid. (R33)
@Suite struct TooLargeTests {
    private static let filler = String(repeating: "x", count: 4_096)

    private static func makeCore(_ names: [String] = ["lineups", "match.commentary"]) -> CoreHarness {
        CoreHarness { $0.reloadable.policies[0].oversize = names }
    }

    /// Returns an update for this second. `state` has further fields of its content state; each begins with a comma.
    private static func update(_ second: Int64, of activity: String = "a", alert: Bool = false, state: String) -> String
    {
        CommandText.update(second, of: activity, alert: alert)
            .replacing(#""content-state":{"n":\#(second)}"#, with: #""content-state":{"n":\#(second)\#(state)}"#)
    }

    private static func largeUpdate(_ second: Int64, of activity: String = "a", alert: Bool = false) -> String {
        update(second, of: activity, alert: alert, state: #","lineups":"\#(filler)","match":{"commentary":[1]}"#)
    }

    private static func smallerUpdate(_ second: Int64, of activity: String = "a", alert: Bool = false) -> String {
        update(second, of: activity, alert: alert, state: #","match":{"commentary":[1]}"#)
    }

    /// Returns the push of a command that fits.
    private static func sentPush(_ command: String) throws -> SeenPush {
        let core = CoreHarness()
        core.receive(command)
        core.reply(.send)
        return try #require(core.push())
    }

    @Test func `A body that is too large is sent without the fields, and the result names them`() throws {
        let core = Self.makeCore()
        core.receive(Self.largeUpdate(1))
        core.reply(.send)
        #expect(try #require(core.push()).body == Self.sentPush(Self.smallerUpdate(1)).body)
        core.respond(.accepted)
        core.acknowledgeAll()
        let result = try #require(core.results.first)
        #expect((result.outcome, result.droppedFields) == ("accepted", "lineups"))
        #expect(core.delivery.counters(of: 0).bodyWithDroppedFieldsCount == 1)
        #expect(core.committableOffset == 1 && core.inProgressRecordCount == 0)
    }

    @Test func `A body that fits keeps its fields`() throws {
        let core = Self.makeCore()
        core.receive(Self.smallerUpdate(1))
        core.reply(.send)
        #expect(try #require(core.push()).body.contains("commentary"))
        core.respond(.accepted)
        #expect(
            core.results.first?.droppedFields == "" && core.delivery.counters(of: 0).bodyWithDroppedFieldsCount == 0
        )
    }

    @Test func `Redis compares the state without the fields`() throws {
        let (core, smallerCore) = (Self.makeCore(), CoreHarness())
        core.receive(Self.largeUpdate(1))
        smallerCore.receive(Self.smallerUpdate(1))
        #expect(try core.oldestCall.admission?.digest == smallerCore.oldestCall.admission?.digest)
        core.reply(.unchanged)
        #expect(core.outcomes == ["u1 unchanged"] && core.results.first?.droppedFields == "lineups")
    }

    @Test func `A command that is read again loses the same fields`() throws {
        let (firstCore, rereadingCore) = (Self.makeCore(), Self.makeCore())
        rereadingCore.reread(below: 1)
        for core in [firstCore, rereadingCore] { core.receive(Self.largeUpdate(1)) }
        #expect(try firstCore.oldestCall.admission?.digest == rereadingCore.oldestCall.admission?.digest)
        let coreWithAlert = Self.makeCore()
        coreWithAlert.reread(below: 1)
        coreWithAlert.receive(Self.largeUpdate(1, alert: true))
        #expect(
            try coreWithAlert.oldestCall.admission?.digest == firstCore.oldestCall.admission?.digest,
            "a command that is read again has lost its alert"
        )
    }

    @Test func `Redis holds the state without the fields`() throws {
        let core = Self.makeCore()
        core.receive(Self.largeUpdate(1))
        core.reply(.noToken)
        let heldCommandText = String(decoding: try #require(try core.oldestCall.heldCommand), as: UTF8.self)
        #expect(heldCommandText.contains("commentary") && !heldCommandText.contains("lineups"))
        #expect(
            try Array(heldCommandText.utf8).withUnsafeBytes { try Command.decodeWrittenByCauseway($0).fitsBodyLimit }
        )
        core.reply(.held)
        core.acknowledgeAll()
        #expect(core.outcomes == ["u1 held"] && core.results.first?.droppedFields == "lineups")
    }

    @Test func `A deferred command still says what was dropped`() throws {
        let core = CoreHarness {
            $0.reloadable.policies[0].oversize = ["lineups"]
            $0.reloadable.deferAfterMilliseconds = 10_000
            $0.reloadable.deferredDelayMilliseconds = 30_000
        }
        core.receive(Self.largeUpdate(1))
        core.reply(.send)
        core.elapseInSteps(DeferralTests.overdueMilliseconds)
        core.acknowledgeAll()
        let deferredCommand = try #require(core.deferrals.first)
        #expect(deferredCommand.droppedFields == "lineups" && !deferredCommand.value.contains("lineups"))
        core.elapseInSteps(DeferralTests.delayMilliseconds)
        core.receive(deferredCommand)
        core.admitAndRespond()
        core.acknowledgeAll()
        #expect(core.outcomes == ["u1 accepted"])
        #expect(core.results.last?.droppedFields == "lineups")
    }

    @Test(arguments: [
        ([], "body: the request body has 8288 bytes, 4096 are allowed (at byte "),
        (["other"], "; it has no field that the policy drops"),
        (["lineups", "other"], "; this is without lineups, which the policy drops"),
    ])
    func `A body that is still too large is invalid, and the detail says how large it is`(
        names: [String],
        detail: String
    ) throws {
        let core = Self.makeCore(names)
        let command = Self.update(1, state: #","lineups":"\#(Self.filler)","more":"\#(Self.filler)""#)
        core.receive(command, .update(2, of: "b"))
        core.acknowledgeAll()
        let deadLetter = try #require(core.deadLetters.first)
        #expect((deadLetter.error, deadLetter.value) == ("bodyTooLarge", command))
        #expect(deadLetter.detail.contains(detail), "\(deadLetter.detail)")
        let bodyBytes = names.contains("lineups") ? 4_179 : 8_288
        #expect(deadLetter.detail.contains("has \(bodyBytes) bytes"), "\(deadLetter.detail)")
        #expect(core.results.first?.outcome == "invalid" && core.results.first?.command == "u1")
        #expect(
            core.results.first?.droppedFields == "" && core.delivery.counters(of: 0).bodyWithDroppedFieldsCount == 0
        )
        #expect(core.outstandingCalls == ["admit b.u2"], "other commands continue")
    }

    @Test func `The policy that the command names says what is dropped`() throws {
        let core = CoreHarness {
            var sports = Policy(name: "sports")
            sports.oversize = ["lineups"]
            $0.reloadable.policies.append(sports)
        }
        core.receive(
            Self.largeUpdate(1),
            Self.largeUpdate(1, of: "b").replacing(#""app":"#, with: #""policy":"sports","app":"#)
        )
        #expect(core.outstandingCalls == ["admit b.u1"])
        #expect(core.results.first?.outcome == "invalid")
    }

    /// Equal states share one body in memory. A body without the fields that one policy drops must not serve
    /// another policy.
    @Test func `Only commands of one policy share a body that has lost fields`() throws {
        let payload = #""payload":{"x":"\#(String(repeating: "x", count: 3_000))"},"#
        let state = #","a":"\#(String(repeating: "a", count: 800))","b":"\#(String(repeating: "b", count: 800))""#
        let core = CoreHarness {
            for (name, field) in [("first", "a"), ("second", "b")] {
                var policy = Policy(name: name)
                policy.oversize = [field]
                $0.reloadable.policies.append(policy)
            }
        }
        let policyNames = ["first", "second", "first"]
        for (place, name) in policyNames.enumerated() {
            core.receive(
                Self.update(1, of: "m\(place)", state: state)
                    .replacing(#""app":"#, with: #""policy":"\#(name)",\#(payload)"app":"#)
            )
            core.reply(.send)
        }
        let bodies = try policyNames.map { _ in try #require(core.push()).body }
        #expect(bodies.map { $0.contains(#""a":"#) } == [false, true, false])
        #expect(bodies.map { $0.contains(#""b":"#) } == [true, false, true])
    }

    /// Activities `b` and `c` have equal `aps` dictionaries. The core remembers the dictionary under a number, and both
    /// activities get the body with this number. The broadcast's dictionary is too large to be remembered. If the
    /// broadcast got the number of the dictionary of `b`, activity `c` would get the broadcast's body.
    @Test func `The body of a large broadcast is not sent to an activity`() throws {
        let core = CoreHarness()
        let broadcastCommand = Self.update(2, state: #","x":"\#(String(repeating: "x", count: 4_500))""#)
            .replacing(#""activity":"a""#, with: #""channel":"YWI\/""#)
        core.receive(.update(1, of: "b"), broadcastCommand, .update(1, of: "c"))
        core.reply(.send)
        core.reply(.send)
        let bodies = try (0..<2).map { _ in try #require(core.push()).body }
        #expect(bodies[0] == bodies[1])
    }

    @Test func `An alert is left out if a state has no room for it even after losing fields`() throws {
        let core = Self.makeCore()
        let updateWithoutRoom = Self.update(
            2,
            state: #","lineups":"\#(Self.filler)","r":"\#(String(repeating: "r", count: 3_990))""#
        )
        core.receive(.alert(1), updateWithoutRoom)
        #expect(core.outcomes == ["u1 superseded"] && core.results.first?.reason == "alertDidNotFit")
        core.reply(.send)
        let push = try #require(core.push())
        #expect(!push.body.contains("alert") && !push.body.contains("lineups"))
    }

    @Test func `A state that has lost fields carries an older alert`() throws {
        let core = Self.makeCore()
        core.receive(.alert(1), Self.largeUpdate(2))
        core.reply(.send)
        let push = try #require(core.push())
        #expect(push.body.contains(CommandText.alertJSON(1)) && !push.body.contains("lineups"))
    }

    @Test func `A command to an audience or a channel is handed over without the fields`() throws {
        let core = Self.makeCore()
        core.receive(
            CommandText.addressToAudience(Self.largeUpdate(1)),
            Self.update(2, state: #","lineups":"\#(Self.filler)\#(Self.filler)""#)
                .replacing(#""activity":"a""#, with: #""channel":"YWI\/""#)
        )
        for _ in 0..<2 {
            let view = core.delivery.view(try #require(core.takeHandover()))
            #expect(String(decoding: view.droppedFields, as: UTF8.self) == "lineups")
            #expect(!String(decoding: view.body, as: UTF8.self).contains("lineups"))
        }
    }

    @Test func `A start keeps its attributes`() throws {
        let core = Self.makeCore(["lineups"])
        let start = CommandText.start(1)
            .replacing(#""attributes":{}"#, with: #""attributes":{"lineups":1}"#)
            .replacing(#""content-state":{"n":0}"#, with: #""content-state":{"n":0,"lineups":"\#(Self.filler)"}"#)
        core.receive(start)
        core.reply(.tokenFound)
        core.reply(.send)
        #expect(try #require(core.push()).body.contains(#""attributes":{"lineups":1},"content-state":{"n":0}"#))
    }
}
