import LiveActivity
import Testing

/// The start that restarts an activity after its lifetime. It is composed from the former start and the newest state,
/// which the timetable keeps. (R34)
@Suite struct RestartRecordTests {
    /// 28,200.123 s (almost eight hours) after the timestamp of the former start.
    private static let restartMilliseconds: Int64 = 1_790_028_200_123

    private static let start = #"""
        {"app":"com.example.ride","activity":"r","device":"d","id":"first","sequence":4,"priority":10,"policy":"p","expiration":1790000500,\#
        "aps":{"timestamp":1790000000,"event":"start","content-state":{"n":0},"attributes-type":"Ride","attributes":{"id":"r"},\#
        "stale-date":1790000900,"alert":{"title":"On its way","body":"…","sound":"default"},"input-push-token":1},"payload":{"k":1}}
        """#

    private static func update(_ second: Int64, _ state: String) -> String {
        #"{"app":"com.example.ride","activity":"r","id":"u","alertTimestamp":1790000001,"alertSequence":0,"#
            + #""aps":{"timestamp":\#(1_790_000_000 + second),"event":"update","content-state":\#(state),"alert":{"title":"t","body":"b"}}}"#
    }

    private func compose(_ start: String, _ newestUpdate: String?, newestUpdateSecond: Int64 = 7) -> String? {
        RestartRecord.compose(
            start: (Self.version(0, sequence: 4), Array(start.utf8)),
            newestUpdate: newestUpdate.map { (Self.version(newestUpdateSecond), Array($0.utf8)) },
            restartAtMilliseconds: Self.restartMilliseconds
        )
        .map { String(decoding: $0, as: UTF8.self) }
    }

    private static func version(_ second: Int64, sequence: UInt64 = 0) -> Version {
        Version(timestamp: 1_790_000_000 + second, sequence: sequence)
    }

    private func expectedStart(_ state: String, of version: String) -> String {
        #"{"id":"lifetime:1790028200123:\#(version)","app":"com.example.ride","activity":"r","device":"d","priority":10,"policy":"p","#
            + #""aps":{"timestamp":1790028200,"event":"start","content-state":\#(state),"attributes-type":"Ride","attributes":{"id":"r"},"#
            + #""alert":{"title":"On its way","body":"…"},"input-push-token":1},"payload":{"k":1}}"#
    }

    @Test func `The new start has the former start's parts and the newest state, and neither its id nor its sound`() {
        #expect(compose(Self.start, Self.update(7, #"{"n":7}"#)) == expectedStart(#"{"n":7}"#, of: "1790000007.0"))
        #expect(compose(Self.start, nil) == expectedStart(#"{"n":0}"#, of: "1790000000.4"))
    }

    /// The timetable keeps each state with its version. Here the version is older than the start, but the timestamp in
    /// the state's record is later, because such a timestamp may have been raised. Only the version counts.
    @Test func `The version under which a state is kept says whether it is newer than the start`() {
        let update = Self.update(7, #"{"n":7}"#)
        #expect(compose(Self.start, update, newestUpdateSecond: -1) == expectedStart(#"{"n":0}"#, of: "1790000000.4"))
    }

    /// The new start is too large. The worker that reads it drops fields by the policy, or reports that the body is too
    /// large.
    @Test func `A state that does not fit beside the attributes is left to the worker`() {
        let large = #"{"n":"\#(String(repeating: "x", count: 3_950))"}"#
        #expect(compose(Self.start, Self.update(7, large)) == expectedStart(large, of: "1790000007.0"))
    }

    @Test func `Texts that other programs wrote make no start`() {
        for start in ["", "{}", "x", Self.update(1, "{}"), String(Self.start.dropLast(3))] {
            #expect(compose(start, nil) == nil, "\(start)")
        }
        for newestUpdate in ["", "{}", String(Self.update(7, #"{"n":7}"#).dropLast())] {
            #expect(
                compose(Self.start, newestUpdate) == expectedStart(#"{"n":0}"#, of: "1790000000.4"),
                "\(newestUpdate)"
            )
        }
    }

    /// A worker leaves the record of a newer version of Causeway to a worker of that version. A damaged record must not
    /// be taken for such a record, because no worker can ever read it.
    @Test func `A record with a letter at its beginning, an unknown key or an unknown value is of a newer version`() {
        let update = Self.update(7, #"{"n":7}"#)
        let environment = update.replacing(#""id":"u""#, with: #""token":"00112233","environment":"later""#)
        for record in ["a", "z{}", "B\u{1}", #"{"later":1}"#, environment] {
            #expect(RestartRecord.hasUnknownFormat(Array(record.utf8)), "\(record)")
        }
        for record in ["", "{}", "[]", "1", "\u{1}", "{", String(update.dropLast()), update, Self.start] {
            #expect(!RestartRecord.hasUnknownFormat(Array(record.utf8)), "\(record)")
        }
    }
}
