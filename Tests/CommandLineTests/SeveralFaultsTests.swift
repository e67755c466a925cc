import LiveActivity
import Testbed
import Testing

@testable import causeway

/// Decoding ends at the first fault of a record. To find further faults, `causeway check` repairs the fault in a copy
/// of the record, and decodes the copy again.
@Suite("causeway check, several faults in one record", .ownThread)
struct SeveralFaultsTests {
    @Test func `Each field that a producer may write has a sample for the repair`() {
        let fields = Set(Field.allCases).subtracting(RecordRepair.sampleValues.keys)
        #expect(fields == [.record, .body, .alertTimestamp, .alertSequence])
    }

    @Test func `A wrong payload does not hide other faults`() throws {
        let record =
            #"{"app":"com.example.match","activity":"a","payload":7,"aps":{"event":"update","timestamp":1790000000,"#
            + #""content-state":[]}}"#
        let run = try ProgramRun.run("check", "--commands", "-", input: record)
        #expect(
            run.outputLines == [
                "stdin:1: payload: must be an object (at byte 52)",
                "stdin:1: aps.content-state: must be an object (at byte 117)",
            ]
        )
    }

    /// The fault is reported at the position of the `aps` object, and not at the position of the field that is not
    /// allowed.
    @Test func `A field that its event does not allow is named, and hides no other fault`() throws {
        let record =
            #"{"app":"com.example.match","activity":"a","aps":{"event":"update","timestamp":1790000000,"#
            + #""content-state":[],"dismissal-date":0}}"#
        let run = try ProgramRun.run("check", "--commands", "-", input: record)
        #expect(
            run.outputLines == [
                "stdin:1: aps.content-state: must be an object (at byte 105)",
                "stdin:1: aps.dismissal-date: is allowed only in an end (at byte 48)",
            ]
        )
    }

    /// A worker answers `unknownApp`, because it compares the bytes of `app` as they are in JSON.
    @Test func `An app with escapes is a fault`() throws {
        let record =
            #"{"app":"com.example\u002ematch","activity":"a","aps":{"event":"update","timestamp":1790000000,"#
            + #""content-state":{}}}"#
        let run = try ProgramRun.run("check", "--commands", "-", input: record)
        #expect(run.outputLines == ["stdin:1: app: must be written without escapes"])
    }
}
