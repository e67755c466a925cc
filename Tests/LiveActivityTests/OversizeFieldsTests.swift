import Foundation
import Numbers
import RecordTestbed
import Testbed
import Testing

@testable import LiveActivity

/// A field is dropped together with one comma beside it, and with the white space between the two. All other bytes stay
/// unchanged. (R33)
@Suite("Fields that are dropped from a body that is too large", .ownThread)
struct OversizeFieldsTests {
    /// A payload that keeps the body too large, so that every listed field is dropped.
    private static let tooLargePayload = #"{"x":"\#(String(repeating: "x", count: 6_000))"}"#

    private static func record(_ state: String, payload: String = tooLargePayload) -> String {
        RecordText.update.with("aps.content-state", state).with("payload", payload).text
    }

    private static func drop(_ text: String, _ names: [String]) throws -> (text: String, dropped: String) {
        let record = Record(text)
        let command = try Command.decodeIgnoringBodyLimit(record.bytes)
        let fields = OversizeFields(names)
        var target = [UInt8](repeating: 0xAA, count: record.bytes.count)
        let result = target.withUnsafeMutableBytes { fields.drop(from: record.bytes, of: command, into: $0) }
        return (
            String(decoding: target[..<result.byteCount], as: UTF8.self),
            String(decoding: fields.droppedFieldNames(of: result), as: UTF8.self)
        )
    }

    @Test(arguments: [
        // The first, a middle, the last and the only field. A comma beside the field is dropped too.
        (#"{"a":1,"b":2,"c":3}"#, ["a"], #"{"b":2,"c":3}"#, "a"),
        (#"{"a":1,"b":2,"c":3}"#, ["b"], #"{"a":1,"c":3}"#, "b"),
        (#"{"a":1,"b":2,"c":3}"#, ["c"], #"{"a":1,"b":2}"#, "c"),
        (#"{"a":1}"#, ["a"], "{}", "a"),
        (#"{"a":1,"b":2,"c":3}"#, ["c", "a", "b"], "{}", "c,a,b"),
        (#"{"a":1,"b":2,"c":3}"#, ["b", "c"], #"{"a":1}"#, "b,c"),
        // White space around a dropped field.
        ("{ \"a\" : 1 ,\n \"b\" : [ 2 , {} ] , \"c\" : 3 }", ["b"], "{ \"a\" : 1 ,\n  \"c\" : 3 }", "b"),
        ("{ \"a\" : 1 ,\n \"b\" : 2 }", ["b"], "{ \"a\" : 1  }", "b"),
        ("{ \"a\" : 1 }", ["a"], "{  }", "a"),
        // Names that no field has, a path through a value that is no object, and a brace inside a string.
        (#"{"a":1}"#, ["b", "a.b"], #"{"a":1}"#, ""),
        (#"{"ab":1,"a":"}"}"#, ["a"], #"{"ab":1}"#, "a"),
        ("{}", ["a"], "{}", ""),
        // Fields of inner objects. A path does not lead into an array, and a dot in a key is not a path.
        (#"{"m":{"l":[1,2],"s":{"l":3}},"l":4}"#, ["m.l"], #"{"m":{"s":{"l":3}},"l":4}"#, "m.l"),
        (#"{"m":{"l":[1,2],"s":{"l":3}},"l":4}"#, ["m.s.l", "l"], #"{"m":{"l":[1,2],"s":{}}}"#, "m.s.l,l"),
        (#"{"m":{"l":1},"n":2}"#, ["m.l", "m"], #"{"n":2}"#, "m.l,m"),
        (#"{"m":[{"l":1}]}"#, ["m.l"], #"{"m":[{"l":1}]}"#, ""),
        (#"{"m.l":1}"#, ["m.l"], #"{"m.l":1}"#, ""),
        // Keys that are written with escapes.
        (#"{"\u006c\u0069ne-up_s":1,"b":"l"}"#, ["line-up_s"], #"{"b":"l"}"#, "line-up_s"),
        (#"{"\u006d":{"\u006C":1,"k":"\u006c"}}"#, ["m.l"], #"{"\u006d":{"k":"\u006c"}}"#, "m.l"),
        // Keys that occur several times: all their fields are dropped.
        (#"{"x":1,"a":2,"x":3}"#, ["x"], #"{"a":2}"#, "x"),
        (#"{"a":2,"x":1,"x":3}"#, ["x"], #"{"a":2}"#, "x"),
        (#"{"a":2, "x":1, "x":3, "x":4}"#, ["x"], #"{"a":2}"#, "x"),
        (#"{"x":1,"x":3}"#, ["x"], "{}", "x"),
        (#"{"m":{"x":1},"m":{"y":2,"x":3}}"#, ["m.x"], #"{"m":{},"m":{"y":2}}"#, "m.x"),
    ])
    func `A dropped field takes one comma with it, and nothing else changes`(
        state: String,
        names: [String],
        expectedState: String,
        dropped: String
    ) throws {
        let (text, reportedNames) = try Self.drop(Self.record(state), names)
        #expect(text == Self.record(expectedState))
        #expect(reportedNames == dropped)
    }

    @Test func `Fields are dropped in the declared order, and no more than needed`() throws {
        let longText = String(repeating: "x", count: 1_000)
        let state = #"{"score":1,"a":"\#(longText)","b":"\#(longText)","c":"\#(longText)"}"#
        let otherBytes = try Record(Self.record(state, payload: "{}")).command().bodyByteCount
        // Each field has 1,007 bytes with its comma. `surplus` is the number of bytes above the limit.
        for (surplus, dropped) in [(0, ""), (1, "b"), (1_007, "b"), (1_008, "b,a"), (2_014, "b,a"), (2_015, "b,a,c")] {
            let padding = String(
                repeating: "p",
                count: Limits.bodyBytesMax - otherBytes + surplus - #","p":"""#.utf8.count
            )
            let record = Self.record(state, payload: #"{"p":"\#(padding)"}"#)
            #expect(try Record(record).commandOfAnySize().bodyByteCount == Limits.bodyBytesMax + surplus)
            let (text, reportedNames) = try Self.drop(record, ["b", "gone", "a", "c"])
            #expect(reportedNames == dropped)
            #expect(try Record(text).command().fitsBodyLimit)
        }
    }

    @Test func `A body to a channel has a larger limit`() throws {
        let state = #"{"a":"\#(String(repeating: "x", count: 4_500))","b":1}"#
        let small = RecordText.toChannel.with("aps.content-state", state).text
        #expect(try Self.drop(small, ["b"]).dropped.isEmpty)
        let large = RecordText.toChannel.with("aps.content-state", state)
            .with("payload", #"{"x":"\#(String(repeating: "x", count: 600))"}"#)
        #expect(try Self.drop(large.text, ["b", "a"]).dropped == "b,a")
    }

    @Test func `Fields are dropped from the content state only, not from the attributes`() throws {
        let start = RecordText.start.with("aps.attributes", #"{"a":1}"#).with("aps.content-state", #"{"b":1}"#)
            .with("payload", Self.tooLargePayload)
        let (text, dropped) = try Self.drop(start.text, ["a", "b"])
        #expect(text == start.with("aps.content-state", "{}").text)
        #expect(dropped == "b")
        let end = RecordText.end.without("aps.content-state").with("payload", Self.tooLargePayload)
        #expect(try Self.drop(end.text, ["a"]) == (end.text, ""))
    }

    @Test(arguments: [
        ("a", true), ("match.lineups", true), ("a-b_C.9", true), (String(repeating: "a", count: 63), true),
        ("", false), (".a", false), ("a.", false), ("a..b", false), ("a,b", false), ("a b", false), ("é", false),
        (String(repeating: "a", count: 64), false),
    ])
    func `A field's name has letters, digits and a few signs`(name: String, isName: Bool) {
        #expect(OversizeFields.isFieldName(name) == isName)
    }

    // MARK: - Against Foundation

    @Test func `Random states lose what Foundation's dictionaries lose`() throws {
        var random = SplitMix64(seed: 11)
        var droppedCount = 0
        for _ in 0..<4_000 {
            let state = Self.randomObject(&random, depth: 0)
            let names = Array(Set((0..<Int.random(in: 1...4, using: &random)).map { _ in Self.randomPath(&random) }))
            let record = Self.record(state)
            let (text, dropped) = try Self.drop(record, names)
            var expected = try Self.state(of: record)
            var reportedNames: [String] = []
            for name in names {
                let shorterState = Self.removing(name.split(separator: ".").map(String.init)[...], from: expected)
                if shorterState != expected { reportedNames.append(name) }
                expected = shorterState
            }
            #expect(try Self.state(of: text) == expected, "\(state) without \(names)")
            #expect(dropped == reportedNames.joined(separator: ","), "\(state) without \(names)")
            if !reportedNames.isEmpty { droppedCount += 1 }
        }
        #expect(droppedCount > 1_000, "many states have fields to drop")
    }

    private static func state(of record: String) throws -> NSDictionary {
        let object = try JSONSerialization.jsonObject(with: Data(record.utf8)) as? [String: Any]
        return try #require((object?["aps"] as? [String: Any])?["content-state"] as? NSDictionary)
    }

    private static func removing(_ path: ArraySlice<String>, from object: NSDictionary) -> NSDictionary {
        guard let key = path.first, let shorterState = object.mutableCopy() as? NSMutableDictionary else {
            return object
        }
        if path.count == 1 {
            shorterState.removeObject(forKey: key)
        } else if let inner = object[key] as? NSDictionary {
            shorterState[key] = removing(path.dropFirst(), from: inner)
        }
        return shorterState
    }

    private static let keys = ["a", "b", "c", "match", "line-ups"]

    private static func randomPath(_ random: inout SplitMix64) -> String {
        (0..<Int.random(in: 1...3, using: &random)).map { _ in keys.randomElement(using: &random) ?? "a" }
            .joined(separator: ".")
    }

    private static func randomObject(_ random: inout SplitMix64, depth: Int) -> String {
        let members = keys.shuffled(using: &random).prefix(Int.random(in: 0...keys.count, using: &random))
            .map { key in
                "\(randomSpace(&random))\"\(keyText(key, &random))\"\(randomSpace(&random)):\(randomSpace(&random))"
                    + "\(randomValue(&random, depth: depth))\(randomSpace(&random))"
            }
        return "{\(members.isEmpty ? randomSpace(&random) : "")\(members.joined(separator: ","))}"
    }

    private static func randomValue(_ random: inout SplitMix64, depth: Int) -> String {
        switch Int.random(in: 0..<6, using: &random) {
        case 0...1 where depth < 3: randomObject(&random, depth: depth + 1)
        case 2: #"[1, {"a": "b"}, "],}"]"#
        case 3: #""\"a\":1,{}\\""#
        case 4: "-1.5e3"
        default: "null"
        }
    }

    private static func randomSpace(_ random: inout SplitMix64) -> String {
        ["", "", "", " ", "\n\t"].randomElement(using: &random) ?? ""
    }

    /// Returns the key, sometimes with its first character as an escape.
    private static func keyText(_ key: String, _ random: inout SplitMix64) -> String {
        guard Int.random(in: 0..<3, using: &random) == 0, let first = key.utf8.first else { return key }
        return "\\u00" + String(first, radix: 16) + key.dropFirst()
    }
}

extension Record {
    fileprivate func commandOfAnySize() throws(Fault) -> Command { try Command.decodeIgnoringBodyLimit(bytes) }
}
