import CausewayRecords
import Foundation
import Testing

@Suite("JSON values")
struct JSONValueTests {
    @Test(
        arguments: [
            "0", "-0", "1.0", "0.10", "1e5", "1E+2", "1e400", "18446744073709551615", "-9223372036854775808",
            "123456789012345678901234567890", "null", "true", #""\u0000\b\f\n\r\t\"\\é😀""#, "[]", "{}",
            #"{"":[1,[2,{"a":null}]],"b":false}"#,
        ]
    )
    func `A text is read and written with the same content`(text: String) throws {
        let value = try JSONValue(text: text.utf8)
        #expect(try JSONValue(text: value.text()) == value)
        let written = String(decoding: try value.text(), as: UTF8.self)
        #expect(written == text.replacing(#"\b"#, with: #"\u0008"#).replacing(#"\f"#, with: #"\u000c"#))
    }

    @Test(
        arguments: [
            "", " ", "01", "1.", ".5", "+1", "1e", "-", "NaN", "tru", "[1,]", "[1 2]", "{\"a\"}", "{\"a\":1,}", "{a:1}",
            "\"a", "\"\n\"",
            #""\x""#, #""\u12""#, #""\ud800""#, #""\ud800\u0041""#, #""\udc00\ud800""#, "1 2", "/**/1", "\u{FEFF}1",
            String(repeating: "[", count: 200) + String(repeating: "]", count: 200),
        ]
    )
    func `A text that is not JSON is a fault`(text: String) {
        #expect(throws: RecordFault.self) { try JSONValue(text: text.utf8) }
    }

    @Test func `A text that is not UTF-8 is a fault`() {
        #expect(throws: RecordFault.self) { try JSONValue(text: [0x22, 0xFF, 0x22]) }
    }

    @Test(arguments: [JSONValue.number(.nan), .number(.infinity), .numeral("1.0.0"), .numeral("")])
    func `A number that JSON does not have is a fault`(value: JSONValue) {
        #expect(throws: RecordFault.self) { try value.text() }
    }

    @Test func `A text has the bytes that JSONEncoder writes`() throws {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        let values: [JSONValue] = [
            "a/b\"\\\n\r\t\u{1}\u{1f}\u{7f}é😀", 1.5, -3, 0.1, 1e300, 3.0, .unsigned(.max), .null, true,
            ["b": [1, "x"], "a": [:]],
        ]
        for value in values { #expect(try value.text() == encoder.encode(value)) }
    }

    @Test func `A number is read as a double, whatever its digits`() throws {
        let texts = ["1", "18446744073709551615", "1.5", "15e-1"]
        let numbers = try texts.map { try JSONValue(text: $0.utf8).double }
        #expect(numbers == [1, Double(UInt64.max), 1.5, 1.5])
        #expect(JSONValue.string("1").double == nil)
    }

    /// Swift's `String` treats `é` and `e` with a combining accent as equal. The worker compares bytes.
    @Test func `Texts are equal only if their bytes are equal`() throws {
        let text = "{\"e\u{301}\":1,\"\u{E9}\":2}"
        let value = try JSONValue(text: text.utf8)
        #expect(String(decoding: try value.text(), as: UTF8.self).utf8.elementsEqual(text.utf8))
        guard case .object(let members) = value else {
            Issue.record("no object")
            return
        }
        #expect(members["e\u{301}"] == 1 && members["\u{E9}"] == 2 && members["e"] == nil)
        #expect(JSONValue.string("e\u{301}") != .string("\u{E9}"))
        let first = try JSONValue(text: #"{"\u00e9":1,"é":2}"#.utf8)
        #expect(first == ["\u{E9}": 1])
    }
}
