import Delivery
import LiveActivity
import Testing

/// An invalid record gets the outcome `invalid` and stops nothing. It goes to the dead letters unchanged, or without
/// its value if it is too large for them. (R6)
@Suite struct ValidityTests {
    static let app = CommandText.app
    /// An invalid record whose value may be the reason why a dead letter is too large.
    private static let largeRecord = "{" + String(repeating: " ", count: 20_000)

    @Test(arguments: [
        ("{", "truncated", ""),
        ("?", "notJSON", ""),
        (#"{"colour":1}"#, "unknownKey", "colour: unknown key"),
        (#"{"app":"\#(app)","activity":"a"}"#, "missingField", "aps: "),
        (
            #"{"app":"\#(app)","activity":"a","aps":{"event":"update","timestamp":1790000001}}"#,
            "missingField", "aps.content-state: "
        ),
        (
            #"{"app":"\#(app)","activity":"a","aps":{"event":"update","timestamp":1790000001000,"content-state":{}}}"#,
            "outOfRange", "aps.timestamp: "
        ),
        (
            #"{"app":"\#(app)","activity":"a","aps":{"event":"update","timestamp":1790000301,"content-state":{}}}"#,
            "timestampInFuture", "aps.timestamp: is 301 seconds in the future, 300 are allowed (at byte "
        ),
        (
            #"{"app":"\#(app)","activity":"a","device":"d","aps":{"event":"start","timestamp":1790000001,"#
                + #""content-state":{},"attributes-type":"Match","attributes":{},"alert":{"title":"Kick-off"}}}"#,
            "missingField", "aps.alert.body: "
        ),
        (
            #"{"app":"\#(app)","activity":"a","payload":{"x":"\#(String(repeating: "x", count: 4_096))"},"#
                + #""aps":{"event":"update","timestamp":1790000001,"content-state":{}}}"#,
            "bodyTooLarge", "body: "
        ),
        (
            #"{"app":"com.example.other","activity":"a","aps":{"event":"update","timestamp":1790000001,"content-state":{}}}"#,
            "unknownApp", "app: is not configured"
        ),
    ])
    func `A fault of a record is named in its result and its dead letter`(record: String, error: String, detail: String)
        throws
    {
        let core = CoreHarness()
        core.receive(record)
        #expect(core.outcomes == ["causeway.commands/0/0 invalid"])
        #expect(core.results.first?.reason == error)
        let deadLetter = try #require(core.deadLetters.first)
        #expect(deadLetter.value == record)
        #expect(deadLetter.key == "key")
        #expect(deadLetter.error == error)
        #expect(deadLetter.detail.hasPrefix(detail))
        #expect(deadLetter.source == "causeway.commands/0/0")
        #expect(core.calls.isEmpty)
    }

    @Test(arguments: [
        #"{"id":"c-1","app":"\#(app)","activity":"a","aps":{"event":"update","timestamp":1790000301,"content-state":{}}}"#,
        #"{"id":"c-1","app":"com.example.other","activity":"a","aps":{"event":"update","timestamp":1790000001,"content-state":{}}}"#,
    ])
    func `If a command's id can be read, its result has that id`(record: String) {
        let core = CoreHarness()
        core.receive(record)
        #expect(core.outcomes == ["c-1 invalid"])
        #expect(core.deadLetters.map(\.source) == ["causeway.commands/0/0"])
    }

    @Test func `The producer's clock may be five minutes ahead`() {
        let core = CoreHarness()
        core.receive(.update(300))
        #expect(core.outstandingCalls == ["admit u300"])
    }

    @Test func `A command without a value is invalid`() {
        let core = CoreHarness()
        core.receiveOne(nil, key: nil, partition: core.commandsPartition)
        core.endBatch()
        #expect(
            core.deadLetters == [
                SeenDeadLetter(
                    key: nil,
                    value: nil,
                    error: "emptyRecord",
                    detail: "a command record has no value",
                    source: "causeway.commands/0/0"
                )
            ]
        )
    }

    @Test(arguments: [nil, "", String(repeating: "k", count: 257), String(repeating: "k", count: 257) + "/T"])
    func `A tombstone whose key cannot be an id is invalid`(key: String?) {
        let core = CoreHarness()
        core.unregister(key: key)
        #expect(core.outcomes == ["causeway.registrations/0/0 invalid"])
        #expect(core.deadLetters.map(\.error) == ["missingKey"])
        #expect(core.deadLetters.map(\.key) == [key])
        #expect(core.calls.isEmpty)
    }

    @Test func `An invalid registration is a dead letter too`() {
        let core = CoreHarness()
        core.register(#"{"app":"com.example.match","activity":"a"}"#)
        #expect(core.outcomes == ["causeway.registrations/0/0 invalid"])
        #expect(core.deadLetters.map(\.error) == ["missingField"])
    }

    @Test func `An invalid record does not stop the next`() {
        let core = CoreHarness()
        core.receive("{", .update(1))
        #expect(core.outstandingCalls == ["admit u1"])
    }

    @Test func `An invalid record is settled when its result and its dead letter are acknowledged`() {
        let core = CoreHarness()
        core.receive("{")
        core.report(.acknowledged, on: .result)
        #expect(core.committableOffset == 0)
        core.report(.acknowledged, on: .deadLetter)
        #expect(core.committableOffset == 1)
        #expect(core.inProgressRecordCount == 0)
    }

    @Test func `A dead letter that is too large for Kafka is written without its value`() {
        let core = CoreHarness()
        core.receive(Self.largeRecord)
        core.report(.tooLarge, on: .deadLetter)
        #expect(core.deadLetters.map(\.value) == [Self.largeRecord, nil])
        #expect(core.deadLetters.map(\.error) == ["truncated", "truncated"])
        core.acknowledgeOutgoingRecords()
        #expect(core.committableOffset == 1)
    }

    /// Kafka may have refused the dead letter because of other records of its batch.
    @Test func `A dead letter with a small value loses it only after many refusals`() {
        let core = CoreHarness()
        core.receive("{")
        let refusalsMax = Int(OutgoingRecord.retriesAfterRefusalMax) + 1
        for _ in 0..<refusalsMax {
            core.report(.tooLarge, on: .deadLetter)
            core.elapse(250)
        }
        #expect(core.deadLetters.map(\.value) == Array(repeating: "{", count: refusalsMax) + [nil])
        core.acknowledgeOutgoingRecords()
        #expect(core.committableOffset == 1)
    }

    @Test func `A dead letter keeps its value if only the result is too large`() {
        let core = CoreHarness()
        core.receive(Self.largeRecord)
        core.report(.tooLarge, on: .result)
        core.report(.failed, on: .deadLetter)
        core.elapse(250)
        #expect(core.deadLetters.map(\.value) == [Self.largeRecord, Self.largeRecord])
        core.report(.tooLarge, on: .deadLetter)
        #expect(core.deadLetters.map(\.value) == [Self.largeRecord, Self.largeRecord, nil])
        core.acknowledgeOutgoingRecords()
        #expect(core.committableOffset == 1)
    }

    @Test func `A dead letter that is too large even without its value is given up`() {
        let core = CoreHarness()
        core.receive(Self.largeRecord)
        core.report(.acknowledged, on: .result)
        // The first refusal is due to the value. The dead letter without it has its own refusals.
        for _ in 0...OutgoingRecord.retriesAfterRefusalMax {
            core.report(.tooLarge, on: .deadLetter)
            #expect(core.committableOffset == 0)
            core.elapse(250)
        }
        core.report(.tooLarge, on: .deadLetter)
        #expect(core.committableOffset == 1)
        #expect(core.inProgressRecordCount == 0)
    }
}
