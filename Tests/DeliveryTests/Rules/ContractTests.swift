import Delivery
import LiveActivity
import Testing

/// If no type of the app can decode a command's content, `apps.<name>.shapes` decides: the core rejects the command as
/// invalid, or sends it and counts it with a warning. For a start, only the type that it names counts.
@Suite struct ContractTests {
    /// The shapes of the app of ``CommandText``. Its updates have the content state `{"n":…}`.
    private static let shapes = """
        {"app":"\(CommandText.app)","attributesTypes":[
          {"name":"Match","attributes":{},"contentState":{"n":"int","who":{"optional":{"object":{"name":"string"}}}}},
          {"name":"Table","attributes":{"league":"string"},"contentState":{"rows":{"array":"int"}}}
        ]}
        """

    private static func makeRule(_ text: String = shapes, rejectsMismatches: Bool = true) -> ContractRule {
        Array(text.utf8)
            .withUnsafeBytes { bytes in
                do throws(ShapesFault) {
                    return ContractRule(
                        contract: try Contract(shapes: bytes, ofApp: CommandText.app),
                        rejectsMismatches: rejectsMismatches
                    )
                } catch {
                    preconditionFailure("\(error)")
                }
            }
    }

    private static func makeCore(rejectsMismatches: Bool = true) -> CoreHarness {
        CoreHarness { $0.reloadable.apps[0].contract = makeRule(rejectsMismatches: rejectsMismatches) }
    }

    private static func update(_ second: Int64, of activity: String = "a", _ state: String) -> String {
        CommandText.update(second, of: activity).replacing(#"{"n":\#(second)}"#, with: state)
    }

    @Test(arguments: [
        (#"{"n":"1"}"#, #"aps.content-state.n: "1" must be int (at byte "#),
        (#"{"n":1,"who":{"name":7}}"#, "aps.content-state.who.name: 7 must be string (at byte "),
        // Neither type accepts the state. The message comes from `Match`, because `Match` decodes more of the state.
        (#"{"n":1,"who":{}}"#, "aps.content-state.who.name: missing, must be string (at byte "),
        (#"{"rows":[1,2,null]}"#, "aps.content-state.rows[2]: null must be int (at byte "),
    ])
    func `An update that no type can decode is invalid, and a dead letter`(_ state: String, _ detail: String) {
        let core = Self.makeCore()
        let record = Self.update(1, state)
        core.receive(record)
        #expect(core.outcomes == ["u1 invalid"])
        #expect(core.results.first?.reason == "undecodable")
        #expect(core.deadLetters.map(\.error) == ["undecodable"] && core.deadLetters.map(\.value) == [record])
        #expect(core.deadLetters.first?.detail.hasPrefix(detail) == true, "\(core.deadLetters)")
        #expect(core.calls.isEmpty)
        #expect(core.counters(of: 0).undecodableCommandCount == 1)
    }

    @Test func `The id of a command that lost fields and cannot be decoded is in its result`() {
        let core = CoreHarness {
            $0.reloadable.apps[0].contract = Self.makeRule()
            $0.reloadable.policies[0].oversize = ["lineups"]
        }
        let filler = String(repeating: "x", count: 4_096)
        let aps = #"{"event":"update","timestamp":1790000001,"content-state":{"n":"1","lineups":"\#(filler)"}}"#
        core.receive(#"{"app":"\#(CommandText.app)","activity":"a","aps":\#(aps),"id":"behind"}"#)
        #expect(core.outcomes == ["behind invalid"])
        #expect(core.results.first?.reason == "undecodable")
    }

    @Test func `A command that any type of the app can decode is sent`() {
        let core = Self.makeCore()
        let table = Self.update(1, of: "b", #"{"rows":[1,2],"new":{}}"#)
        core.receive(.update(1), table, .end(1, of: "c"), .start(1, of: "d"))
        #expect(core.deadLetters.isEmpty && core.calls.count == 4)
        #expect(core.counters(of: 0).undecodableCommandCount == 0)
    }

    @Test func `A start is checked against the type that it names`() {
        let core = Self.makeCore()
        let start = CommandText.start(1)
        core.receive(
            start.replacing(#""attributes-type":"Match""#, with: #""attributes-type":"Table""#),
            start.replacing(#""attributes-type":"Match""#, with: #""attributes-type":"Match2""#),
            start.replacing(#""content-state":{"n":0}"#, with: #""content-state":{"rows":[]}"#)
        )
        #expect(
            core.deadLetters.map { $0.detail.prefix { $0 != "(" } } == [
                "aps.attributes.league: missing, must be string ",
                "aps.attributes-type: \"Match2\" must be one of the app's types: Match, Table ",
                "aps.content-state.n: missing, must be int ",
            ]
        )
    }

    @Test func `Commands to audiences and to channels are checked too`() {
        let core = Self.makeCore()
        let undecodableCommand = Self.update(1, #"{"n":true}"#)
        core.receive(
            CommandText.addressToAudience(undecodableCommand),
            undecodableCommand.replacing(#""activity":"a""#, with: #""channel":"YWI=""#),
            CommandText.addressToAudience(.update(2))
        )
        #expect(core.deadLetters.map(\.error) == ["undecodable", "undecodable"])
        let handover = core.delivery.nextHandover
        #expect(handover != nil)
    }

    @Test func `If a mismatch only warns, the command is sent and counted, and the warning hides its value`() throws {
        let core = Self.makeCore(rejectsMismatches: false)
        core.receive(Self.update(1, #"{"n":"1"}"#), Self.update(1, of: "b", #"{"n":false}"#))
        #expect(core.deadLetters.isEmpty && core.outstandingCalls == ["admit u1", "admit b.u1"])
        #expect(core.counters(of: 0).undecodableCommandCount == 2)
        let firstWarning = core.delivery.takeContractWarning()
        let warning = try #require(firstWarning)
        #expect(warning.appIndex == 0 && warning.source == "causeway.commands/0/0")
        #expect(warning.message.hasPrefix("aps.content-state.n: a string must be int (at byte "))
        // The core keeps only one warning until the lane takes it. So it counted the second command without a warning.
        let secondWarning = core.delivery.takeContractWarning()
        #expect(secondWarning == nil)
        core.receive(Self.update(2, of: "b", #"{"n":false}"#))
        let thirdWarning = core.delivery.takeContractWarning()
        #expect(thirdWarning?.source == "causeway.commands/0/2")
    }

    @Test func `Only the app that has shapes is checked`() {
        let core = CoreHarness(apps: [CommandText.app, "com.example.other"]) {
            $0.reloadable.apps[0].contract = Self.makeRule()
        }
        let undecodableCommand = Self.update(1, #"{"n":null}"#)
        core.receive(undecodableCommand, undecodableCommand.replacing(CommandText.app, with: "com.example.other"))
        #expect(core.deadLetters.count == 1 && core.outstandingCalls == ["admit u1"])
    }

    /// The core remembers its verdicts on recent states. It must not give a state the verdict of another one, even if
    /// both use the same place in the table, or another app has the same bytes.
    @Test func `Each of many states gets its own verdict, also when it comes again`() {
        let core = CoreHarness(apps: [CommandText.app, "com.example.other"]) {
            $0.recordsMax = 65_536
            $0.ledgerSpanOffsetCount = 131_072
            $0.reloadable.apps[0].contract = Self.makeRule()
            $0.reloadable.apps[1].contract = Self.makeRule(
                Self.shapes.replacing("\"n\":\"int\"", with: "\"n\":\"string\"")
            )
        }
        for round in 0..<2 {
            for number in 0..<6_000 {
                let isText = number % 3 == 0
                let state = #"{"n":\#(isText ? "\"\(number)\"" : "\(number)")}"#
                let update = Self.update(Int64(round), of: "a\(number)", state)
                core.receiveOne(update, partition: core.commandsPartition)
                core.receiveOne(
                    update.replacing(CommandText.app, with: "com.example.other"),
                    partition: core.commandsPartition
                )
            }
        }
        // In each of two rounds, 2,000 states are texts, and 4,000 are integers.
        #expect(core.counters(of: 0).undecodableCommandCount == 4_000)
        #expect(core.counters(of: 1).undecodableCommandCount == 8_000)
    }

    @Test(arguments: [
        // Each state comes again after the two others. So the core must remember more states than the last one.
        [#"{"n":1}"#, #"{"n":1,"who":null}"#, #"{"who":{"name":"a"},"n":2}"#],
        // The core also remembers states that it has refused.
        [#"{"n":"1"}"#, #"{"n":1,"who":{}}"#, #"{"n":1,"who":{"name":7}}"#],
    ])
    func `A state that was seen before is not compared with the shapes again`(_ states: [String]) {
        let core = Self.makeCore()
        for second in 1...10 {
            for (place, state) in states.enumerated() {
                core.receive(Self.update(Int64(second), of: "a\(place)", state))
            }
        }
        #expect(core.delivery.comparedStateCount == 3)
        // Each detail contains the position of a byte in its record. In the tenth record this position is one higher,
        // because the `id` of this record has one more digit. So each of the three states has two details.
        let details = core.deadLetters.map(\.detail)
        #expect(Set(details).count == (details.isEmpty ? 0 : 6), "\(Set(details))")
    }

    @Test func `If a state has the form of one that fits, only the differences are read`() {
        let core = Self.makeCore()
        core.receive(Self.update(1, of: "a", #"{"n":1,"who":{"name":"Olmo"}}"#))
        core.receive(Self.update(1, of: "b", #"{"n":23456,"who":{"name":"\u004bane"}}"#))
        core.receive(Self.update(1, of: "c", #"{"n":-2e3,"who":{"name":""}}"#))
        core.receive(Self.update(1, of: "d", #"{"n":1 ,"who":{"name":"Olmo"}}"#))
        #expect(core.delivery.comparedStateCount == 2, "the last one has another form")
        core.receive(Self.update(1, of: "e", #"{"n":1.5,"who":{"name":"Olmo"}}"#))
        #expect(
            core.deadLetters.map { $0.detail.prefix { $0 != "(" } } == ["aps.content-state.n: 1.5 does not fit int "]
        )
    }

    @Test func `New shapes apply to the next command, even if its state fitted the old shapes`() {
        let core = Self.makeCore()
        core.receive(.update(1))
        #expect(core.deadLetters.isEmpty)
        var settings = core.configuration.reloadable
        settings.apps[0].contract = Self.makeRule(
            Self.shapes.replacing("\"n\":\"int\"", with: "\"n\":\"string\"")
        )
        core.delivery.apply(settings)
        core.receive(CommandText.update(1, of: "b"))
        #expect(core.deadLetters.count == 1)
        settings.apps[0].contract = nil
        core.delivery.apply(settings)
        core.receive(CommandText.update(1, of: "c"))
        #expect(core.deadLetters.count == 1)
    }
}
