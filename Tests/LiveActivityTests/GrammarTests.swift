import RecordTestbed
import Testing

@testable import LiveActivity

@Suite("JSON grammar")
struct GrammarTests {
    static let validTexts: [String] = [
        "0", "-0", "10", "1.5", "-1.25e+10", "1E-7", "1e400", "true", "false", "null", "\"\"", "[]", "{}", "[ ]", "{ }",
        "[1,2 , [3], {\"a\":[]}]", "{\"a\":1,\"b\":{\"c\":\"d\"}}", #""\"\\\/\b\f\n\r\t\u00e9\ud83d\ude00""#,
        #""\u0000""#,
        "\"\u{7F}\u{80}\u{7FF}\u{800}\u{FFFF}\u{10000}\u{10FFFF}\u{2028}\"", "123456789012345678901234567890",
        "[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]", "{\"\":0}",
        "[\"a long enough string for three steps\"]",
    ]

    static let invalidTexts: [(text: String, code: FaultCode)] = [
        ("", .truncated), ("01", .trailingBytes), ("1.", .truncated), ("1.e5", .notJSON), (".5", .notJSON),
        ("-", .truncated), ("-a", .notJSON), ("+1", .notJSON), ("1e", .truncated), ("1e+", .truncated),
        ("1e+x", .notJSON),
        ("tru", .truncated), ("trux", .notJSON), ("True", .notJSON), ("nul]", .notJSON), ("NaN", .notJSON),
        ("0x1", .trailingBytes),
        ("\"", .truncated), ("\"a", .truncated), (#""\"#, .truncated), (#""\u"#, .truncated), (#""\u12"#, .truncated),
        (#""\u12g4""#, .invalidEscape), (#""\x41""#, .invalidEscape), (#""\U0041""#, .invalidEscape),
        (#""\'""#, .invalidEscape),
        (#""\ud800""#, .loneSurrogate), (#""\udc00""#, .loneSurrogate), (#""\ud800a""#, .loneSurrogate),
        (#""\ud800\n""#, .loneSurrogate), (#""\ud800\u0041""#, .loneSurrogate), (#""\ud800\ud800""#, .loneSurrogate),
        (#""\ud800\u"#, .truncated), ("\"\n\"", .controlCharacter),
        ("\"a long enough string \u{1}\"", .controlCharacter),
        ("[", .truncated), ("[1", .truncated), ("[1,", .truncated), ("[1,]", .notJSON), ("[,1]", .notJSON),
        ("[1 2]", .notJSON),
        ("[1}", .notJSON), ("]", .notJSON), ("{", .truncated), ("{]", .notJSON), ("{\"a\"}", .notJSON),
        ("{\"a\":}", .notJSON),
        ("{\"a\":1,}", .notJSON), ("{a:1}", .notJSON), ("{1:1}", .notJSON), ("{\"a\" 1}", .notJSON),
        ("{\"a\":1 \"b\":2}", .notJSON),
        ("{\"a\":1", .truncated), ("'a'", .notJSON), ("/**/1", .notJSON), ("1 1", .trailingBytes),
        ("\u{FEFF}1", .notJSON),
        ("[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[", .tooDeep), ("{\"\\ud800\":1}", .loneSurrogate),
    ]

    @Test(arguments: validTexts)
    func `The grammar accepts valid texts`(_ text: String) {
        #expect(Grammar.fault(Array(text.utf8)) == nil)
    }

    @Test(arguments: invalidTexts)
    func `The grammar refuses invalid texts`(_ text: String, _ code: FaultCode) {
        #expect(Grammar.fault(Array(text.utf8)) == (text.isEmpty ? .emptyRecord : code))
    }

    /// Ill-formed UTF-8: the values just outside the limits in each row of Unicode's table 3-7.
    static let illFormedStrings: [[UInt8]] = [
        [0x80], [0xBF], [0xC0, 0x80], [0xC1, 0xBF], [0xC2], [0xC2, 0x7F], [0xC2, 0xC0], [0xDF, 0x22],
        [0xE0, 0x9F, 0xBF],
        [0xE0, 0xA0], [0xE0, 0xA0, 0x7F], [0xE1, 0x7F, 0x80], [0xED, 0xA0, 0x80], [0xED, 0xBF, 0xBF], [0xEF, 0xBF],
        [0xF0, 0x8F, 0xBF, 0xBF], [0xF0, 0x90, 0x80], [0xF0, 0x90, 0x80, 0xC0], [0xF4, 0x90, 0x80, 0x80],
        [0xF5, 0x80, 0x80, 0x80], [0xFE], [0xFF], [0xE2, 0x28, 0xA1], [0xF0, 0x28, 0x8C, 0xBC],
    ]

    @Test(arguments: illFormedStrings)
    func `The grammar refuses malformed UTF-8, at every distance from the quotes`(_ bytes: [UInt8]) {
        for filler in 0..<20 {
            let text = [0x22] + [UInt8](repeating: 0x61, count: filler) + bytes
            #expect(Grammar.fault(text + [0x22]) == .invalidUTF8)
            #expect(Grammar.fault(text + [UInt8](repeating: 0x61, count: 20) + [0x22]) == .invalidUTF8)
        }
    }

    @Test func `The scanner reads characters from all of Unicode, plain and escaped`() {
        let bounds: [UInt32] = [0x7F, 0x80, 0x7FF, 0x800, 0xD7FF, 0xE000, 0xFFFF, 0x10000, 0x10FFFF]
        for value in Array(0x20...0xFFF) + stride(from: 0x1000, through: 0x10FFFF, by: 13) + bounds {
            guard let scalar = Unicode.Scalar(value), scalar != "\"", scalar != "\\" else { continue }
            let character = Array(String(scalar).utf8)
            guard Grammar.fault([0x22] + character + [0x22]) == nil else {
                Issue.record("refuses U+\(String(value, radix: 16))")
                return
            }
            let units = String(scalar).utf16.map { "\\u" + String(0x10000 | UInt32($0), radix: 16).dropFirst() }
            let escaped = Array(units.joined().utf8)
            guard Array(escaped.withUnsafeBytes { Array(UnescapedBytes($0)) }) == character else {
                Issue.record("unescapes U+\(String(value, radix: 16)) wrongly")
                return
            }
        }
    }

    @Test func `The scanner finds a byte that is not plain, at any position of a string`() {
        for length in 1..<40 {
            for position in 0..<length {
                for byte in UInt8.min...UInt8.max {
                    var text = [UInt8](repeating: 0x61, count: length)
                    text[position] = byte
                    let expected: FaultCode? =
                        switch byte {
                        case 0..<0x20: .controlCharacter
                        case 0x22: position == length - 1 ? .truncated : .trailingBytes
                        case 0x5C: position == length - 1 ? .truncated : .invalidEscape
                        case 0x80...: .invalidUTF8
                        default: nil
                        }
                    // All other bytes are the letter `a`. `\a` is not an escape, so a backslash before an `a` is
                    // wrong. A backslash at the end makes the closing quote a part of the string.
                    let fault = Grammar.fault([0x22] + text + [0x22])
                    let isEnd = byte == 0x22 && position == length - 1
                    guard fault == (isEnd ? .trailingBytes : expected) else {
                        Issue.record("byte \(byte) at \(position) of \(length): \(String(describing: fault))")
                        return
                    }
                }
            }
        }
    }

    @Test func `The grammar limits the depth and the length of strings`() {
        let deepestArray = String(repeating: "[", count: 32) + String(repeating: "]", count: 32)
        #expect(Grammar.fault(Array(deepestArray.utf8)) == nil)
        #expect(Grammar.fault(Array("[\(deepestArray)]".utf8)) == .tooDeep)
        let deepestMixture = String(repeating: "{\"a\":[", count: 16) + String(repeating: "]}", count: 16)
        #expect(Grammar.fault(Array(deepestMixture.utf8)) == nil)
        #expect(Grammar.fault(Array("[\(deepestMixture)]".utf8)) == .tooDeep)
        let longestString = "\"\(String(repeating: "x", count: Limits.stringBytesMax))\""
        #expect(Grammar.fault(Array(longestString.utf8)) == nil)
        #expect(Grammar.fault(Array("\"x\(longestString.dropFirst())".utf8)) == .tooLong)
        #expect(Grammar.fault([UInt8](repeating: 0x20, count: Limits.recordBytesMax) + [0x31]) == .recordTooLarge)
    }
}

@Suite("Whole records")
struct WholeRecordTests {
    static let records: [(text: String, code: FaultCode)] = [
        ("", .emptyRecord), (" \n", .emptyRecord), ("[]", .wrongType), ("null", .wrongType), ("\"{}\"", .wrongType),
        ("x", .notJSON), ("\u{FEFF}{}", .byteOrderMark), ("\u{0}{}", .notJSON), ("{", .truncated),
        ("{}", .missingField),
        (RecordText.update.text + "x", .trailingBytes), (RecordText.update.text + "\u{0}", .trailingBytes),
        (RecordText.update.text + "\n{}", .trailingBytes),
    ]

    @Test(arguments: records)
    func `Whole records are one object and nothing else`(_ text: String, _ code: FaultCode) {
        #expect(commandFault(text)?.code == code)
    }

    @Test func `Records may be nested as deep as the limit, the record's object included`() {
        func nested(_ count: Int) -> String {
            String(repeating: "{\"a\":", count: count) + "1" + String(repeating: "}", count: count)
        }
        #expect(commandFault(.update.with("payload", nested(31))) == nil)
        #expect(commandFault(.update.with("payload", nested(32)))?.code == .tooDeep)
        #expect(commandFault(.update.with("aps.content-state", nested(30))) == nil)
        #expect(commandFault(.update.with("aps.content-state", nested(31)))?.code == .tooDeep)
        #expect(commandFault(.update.with("aps.new", nested(30))) == nil)
        #expect(commandFault(.update.with("aps.new", nested(31)))?.code == .tooDeep)
        #expect(commandFault(.update.with("aps.alert", "{\"new\":\(nested(29))}")) == nil)
        #expect(commandFault(.update.with("aps.alert", "{\"new\":\(nested(30))}"))?.code == .tooDeep)
        #expect(commandFault(.update.with("aps.alert", "{\"title\":{\"loc-key\":\"a\",\"new\":\(nested(28))}}")) == nil)
        #expect(
            commandFault(.update.with("aps.alert", "{\"title\":{\"loc-key\":\"a\",\"new\":\(nested(29))}}"))?.code
                == .tooDeep
        )
    }

    @Test(arguments: [RecordText.update, .start, .end])
    func `Commands that end early are refused, at any place`(_ record: RecordText) {
        let bytes = Array(record.text.utf8)
        for count in 0..<bytes.count {
            // Each record is a copy, so that a sanitizer or valgrind finds a read beyond its end.
            let record = Record(bytes[..<count])
            do throws(Fault) {
                _ = try record.command()
                Issue.record("accepted the first \(count) bytes")
            } catch {
                #expect(error.code == (count == 0 ? .emptyRecord : .truncated), "after \(count) bytes")
                #expect(error.offset <= count)
            }
        }
    }

    @Test(arguments: [RecordText.registration, .pushToStart])
    func `Registrations that end early are refused`(_ record: RecordText) {
        let bytes = Array(record.text.utf8)
        for count in 0..<bytes.count {
            let record = Record(bytes[..<count])
            do throws(Fault) {
                _ = try record.registration()
                Issue.record("accepted the first \(count) bytes")
            } catch {
                #expect([.truncated, .emptyRecord].contains(error.code), "after \(count) bytes")
            }
        }
    }
}

/// Checks only the grammar of a JSON value.
enum Grammar {
    static func fault(_ text: [UInt8]) -> FaultCode? {
        let record = Record(text)
        do throws(Fault) {
            let text = try JSONText(record.bytes)
            try text.requireRecordEnd(text.skipValue(text.skipWhitespace(0), depth: 0, .record))
            return nil
        } catch {
            return error.code
        }
    }
}
