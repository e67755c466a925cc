import LiveActivity
import Testbed
import Testing

@testable import CausewayCommandLine
@testable import causeway

@Suite("Cutting input into records", .ownThread)
struct RecordSplitterTests {
    /// Returns the records in `text`, each with the number of its first line. `text` is read in pieces of this size.
    private func splitRecords(_ text: String, pieceBytes: Int = 1) -> [String] {
        var splitter = RecordSplitter()
        var records: [String] = []
        let keep = { (record: InputRecord) in
            records.append("\(record.lineNumber):\(String(decoding: record.bytes, as: UTF8.self))")
        }
        var rest = Array(text.utf8)[...]
        while !rest.isEmpty {
            splitter.split(rest.prefix(pieceBytes), keep)
            rest = rest.dropFirst(pieceBytes)
        }
        splitter.finish(keep)
        return records
    }

    @Test(
        arguments: [
            ("", []),
            (" \n\r\n\t", []),
            ("{}", ["1:{}"]),
            ("{}\n{}\n", ["1:{}", "2:{}"]),
            ("\n\n  {\"a\":\n1}\n", ["3:{\"a\":\n1}"]),
            ("{}{} {}", ["1:{}", "1:{}", "1:{}"]),
            ("{\"a\":\"}{\\\"\"}\n{}", ["1:{\"a\":\"}{\\\"\"}", "2:{}"]),
            ("{\"a\":[{},{\n}]}\n{}", ["1:{\"a\":[{},{\n}]}", "3:{}"]),
            ("{\"a\":\n{}\n", ["1:{\"a\":", "2:{}"]),
            ("{\"a\": \"open\n{}\n", ["1:{\"a\": \"open", "2:{}"]),
            ("nonsense here\n{}", ["1:nonsense here", "2:{}"]),
            ("{}}\n{}", ["1:{}", "1:}", "2:{}"]),
            ("[1,\n2]\n{}", ["1:[1,\n2]", "3:{}"]),
            ("null\n\"a{\"\n", ["1:null", "2:\"a{\""]),
            ("{}\r\n{}\r\n", ["1:{}", "2:{}"]),
        ] as [(String, [String])]
    )
    func `Records are cut out of every form of input`(text: String, records: [String]) {
        #expect(splitRecords(text) == records)
        #expect(splitRecords(text, pieceBytes: 1_000) == records)
    }

    @Test func `A record without an end is cut off`() {
        let records = splitRecords(
            "{" + String(repeating: " ", count: 2 * RecordSplitter.recordBytesMax) + "x",
            pieceBytes: 65_536
        )
        #expect(records.count == 2)
    }

    @Test(
        arguments: [
            (#"{"activity":"a","device":"d"}"#, "a"), (#"{"audience":"é\n"}"#, "é\n"),
            (#"{"activity":"f-{device}","audience":"m"}"#, "m"),
            (#"{"device":"d","x":[1]}"#, "d"), (#"{"device":"d","attributesType":"T"}"#, "d/T"),
            (#"{"channel":"YWI="}"#, "YWI="),
            (#"{"channel":true,"audience":"m"}"#, "m"), (#"{"channel":true}"#, nil),
            (#"{"app":"x"}"#, nil), (#"{"activity":1}"#, nil), ("{", nil), ("", nil),
        ] as [(String, String?)]
    )
    func `The key of a record is found`(record: String, key: String?) {
        #expect(RecordKey.key(of: Array(record.utf8)).map { String(decoding: $0, as: UTF8.self) } == key)
    }

    @Test func `A command gets the present time and its place in the second, and nothing else of it changes`() {
        let command =
            #"{"app":"x","activity":"a","aps":{"event":"update", "timestamp" : 1790000000 ,"#
            + #""content-state":{"timestamp":1}}}"#
        var timestampUpdater = TimestampUpdater()
        // 25 µs after the second 1,800,000,001, so the sequence is 25.
        let microseconds: Int64 = 1_800_000_001_000_025
        let updatedRecord = timestampUpdater.withCurrentTimestamp(Array(command.utf8), unixMicroseconds: microseconds)
        let expected = "{\"sequence\":25," + command.replacing("1790000000", with: "1800000001").dropFirst()
        #expect(String(decoding: updatedRecord, as: UTF8.self) == expected)
        let recordWithoutAps = Array(#"{"timestamp":1790000000}"#.utf8)
        #expect(
            timestampUpdater.withCurrentTimestamp(recordWithoutAps, unixMicroseconds: microseconds) == recordWithoutAps
        )
    }

    @Test(arguments: [
        #"{"app":"x","activity":"a","aps":{"event":"update","content-state":{"s":"é"}}}"#,
        "{\"app\":\"x\",\"activity\":\"a\",\n\"aps\":{\n  \"event\":\"end\"\n}}\n",
        #"{"app":"x","activity":"a","aps":{"event":"end","content-state":{"aps":{"timestamp":1}}}}"#,
        #"{"app":"x","audience":"a","aps": { "content-state":{},"event":"update"}}"#,
        #"{"app":"x","activity":"a","device":"d","aps":{"event":"start","attributes-type":"A","attributes":{},"#
            + #""content-state":{},"alert":{"title":"t","body":"b"}}}"#,
    ])
    func `A command without a timestamp gets the present one, and nothing else of it changes`(command: String) throws {
        var timestampUpdater = TimestampUpdater()
        let updatedRecord = timestampUpdater.withCurrentTimestamp(
            Array(command.utf8),
            unixMicroseconds: 1_800_000_001_000_025
        )
        let version = try updatedRecord.withUnsafeBytes { try Command.decode($0).version }
        #expect(version == Version(timestamp: 1_800_000_001, sequence: 25))
        let text = String(decoding: updatedRecord, as: UTF8.self)
        #expect(
            text.replacing("\"sequence\":25,", with: "").replacing("\"timestamp\":1800000001,", with: "") == command
        )
    }

    @Test(arguments: [("9", "1"), ("1", "9"), ("0", "0"), ("18446744073709551615", "0")])
    func `A command's own sequence is replaced, so that the later command is newer`(
        sequence: String,
        laterSequence: String
    ) throws {
        var timestampUpdater = TimestampUpdater()
        let members = #""activity":"a","aps":{"event":"end","timestamp":1790000000}"#
        let commands = [
            #"{"app":"x","sequence":\#(sequence),\#(members)}"#,
            #"{"app":"x",\#(members), "sequence" : \#(laterSequence) }"#,
        ]
        var versions: [Version] = []
        for command in commands {
            let updatedRecord = timestampUpdater.withCurrentTimestamp(
                Array(command.utf8),
                unixMicroseconds: 1_800_000_001_000_025
            )
            versions.append(try updatedRecord.withUnsafeBytes { try Command.decode($0).version })
        }
        #expect(versions.map(\.timestamp) == [1_800_000_001, 1_800_000_001] && versions.map(\.sequence) == [25, 26])
    }

    @Test(arguments: [
        #"{"app":"x","activity":"a","aps":{"event":"update"}}"#, #"{"app":"x","activity":"a","aps":{}}"#,
        #"{"app":"x","activity":"a","aps":{"event":"end"}"#, #"{"app":"x","activity":"a"}"#,
        #"{"app":"x","activity":"a","aps":{"event":"end","timestamp":"now"}}"#, "nonsense",
    ])
    func `A command that is wrong in another way gets no timestamp`(record: String) {
        var timestampUpdater = TimestampUpdater()
        let updatedRecord = timestampUpdater.withCurrentTimestamp(
            Array(record.utf8),
            unixMicroseconds: 1_800_000_001_000_025
        )
        #expect(String(decoding: updatedRecord, as: UTF8.self) == record)
    }
}
